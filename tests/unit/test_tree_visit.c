// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "fs/base/cleanup.h"
#include "plugins/tree_remove.h"
#include "plugins/tree_visit.h"

struct place {
	char path[64];
	int fd;
};

static int make_place(void **state)
{
	struct place *p = calloc(1, sizeof(*p));

	assert_non_null(p);
	strcpy(p->path, "/tmp/test_tree_visit.XXXXXX");
	assert_non_null(mkdtemp(p->path));
	p->fd = open(p->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_true(p->fd >= 0);
	*state = p;
	return 0;
}

static int remove_place(void **state)
{
	struct place *p = *state;
	AUTO_FD int tmp = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
	char error[256];

	close(p->fd);
	assert_int_equal(tree_remove(tmp, p->path + strlen("/tmp/"), error, sizeof(error)), 0);
	free(p);
	return 0;
}

static void make_file(int dir_fd, const char *name, size_t len)
{
	AUTO_FD int fd = openat(dir_fd, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
	char block[4096];

	memset(block, 'x', sizeof(block));
	assert_true(fd >= 0);
	for (; len > 0; len -= sizeof(block))
		assert_int_equal(write(fd, block, sizeof(block)), sizeof(block));
}

struct seen {
	char names[256];
	int count, stop_at;
};

static int note(void *arg, int dir_fd, const char *name, const struct statx *st)
{
	struct seen *s = arg;

	(void)dir_fd;
	(void)st;
	if (++s->count == s->stop_at)
		return -ECANCELED;
	strcat(s->names, name);
	strcat(s->names, " ");
	return 0;
}

static void tree_visit_sees_every_entry_and_follows_no_link(void **state)
{
	struct place *p = *state;
	struct seen s = { 0 };

	assert_int_equal(mkdirat(p->fd, "d", 0700), 0);
	assert_int_equal(mkdirat(p->fd, "d/e", 0700), 0);
	make_file(p->fd, "d/e/f", 0);
	assert_int_equal(symlinkat("/usr", p->fd, "d/e/link"), 0);
	assert_int_equal(tree_visit(p->fd, 0, note, &s), 0);
	assert_int_equal(s.count, 4);
	assert_memory_equal(s.names, "d e ", 4); /* a directory before what is in it */
	assert_non_null(strstr(s.names, "f "));
	assert_non_null(strstr(s.names, "link "));
}

static void tree_visit_ends_where_the_visitor_says(void **state)
{
	struct place *p = *state;
	struct seen s = { .stop_at = 2 };

	make_file(p->fd, "a", 0);
	make_file(p->fd, "b", 0);
	make_file(p->fd, "c", 0);
	assert_int_equal(tree_visit(p->fd, 0, note, &s), -ECANCELED);
	assert_int_equal(s.count, 2);
}

/* Depth directories, each in the other. */
static void make_deep(int dir_fd, int depth)
{
	int fd = dup(dir_fd);

	for (int i = 0; i < depth; i++) {
		int next;

		assert_int_equal(mkdirat(fd, "d", 0700), 0);
		next = openat(fd, "d", O_PATH | O_DIRECTORY | O_CLOEXEC);
		assert_true(next >= 0);
		close(fd);
		fd = next;
	}
	close(fd);
}

static void tree_visit_is_bounded_in_depth(void **state)
{
	struct place *p = *state;
	struct tree_usage usage = { 0 };

	make_deep(p->fd, TREE_DEPTH_MAX + 10);
	assert_int_equal(tree_usage(p->fd, UINT64_MAX, &usage), 0);
	assert_true(usage.cut);
	assert_int_equal(usage.entries, TREE_DEPTH_MAX);
}

static void tree_usage_counts_what_the_disk_holds(void **state)
{
	struct place *p = *state;
	struct tree_usage usage = { 0 };

	make_file(p->fd, "a", 40960);
	assert_int_equal(mkdirat(p->fd, "d", 0700), 0);
	make_file(p->fd, "d/b", 40960);
	assert_int_equal(linkat(p->fd, "a", p->fd, "d/again", 0), 0);
	assert_int_equal(tree_usage(p->fd, 100, &usage), 0);
	assert_int_equal(usage.entries, 4);
	assert_false(usage.cut);
	/* Twice the file, a directory, and what the file system needs besides. */
	assert_true(usage.bytes >= 81920 && usage.bytes < 81920 + 40960);
}

static void tree_usage_stops_at_the_limit(void **state)
{
	struct place *p = *state;
	struct tree_usage usage = { 0 };
	char name[16];

	for (int i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		make_file(p->fd, name, 0);
	}
	assert_int_equal(tree_usage(p->fd, 20, &usage), 0);
	assert_false(usage.cut);
	assert_int_equal(tree_usage(p->fd, 19, &usage), 0);
	assert_true(usage.cut);
	assert_int_equal(usage.entries, 19);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(tree_visit_sees_every_entry_and_follows_no_link,
						make_place, remove_place),
		cmocka_unit_test_setup_teardown(tree_visit_ends_where_the_visitor_says, make_place,
						remove_place),
		cmocka_unit_test_setup_teardown(tree_visit_is_bounded_in_depth, make_place,
						remove_place),
		cmocka_unit_test_setup_teardown(tree_usage_counts_what_the_disk_holds, make_place,
						remove_place),
		cmocka_unit_test_setup_teardown(tree_usage_stops_at_the_limit, make_place,
						remove_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
