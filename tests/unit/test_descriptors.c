// SPDX-License-Identifier: Apache-2.0

/*
 * Where each inode costs a descriptor: when the kernel is asked to forget, and what becomes of requests that find none. A socket
 * stands for the kernel's device.
 */

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "fs/base/clock.h"
#include "fs/overlay.h"

/* With those an overlay asks from FEW - 96 inodes on, and refuses 24 later. */
enum { FEW = 160, ASKED_FROM = FEW - 96, REFUSED_FROM = ASKED_FROM + 24, NOTIFY_PRUNE = 9 };

struct fixture {
	char path[64];
	int dir_fd, kernel_fd;
	struct rlimit limit;
	struct overlay ov;
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	const struct {
		struct fuse_in_header in;
		struct fuse_init_in init;
	} init = { .in = { .len = sizeof(init), .opcode = FUSE_INIT, .unique = 2 },
		   .init = { .major = 7, .minor = 45 } };
	struct rlimit few;
	int fds[2];

	*state = f;
	assert_non_null(f);
	strcpy(f->path, "/tmp/fsgroupfs-descriptors.XXXXXX");
	assert_non_null(mkdtemp(f->path));
	f->dir_fd = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(f->dir_fd >= 0);
	assert_int_equal(chdir("/proc/self/fd"), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
	f->ov.device_fd = fds[0];
	f->kernel_fd = fds[1];
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &f->limit), 0);
	few = (struct rlimit){ .rlim_cur = FEW, .rlim_max = f->limit.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	assert_int_equal(tree_init(open(f->path, O_PATH | O_DIRECTORY | O_CLOEXEC), &f->ov.tree),
			 0);
	f->ov.tree.has_handles = false;
	assert_int_equal(shared_create(&f->ov.shared), 0);
	memcpy(f->ov.shared.header->init_request, &init, sizeof(init));
	f->ov.shared.header->init_request_len = sizeof(init);
	assert_int_equal(node_table_new(&f->ov.shared, &f->ov.tree, 0, &f->ov.nodes), 0);
	descriptors_init(&f->ov.descriptors);
	assert_int_equal(descriptors_start(&f->ov), 0);
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;
	char name[128];

	descriptors_stop(&f->ov.descriptors);
	node_table_free(f->ov.nodes);
	tree_fini(&f->ov.tree);
	shared_fini(&f->ov.shared);
	close(f->ov.device_fd);
	close(f->kernel_fd);
	setrlimit(RLIMIT_NOFILE, &f->limit);
	for (int i = 0; i < FEW; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		unlinkat(f->dir_fd, name, 0);
	}
	close(f->dir_fd);
	assert_int_equal(chdir("/"), 0);
	assert_int_equal(rmdir(f->path), 0);
	free(f);
	return 0;
}

/* As a lookup does. Returns what it would be answered. */
static int look_up(struct fixture *f, int i, struct node_info *ret_info)
{
	char name[16];
	struct stat st;
	int fd, r;

	snprintf(name, sizeof(name), "f%d", i);
	fd = openat(f->dir_fd, name, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	assert_int_equal(fstat(fd, &st), 0);
	r = node_lookup(f->ov.nodes, fd, &st, 0, ret_info);
	close(fd);
	descriptors_note(&f->ov, FUSE_LOOKUP);
	return r;
}

/* What the kernel is told next, within @ms: its length, 0 for nothing. */
static size_t hear(struct fixture *f, int ms, void *ret_bytes, size_t size)
{
	struct pollfd kernel = { .fd = f->kernel_fd, .events = POLLIN };
	ssize_t n;

	if (poll(&kernel, 1, ms) == 0)
		return 0;
	n = recv(f->kernel_fd, ret_bytes, size, 0);
	assert_true(n > 0);
	return (size_t)n;
}

/* That it is asked to forget some: how many. */
static unsigned hear_question(struct fixture *f)
{
	struct {
		struct fuse_out_header out;
		uint32_t count;
		char rest[8192];
	} question;
	size_t n = hear(f, 10000, &question, sizeof(question));

	assert_true(n > sizeof(question.out) + sizeof(question.count));
	assert_int_equal(question.out.error, NOTIFY_PRUNE);
	assert_int_equal(n, 32 + 8 * question.count);
	return question.count;
}

/* The answer to a request, whatever it is asked before. */
static void hear_refusal(struct fixture *f, uint64_t unique)
{
	char bytes[8192];
	struct fuse_out_header out;

	do {
		assert_true(hear(f, 10000, bytes, sizeof(bytes)) >= sizeof(out));
		memcpy(&out, bytes, sizeof(out));
	} while (out.unique == 0);
	assert_int_equal(out.unique, unique);
	assert_int_equal(out.error, -EMFILE);
}

static void lay_aside(struct fixture *f, uint64_t unique)
{
	const struct fuse_in_header request = {
		.len = sizeof(request), .opcode = FUSE_GETATTR, .unique = unique, .nodeid = 1
	};

	descriptors_lay_aside(&f->ov, &request, sizeof(request), 0);
}

static void note_before_there_are_none_asks(void **state)
{
	struct fixture *f = *state;
	struct node_info info;
	char bytes[64];
	int i = 1; /* the root costs one */

	for (; i < ASKED_FROM - 1; i++)
		assert_int_equal(look_up(f, i, &info), 0);
	assert_int_equal(hear(f, 0, bytes, sizeof(bytes)), 0);
	assert_false(descriptors_are_short(&f->ov));
	assert_int_equal(look_up(f, i++, &info), 0);
	assert_true(descriptors_are_short(&f->ov));
	/* All but the root that there are, in one span of the table. */
	assert_int_equal(hear_question(f), ASKED_FROM - 1);
	for (; i < REFUSED_FROM; i++)
		assert_int_equal(look_up(f, i, &info), 0);
	assert_int_equal(look_up(f, i, &info), -EMFILE);
	node_forget(f->ov.nodes, info.id, 1);
	assert_int_equal(look_up(f, i, &info), 0);
}

static void lay_aside_is_begun_again_when_something_is_let_go_of(void **state)
{
	struct fixture *f = *state;
	struct descriptors *d = &f->ov.descriptors;
	struct descriptors_request *request, *next;
	struct node_info info;
	uint64_t wanted = 10;

	assert_int_equal(look_up(f, 1, &info), 0);
	lay_aside(f, 10);
	lay_aside(f, 11);
	assert_true(descriptors_are_awaited(d));
	assert_int_equal(hear_question(f), 1);
	assert_null(descriptors_take(d));
	descriptors_note(&f->ov, FUSE_LOOKUP);
	assert_null(descriptors_take(d));
	descriptors_note(&f->ov, FUSE_FORGET);
	request = descriptors_take(d);
	for (; request; request = next) {
		struct fuse_in_header in;

		next = request->next;
		assert_int_equal(request->len, sizeof(in));
		memcpy(&in, request->bytes, sizeof(in));
		assert_int_equal(in.unique, wanted++);
		assert_true(request->began_ms > 0);
		free(request);
	}
	assert_int_equal(wanted, 12);
	assert_false(descriptors_are_awaited(d));
	descriptors_note(&f->ov, FUSE_FORGET);
	assert_null(descriptors_take(d));
}

static void lay_aside_is_refused_when_nothing_is(void **state)
{
	struct fixture *f = *state;
	uint64_t before = clock_now_ms();

	lay_aside(f, 10);
	hear_refusal(f, 10);
	assert_true(clock_now_ms() - before >= 900);
	assert_false(descriptors_are_awaited(&f->ov.descriptors));
}

/* Something is let go of all the time; it is not enough for this one. */
static void lay_aside_is_refused_in_the_end(void **state)
{
	struct fixture *f = *state;
	const struct fuse_in_header request = {
		.len = sizeof(request), .opcode = FUSE_GETATTR, .unique = 10, .nodeid = 1
	};
	char bytes[8192];
	struct fuse_out_header out = { 0 };
	struct node_info info;

	assert_int_equal(look_up(f, 1, &info), 0);
	descriptors_lay_aside(&f->ov, &request, sizeof(request), clock_now_ms() - 4500);
	while (out.unique == 0) {
		struct descriptors_request *again;

		descriptors_note(&f->ov, FUSE_FORGET);
		again = descriptors_take(&f->ov.descriptors);
		if (again)
			descriptors_lay_aside(&f->ov, again->bytes, again->len, again->began_ms);
		free(again);
		if (hear(f, 1, bytes, sizeof(bytes)) > 0)
			memcpy(&out, bytes, sizeof(out));
	}
	assert_int_equal(out.unique, 10);
	assert_int_equal(out.error, -EMFILE);
}

static void wait_is_for_something_let_go_of(void **state)
{
	struct fixture *f = *state;
	uint64_t began = 0, long_ago = clock_now_ms() - 6000;

	assert_false(descriptors_wait(&f->ov.descriptors, &began));
	assert_true(began > 0);
	assert_false(descriptors_wait(&f->ov.descriptors, &long_ago));
}

static void stop_refuses_what_is_aside(void **state)
{
	struct fixture *f = *state;

	lay_aside(f, 10);
	descriptors_stop(&f->ov.descriptors);
	hear_refusal(f, 10);
	assert_false(descriptors_are_kept(&f->ov.descriptors));
	lay_aside(f, 11);
	hear_refusal(f, 11);
	assert_int_equal(descriptors_start(&f->ov), 0);
	assert_true(descriptors_are_kept(&f->ov.descriptors));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(note_before_there_are_none_asks),
		TEST(lay_aside_is_begun_again_when_something_is_let_go_of),
		TEST(lay_aside_is_refused_when_nothing_is),
		TEST(lay_aside_is_refused_in_the_end),
		TEST(wait_is_for_something_let_go_of),
		TEST(stop_refuses_what_is_aside),
	};

	return cmocka_run_group_tests_name("descriptors", tests, NULL, NULL);
}
