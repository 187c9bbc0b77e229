// SPDX-License-Identifier: Apache-2.0
/* The log and the socket of a daemon, in a root of its own; the rest is tests/integ/test_daemon_service.sh's. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "fs/base/io.h"
#include "fs/base/parse.h"
#include "mountd/daemon.h"
#include "plugins/tree_remove.h"

struct fixture {
	char dir[64];
	struct layout *layout;
	int saved; /* what standard error was */
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	AUTO_FD int fd = -1;

	assert_non_null(f);
	strcpy(f->dir, "/tmp/test_daemon.XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	assert_int_equal(layout_open(f->dir, true, &f->layout), 0);
	assert_int_equal(daemon_log_open(f->layout, &fd), 0);
	f->saved = dup(STDERR_FILENO);
	assert_true(dup2(fd, STDERR_FILENO) >= 0);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;
	AUTO_FD int tmp = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
	char error[256];

	dup2(f->saved, STDERR_FILENO);
	close(f->saved);
	layout_free(f->layout);
	assert_int_equal(tree_remove(tmp, f->dir + strlen("/tmp/"), error, sizeof(error)), 0);
	free(f);
	return 0;
}

static void write_log(size_t bytes)
{
	char *text = malloc(bytes);

	assert_non_null(text);
	memset(text, 'x', bytes);
	assert_int_equal(io_write_all(STDERR_FILENO, text, bytes), 0);
	free(text);
}

static off_t size_of(struct fixture *f, const char *name)
{
	struct stat st;

	return fstatat(f->layout->state_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ? -errno :
										  st.st_size;
}

static void daemon_log_bound_small_stays(void **state)
{
	struct fixture *f = *state;

	write_log(1000);
	daemon_log_bound(f->layout);
	assert_int_equal(size_of(f, "mountd.log"), 1000);
	assert_int_equal(size_of(f, "mountd.log.1"), -ENOENT);
}

static void daemon_log_bound_large_is_set_aside(void **state)
{
	struct fixture *f = *state;

	write_log(3 << 20);
	daemon_log_bound(f->layout);
	assert_int_equal(size_of(f, "mountd.log"), 0);
	assert_int_equal(size_of(f, "mountd.log.1"), 3 << 20);
	/* It goes on at the start of the same file, for all who have it open. */
	write_log(10);
	assert_int_equal(size_of(f, "mountd.log"), 10);
	/* There are two, not more. */
	write_log(2 << 20);
	daemon_log_bound(f->layout);
	assert_int_equal(size_of(f, "mountd.log.1"), (2 << 20) + 10);
	assert_int_equal(size_of(f, "mountd.log.2"), -ENOENT);
}

static void daemon_log_bound_without_a_copy_is_empty_too(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(mkdirat(f->layout->state_fd, "mountd.log.1", 0700), 0);
	write_log(2 << 20);
	daemon_log_bound(f->layout);
	/* But for the line that says so. */
	assert_in_range(size_of(f, "mountd.log"), 1, 500);
	assert_int_equal(size_of(f, "mountd.log.new"), -ENOENT);
}

static void daemon_socket_replaced_does_not_stand(void **state)
{
	struct fixture *f = *state;
	struct daemon_socket first, second;

	assert_int_equal(daemon_listen(f->layout, &first), 0);
	assert_true(daemon_socket_stands(f->layout, &first));
	assert_int_equal(daemon_listen(f->layout, &second), 0);
	assert_false(daemon_socket_stands(f->layout, &first));
	/* The end of the one leaves the other's alone. */
	daemon_socket_close(f->layout, &first);
	assert_true(daemon_socket_stands(f->layout, &second));
	daemon_socket_close(f->layout, &second);
	assert_false(daemon_socket_stands(f->layout, &second));
}

static void daemon_let_in_modes_follow_the_group(void **state)
{
	struct fixture *f = *state;
	struct daemon_socket socket;
	struct stat st;

	assert_int_equal(daemon_listen(f->layout, &socket), 0);
	assert_int_equal(daemon_let_in(f->layout, getegid()), 0);
	assert_int_equal(fstat(f->layout->run_fd, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0710);
	assert_int_equal(fstatat(f->layout->run_fd, PATH_SOCKET, &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0660);
	assert_int_equal(daemon_let_in(f->layout, GID_UNSET), 0);
	assert_int_equal(fstat(f->layout->run_fd, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(fstatat(f->layout->run_fd, PATH_SOCKET, &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	daemon_socket_close(f->layout, &socket);
}

#define in_root(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		in_root(daemon_log_bound_small_stays),
		in_root(daemon_log_bound_large_is_set_aside),
		in_root(daemon_log_bound_without_a_copy_is_empty_too),
		in_root(daemon_socket_replaced_does_not_stand),
		in_root(daemon_let_in_modes_follow_the_group),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
