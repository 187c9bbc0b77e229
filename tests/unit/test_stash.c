// SPDX-License-Identifier: Apache-2.0

/* What a server lays aside for the next one, without a word to the keeper, and when there are words all the same. */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "fs/base/cleanup.h"
#include "fs/channel.h"
#include "fs/stash.h"

enum { SERVER, KEEPER };

struct fixture {
	int channel[2];
	struct stash stash;
	struct stash_ends ends;
	struct pins pins;
};

static int set_up(void **state)
{
	static struct fixture f;

	memset(&f, 0, sizeof(f));
	f.ends = STASH_ENDS_NONE;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, f.channel), 0);
	assert_int_equal(stash_open(f.channel[SERVER], &f.stash), 0);
	*state = &f;
	return 0;
}

static void close_server(struct fixture *f)
{
	for (int i = 0; i < STASH_CELLS; i++) {
		cleanup_fd(&f->stash.cells[i].put_fd);
		cleanup_fd(&f->stash.cells[i].take_fd);
	}
	cleanup_fd(&f->channel[SERVER]);
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	close_server(f);
	stash_empty(&f->ends, &f->pins);
	pins_fini(&f->pins);
	cleanup_fd(&f->channel[KEEPER]);
	return 0;
}

/* The keeper takes the offer. */
static void share(struct fixture *f)
{
	struct channel_message message;
	int fd = -1;

	assert_int_equal(stash_offer(&f->stash), 0);
	for (int i = 0; i < STASH_CELLS; i++) {
		assert_int_equal(channel_receive_pin(f->channel[KEEPER], &message, &fd), 1);
		assert_int_equal(message.kind, CHANNEL_STASH);
		assert_int_equal(stash_keep(&f->ends, message.slot, take_fd(&fd)), 0);
		stash_note_shared(&f->stash, message.slot);
	}
}

/* A file of its own without a name; @blocks of 1 KiB. */
static int make_file(size_t blocks)
{
	char path[] = "/tmp/fsgroupfs-stash.XXXXXX", block[1024];
	int fd = mkostemp(path, O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(unlink(path), 0);
	memset(block, 1, sizeof(block));
	for (size_t i = 0; i < blocks; i++)
		assert_int_equal(write(fd, block, sizeof(block)), sizeof(block));
	return fd;
}

static ino_t ino_of(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return st.st_ino;
}

/* Has the slot held, and returns the inode number. */
static ino_t hold(struct fixture *f, uint32_t slot)
{
	AUTO_FD int fd = make_file(0);

	assert_int_equal(stash_hold(&f->stash, slot, fd), 0);
	return ino_of(fd);
}

static void let_go(struct fixture *f, uint32_t slot)
{
	AUTO_FD int fd = make_file(0);

	assert_int_equal(stash_let_go(&f->stash, slot, &fd), 0);
}

static void assert_silence(const struct fixture *f)
{
	struct pollfd fd = { .fd = f->channel[KEEPER], .events = POLLIN };

	assert_int_equal(poll(&fd, 1, 0), 0);
}

/* The keeper hears of one pin, or with @ino 0 of its end. */
static void assert_hears(struct fixture *f, uint32_t slot, ino_t ino)
{
	struct channel_message message;
	int fd = -1;

	assert_int_equal(channel_receive_pin(f->channel[KEEPER], &message, &fd), 1);
	assert_int_equal(message.kind, CHANNEL_PIN);
	assert_int_equal(message.slot, slot);
	assert_int_equal(fd >= 0, ino != 0);
	if (fd >= 0)
		assert_int_equal(ino_of(fd), ino);
	pins_set(&f->pins, message.slot, take_fd(&fd));
}

static ino_t held_ino(const struct fixture *f, uint32_t slot)
{
	for (size_t i = 0; i < f->pins.size; i++) {
		if (f->pins.places[i].slot == slot)
			return ino_of(f->pins.places[i].fd);
	}
	return 0;
}

static void stash_hold_outlives_the_server_in_silence(void **state)
{
	struct fixture *f = *state;
	ino_t inos[20];

	share(f);
	for (uint32_t slot = 1; slot <= 20; slot++)
		inos[slot - 1] = hold(f, slot);
	assert_silence(f);
	close_server(f);
	stash_empty(&f->ends, &f->pins);
	assert_int_equal(f->pins.count, 20);
	for (uint32_t slot = 1; slot <= 20; slot++)
		assert_int_equal(held_ino(f, slot), inos[slot - 1]);
	for (int i = 0; i < STASH_CELLS; i++)
		assert_int_equal(f->ends.fds[i], -1);
}

static void stash_let_go_in_order_leaves_nothing(void **state)
{
	struct fixture *f = *state;

	share(f);
	for (uint32_t slot = 1; slot <= 1000; slot++) {
		hold(f, slot);
		if (slot > 10)
			let_go(f, slot - 10);
	}
	for (uint32_t slot = 991; slot <= 1000; slot++)
		let_go(f, slot);
	assert_silence(f);
	close_server(f);
	stash_empty(&f->ends, &f->pins);
	assert_int_equal(f->pins.count, 0);
}

static void stash_let_go_what_was_overtaken_goes_to_the_keeper(void **state)
{
	struct fixture *f = *state;
	ino_t first, second, last;

	share(f);
	first = hold(f, 4);
	second = hold(f, 8);
	hold(f, 12);
	last = hold(f, 16);
	let_go(f, 12);
	assert_hears(f, 4, first);
	assert_hears(f, 8, second);
	assert_silence(f);
	let_go(f, 4);
	assert_hears(f, 4, 0);
	close_server(f);
	stash_empty(&f->ends, &f->pins);
	assert_int_equal(f->pins.count, 2);
	assert_int_equal(held_ino(f, 8), second);
	assert_int_equal(held_ino(f, 16), last);
}

static void stash_hold_full_cell_passes_the_oldest_on(void **state)
{
	struct fixture *f = *state;
	ino_t oldest;

	share(f);
	oldest = hold(f, 4);
	for (uint32_t i = 2; i <= STASH_CELL_MAX; i++)
		hold(f, 4 * i);
	assert_silence(f);
	hold(f, 4 * (STASH_CELL_MAX + 1));
	assert_hears(f, 4, oldest);
	assert_silence(f);
	close_server(f);
	stash_empty(&f->ends, &f->pins);
	assert_int_equal(f->pins.count, STASH_CELL_MAX + 1);
}

static void stash_hold_unshared_is_the_keepers(void **state)
{
	struct fixture *f = *state;
	ino_t ino = hold(f, 7);
	int fd = make_file(0);

	assert_hears(f, 7, ino);
	/* Also when it is shared meanwhile. */
	share(f);
	assert_int_equal(stash_let_go(&f->stash, 7, &fd), 0);
	assert_int_equal(fd, -1);
	assert_hears(f, 7, 0);
	assert_int_equal(f->pins.count, 0);
	stash_note_shared(&f->stash, STASH_CELLS);
}

static void stash_let_go_large_file_is_closed_by_the_keeper_last(void **state)
{
	struct fixture *f = *state;
	int large = make_file(2048), small = make_file(4);
	ino_t ino = ino_of(large);

	share(f);
	assert_int_equal(stash_hold(&f->stash, 3, large), 0);
	assert_int_equal(stash_hold(&f->stash, 5, small), 0);
	assert_silence(f);
	assert_int_equal(stash_let_go(&f->stash, 3, &large), 0);
	assert_int_equal(large, -1);
	assert_hears(f, 3, ino);
	assert_hears(f, 3, 0);
	assert_int_equal(stash_let_go(&f->stash, 5, &small), 0);
	assert_true(small >= 0);
	assert_silence(f);
	close(small);
}

static void stash_empty_server_that_goes_on_asks_the_keeper(void **state)
{
	struct fixture *f = *state;
	ino_t ino;

	share(f);
	hold(f, 9);
	ino = hold(f, 13);
	stash_empty(&f->ends, &f->pins);
	assert_int_equal(f->pins.count, 2);
	let_go(f, 9);
	assert_hears(f, 9, 0);
	let_go(f, 13);
	assert_hears(f, 13, 0);
	assert_int_equal(f->pins.count, 0);
	ino = hold(f, 17);
	assert_hears(f, 17, ino);
}

static void stash_keep_what_is_no_cell_is_refused(void **state)
{
	struct fixture *f = *state;
	int fd = make_file(0);

	assert_int_equal(stash_keep(&f->ends, STASH_CELLS, fd), -EINVAL);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
	assert_int_equal(stash_keep(&f->ends, 0, -1), -EINVAL);
	/* Nor are packets in it that are no pins. */
	fd = make_file(0);
	assert_int_equal(stash_keep(&f->ends, 0, fd), 0);
	stash_empty(&f->ends, &f->pins);
	assert_int_equal(f->pins.count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(stash_hold_outlives_the_server_in_silence, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(stash_let_go_in_order_leaves_nothing, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(stash_let_go_what_was_overtaken_goes_to_the_keeper,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(stash_hold_full_cell_passes_the_oldest_on, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(stash_hold_unshared_is_the_keepers, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(
			stash_let_go_large_file_is_closed_by_the_keeper_last, set_up, tear_down),
		cmocka_unit_test_setup_teardown(stash_empty_server_that_goes_on_asks_the_keeper,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(stash_keep_what_is_no_cell_is_refused, set_up,
						tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
