// SPDX-License-Identifier: Apache-2.0
/* Who is root and who is of a group, with other users' processes: tests/integ/test_daemon_clients.sh. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/socket.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "fs/base/parse.h"
#include "mountd/peer.h"

static void peer_look_own_uid_is_root(void **state)
{
	int fds[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	assert_int_equal(peer_look(fds[0], GID_UNSET).kind, PEER_ROOT);
	assert_int_equal(peer_look(fds[0], GID_UNSET).uid, geteuid());
	cleanup_fd(&fds[0]);
	cleanup_fd(&fds[1]);
}

static void peer_look_untold_is_a_stranger(void **state)
{
	(void)state;
	assert_int_equal(peer_look(-1, 0).kind, PEER_STRANGER);
}

static void peer_group_resolve_names_and_numbers(void **state)
{
	gid_t gid = 7;

	(void)state;
	assert_int_equal(peer_group_resolve("54321", &gid), 0);
	assert_int_equal(gid, 54321);
	assert_int_equal(peer_group_resolve("root", &gid), 0);
	assert_int_equal(gid, 0);
}

static void peer_group_resolve_no_group_is_refused(void **state)
{
	gid_t gid = 7;

	(void)state;
	assert_int_equal(peer_group_resolve("no-such-group", &gid), -ENOENT);
	assert_int_equal(peer_group_resolve("4294967295", &gid), -ERANGE);
	/* What the kernel shows for every group that is not mapped. */
	assert_int_equal(peer_group_resolve("65534", &gid), -EINVAL);
	assert_int_equal(gid, 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(peer_look_own_uid_is_root),
		cmocka_unit_test(peer_look_untold_is_a_stranger),
		cmocka_unit_test(peer_group_resolve_names_and_numbers),
		cmocka_unit_test(peer_group_resolve_no_group_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
