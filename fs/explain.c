// SPDX-License-Identifier: Apache-2.0
#include "fs/explain.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/xattr.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/xattr.h>

#include "fs/base/cleanup.h"
#include "fs/base/keyval.h"
#include "fs/base/log.h"
#include "fs/ownership/present.h"

/* One answer under way. */
struct explaining {
	struct explainer *explainer;
	int fd;
};

/* What the path leads to. */
struct found {
	int fd; /* O_PATH */
	struct stat st;
	uint64_t exclude;
	const char *pattern; /* that excludes it or a directory above; borrowed; or NULL */
	bool is_root;
};

static const char *type_name(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return "file";
	case S_IFDIR:
		return "directory";
	case S_IFLNK:
		return "symlink";
	case S_IFIFO:
		return "fifo";
	case S_IFSOCK:
		return "socket";
	case S_IFBLK:
		return "block";
	default:
		return "character";
	}
}

/* One component further down; *io_found is then the child. */
static int descend(const struct overlay *ov, const char *name, struct found *io_found)
{
	const struct exclude *ex = ov->options->exclude;
	struct stat st;
	int fd = -1, r = tree_name_check(name);

	if (r == 0 && !S_ISDIR(io_found->st.st_mode))
		r = -ENOTDIR;
	if (r == 0)
		r = tree_pin(io_found->fd, name, &fd, &st);
	if (r < 0)
		return r;
	if (!io_found->pattern)
		io_found->pattern =
			exclude_pattern(ex, io_found->exclude, name, S_ISDIR(st.st_mode));
	io_found->exclude = exclude_child(ex, io_found->exclude, name, S_ISDIR(st.st_mode));
	close(io_found->fd);
	io_found->fd = fd;
	io_found->st = st;
	io_found->is_root = false;
	return 0;
}

/*
 * @io_path loses its slashes. On failure *ret_at is the component that could not be had, and io_found->fd is still
 * the caller's to close.
 */
static int find(const struct overlay *ov, char *io_path, struct found *io_found,
		const char **ret_at)
{
	char *save = NULL;
	int r;

	*ret_at = ".";
	io_found->fd = fcntl(ov->tree.root_fd, F_DUPFD_CLOEXEC, 3);
	if (io_found->fd < 0)
		return -errno;
	io_found->is_root = true;
	io_found->exclude = exclude_root(ov->options->exclude);
	r = tree_stat(io_found->fd, &io_found->st);
	for (char *name = strtok_r(io_path, "/", &save); r == 0 && name;
	     name = strtok_r(NULL, "/", &save)) {
		if (strcmp(name, ".") == 0)
			continue;
		*ret_at = name;
		r = descend(ov, name, io_found);
	}
	return r;
}

static const char *reason_name(struct overlay *ov, const struct node_info *node,
			       const struct found *found)
{
	switch (run_reason(&ov->run, node, found->fd, &found->st)) {
	case RUN_PENDING:
		return "pending";
	case RUN_VIRTUAL:
		return "virtual";
	case RUN_UNMANAGED:
		return "unmanaged";
	case RUN_EXCLUDED:
		return "excluded";
	case RUN_OVER:
		return "over";
	case RUN_NOT_ROOT:
		return "rootOnly";
	case RUN_RIGHT:
		return "right";
	case RUN_MARKED:
		return "changed";
	case RUN_BORN:
		return "created";
	case RUN_SETTLED:
		break;
	}
	if (node->flags & NODE_MARKED)
		return "changed";
	return run_has_birth(&ov->run, found->fd) ? "created" : "settled";
}

static int failure_of(struct overlay *ov, const char *path)
{
	AUTO_FREE struct shared_failure *failures = calloc(SHARED_FAILURES_MAX, sizeof(*failures));
	char reason[256];
	size_t count = failures ? shared_get_texts(&ov->shared, reason, failures) : 0;

	for (size_t i = 0; i < count; i++) {
		if (strcmp(failures[i].path, path) == 0)
			return failures[i].error;
	}
	return 0;
}

/* @path: as it was asked for. */
static void describe(struct overlay *ov, const struct found *found, const char *path,
		     struct keyval_writer *w, char *text)
{
	struct node_info node = { .exclude = found->exclude };
	char quoted[4 * 1024], link[TREE_FD_PATH_MAX];
	struct stat shown = found->st;
	int error = failure_of(ov, path);

	/* What the table does not know of is what a look at it would find. */
	if (found->is_root)
		(void)node_get(ov->nodes, node_root(ov->nodes), &node);
	else
		(void)node_find(ov->nodes, found->fd, &found->st, &node);
	run_show(&ov->run, &node, found->fd, &shown);
	keyval_begin(w, text, "explained");
	keyval_add(w, "type", "%s", type_name(found->st.st_mode));
	keyval_add(w, "ino", "%llu", (unsigned long long)found->st.st_ino);
	keyval_add(w, "uid", "%u", found->st.st_uid);
	keyval_add(w, "gid", "%u", found->st.st_gid);
	keyval_add(w, "mode", "%04o", found->st.st_mode & 07777);
	keyval_add(w, "shown_gid", "%u", shown.st_gid);
	keyval_add(w, "shown_mode", "%04o", shown.st_mode & 07777);
	keyval_add(w, "reason", "%s", reason_name(ov, &node, found));
	if (found->pattern)
		keyval_add(w, "pattern", "%s", log_quote(found->pattern, quoted, sizeof(quoted)));
	if (error)
		keyval_add(w, "failed", "%d", error);
	if (getxattr(tree_fd_path(found->fd, link), XATTR_NAME_POSIX_ACL_ACCESS, NULL, 0) > 0)
		keyval_add(w, "acl", "1");
}

static void answer(struct overlay *ov, int fd, char *path)
{
	AUTO_FREE char *text = malloc(KEYVAL_MAX), *asked = strdup(path);
	struct found found = { .fd = -1 };
	struct keyval_writer w;
	char quoted[4 * (TREE_NAME_MAX + 1)];
	const char *at = "";
	int r;

	if (!text || !asked)
		return;
	r = find(ov, path, &found, &at);
	if (r == 0) {
		describe(ov, &found, asked, &w, text);
	} else {
		keyval_begin(&w, text, "error");
		keyval_add(&w, "errno", "%d", -r);
		keyval_add(&w, "at", "%s", log_quote(at, quoted, sizeof(quoted)));
	}
	cleanup_fd(&found.fd);
	/* Who asked may have given up. */
	if (!w.overflow && send(fd, w.text, w.len, MSG_NOSIGNAL) < 0)
		log_line(LOG_DEBUG, "explain", "%m (ignoring)");
}

static void *run(void *arg)
{
	struct explaining *x = arg;
	struct explainer *explainer = x->explainer;
	AUTO_FREE char *path = malloc(PATH_MAX);
	AUTO_FD int fd = x->fd;
	ssize_t n = path ? recv(fd, path, PATH_MAX - 1, MSG_DONTWAIT) : -1;

	free(x);
	if (n >= 0) {
		path[n] = '\0';
		answer(explainer->ov, fd, path);
	}
	pthread_mutex_lock(&explainer->lock);
	explainer->running--;
	pthread_cond_broadcast(&explainer->ended);
	pthread_mutex_unlock(&explainer->lock);
	return NULL;
}

void explainer_init(struct explainer *explainer, struct overlay *ov)
{
	*explainer = (struct explainer){ .ov = ov };
	pthread_mutex_init(&explainer->lock, NULL);
	pthread_cond_init(&explainer->ended, NULL);
}

static bool enter(struct explainer *explainer)
{
	bool entered;

	pthread_mutex_lock(&explainer->lock);
	entered = explainer->running < EXPLAIN_THREADS_MAX;
	explainer->running += entered;
	pthread_mutex_unlock(&explainer->lock);
	return entered;
}

void explainer_answer(struct explainer *explainer, int fd)
{
	struct explaining *x = malloc(sizeof(*x));
	pthread_attr_t attributes;
	pthread_t thread;
	bool entered = x && enter(explainer);
	int r = -1;

	if (entered) {
		*x = (struct explaining){ .explainer = explainer, .fd = fd };
		pthread_attr_init(&attributes);
		pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
		r = pthread_create(&thread, &attributes, run, x);
		pthread_attr_destroy(&attributes);
	}
	if (r == 0)
		return;
	if (entered) {
		pthread_mutex_lock(&explainer->lock);
		explainer->running--;
		pthread_mutex_unlock(&explainer->lock);
	}
	free(x);
	cleanup_fd(&fd);
}

void explainer_wait(struct explainer *explainer)
{
	pthread_mutex_lock(&explainer->lock);
	while (explainer->running > 0)
		pthread_cond_wait(&explainer->ended, &explainer->lock);
	pthread_mutex_unlock(&explainer->lock);
}
