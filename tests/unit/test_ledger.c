// SPDX-License-Identifier: Apache-2.0

/* What a server leaves behind, and what the next makes of it: ledger, the table's undo area, the keeper's pins. */

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "fs/base/cleanup.h"
#include "fs/channel.h"
#include "fs/failover.h"
#include "fs/node.h"
#include "fs/pins.h"

struct fixture {
	char path[64];
	int dir_fd;
	struct tree tree;
	struct shared shared;
	struct node_table *table;
};

static int set_up(void **state)
{
	static struct fixture f;

	memset(&f, 0, sizeof(f));
	strcpy(f.path, "/tmp/fsgroupfs-ledger.XXXXXX");
	assert_non_null(mkdtemp(f.path));
	f.dir_fd = open(f.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(f.dir_fd >= 0);
	/* The server's working directory: tree.h's TREE_FD_DIR. */
	assert_int_equal(chdir("/proc/self/fd"), 0);
	assert_int_equal(tree_init(open(f.path, O_PATH | O_DIRECTORY | O_CLOEXEC), &f.tree), 0);
	assert_int_equal(shared_create(&f.shared), 0);
	assert_int_equal(node_table_new(&f.shared, &f.tree, 0, &f.table), 0);
	ledger_join(&f.shared, 0);
	*state = &f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	node_table_free(f->table);
	tree_fini(&f->tree);
	shared_fini(&f->shared);
	unlinkat(f->dir_fd, "a", 0);
	unlinkat(f->dir_fd, "b", 0);
	close(f->dir_fd);
	return rmdir(f->path);
}

static int make_file(const struct fixture *f, const char *name, struct stat *ret_st)
{
	AUTO_FD int made = openat(f->dir_fd, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	int fd = openat(f->dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);

	assert_true(made >= 0 && fd >= 0);
	assert_int_equal(tree_stat(fd, ret_st), 0);
	return fd;
}

static struct node_info lookup(const struct fixture *f, const char *name)
{
	struct node_info info;
	struct stat st;
	AUTO_FD int fd = make_file(f, name, &st);

	assert_int_equal(node_lookup(f->table, fd, &st, 0, &info), 0);
	return info;
}

static uint64_t lookups_of(const struct fixture *f, const struct node_info *info)
{
	return f->shared.slots[(uint32_t)info->id].nlookup;
}

/* The next server: another table and thread on the same memory. */
static void succeed(struct fixture *f)
{
	node_table_free(f->table);
	assert_int_equal(node_table_new(&f->shared, &f->tree, 0, &f->table), 0);
	ledger_attach(&f->shared);
	atomic_fetch_add(&f->shared.header->restarts, 1);
	ledger_join(&f->shared, 0);
}

static size_t count_left(struct fixture *f)
{
	size_t count = 0;

	for (size_t i = 0; i < LEDGER_LEFT_MAX; i++)
		count += ledger_left(&f->shared, i) != NULL;
	return count;
}

static void ledger_end_leaves_nothing(void **state)
{
	struct fixture *f = *state;

	ledger_begin(7, FUSE_LOOKUP, false);
	assert_non_null(ledger_current());
	lookup(f, "a");
	ledger_end();
	assert_null(ledger_current());
	succeed(f);
	assert_int_equal(count_left(f), 0);
}

static void ledger_begin_again_takes_counts_back(void **state)
{
	struct fixture *f = *state;
	struct node_info a = lookup(f, "a");

	ledger_begin(7, FUSE_LOOKUP, false);
	lookup(f, "a");
	lookup(f, "b");
	assert_int_equal(lookups_of(f, &a), 2);
	succeed(f);
	assert_int_equal(count_left(f), 1);
	assert_int_equal(lookups_of(f, &a), 2);
	ledger_begin(7, FUSE_LOOKUP, true);
	assert_true(ledger_is_repeat());
	node_take_back(f->table, ledger_current());
	assert_int_equal(lookups_of(f, &a), 1);
	assert_int_equal(ledger_current()->lookup_count, 0);
	/* "b" was known to nobody else. */
	assert_int_equal(node_count(f->table), 2);
	ledger_end();
	assert_int_equal(count_left(f), 0);
}

static void ledger_begin_other_requests_are_no_repeats(void **state)
{
	struct fixture *f = *state;

	ledger_begin(7, FUSE_UNLINK, false);
	ledger_start(0, 0, 1, 2);
	succeed(f);
	ledger_begin(9, FUSE_UNLINK, true);
	assert_false(ledger_is_repeat());
	assert_int_equal(ledger_phase(), LEDGER_BEGUN);
	ledger_end();
	/* A number is the kernel's, and never comes without its mark when it comes again. */
	ledger_begin(7, FUSE_UNLINK, false);
	assert_false(ledger_is_repeat());
	ledger_end();
	assert_int_equal(count_left(f), 1);
}

static void ledger_phase_is_what_the_dead_reached(void **state)
{
	struct fixture *f = *state;
	struct stat st = { .st_ino = 77, .st_mode = S_IFDIR | 0755 };

	ledger_begin(7, FUSE_MKDIR, false);
	ledger_start_creation(5, "name", S_IFDIR | 0755, 1000);
	succeed(f);
	ledger_begin(7, FUSE_MKDIR, true);
	assert_int_equal(ledger_phase(), LEDGER_STARTED);
	assert_string_equal(ledger_current()->name, "name");
	assert_int_equal(ledger_current()->object, 5);
	ledger_made(&st);
	succeed(f);
	ledger_begin(7, FUSE_MKDIR, true);
	assert_int_equal(ledger_phase(), LEDGER_DONE);
	assert_int_equal(ledger_current()->object_ino, 77);
	ledger_failed();
	succeed(f);
	ledger_begin(7, FUSE_MKDIR, true);
	assert_int_equal(ledger_phase(), LEDGER_BEGUN);
	ledger_end();
}

static void ledger_start_change_again_tells_what_was_before(void **state)
{
	struct fixture *f = *state;
	struct stat before = { .st_uid = 1, .st_gid = 2, .st_mode = S_IFREG | 02604 };
	struct stat half_done = { .st_uid = 3, .st_gid = 4, .st_mode = S_IFREG | 0604 };

	ledger_begin(7, FUSE_SETATTR, false);
	ledger_start_change(5, 6, &before);
	assert_int_equal(before.st_uid, 1);
	succeed(f);
	ledger_begin(7, FUSE_SETATTR, true);
	ledger_start_change(5, 6, &half_done);
	assert_int_equal(half_done.st_uid, 1);
	assert_int_equal(half_done.st_gid, 2);
	assert_int_equal(half_done.st_mode, S_IFREG | 02604);
	ledger_end();
}

static void ledger_attach_overwrites_the_oldest(void **state)
{
	struct fixture *f = *state;

	for (uint64_t unique = 1; unique <= LEDGER_LEFT_MAX + 3; unique++) {
		ledger_begin(unique, FUSE_UNLINK, false);
		ledger_start(unique, 0, 0, 0);
		succeed(f);
	}
	assert_int_equal(count_left(f), LEDGER_LEFT_MAX);
	ledger_begin(3, FUSE_UNLINK, true);
	assert_false(ledger_is_repeat());
	ledger_end();
	ledger_begin(LEDGER_LEFT_MAX + 3, FUSE_UNLINK, true);
	assert_true(ledger_is_repeat());
	assert_int_equal(ledger_current()->object, LEDGER_LEFT_MAX + 3);
	ledger_end();
}

static void ledger_has_room_for_a_reply(void **state)
{
	struct fixture *f = *state;
	struct node_info info, more;
	struct stat st;
	AUTO_FD int fd = make_file(f, "a", &st);

	info = lookup(f, "a");
	ledger_begin(7, FUSE_READDIRPLUS, false);
	while (ledger_has_room())
		lookup(f, "a");
	assert_int_equal(lookups_of(f, &info), LEDGER_LOOKUPS_MAX + 1);
	assert_int_equal(node_lookup(f->table, fd, &st, 0, &more), -ENOSPC);
	succeed(f);
	ledger_begin(7, FUSE_READDIRPLUS, true);
	node_take_back(f->table, ledger_current());
	assert_int_equal(lookups_of(f, &info), 1);
	ledger_end();
}

/* The change that a server was killed in has not happened, whichever of its two halves was written. */
static void node_table_undo_of_a_killed_process(void **state)
{
	struct fixture *f = *state;
	struct node_info a = lookup(f, "a");

	for (int point = POINT_COUNTING; point <= POINT_COUNTED; point++) {
		int status;
		pid_t pid;

		f->shared.header->kill_opcode = FUSE_LOOKUP;
		f->shared.header->kill_point = (uint32_t)point;
		atomic_store(&f->shared.header->kill_done, 0);
		pid = fork();
		if (pid == 0) {
			ledger_begin(7, FUSE_LOOKUP, false);
			lookup(f, "a");
			_exit(1);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
		assert_int_equal(lookups_of(f, &a), 2);
		succeed(f);
		assert_int_equal(lookups_of(f, &a), point == POINT_COUNTING ? 1 : 2);
		ledger_begin(7, FUSE_LOOKUP, true);
		assert_int_equal(ledger_current()->lookup_count, point == POINT_COUNTED);
		node_take_back(f->table, ledger_current());
		ledger_end();
		assert_int_equal(lookups_of(f, &a), 1);
	}
}

static void node_take_back_of_an_open_gives_the_backing_up(void **state)
{
	struct fixture *f = *state;
	struct node_info a = lookup(f, "a");
	struct node_open_state open_state = { .nopen = 1,
					      .flags = NODE_PASSTHROUGH | NODE_WRITTEN,
					      .backing_id = 12 };
	bool used[4];

	ledger_begin(7, FUSE_OPEN, false);
	assert_int_equal(node_open_state_set(f->table, a.id, &open_state), 0);
	assert_int_equal(f->shared.header->backing_last, 12);
	succeed(f);
	assert_int_equal(node_opens(f->table), 1);
	node_find_backing(f->table, 10, 4, used);
	assert_true(!used[0] && !used[1] && used[2] && !used[3]);
	ledger_begin(7, FUSE_OPEN, true);
	node_take_back(f->table, ledger_current());
	assert_int_equal(node_opens(f->table), 0);
	assert_int_equal(ledger_current()->closing_id, 12);
	assert_int_equal(node_open_state_get(f->table, a.id, &open_state), 0);
	assert_int_equal(open_state.nopen, 0);
	assert_false(open_state.flags & NODE_PASSTHROUGH);
	ledger_end();
}

static void node_table_new_frees_what_nobody_heard_of(void **state)
{
	struct fixture *f = *state;
	struct node_info a = lookup(f, "a"), b = lookup(f, "b"), again;

	/* Killed between the last count and the end of a FORGET, with a free list that leads astray. */
	f->shared.slots[(uint32_t)a.id].nlookup = 0;
	f->shared.header->free_head = (uint32_t)b.id;
	succeed(f);
	assert_int_equal(node_count(f->table), 2);
	again = lookup(f, "a");
	assert_true(again.id != a.id && again.id != b.id);
	assert_int_equal((uint32_t)again.id, (uint32_t)a.id);
	assert_int_equal(node_get(f->table, b.id, &again), 0);
}

static bool knows_none(void *context, uint64_t id)
{
	*(uint64_t *)context = id;
	return false;
}

static void node_drop_unknown_lets_only_the_unlinked_go(void **state)
{
	struct fixture *f = *state;
	struct node_info a = lookup(f, "a"), b = lookup(f, "b"), info;
	uint64_t asked = 0;
	struct stat st;
	AUTO_FD int fd = make_file(f, "a", &st);

	assert_int_equal(unlinkat(f->dir_fd, "a", 0), 0);
	assert_int_equal(node_unlinked(f->table, fd, &st), 0);
	node_drop_unknown(f->table, knows_none, &asked);
	assert_int_equal(asked, a.id);
	assert_int_equal(node_get(f->table, a.id, &info), -ESTALE);
	assert_int_equal(node_get(f->table, b.id, &info), 0);
}

static void pins_go_from_server_to_server(void **state)
{
	struct fixture *f = *state;
	struct channel_message message;
	struct pins pins = { .places = NULL };
	int pair[2], count = 0, received = -1;
	struct stat st;
	AUTO_FD int fd = make_file(f, "a", &st);

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	for (uint32_t slot = 1; slot <= 100; slot++)
		pins_set(&pins, slot * 16, fcntl(fd, F_DUPFD_CLOEXEC, 0));
	for (uint32_t slot = 1; slot <= 100; slot++) {
		if (slot % 10)
			pins_set(&pins, slot * 16, -1);
	}
	pins_set(&pins, 160, fcntl(fd, F_DUPFD_CLOEXEC, 0));
	pins_set(&pins, 5, -1);
	assert_int_equal(pins.count, 10);
	assert_int_equal(pins_send(&pins, pair[0]), 0);
	close(pair[0]);
	while (channel_receive_pin(pair[1], &message, &received) > 0) {
		struct stat got;

		assert_int_equal(message.kind, CHANNEL_PIN);
		assert_int_equal(message.slot % 160, 0);
		assert_int_equal(tree_stat(received, &got), 0);
		assert_int_equal(got.st_ino, st.st_ino);
		close(received);
		count++;
	}
	assert_int_equal(count, 10);
	close(pair[1]);
	pins_fini(&pins);
}

static void failover_count_death_too_many_in_a_minute(void **state)
{
	struct failover f = { .limit = FAILOVER_DEATHS };

	(void)state;
	for (int i = 0; i < 1000; i++)
		assert_true(failover_count_death(&f, i * (int64_t)FAILOVER_WINDOW_MS / 4 + i));
	for (int i = 0; i < FAILOVER_DEATHS - 1; i++)
		assert_true(failover_count_death(&f, 1000000000 + i));
	assert_false(failover_count_death(&f, 1000000000 + FAILOVER_WINDOW_MS));
	failover_reset(&f);
	assert_true(failover_count_death(&f, 1000000001));
	f = (struct failover){ .limit = 0 };
	for (int i = 0; i < 1000; i++)
		assert_true(failover_count_death(&f, 1));
}

static void ledger_parse_kill_strict(void **state)
{
	uint32_t opcode = 0, point = 0;

	(void)state;
	assert_int_equal(ledger_parse_kill("rename2.changed", &opcode, &point), 0);
	assert_true(opcode == FUSE_RENAME2 && point == POINT_CHANGED);
	assert_int_equal(ledger_parse_kill("rename2", &opcode, &point), -EINVAL);
	assert_int_equal(ledger_parse_kill("rename2.", &opcode, &point), -EINVAL);
	assert_int_equal(ledger_parse_kill("rename3.done", &opcode, &point), -EINVAL);
	assert_int_equal(ledger_parse_kill("", &opcode, &point), -EINVAL);
}

#define WITH_TABLE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_TABLE(ledger_end_leaves_nothing),
		WITH_TABLE(ledger_begin_again_takes_counts_back),
		WITH_TABLE(ledger_begin_other_requests_are_no_repeats),
		WITH_TABLE(ledger_phase_is_what_the_dead_reached),
		WITH_TABLE(ledger_start_change_again_tells_what_was_before),
		WITH_TABLE(ledger_attach_overwrites_the_oldest),
		WITH_TABLE(ledger_has_room_for_a_reply),
		WITH_TABLE(node_table_undo_of_a_killed_process),
		WITH_TABLE(node_take_back_of_an_open_gives_the_backing_up),
		WITH_TABLE(node_table_new_frees_what_nobody_heard_of),
		WITH_TABLE(node_drop_unknown_lets_only_the_unlinked_go),
		WITH_TABLE(pins_go_from_server_to_server),
		cmocka_unit_test(failover_count_death_too_many_in_a_minute),
		cmocka_unit_test(ledger_parse_kill_strict),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
