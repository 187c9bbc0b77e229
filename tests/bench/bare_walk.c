// SPDX-License-Identifier: Apache-2.0

/*
 * bare_walk: what a walk costs that does what safety asks of it and nothing else; a bound for ours.
 *
 *     bare_walk DIR GID
 *
 * DIR is what `many files` has made: directories of files, one level. Two threads, a directory at a time; each file is
 * pinned (another one may come under its name at any moment), looked at, searched for attributes (a change of group
 * takes capabilities), given to the group, given its bits, and let go. A system call filter that allows
 * everything is in force: the kernel's way through it is a part of what a confined server pays.
 */

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <seccomp.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "fs/base/parse.h"

enum { BUFFER_BYTES = 64 * 1024, DIRECTORIES_MAX = 1 << 20 };

static const long LISTXATTRAT = 465, FCHMODAT2 = 452; /* on every architecture */

struct walk {
	int root_fd;
	gid_t gid;
	char **names;
	size_t count;
	atomic_size_t next;
};

static void must(long result, const char *what)
{
	if (result < 0) {
		fprintf(stderr, "bare_walk: %s: %m\n", what);
		exit(EXIT_FAILURE);
	}
}

static void give(int fd, gid_t gid, mode_t mode, const char *name)
{
	must(fchownat(fd, "", (uid_t)-1, gid, AT_EMPTY_PATH), name);
	must(syscall(FCHMODAT2, fd, "", mode, AT_EMPTY_PATH), name);
}

static void visit_file(const struct walk *w, int dir_fd, const char *name)
{
	AUTO_FD int fd = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st, dir_st;

	must(fd, name);
	must(fstatat(fd, "", &st, AT_EMPTY_PATH), name);
	must(syscall(LISTXATTRAT, dir_fd, name, AT_SYMLINK_NOFOLLOW, NULL, (size_t)0), name);
	must(fstatat(dir_fd, "", &dir_st, AT_EMPTY_PATH), "directory");
	give(fd, w->gid, (st.st_mode & 07777) | 0660, name);
}

static void visit_directory(const struct walk *w, const char *directory)
{
	static __thread char buffer[BUFFER_BYTES] __attribute__((aligned(8)));
	AUTO_FD int fd = openat(w->root_fd, directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;
	long len;

	must(fd, directory);
	while ((len = syscall(SYS_getdents64, fd, buffer, sizeof(buffer))) > 0) {
		for (long at = 0; at < len;) {
			const struct dirent64 *entry = (const void *)(buffer + at);

			at += entry->d_reclen;
			if (entry->d_type != DT_DIR)
				visit_file(w, fd, entry->d_name);
		}
	}
	must(len, directory);
	must(fstat(fd, &st), directory);
	give(fd, w->gid, (st.st_mode & 07777) | 02770, directory);
}

static void *work(void *argument)
{
	struct walk *w = argument;
	size_t i;

	while ((i = atomic_fetch_add(&w->next, 1)) < w->count)
		visit_directory(w, w->names[i]);
	return NULL;
}

static void list_directories(struct walk *w)
{
	DIR *dir = fdopendir(dup(w->root_fd));
	const struct dirent *entry;

	must(dir ? 0 : -1, "list");
	w->names = calloc(DIRECTORIES_MAX, sizeof(*w->names));
	while (w->names && (entry = readdir(dir)) && w->count < DIRECTORIES_MAX) {
		if (entry->d_type == DT_DIR && strcmp(entry->d_name, "..") != 0)
			w->names[w->count++] = strdup(entry->d_name);
	}
	closedir(dir);
}

static void free_directories(struct walk *w)
{
	for (size_t i = 0; i < w->count; i++)
		free(w->names[i]);
	free(w->names);
	close(w->root_fd);
}

static void filter_calls(void)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);

	must(filter && seccomp_rule_add(filter, SCMP_ACT_KILL, SCMP_SYS(reboot), 0) == 0 &&
			     seccomp_load(filter) == 0 ?
		     0 :
		     -1,
	     "filter");
	seccomp_release(filter);
}

int main(int argc, char **argv)
{
	struct walk w = { .root_fd = -1 };
	pthread_t second;
	uint64_t gid;

	if (argc != 3 || parse_u64(argv[2], &gid) < 0) {
		fprintf(stderr, "usage: bare_walk DIR GID\n");
		return 2;
	}
	w.gid = (gid_t)gid;
	w.root_fd = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	must(w.root_fd, argv[1]);
	filter_calls();
	list_directories(&w);
	must(-pthread_create(&second, NULL, work, &w), "thread");
	work(&w);
	pthread_join(second, NULL);
	free_directories(&w);
	return EXIT_SUCCESS;
}
