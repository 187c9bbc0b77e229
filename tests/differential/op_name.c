// SPDX-License-Identifier: Apache-2.0

/* Operations on names: making, linking, moving and removing them, and reading directories. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "tests/differential/op.h"

static const mode_t create_modes[] = { 0755,  0777,  0700, 0750,  01777,
				       02755, 03777, 0000, 06775, 0644 };

static void pick_target(struct generator *g, char ret_path[TREE_PATH_MAX])
{
	if (random_percent(&g->random, 80))
		pick_new(g, ret_path);
	else
		pick_existing(g, ret_path);
}

static void generate_mkdir(struct generator *g, struct step *s)
{
	pick_target(g, s->path);
	s->mode = random_pick(&g->random, create_modes);
}

static int64_t run_mkdir(struct hands *h, const struct step *s, struct result *r)
{
	(void)h, (void)r;
	return mkdir(s->path, s->mode);
}

static void generate_mknod(struct generator *g, struct step *s)
{
	static const mode_t types[] = { S_IFIFO, S_IFSOCK, S_IFCHR, S_IFBLK,
					S_IFREG, S_IFREG,  0,	    S_IFDIR };

	pick_target(g, s->path);
	s->mode = random_pick(&g->random, types) | random_pick(&g->random, create_modes);
	s->a = S_ISBLK(s->mode) ? (int64_t)makedev(240, 250) : (int64_t)makedev(1, 3);
	if (S_ISCHR(s->mode) && random_percent(&g->random, 20))
		s->a = 0; /* a whiteout: anybody may */
}

static int64_t run_mknod(struct hands *h, const struct step *s, struct result *r)
{
	(void)h, (void)r;
	return mknod(s->path, s->mode, (dev_t)s->a);
}

static void generate_symlink(struct generator *g, struct step *s)
{
	if (random_percent(&g->random, 80))
		pick_existing(g, s->path2);
	else
		strcpy(s->path2, "nowhere/at/all");
	pick_target(g, s->path);
}

static int64_t run_symlink(struct hands *h, const struct step *s, struct result *r)
{
	(void)h, (void)r;
	return symlink(s->path2, s->path);
}

static void generate_readlink(struct generator *g, struct step *s)
{
	if (random_percent(&g->random, 80))
		pick_type(g, S_IFLNK, s->path);
	else
		pick_existing(g, s->path);
	s->length = random_percent(&g->random, 20) ? 3 : 1000;
}

static int64_t run_readlink(struct hands *h, const struct step *s, struct result *r)
{
	char target[1024];
	ssize_t n = readlink(s->path, target, (size_t)s->length);

	(void)h;
	if (n > 0)
		result_add(r, "%.*s", (int)n, target);
	return n;
}

static void generate_link(struct generator *g, struct step *s)
{
	pick_existing(g, s->path);
	pick_target(g, s->path2);
	s->flags = random_percent(&g->random, 20) ? AT_SYMLINK_FOLLOW : 0;
}

static int64_t run_link(struct hands *h, const struct step *s, struct result *r)
{
	(void)h, (void)r;
	return linkat(AT_FDCWD, s->path, AT_FDCWD, s->path2, s->flags);
}

static void generate_path(struct generator *g, struct step *s)
{
	pick_existing(g, s->path);
}

static int64_t run_unlink(struct hands *h, const struct step *s, struct result *r)
{
	(void)h, (void)r;
	return unlink(s->path);
}

static void generate_rmdir(struct generator *g, struct step *s)
{
	if (random_percent(&g->random, 85))
		pick_type(g, S_IFDIR, s->path);
	else
		pick_existing(g, s->path);
}

static int64_t run_rmdir(struct hands *h, const struct step *s, struct result *r)
{
	(void)h, (void)r;
	return rmdir(s->path);
}

static void generate_rename(struct generator *g, struct step *s)
{
	pick_existing(g, s->path);
	if (random_percent(&g->random, 50))
		pick_new(g, s->path2);
	else
		pick_existing(g, s->path2);
	s->flags = random_pick(&g->random, ((int[]){ 0, 0, 0, RENAME_NOREPLACE, RENAME_EXCHANGE,
						     RENAME_EXCHANGE | RENAME_NOREPLACE }));
}

static int64_t run_rename(struct hands *h, const struct step *s, struct result *r)
{
	(void)h, (void)r;
	return syscall(SYS_renameat2, AT_FDCWD, s->path, AT_FDCWD, s->path2, s->flags);
}

/* ---- directories ---- */

enum { LISTED_MAX = 400 };

struct listed {
	unsigned count;
	off_t next[LISTED_MAX];
	char *names[LISTED_MAX];
};

static void listed_free(struct listed *l)
{
	for (unsigned i = 0; i < l->count; i++)
		free(l->names[i]);
}

/* From where @fd stands. Each name with its type in front. */
static int list(int fd, size_t chunk, struct listed *ret)
{
	struct entry {
		ino64_t ino;
		off64_t next;
		unsigned short len;
		unsigned char type;
		char name[];
	};
	char buffer[8192] __attribute__((aligned(8)));
	long n;

	ret->count = 0;
	while ((n = syscall(SYS_getdents64, fd, buffer, chunk)) > 0) {
		for (long at = 0; at < n && ret->count < LISTED_MAX;) {
			const struct entry *entry = (const void *)(buffer + at);

			at += entry->len;
			ret->next[ret->count] = entry->next;
			if (asprintf(&ret->names[ret->count], "%u %s", entry->type, entry->name) <
			    0)
				return -1;
			ret->count++;
		}
	}
	return (int)n;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Reading on from an entry's cookie gives the entries behind it. */
static bool is_tail(int fd, const struct listed *all, unsigned from, size_t chunk)
{
	struct listed tail;
	bool same;

	if (lseek(fd, all->next[from], SEEK_SET) < 0 || list(fd, chunk, &tail) < 0)
		return false;
	same = tail.count == all->count - from - 1;
	for (unsigned i = 0; same && i < tail.count; i++)
		same = strcmp(tail.names[i], all->names[from + 1 + i]) == 0;
	listed_free(&tail);
	return same;
}

static int64_t list_dir(int fd, const struct step *s, struct result *r)
{
	size_t chunk = s->length > 0 ? (size_t)s->length : 8192;
	struct listed all;
	int n = list(fd, chunk, &all);

	if (n == 0) {
		if (all.count > 0)
			result_add(r, "tail %s ",
				   is_tail(fd, &all, (unsigned)s->a % all.count, chunk) ?
					   "same" :
					   "differs");
		qsort(all.names, all.count, sizeof(all.names[0]), compare_names);
		for (unsigned i = 0; i < all.count; i++)
			result_add(r, "%s, ", all.names[i]);
		n = (int)all.count;
	}
	listed_free(&all);
	return n;
}

static void generate_getdents(struct generator *g, struct step *s)
{
	if (random_percent(&g->random, 85))
		pick_type(g, S_IFDIR, s->path);
	else
		pick_existing(g, s->path);
	s->length = random_percent(&g->random, 50) ? 300 : 0;
	s->a = random_below(&g->random, 1000);
}

static int64_t run_getdents(struct hands *h, const struct step *s, struct result *r)
{
	AUTO_FD int fd = open(s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	(void)h;
	return fd < 0 ? -1 : list_dir(fd, s, r);
}

static void generate_getdents_slot(struct generator *g, struct step *s)
{
	generate_getdents(g, s);
	pick_slot(g, s, &s->slot);
}

static int64_t run_getdents_slot(struct hands *h, const struct step *s, struct result *r)
{
	int fd = slot_fd(h, s->slot);
	struct stat st;

	if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode) && lseek(fd, 0, SEEK_SET) < 0)
		return -1;
	return list_dir(fd, s, r);
}

static int64_t run_chdir(struct hands *h, const struct step *s, struct result *r)
{
	int fd;

	(void)r;
	if (chdir(s->path) < 0)
		return -1;
	fd = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	cleanup_fd(&h->cwd_fd);
	h->cwd_fd = fd;
	return 0;
}

const struct op op_name_rows[] = {
	{ "mkdir", "pm", 35, generate_mkdir, run_mkdir },
	{ "mknod", "pma", 25, generate_mknod, run_mknod },
	{ "symlink", "qp", 14, generate_symlink, run_symlink },
	{ "readlink", "pl", 8, generate_readlink, run_readlink },
	{ "link", "pqf", 20, generate_link, run_link },
	{ "unlink", "p", 22, generate_path, run_unlink },
	{ "rmdir", "p", 12, generate_rmdir, run_rmdir },
	{ "rename", "pqf", 35, generate_rename, run_rename },
	{ "getdents", "pla", 18, generate_getdents, run_getdents },
	{ "getdents-open", "sla", 6, generate_getdents_slot, run_getdents_slot },
	{ "chdir", "p", 8, generate_rmdir, run_chdir },
};
const unsigned op_name_count = ARRAY_SIZE(op_name_rows);
