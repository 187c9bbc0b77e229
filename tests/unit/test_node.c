// SPDX-License-Identifier: Apache-2.0

/*
 * The table of nodes. As root with file handles, and always without them too (keys), as it is in a user
 * namespace: the tests run in both modes as far as the caller may open handles.
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "fs/base/cleanup.h"
#include "fs/node.h"

enum { MANY = 100000, THREADS = 4 };

struct fixture {
	char path[64];
	int dir_fd;
	struct tree tree;
	struct shared shared;
	struct node_table *table;
};

static void open_table(struct fixture *f)
{
	assert_int_equal(node_table_new(&f->shared, &f->tree, 5, &f->table), 0);
}

static void make_fixture(struct fixture *f, bool with_handles)
{
	memset(f, 0, sizeof(*f));
	strcpy(f->path, "/tmp/fsgroupfs-node.XXXXXX");
	assert_non_null(mkdtemp(f->path));
	f->dir_fd = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(f->dir_fd >= 0);
	/* The server's working directory: tree.h's TREE_FD_DIR. */
	assert_int_equal(chdir("/proc/self/fd"), 0);
	assert_int_equal(tree_init(open(f->path, O_PATH | O_DIRECTORY | O_CLOEXEC), &f->tree), 0);
	f->tree.has_handles = f->tree.has_handles && with_handles;
	assert_int_equal(shared_create(&f->shared), 0);
	open_table(f);
}

static int set_up(void **state)
{
	static struct fixture f;

	make_fixture(&f, true);
	*state = &f;
	return 0;
}

static int set_up_keyed(void **state)
{
	static struct fixture f;

	make_fixture(&f, false);
	*state = &f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;
	DIR *dir;
	const struct dirent *entry;

	node_table_free(f->table);
	tree_fini(&f->tree);
	shared_fini(&f->shared);
	dir = fdopendir(f->dir_fd);
	while (dir && (entry = readdir(dir)))
		unlinkat(f->dir_fd, entry->d_name, 0);
	closedir(dir);
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

static void settle(const struct fixture *f, const char *name, uint32_t flags)
{
	struct stat st;
	AUTO_FD int fd = make_file(f, name, &st);

	assert_int_equal(node_settle(f->table, fd, &st, flags), 0);
}

static bool is_known(const struct fixture *f, uint64_t id)
{
	struct node_info info;

	return node_get(f->table, id, &info) == 0;
}

static void assert_opens(const struct fixture *f, uint64_t id, uint64_t ino)
{
	struct node_info info;
	struct stat st;
	AUTO_FD int fd = -1;

	assert_int_equal(node_open(f->table, id, &fd, &info), 0);
	assert_int_equal(tree_stat(fd, &st), 0);
	assert_int_equal(st.st_ino, ino);
	assert_int_equal(info.id, id);
}

static int count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int count = 0;

	assert_non_null(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

static void node_table_new_root_is_below_node_one(void **state)
{
	struct fixture *f = *state;
	struct node_info info;

	assert_int_equal(node_get(f->table, node_root(f->table), &info), 0);
	assert_int_equal(info.exclude, 5);
	assert_true(info.flags & NODE_DIRECTORY);
	assert_int_equal(node_count(f->table), 1);
	node_forget(f->table, node_root(f->table), UINT64_MAX);
	assert_true(is_known(f, node_root(f->table)));
	assert_opens(f, node_root(f->table), info.ino);
}

static void reopen_with_layout(struct fixture *f, uint32_t layout)
{
	node_table_free(f->table);
	shared_fini(&f->shared);
	assert_int_equal(shared_create(&f->shared), 0);
	f->shared.header->layout = layout;
	open_table(f);
	/* And as a successor finds it. */
	node_table_free(f->table);
	open_table(f);
}

static void node_table_new_of_the_layout_before_root_is_node_one(void **state)
{
	struct fixture *f = *state;
	struct node_info info;
	struct stat st;

	assert_int_equal(node_get(f->table, NODE_TOP, &info), -EPERM);
	reopen_with_layout(f, SHARED_LAYOUT_ROOT_IS_1);
	assert_int_equal(node_root(f->table), NODE_TOP);
	assert_int_equal(node_get(f->table, NODE_TOP, &info), 0);
	reopen_with_layout(f, SHARED_LAYOUT);
	assert_int_not_equal(node_root(f->table), NODE_TOP);
	assert_int_equal(node_get(f->table, NODE_TOP, &info), -EPERM);

	/* Looked up, counted and taken back it is the same. */
	assert_int_equal(tree_stat(f->tree.root_fd, &st), 0);
	assert_int_equal(node_lookup(f->table, f->tree.root_fd, &st, 5, &info), 0);
	assert_int_equal(info.id, node_root(f->table));
	node_forget(f->table, NODE_TOP, 1);
	node_forget(f->table, info.id, UINT64_MAX);
	assert_true(is_known(f, node_root(f->table)));
	assert_int_equal(node_count(f->table), 1);
}

static void node_lookup_again_is_the_same_node(void **state)
{
	struct fixture *f = *state;
	struct node_info first = lookup(f, "a"), other = lookup(f, "b"), again = lookup(f, "a");

	assert_int_equal(first.id, again.id);
	assert_true(first.id != other.id);
	assert_int_equal(node_count(f->table), 3);
	assert_opens(f, first.id, first.ino);
}

static void node_lookup_hard_link_is_the_same_node(void **state)
{
	struct fixture *f = *state;
	struct node_info first = lookup(f, "a");

	assert_int_equal(linkat(f->dir_fd, "a", f->dir_fd, "b", 0), 0);
	assert_int_equal(lookup(f, "b").id, first.id);
}

static void node_lookup_one_name_not_excluded_decides(void **state)
{
	struct fixture *f = *state;
	struct node_info info;
	struct stat st;
	AUTO_FD int fd = make_file(f, "a", &st);

	assert_int_equal(node_lookup(f->table, fd, &st, 7, &info), 0);
	assert_int_equal(info.exclude, 7);
	assert_int_equal(node_lookup(f->table, fd, &st, 4, &info), 0);
	assert_int_equal(info.exclude, 4);
	assert_int_equal(node_lookup(f->table, fd, &st, 7, &info), 0);
	assert_int_equal(info.exclude, 4);
	node_set_exclude(f->table, info.id, 9);
	assert_int_equal(node_get(f->table, info.id, &info), 0);
	assert_int_equal(info.exclude, 9);
}

static void node_forget_counts_every_lookup(void **state)
{
	struct fixture *f = *state;
	struct node_info info = lookup(f, "a");

	lookup(f, "a");
	lookup(f, "a");
	node_forget(f->table, info.id, 2);
	assert_true(is_known(f, info.id));
	node_forget(f->table, info.id, 1);
	assert_false(is_known(f, info.id));
	assert_int_equal(node_count(f->table), 1);
}

static void node_forget_too_many_or_unknown_is_survived(void **state)
{
	struct fixture *f = *state;
	struct node_info info = lookup(f, "a");
	AUTO_FD int fd = -1;

	node_forget(f->table, 0, 1);
	node_forget(f->table, 12345, 1);
	node_forget(f->table, info.id + (1ULL << 32), 1);
	node_forget(f->table, UINT64_MAX, 1);
	assert_true(is_known(f, info.id));
	node_forget(f->table, info.id, UINT64_MAX);
	node_forget(f->table, info.id, 1);
	assert_false(is_known(f, info.id));
	assert_int_equal(node_open(f->table, info.id, &fd, &info), -ESTALE);
	assert_int_equal(node_open(f->table, 0, &fd, &info), -ESTALE);
}

static void node_lookup_slots_are_reused_but_never_ids(void **state)
{
	struct fixture *f = *state;
	struct node_info first = lookup(f, "a");
	uint64_t last = first.id;

	node_forget(f->table, first.id, 1);
	for (int i = 0; i < 1000; i++) {
		struct node_info next = lookup(f, i % 2 ? "a" : "b");

		assert_int_equal((uint32_t)next.id, (uint32_t)first.id);
		assert_true(next.id > last);
		assert_false(is_known(f, last));
		last = next.id;
		node_forget(f->table, next.id, 1);
	}
	assert_int_equal(node_count(f->table), 1);
	assert_true(f->shared.header->slot_count <= 3);
}

/* Which of many names are known is random; the table must agree with a plain array. */
static void node_lookup_random_work_agrees_with_a_model(void **state)
{
	enum { NAMES = 300 };
	struct fixture *f = *state;
	uint64_t ids[NAMES] = { 0 }, counts[NAMES] = { 0 };
	unsigned seed = 7, known = 0;

	for (int i = 0; i < 20000; i++) {
		int k = rand_r(&seed) % NAMES;
		char name[16];

		snprintf(name, sizeof(name), "n%d", k);
		if (rand_r(&seed) % 2) {
			struct node_info info = lookup(f, name);

			if (counts[k]++ == 0) {
				assert_true(info.id != ids[k]);
				known++;
			} else {
				assert_int_equal(info.id, ids[k]);
			}
			ids[k] = info.id;
		} else if (counts[k] > 0) {
			uint64_t n = 1 + (uint64_t)rand_r(&seed) % counts[k];

			node_forget(f->table, ids[k], n);
			counts[k] -= n;
			known -= counts[k] == 0;
			assert_int_equal(is_known(f, ids[k]), counts[k] > 0);
		}
		assert_int_equal(node_count(f->table), known + 1);
	}
}

static void node_lookup_many_entries_are_found(void **state)
{
	struct fixture *f = *state;

	/* By keys that stand for files: so many real ones would take their time. */
	for (uint32_t i = 0; i < MANY; i++) {
		struct tree_key key = { .is_handle = true, .type = 1, .len = 12 };

		memcpy(key.bytes, &i, sizeof(i));
		assert_int_equal(node_settle_key(f->table, &key, i, NODE_SETTLED), 0);
		/* Twice is once. */
		assert_int_equal(node_settle_key(f->table, &key, i, NODE_SETTLED), 0);
	}
	assert_int_equal(node_count(f->table), MANY + 1);
	for (uint32_t slot = 2; slot < MANY + 2; slot++) {
		struct node_info info;

		assert_int_equal(node_get(f->table, slot, &info), 0);
		assert_int_equal(info.ino, slot - 2);
		assert_true(info.flags & NODE_SETTLED);
	}
	node_release_settled(f->table, NULL, NULL);
	assert_int_equal(node_count(f->table), 1);
	assert_false(is_known(f, 2));
}

static void node_settle_stays_after_forget(void **state)
{
	struct fixture *f = *state;
	struct node_info info = lookup(f, "a"), again;

	settle(f, "a", NODE_SETTLED);
	node_forget(f->table, info.id, 1);
	assert_true(is_known(f, info.id));
	again = lookup(f, "a");
	assert_int_equal(again.id, info.id);
	assert_true(again.flags & NODE_SETTLED);
}

static void node_settle_unknown_makes_a_node(void **state)
{
	struct fixture *f = *state;
	struct node_info info;

	settle(f, "a", NODE_SETTLED);
	assert_int_equal(node_count(f->table), 2);
	info = lookup(f, "a");
	assert_true(info.flags & NODE_SETTLED);
	assert_int_equal(node_count(f->table), 2);
}

static void count_marked(void *context, int fd)
{
	struct stat st;

	assert_int_equal(tree_stat(fd, &st), 0);
	++*(int *)context;
}

static void node_release_settled_frees_what_only_the_run_knew(void **state)
{
	struct fixture *f = *state;
	struct node_info kept = lookup(f, "kept"), info;
	int marked = 0;

	settle(f, "kept", NODE_SETTLED);
	settle(f, "gone", NODE_SETTLED);
	assert_int_equal(node_count(f->table), 3);
	node_release_settled(f->table, count_marked, &marked);
	assert_int_equal(marked, 0);
	assert_int_equal(node_count(f->table), 2);
	assert_int_equal(node_get(f->table, kept.id, &info), 0);
	assert_false(info.flags & NODE_SETTLED);
	node_forget(f->table, kept.id, 1);
	assert_int_equal(node_count(f->table), 1);
}

static void node_release_settled_unmarks_the_marked(void **state)
{
	struct fixture *f = *state;
	struct node_info known = lookup(f, "known");
	int marked = 0;

	settle(f, "known", NODE_SETTLED | NODE_MARKED);
	settle(f, "plain", NODE_SETTLED);
	node_release_settled(f->table, count_marked, &marked);
	assert_int_equal(marked, 1);
	node_release_settled(f->table, count_marked, &marked);
	assert_int_equal(marked, 1);
	assert_true(is_known(f, known.id));
}

static void node_unlinked_stays_open_until_forgotten(void **state)
{
	struct fixture *f = *state;
	struct node_info info = lookup(f, "a");
	int before = count_fds();
	struct stat st;
	AUTO_FD int fd = make_file(f, "a", &st);

	assert_int_equal(unlinkat(f->dir_fd, "a", 0), 0);
	assert_int_equal(node_unlinked(f->table, fd, &st), 0);
	cleanup_fd(&fd);
	assert_opens(f, info.id, info.ino);
	node_forget(f->table, info.id, 1);
	assert_false(is_known(f, info.id));
	assert_true(count_fds() <= before);
}

static void node_open_regular_opens_files_and_nothing_else(void **state)
{
	struct fixture *f = *state;
	struct node_info file = lookup(f, "a"), fifo, info;
	AUTO_FD int opened = -1;
	struct stat st;

	assert_int_equal(node_open_regular(f->table, file.id, O_RDWR, &opened, &info), 0);
	assert_int_equal(info.id, file.id);
	assert_int_equal(fcntl(opened, F_GETFL) & (O_ACCMODE | O_PATH), O_RDWR);
	assert_int_equal(fstat(opened, &st), 0);
	assert_int_equal(st.st_ino, file.ino);
	cleanup_fd(&opened);

	assert_int_equal(mkfifoat(f->dir_fd, "fifo", 0600), 0);
	AUTO_FD int pin = openat(f->dir_fd, "fifo", O_PATH | O_NOFOLLOW | O_CLOEXEC);
	assert_int_equal(tree_stat(pin, &st), 0);
	assert_int_equal(node_lookup(f->table, pin, &st, 0, &fifo), 0);
	assert_int_equal(node_open_regular(f->table, fifo.id, O_RDWR, &opened, &info), -EOPNOTSUPP);
	assert_int_equal(node_open_regular(f->table, node_root(f->table), O_RDONLY, &opened, &info),
			 -EOPNOTSUPP);
	node_forget(f->table, fifo.id, 1);
	assert_int_equal(node_open_regular(f->table, fifo.id, O_RDWR, &opened, &info), -ESTALE);
}

static void node_open_regular_what_is_pinned_is_left_to_others(void **state)
{
	struct fixture *f = *state;
	struct node_info file = lookup(f, "a"), info;
	AUTO_FD int opened = -1;
	struct stat st;
	AUTO_FD int fd = make_file(f, "a", &st);

	assert_int_equal(unlinkat(f->dir_fd, "a", 0), 0);
	assert_int_equal(node_unlinked_id(f->table, file.id, fd), 0);
	assert_int_equal(node_open_regular(f->table, file.id, O_RDWR, &opened, &info), -EOPNOTSUPP);
	assert_int_equal(opened, -1);
}

static void node_unlinked_id_is_the_same_by_node_id(void **state)
{
	struct fixture *f = *state;
	struct node_info info = lookup(f, "a");
	struct stat st;
	AUTO_FD int fd = make_file(f, "a", &st);

	assert_int_equal(unlinkat(f->dir_fd, "a", 0), 0);
	assert_int_equal(node_unlinked_id(f->table, info.id, fd), 0);
	cleanup_fd(&fd);
	assert_opens(f, info.id, info.ino);
	node_forget(f->table, info.id, 1);
	assert_false(is_known(f, info.id));
	assert_int_equal(node_unlinked_id(f->table, info.id, -1), -ESTALE);
}

static void node_lookup_made_stays_after_forget(void **state)
{
	struct fixture *f = *state;
	struct node_info info;
	struct stat st;
	AUTO_FD int fd = make_file(f, "a", &st);

	assert_int_equal(node_lookup_made(f->table, fd, &st, 0, NODE_SETTLED, &info), 0);
	assert_true(info.flags & NODE_SETTLED);
	node_forget(f->table, info.id, 1);
	assert_true(is_known(f, info.id));
	assert_int_equal(lookup(f, "a").id, info.id);
}

/* A keeper who asks the table for something new while he lets go of a pin. */
struct slow_keeper {
	struct fixture *f;
	uint32_t held, gone; /* slots; 0: none */
	uint64_t made;	     /* a node, while he lets go */
};

static void hold_slowly(void *context, uint32_t slot, int fd)
{
	assert_true(fd >= 0);
	((struct slow_keeper *)context)->held = slot;
}

static void let_go_slowly(void *context, uint32_t slot, int *io_fd)
{
	struct slow_keeper *k = context;

	assert_true(*io_fd >= 0);
	k->gone = slot;
	k->made = lookup(k->f, "other").id;
}

static void node_forget_keeper_lets_go_before_the_slot_is_anothers(void **state)
{
	struct fixture *f = *state;
	struct slow_keeper keeper = { .f = f };
	struct node_info info = lookup(f, "a");
	int before = count_fds();
	struct stat st;
	AUTO_FD int fd = make_file(f, "a", &st);

	node_keep_at(f->table, &(struct node_keeper){ hold_slowly, let_go_slowly, &keeper });
	assert_int_equal(unlinkat(f->dir_fd, "a", 0), 0);
	assert_int_equal(node_unlinked(f->table, fd, &st), 0);
	cleanup_fd(&fd);
	assert_int_equal(keeper.held, (uint32_t)info.id);
	assert_int_equal(keeper.gone, 0);
	node_forget(f->table, info.id, 1);
	assert_int_equal(keeper.gone, keeper.held);
	assert_int_not_equal((uint32_t)keeper.made, keeper.gone);
	assert_int_equal((uint32_t)lookup(f, "next").id, keeper.gone);
	node_forget(f->table, keeper.made, 1);
	assert_true(count_fds() <= before + 1);
}

/* The server dies in the middle of that: the slot is free. */
static void node_forget_ended_while_the_keeper_lets_go_frees_the_slot(void **state)
{
	struct fixture *f = *state;
	struct slow_keeper keeper = { .f = f };
	struct node_info info = lookup(f, "a");
	struct stat st;
	AUTO_FD int fd = make_file(f, "a", &st);

	node_keep_at(f->table, &(struct node_keeper){ hold_slowly, let_go_slowly, &keeper });
	assert_int_equal(unlinkat(f->dir_fd, "a", 0), 0);
	assert_int_equal(node_unlinked(f->table, fd, &st), 0);
	node_forget(f->table, info.id, 1);
	/* As it was then: nobody had it yet. */
	f->shared.header->free_head = 0;
	f->shared.slots[keeper.gone].next_free = 0;
	node_table_free(f->table);
	open_table(f);
	assert_false(is_known(f, info.id));
	assert_int_equal((uint32_t)lookup(f, "next").id, keeper.gone);
}

static void node_unlinked_of_a_settled_frees_it(void **state)
{
	struct fixture *f = *state;
	struct stat st;
	AUTO_FD int fd = make_file(f, "a", &st);

	settle(f, "a", NODE_SETTLED);
	assert_int_equal(unlinkat(f->dir_fd, "a", 0), 0);
	assert_int_equal(node_unlinked(f->table, fd, &st), 0);
	assert_int_equal(node_count(f->table), 1);
}

/* An inode number that is used again must not inherit what was known of its former owner. */
static void node_unlinked_another_file_is_another_node(void **state)
{
	struct fixture *f = *state;

	for (int i = 0; i < 100; i++) {
		struct node_info info = lookup(f, "a");
		struct stat st;
		AUTO_FD int fd = make_file(f, "a", &st);

		assert_false(info.flags & NODE_SETTLED);
		settle(f, "a", NODE_SETTLED);
		assert_int_equal(unlinkat(f->dir_fd, "a", 0), 0);
		assert_int_equal(node_unlinked(f->table, fd, &st), 0);
		node_forget(f->table, info.id, 1);
	}
	assert_int_equal(node_count(f->table), 1);
}

/* The same, removed where nobody told us; no two that were born in one tick of the clock. */
static void node_lookup_number_that_is_used_again_is_another_node(void **state)
{
	struct fixture *f = *state;
	uint64_t id = lookup(f, "a").id;
	struct timespec born, now = { 0 };
	struct stat before, st = { 0 };
	int old = make_file(f, "a", &before);

	assert_int_equal(tree_btime(old, &born), 0);
	close(old);
	settle(f, "a", NODE_SETTLED);
	node_forget(f->table, id, 1);
	for (int i = 0; i < MANY && (st.st_ino != before.st_ino || now.tv_nsec == born.tv_nsec);
	     i++) {
		AUTO_FD int fd = -1;

		assert_int_equal(unlinkat(f->dir_fd, "a", 0), 0);
		fd = make_file(f, "a", &st);
		assert_int_equal(tree_btime(fd, &now), 0);
	}
	if (st.st_ino != before.st_ino)
		skip();
	assert_false(lookup(f, "a").flags & NODE_SETTLED);
}

static void node_relinked_is_remembered_again(void **state)
{
	struct fixture *f = *state;
	struct node_info info = lookup(f, "a");
	struct stat st;
	AUTO_FD int fd = make_file(f, "a", &st);

	settle(f, "a", NODE_SETTLED);
	assert_int_equal(node_unlinked(f->table, fd, &st), 0);
	node_relinked(f->table, info.id);
	node_forget(f->table, info.id, 1);
	assert_true(is_known(f, info.id));
	assert_true(lookup(f, "a").flags & NODE_SETTLED);
}

static void node_open_state_set_counts_opens_and_holds_the_node(void **state)
{
	struct fixture *f = *state;
	struct node_info info = lookup(f, "a"), other = lookup(f, "b");
	struct node_open_state open_state;

	assert_int_equal(node_opens(f->table), 0);
	assert_int_equal(node_open_state_get(f->table, info.id, &open_state), 0);
	assert_int_equal(open_state.nopen, 0);
	open_state.nopen = 3;
	open_state.backing_id = 7;
	open_state.flags |= NODE_PASSTHROUGH | NODE_WRITTEN;
	assert_int_equal(node_open_state_set(f->table, info.id, &open_state), 0);
	assert_int_equal(node_opens(f->table), 3);
	open_state = (struct node_open_state){ .nopen = 2 };
	assert_int_equal(node_open_state_set(f->table, other.id, &open_state), 0);
	assert_int_equal(node_opens(f->table), 5);

	node_forget(f->table, info.id, 1);
	assert_true(is_known(f, info.id));
	assert_int_equal(node_open_state_get(f->table, info.id, &open_state), 0);
	assert_int_equal(open_state.backing_id, 7);
	assert_true(open_state.flags & NODE_WRITTEN);
	open_state = (struct node_open_state){ .nopen = 0 };
	assert_int_equal(node_open_state_set(f->table, info.id, &open_state), 0);
	assert_false(is_known(f, info.id));
	assert_int_equal(node_opens(f->table), 2);
	assert_int_equal(node_open_state_get(f->table, info.id, &open_state), -ESTALE);
	assert_int_equal(node_open_state_set(f->table, info.id, &open_state), -ESTALE);
}

/* As its last close leaves it. */
static void write_to(struct fixture *f, uint64_t id)
{
	const struct node_open_state written = { .flags = NODE_WRITTEN };

	assert_int_equal(node_open_state_set(f->table, id, &written), 0);
}

static void node_forget_is_the_rest_of_what_was_written(void **state)
{
	struct fixture *f = *state;
	struct node_info info = lookup(f, "a");
	uint64_t rests = node_rests(f->table);

	settle(f, "a", NODE_SETTLED);
	write_to(f, info.id);
	assert_true(lookup(f, "a").flags & NODE_WRITTEN);
	node_forget(f->table, info.id, 1);
	assert_true(lookup(f, "a").flags & NODE_WRITTEN);
	assert_int_equal(node_rests(f->table), rests);
	node_forget(f->table, info.id, 2);
	assert_int_equal(node_rests(f->table), rests + 1);
	info = lookup(f, "a");
	assert_false(info.flags & NODE_WRITTEN);
	assert_true(info.flags & NODE_SETTLED);
}

static void node_prepare_prune_is_for_what_was_written_and_is_closed(void **state)
{
	struct fixture *f = *state;
	struct node_info info = lookup(f, "a");
	struct node_open_state open_state = { .nopen = 1, .flags = NODE_WRITTEN };

	assert_false(node_prepare_prune(f->table, info.id));
	assert_int_equal(node_open_state_set(f->table, info.id, &open_state), 0);
	assert_false(node_prepare_prune(f->table, info.id));
	write_to(f, info.id);
	assert_true(node_prepare_prune(f->table, info.id));
	assert_false(node_prepare_prune(f->table, info.id + 1));
}

static void node_prepare_prune_keeps_the_id_until_others_need_the_room(void **state)
{
	struct fixture *f = *state;
	struct node_info info = lookup(f, "a");

	write_to(f, info.id);
	assert_true(node_prepare_prune(f->table, info.id));
	node_forget(f->table, info.id, 1);
	assert_true(is_known(f, info.id));
	assert_opens(f, info.id, info.ino);
	assert_int_equal(lookup(f, "a").id, info.id);
	/* Found again, it is a node like any other. */
	node_forget(f->table, info.id, 1);
	assert_false(is_known(f, info.id));

	info = lookup(f, "a");
	write_to(f, info.id);
	assert_true(node_prepare_prune(f->table, info.id));
	node_forget(f->table, info.id, 1);
	for (int i = 0; i < NODE_KEPT_MAX; i++) {
		struct node_info other = lookup(f, "b");

		assert_true(i < NODE_KEPT_MAX - 1 || is_known(f, info.id));
		write_to(f, other.id);
		assert_true(node_prepare_prune(f->table, other.id));
		node_forget(f->table, other.id, 1);
	}
	assert_false(is_known(f, info.id));
	assert_int_equal(node_count(f->table), 2);
}

struct seen {
	unsigned count;
	uint64_t id;
	ino_t ino;
};

static void see(void *context, int fd, const struct node_info *node)
{
	struct seen *seen = context;
	struct stat st;

	assert_int_equal(tree_stat(fd, &st), 0);
	*seen = (struct seen){ seen->count + 1, node->id, st.st_ino };
}

static void node_each_open_finds_what_is_open_and_nothing_else(void **state)
{
	struct fixture *f = *state;
	struct node_info open = lookup(f, "b");
	struct node_open_state open_state = { .nopen = 2 };
	struct seen seen = { 0 };
	struct stat st;

	close(make_file(f, "b", &st));
	lookup(f, "a");
	lookup(f, "c");
	node_each_open(f->table, see, &seen);
	assert_int_equal(seen.count, 0);
	assert_int_equal(node_open_state_set(f->table, open.id, &open_state), 0);
	node_each_open(f->table, see, &seen);
	assert_int_equal(seen.count, 1);
	assert_int_equal(seen.id, open.id);
	assert_int_equal(seen.ino, st.st_ino);
}

static void node_open_state_set_other_flags_are_not_its(void **state)
{
	struct fixture *f = *state;
	struct node_info info = lookup(f, "a");
	struct node_open_state open_state = { .flags = NODE_SETTLED | NODE_UNLINKED };

	settle(f, "a", NODE_MARKED);
	assert_int_equal(node_open_state_set(f->table, info.id, &open_state), 0);
	assert_int_equal(node_get(f->table, info.id, &info), 0);
	assert_true(info.flags & NODE_MARKED);
	assert_false(info.flags & NODE_SETTLED);
	assert_false(info.flags & NODE_UNLINKED);
}

static struct node_info make_directory(const struct fixture *f, const char *name)
{
	AUTO_FD int fd = -1;
	struct node_info info;
	struct stat st;

	assert_int_equal(mkdirat(f->dir_fd, name, 0700), 0);
	fd = openat(f->dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(tree_stat(fd, &st), 0);
	assert_int_equal(node_lookup(f->table, fd, &st, 0, &info), 0);
	return info;
}

static int open_and_close(const struct fixture *f, uint64_t id)
{
	struct node_info info;
	AUTO_FD int fd = -1;

	return node_open(f->table, id, &fd, &info);
}

static void node_open_directory_in_use_is_kept(void **state)
{
	struct fixture *f = *state;
	struct node_info dir = make_directory(f, "dir");
	int before = count_fds();

	node_keep_directories(f->table);
	assert_int_equal(open_and_close(f, dir.id), 0);
	assert_int_equal(count_fds(), before);
	for (int i = 0; i < 3; i++) {
		assert_opens(f, dir.id, dir.ino);
		assert_int_equal(count_fds(), before + 1);
	}
	/* It leads there without its handle, which leads nowhere any more. */
	assert_int_equal(unlinkat(f->dir_fd, "dir", AT_REMOVEDIR), 0);
	assert_opens(f, dir.id, dir.ino);
	node_forget(f->table, dir.id, 1);
	assert_int_equal(count_fds(), before);
	assert_int_equal(open_and_close(f, dir.id), -ESTALE);
}

static void node_open_directory_unless_asked_is_not_kept(void **state)
{
	struct fixture *f = *state;
	struct node_info dir = make_directory(f, "dir");
	int before = count_fds();

	for (int i = 0; i < 3; i++)
		assert_int_equal(open_and_close(f, dir.id), 0);
	assert_int_equal(count_fds(), before);
	assert_int_equal(unlinkat(f->dir_fd, "dir", AT_REMOVEDIR), 0);
	assert_int_equal(open_and_close(f, dir.id), -ESTALE);
}

static void node_unlinked_directory_is_not_kept_but_pinned(void **state)
{
	struct fixture *f = *state;
	struct node_info dir = make_directory(f, "dir"), info;
	int before = count_fds();

	node_keep_directories(f->table);
	for (int i = 0; i < 3; i++)
		assert_int_equal(open_and_close(f, dir.id), 0);
	{
		AUTO_FD int fd = -1;

		assert_int_equal(node_open(f->table, dir.id, &fd, &info), 0);
		assert_int_equal(unlinkat(f->dir_fd, "dir", AT_REMOVEDIR), 0);
		assert_int_equal(node_unlinked_id(f->table, dir.id, fd), 0);
	}
	assert_int_equal(count_fds(), before + 1);
	assert_opens(f, dir.id, dir.ino);
	node_forget(f->table, dir.id, 1);
	assert_int_equal(count_fds(), before);
}

static void node_open_many_directories_few_are_kept(void **state)
{
	enum { COUNT = 100, FEW = 16 };
	struct fixture *f = *state;
	struct node_info dirs[COUNT];
	char name[16];
	int before;

	for (int i = 0; i < COUNT; i++) {
		snprintf(name, sizeof(name), "dir-%d", i);
		dirs[i] = make_directory(f, name);
	}
	before = count_fds();
	node_keep_directories(f->table);
	for (int i = 0; i < 3 * COUNT; i++)
		assert_opens(f, dirs[i / 3].id, dirs[i / 3].ino);
	assert_int_equal(count_fds(), before + FEW);
	/* By turns, in the same place: one of them is. */
	for (int i = 0; i < 10; i++)
		assert_opens(f, dirs[i % 2 * FEW].id, dirs[i % 2 * FEW].ino);
	assert_int_equal(count_fds(), before + FEW);
	for (int i = 0; i < COUNT; i++) {
		snprintf(name, sizeof(name), "dir-%d", i);
		assert_int_equal(unlinkat(f->dir_fd, name, AT_REMOVEDIR), 0);
		node_forget(f->table, dirs[i].id, 1);
	}
	assert_int_equal(count_fds(), before);
}

static void node_settle_id_is_the_same_by_node_id(void **state)
{
	struct fixture *f = *state;
	struct node_info info = lookup(f, "file");

	assert_int_equal(node_settle_id(f->table, info.id, NODE_SETTLED | NODE_MARKED), 0);
	node_forget(f->table, info.id, 1);
	assert_int_equal(node_get(f->table, info.id, &info), 0);
	assert_true(info.flags & NODE_SETTLED && info.flags & NODE_MARKED);
	assert_int_equal(node_settle_id(f->table, info.id + 1, NODE_SETTLED), -ESTALE);
}

struct listed {
	unsigned count;
	uint64_t last;
};

static void note_listed(void *context, uint64_t id)
{
	struct listed *l = context;

	l->count++;
	l->last = id;
}

/* Of a file the same bit says something else. */
static void node_each_listed_comes_to_listed_directories(void **state)
{
	struct fixture *f = *state;
	struct listed listed = { 0 };
	struct node_info file = lookup(f, "file");

	node_set_listed(f->table, file.id, true);
	node_each_listed(f->table, note_listed, &listed);
	assert_int_equal(listed.count, 0);
	node_set_listed(f->table, node_root(f->table), true);
	node_each_listed(f->table, note_listed, &listed);
	assert_int_equal(listed.count, 1);
	assert_int_equal(listed.last, node_root(f->table));
	node_set_listed(f->table, node_root(f->table), false);
	node_each_listed(f->table, note_listed, &listed);
	assert_int_equal(listed.count, 1);
	node_set_listed(f->table, file.id, false);
}

/* Keyed nodes hold a descriptor each, and give it back. */
static void node_forget_keyed_gives_its_descriptor_back(void **state)
{
	enum { FILES = 200 };
	struct fixture *f = *state;
	uint64_t ids[FILES];
	int before = count_fds();
	char name[16];

	for (int i = 0; i < FILES; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		ids[i] = lookup(f, name).id;
	}
	assert_int_equal(count_fds(), before + FILES);
	for (int i = 0; i < FILES; i++)
		node_forget(f->table, ids[i], 1);
	assert_int_equal(count_fds(), before);
	assert_int_equal(node_count(f->table), 1);
}

static void node_lookup_keyed_without_descriptors_is_an_error(void **state)
{
	struct fixture *f = *state;
	struct stat st;
	AUTO_FD int fd = make_file(f, "a", &st);
	struct rlimit before, none;
	struct node_info info;
	int r;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = before;
	none.rlim_cur = 1;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	r = node_lookup(f->table, fd, &st, 0, &info);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(r, -EMFILE);
	assert_int_equal(node_count(f->table), 1);
	assert_int_equal(node_lookup(f->table, fd, &st, 0, &info), 0);
}

/* What it says of all slots, in steps of @span: one answer for each id at the most. */
static unsigned choose_all(struct fixture *f, unsigned span, uint64_t *ret_ids)
{
	uint32_t slot = 0;
	unsigned count = 0;

	do
		count += node_choose_pinned(f->table, &slot, span, ret_ids + count);
	while (slot != 0);
	return count;
}

static void node_choose_pinned_is_of_what_nobody_uses(void **state)
{
	enum { FILES = 20, SPAN = 3 };
	const struct node_open_state opened = { .nopen = 1 };
	struct fixture *f = *state;
	uint64_t ids[FILES], chosen[FILES + SPAN];
	uint32_t root = node_pinned(f->table);
	struct stat st;
	char name[16];

	assert_int_equal(root, 1);
	assert_int_equal(choose_all(f, SPAN, chosen), 0);
	for (int i = 0; i < FILES; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		ids[i] = lookup(f, name).id;
	}
	assert_int_equal(node_pinned(f->table), root + FILES);
	for (unsigned span = 1; span <= SPAN; span++) {
		assert_int_equal(choose_all(f, span, chosen), FILES);
		assert_memory_equal(chosen, ids, sizeof(ids));
	}
	/* Neither what is open, nor what has no name, nor what the kernel has forgotten, though the run remembers it. */
	assert_int_equal(node_open_state_set(f->table, ids[0], &opened), 0);
	{
		AUTO_FD int fd = make_file(f, "f1", &st);

		assert_int_equal(node_unlinked(f->table, fd, &st), 0);
	}
	settle(f, "f2", NODE_SETTLED);
	node_forget(f->table, ids[2], 1);
	assert_int_equal(node_pinned(f->table), root + FILES - 1);
	assert_int_equal(choose_all(f, SPAN, chosen), FILES - 3);
	assert_memory_equal(chosen, ids + 3, sizeof(ids) - 3 * sizeof(ids[0]));
	assert_int_equal(lookup(f, "f2").id, ids[2]);
	assert_int_equal(node_pinned(f->table), root + FILES);
}

static void node_limit_pinned_is_for_what_is_new(void **state)
{
	struct fixture *f = *state;
	struct node_info a = lookup(f, "a"), info;
	struct stat st;
	AUTO_FD int fd = make_file(f, "b", &st);

	node_limit_pinned(f->table, node_pinned(f->table));
	assert_int_equal(lookup(f, "a").id, a.id);
	assert_opens(f, a.id, a.ino);
	assert_int_equal(node_lookup(f->table, fd, &st, 0, &info), -EMFILE);
	assert_int_equal(node_count(f->table), 2);
	node_forget(f->table, a.id, 2);
	assert_int_equal(node_lookup(f->table, fd, &st, 0, &info), 0);
}

static void node_choose_pinned_with_handles_there_is_nothing(void **state)
{
	struct fixture *f = *state;
	uint64_t chosen[8];

	if (!f->tree.has_handles)
		return;
	lookup(f, "a");
	lookup(f, "b");
	assert_int_equal(choose_all(f, 4, chosen), 0);
}

/* Another server on the same memory: what was known stays known. Handles only: keys need their pins. */
static void node_table_new_attaches_to_what_was_left(void **state)
{
	struct fixture *f = *state;
	struct node_info first, forgotten;
	struct node_open_state open_state = { .nopen = 2,
					      .backing_id = 9,
					      .flags = NODE_PASSTHROUGH };

	if (!f->tree.has_handles)
		return;
	first = lookup(f, "a");
	lookup(f, "b");
	forgotten = lookup(f, "c");
	node_forget(f->table, forgotten.id, 1);
	settle(f, "b", NODE_SETTLED);
	assert_int_equal(node_open_state_set(f->table, first.id, &open_state), 0);
	node_table_free(f->table);
	open_table(f);

	assert_int_equal(node_count(f->table), 3);
	assert_int_equal(node_opens(f->table), 2);
	assert_opens(f, first.id, first.ino);
	assert_int_equal(lookup(f, "a").id, first.id);
	assert_true(lookup(f, "b").flags & NODE_SETTLED);
	assert_false(is_known(f, forgotten.id));
	assert_true(lookup(f, "c").id > forgotten.id);
	assert_int_equal(node_open_state_get(f->table, first.id, &open_state), 0);
	assert_int_equal(open_state.backing_id, 9);
}

static void node_table_new_slots_that_contradict_are_refused(void **state)
{
	struct fixture *f = *state;
	struct node_table *other = NULL;
	uint32_t count = f->shared.header->slot_count;

	lookup(f, "a");
	count = f->shared.header->slot_count;
	f->shared.header->slot_count = UINT32_MAX;
	assert_int_equal(node_table_new(&f->shared, &f->tree, 0, &other), -EPROTO);
	f->shared.header->slot_count = count;
	f->shared.slots[2].handle_len = NODE_HANDLE_MAX + 1;
	assert_int_equal(node_table_new(&f->shared, &f->tree, 0, &other), -EPROTO);
	f->shared.slots[2].handle_len = 8;
	assert_null(other);
}

struct worker {
	struct fixture *f;
	unsigned seed;
	uint64_t balance; /* guarded by the inode lock of "shared" */
	uint64_t *total;
};

static void *work(void *argument)
{
	struct worker *w = argument;

	for (int i = 0; i < 2000; i++) {
		struct node_info mine, common;
		char name[32];

		snprintf(name, sizeof(name), "w%u-%d", w->seed, i % 20);
		mine = lookup(w->f, name);
		common = lookup(w->f, "common");
		node_lock(w->f->table, common.ino);
		++*w->total;
		node_unlock(w->f->table, common.ino);
		node_forget(w->f->table, mine.id, 1);
		node_forget(w->f->table, common.id, 1);
	}
	return NULL;
}

static void node_lookup_from_many_threads_balances(void **state)
{
	struct fixture *f = *state;
	struct worker workers[THREADS];
	pthread_t threads[THREADS];
	uint64_t total = 0;

	for (unsigned i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){ .f = f, .seed = i, .total = &total };
		assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(total, THREADS * 2000);
	assert_int_equal(node_count(f->table), 1);
}

#define HANDLES(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define KEYED(name)                                                                                \
	{                                                                                          \
#name " (keyed)", name, set_up_keyed, tear_down, NULL                              \
	}
#define BOTH(name) HANDLES(name), KEYED(name)

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(node_table_new_root_is_below_node_one),
		BOTH(node_table_new_of_the_layout_before_root_is_node_one),
		BOTH(node_lookup_again_is_the_same_node),
		BOTH(node_lookup_hard_link_is_the_same_node),
		BOTH(node_lookup_one_name_not_excluded_decides),
		BOTH(node_forget_counts_every_lookup),
		BOTH(node_forget_too_many_or_unknown_is_survived),
		BOTH(node_lookup_slots_are_reused_but_never_ids),
		BOTH(node_lookup_random_work_agrees_with_a_model),
		HANDLES(node_lookup_many_entries_are_found),
		BOTH(node_each_listed_comes_to_listed_directories),
		BOTH(node_settle_stays_after_forget),
		BOTH(node_settle_unknown_makes_a_node),
		BOTH(node_release_settled_frees_what_only_the_run_knew),
		BOTH(node_release_settled_unmarks_the_marked),
		BOTH(node_unlinked_stays_open_until_forgotten),
		BOTH(node_forget_keeper_lets_go_before_the_slot_is_anothers),
		HANDLES(node_forget_ended_while_the_keeper_lets_go_frees_the_slot),
		HANDLES(node_open_regular_opens_files_and_nothing_else),
		BOTH(node_open_regular_what_is_pinned_is_left_to_others),
		BOTH(node_unlinked_id_is_the_same_by_node_id),
		BOTH(node_lookup_made_stays_after_forget),
		BOTH(node_unlinked_of_a_settled_frees_it),
		BOTH(node_unlinked_another_file_is_another_node),
		BOTH(node_lookup_number_that_is_used_again_is_another_node),
		BOTH(node_relinked_is_remembered_again),
		BOTH(node_open_state_set_counts_opens_and_holds_the_node),
		BOTH(node_forget_is_the_rest_of_what_was_written),
		BOTH(node_prepare_prune_is_for_what_was_written_and_is_closed),
		HANDLES(node_prepare_prune_keeps_the_id_until_others_need_the_room),
		BOTH(node_each_open_finds_what_is_open_and_nothing_else),
		BOTH(node_open_state_set_other_flags_are_not_its),
		HANDLES(node_open_directory_in_use_is_kept),
		HANDLES(node_open_directory_unless_asked_is_not_kept),
		HANDLES(node_unlinked_directory_is_not_kept_but_pinned),
		HANDLES(node_open_many_directories_few_are_kept),
		BOTH(node_settle_id_is_the_same_by_node_id),
		KEYED(node_forget_keyed_gives_its_descriptor_back),
		KEYED(node_lookup_keyed_without_descriptors_is_an_error),
		KEYED(node_choose_pinned_is_of_what_nobody_uses),
		KEYED(node_limit_pinned_is_for_what_is_new),
		HANDLES(node_choose_pinned_with_handles_there_is_nothing),
		HANDLES(node_table_new_attaches_to_what_was_left),
		BOTH(node_table_new_slots_that_contradict_are_refused),
		BOTH(node_lookup_from_many_threads_balances),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
