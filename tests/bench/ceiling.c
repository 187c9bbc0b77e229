// SPDX-License-Identifier: Apache-2.0

/*
 * ceiling: what /dev/fuse allows. A server that answers each request at once and touches no file system: nobody who
 * serves names and attributes through the same interface can be faster.
 *
 *     ceiling THREADS SPIN_US|affine TARGET   mounts at TARGET and goes to the background; ends when it is unmounted
 *
 * Nothing is remembered but one size, for all files: every name that is looked for is missing, everything that is made gets a number that says what
 * kind it is, and the kernel keeps for an hour what it was told. That is coherent for who makes files, uses and
 * removes them (tests/bench/rates.c), until caches are dropped. Contents go through the kernel, all to the same memory; where
 * it does not offer that (in a user namespace) what is written is taken and forgotten.
 *
 * With SPIN_US a thread that has answered looks for so long for the next request before it sleeps: then one thread is
 * best, for others that sleep would be woken by each request. With "affine" it serves who asks again and again on his processor
 * (fs/affine.h), where one is best as well.
 */

#define FUSE_USE_VERSION 318
#include <errno.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "fs/affine.h"
#include "fs/base/cleanup.h"
#include "fs/base/parse.h"
#include "fs/request.h"

enum { THREADS_MAX = 64, MEMORY_BYTES = 1 << 20, FIRST_NUMBER = 1 };

/* In the two lowest bits of a node id. The root's id is 1. */
enum kind { KIND_FILE = 0, KIND_DIRECTORY = 1, KIND_SYMLINK = 2, KIND_BITS = 2 };

static const double TIMEOUT_S = 3600;
static const char VALUE[] = "value";

struct ceiling {
	struct fuse_session *session;
	int64_t spin_ns;
	bool is_affine;
	int memory_fd;	/* what all files have in them */
	int backing_id; /* of memory_fd, 0 until the first open; guarded by lock */
	pthread_mutex_t lock;
	_Atomic uint64_t last; /* number that was given */
	_Atomic off_t size;    /* of all files */
};

static struct ceiling *ceiling_of(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

/* ---- answers ---- */

static struct stat attributes(fuse_ino_t node, mode_t permissions)
{
	static const mode_t types[] = { S_IFREG, S_IFDIR, S_IFLNK, S_IFREG };

	return (struct stat){
		.st_ino = node,
		.st_mode = types[node & ((1 << KIND_BITS) - 1)] | (permissions & 07777),
		.st_nlink = 1,
		.st_blksize = 4096,
	};
}

static struct fuse_entry_param entry_of(fuse_ino_t node, mode_t permissions)
{
	return (struct fuse_entry_param){
		.ino = node,
		.attr = attributes(node, permissions),
		.attr_timeout = TIMEOUT_S,
		.entry_timeout = TIMEOUT_S,
	};
}

static struct fuse_entry_param new_entry(fuse_req_t req, enum kind kind, mode_t permissions)
{
	uint64_t number = atomic_fetch_add(&ceiling_of(req)->last, 1) + 1;

	return entry_of(number << KIND_BITS | kind, permissions);
}

static void answer_new(fuse_req_t req, enum kind kind, mode_t permissions)
{
	struct fuse_entry_param entry = new_entry(req, kind, permissions);

	fuse_reply_entry(req, &entry);
}

/* One backing file for all, so that an open is no more than its answer. Without: the kernel asks for contents. */
static void give_contents(fuse_req_t req, struct fuse_file_info *fi)
{
	struct ceiling *c = ceiling_of(req);

	pthread_mutex_lock(&c->lock);
	if (c->backing_id == 0)
		c->backing_id = fuse_passthrough_open(req, c->memory_fd);
	if (c->backing_id > 0)
		fi->backing_id = c->backing_id;
	pthread_mutex_unlock(&c->lock);
	fi->noflush = 1;
	fi->keep_cache = fi->backing_id == 0; /* the kernel does not take both */
}

/* ---- requests ---- */

static void on_init(void *userdata, struct fuse_conn_info *conn)
{
	static const uint64_t wanted[] = { FUSE_CAP_PASSTHROUGH, FUSE_CAP_HANDLE_KILLPRIV_V2,
					   FUSE_CAP_PARALLEL_DIROPS };
	/* Nor does anybody else change a file: what the kernel has of it is good. */
	static const uint64_t unwanted[] = { FUSE_CAP_SPLICE_READ, FUSE_CAP_SPLICE_WRITE,
					     FUSE_CAP_SPLICE_MOVE, FUSE_CAP_AUTO_INVAL_DATA };

	(void)userdata;
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
		fuse_set_feature_flag(conn, wanted[i]);
	for (size_t i = 0; i < ARRAY_SIZE(unwanted); i++)
		fuse_unset_feature_flag(conn, unwanted[i]);
}

static void on_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	(void)parent, (void)name;
	fuse_reply_err(req, ENOENT);
}

static void on_getattr(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *fi)
{
	struct stat st = attributes(node, 0755);

	(void)fi;
	if (S_ISREG(st.st_mode))
		st.st_size = atomic_load(&ceiling_of(req)->size);
	fuse_reply_attr(req, &st, TIMEOUT_S);
}

static void on_setattr(fuse_req_t req, fuse_ino_t node, struct stat *attr, int to_set,
		       struct fuse_file_info *fi)
{
	struct stat st = attributes(node, to_set & FUSE_SET_ATTR_MODE ? attr->st_mode : 0755);

	(void)fi;
	if (to_set & FUSE_SET_ATTR_SIZE)
		atomic_store(&ceiling_of(req)->size, attr->st_size);
	if (S_ISREG(st.st_mode))
		st.st_size = atomic_load(&ceiling_of(req)->size);
	fuse_reply_attr(req, &st, TIMEOUT_S);
}

static void on_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
		      struct fuse_file_info *fi)
{
	struct fuse_entry_param entry = new_entry(req, KIND_FILE, mode);

	(void)parent, (void)name;
	give_contents(req, fi);
	fuse_reply_create(req, &entry, fi);
}

static void on_open(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *fi)
{
	(void)node;
	give_contents(req, fi);
	fuse_reply_open(req, fi);
}

static void on_read(fuse_req_t req, fuse_ino_t node, size_t size, off_t offset,
		    struct fuse_file_info *fi)
{
	(void)node, (void)size, (void)offset, (void)fi;
	fuse_reply_buf(req, NULL, 0);
}

static void on_write(fuse_req_t req, fuse_ino_t node, const char *bytes, size_t size, off_t offset,
		     struct fuse_file_info *fi)
{
	(void)node, (void)bytes, (void)offset, (void)fi;
	fuse_reply_write(req, size);
}

static void on_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	(void)parent, (void)name;
	answer_new(req, KIND_DIRECTORY, mode);
}

static void on_symlink(fuse_req_t req, const char *link, fuse_ino_t parent, const char *name)
{
	(void)link, (void)parent, (void)name;
	answer_new(req, KIND_SYMLINK, 0777);
}

static void on_link(fuse_req_t req, fuse_ino_t node, fuse_ino_t parent, const char *name)
{
	struct fuse_entry_param entry = entry_of(node, 0644);

	(void)parent, (void)name;
	fuse_reply_entry(req, &entry);
}

static void on_remove(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	(void)parent, (void)name;
	fuse_reply_err(req, 0);
}

static void on_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t new_parent,
		      const char *new_name, unsigned flags)
{
	(void)parent, (void)name, (void)new_parent, (void)new_name, (void)flags;
	fuse_reply_err(req, 0);
}

static void on_readdir(fuse_req_t req, fuse_ino_t node, size_t size, off_t offset,
		       struct fuse_file_info *fi)
{
	on_read(req, node, size, offset, fi);
}

static void on_setxattr(fuse_req_t req, fuse_ino_t node, const char *name, const char *value,
			size_t size, int flags)
{
	(void)node, (void)name, (void)value, (void)size, (void)flags;
	fuse_reply_err(req, 0);
}

static void on_getxattr(fuse_req_t req, fuse_ino_t node, const char *name, size_t size)
{
	(void)node;
	if (strncmp(name, "user.", 5) != 0)
		fuse_reply_err(req, ENODATA);
	else if (size == 0)
		fuse_reply_xattr(req, sizeof(VALUE) - 1);
	else
		fuse_reply_buf(req, VALUE, sizeof(VALUE) - 1);
}

static void on_removexattr(fuse_req_t req, fuse_ino_t node, const char *name)
{
	(void)node, (void)name;
	fuse_reply_err(req, 0);
}

static const struct fuse_lowlevel_ops operations = {
	.init = on_init,
	.lookup = on_lookup,
	.getattr = on_getattr,
	.setattr = on_setattr,
	.create = on_create,
	.open = on_open,
	.read = on_read,
	.write = on_write,
	.mkdir = on_mkdir,
	.symlink = on_symlink,
	.link = on_link,
	.unlink = on_remove,
	.rmdir = on_remove,
	.rename = on_rename,
	.readdir = on_readdir,
	.setxattr = on_setxattr,
	.getxattr = on_getxattr,
	.removexattr = on_removexattr,
};

/* ---- threads ---- */

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static bool has_request(const struct ceiling *c)
{
	struct pollfd device = { .fd = fuse_session_fd(c->session), .events = POLLIN };

	return poll(&device, 1, 0) != 0;
}

/* Until a request is there, or the time is over. */
static void spin(const struct ceiling *c)
{
	int64_t until = c->spin_ns > 0 ? now_ns() + c->spin_ns : 0;

	while (until > 0 && !has_request(c) && now_ns() < until)
		;
}

static void ignore_answer(void)
{
}

static void *serve(void *argument)
{
	struct ceiling *c = argument;
	struct fuse_buf buf = { .mem = NULL };
	AUTO_FD int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct affine affine;
	bool was_there;
	int n;

	affine_init(&affine, c->is_affine && affine_is_possible(), proc_fd, ignore_answer);
	while (!fuse_session_exited(c->session)) {
		spin(c);
		was_there = c->is_affine && has_request(c);
		n = fuse_session_receive_buf(c->session, &buf);
		if (n == -EINTR || n == -EAGAIN)
			continue;
		if (n <= 0)
			break;
		if (c->is_affine)
			affine_note(&affine, request_waiter(buf.mem, (size_t)n), was_there,
				    now_ns());
		fuse_session_process_buf(c->session, &buf);
	}
	fuse_session_exit(c->session);
	free(buf.mem);
	return NULL;
}

static int fail(const char *what)
{
	fprintf(stderr, "ceiling: %s: %m\n", what);
	return EXIT_FAILURE;
}

static int run(struct ceiling *c, unsigned threads, const char *target)
{
	pthread_t ids[THREADS_MAX];

	c->memory_fd = memfd_create("ceiling", MFD_CLOEXEC);
	if (c->memory_fd < 0 || ftruncate(c->memory_fd, MEMORY_BYTES) < 0)
		return fail("memory");
	if (fuse_session_mount(c->session, target) != 0 || fuse_daemonize(0) != 0)
		return fail(target);
	for (unsigned i = 1; i < threads; i++) {
		if (pthread_create(&ids[i], NULL, serve, c) != 0)
			return fail("thread");
	}
	serve(c);
	for (unsigned i = 1; i < threads; i++)
		pthread_join(ids[i], NULL);
	fuse_session_unmount(c->session);
	fuse_session_destroy(c->session);
	close(c->memory_fd);
	return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	char *arguments[] = { argv[0], "-o", "allow_other,default_permissions,fsname=ceiling",
			      NULL };
	struct fuse_args args = FUSE_ARGS_INIT(3, arguments);
	struct ceiling c = { .lock = PTHREAD_MUTEX_INITIALIZER, .last = FIRST_NUMBER };
	uint32_t threads, spin_us = 0;

	c.is_affine = argc == 4 && strcmp(argv[2], "affine") == 0;
	if (argc != 4 || parse_u32(argv[1], &threads) < 0 || threads == 0 ||
	    threads > THREADS_MAX || (!c.is_affine && parse_u32(argv[2], &spin_us) < 0)) {
		fprintf(stderr, "usage: ceiling THREADS SPIN_US|affine TARGET\n");
		return 2;
	}
	c.spin_ns = (int64_t)spin_us * 1000;
	c.session = fuse_session_new(&args, &operations, sizeof(operations), &c);
	return c.session ? run(&c, threads, argv[3]) : EXIT_FAILURE;
}
