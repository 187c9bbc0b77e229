// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <sys/resource.h>

#include "tests/unit/fake_host.h"

static int dir_in(int dir_fd, const char *name)
{
	int fd;

	assert_int_equal(mkdirat(dir_fd, name, 0700), 0);
	fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

static void file_in(int dir_fd, const char *name)
{
	AUTO_FD int fd = openat(dir_fd, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
}

static int remove_tree(struct fake *f)
{
	return tree_remove(f->b.dir_fd, "data", f->b.error, sizeof(f->b.error));
}

static bool has_name(struct fake *f, const char *name)
{
	return faccessat(f->b.dir_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static void tree_remove_absent_succeeds(void **state)
{
	assert_int_equal(remove_tree(*state), 0);
}

static void tree_remove_every_type_goes(void **state)
{
	struct fake *f = *state;
	AUTO_FD int data = dir_in(f->b.dir_fd, "data");
	AUTO_FD int sub = dir_in(data, "sub");

	file_in(data, "file");
	file_in(sub, "file");
	assert_int_equal(linkat(data, "file", sub, "hard", 0), 0);
	assert_int_equal(mknodat(sub, "fifo", S_IFIFO | 0600, 0), 0);
	assert_int_equal(symlinkat("nowhere", sub, "dangling"), 0);
	assert_int_equal(remove_tree(f), 0);
	assert_false(has_name(f, "data"));
}

struct heard {
	uint64_t last;
	unsigned times;
};

static void hear(void *arg, uint64_t entries)
{
	struct heard *heard = arg;

	assert_true(entries > heard->last);
	heard->last = entries;
	heard->times++;
}

static void tree_remove_told_all_are_counted(void **state)
{
	struct fake *f = *state;
	AUTO_FD int data = dir_in(f->b.dir_fd, "data");
	struct heard heard = { 0 };
	char name[16];

	for (int i = 0; i < 600; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		file_in(data, name);
	}
	assert_int_equal(
		tree_remove_told(f->b.dir_fd, "data", hear, &heard, f->b.error, sizeof(f->b.error)),
		0);
	assert_int_equal(heard.last, 601);
	assert_true(heard.times >= 3);
}

static void tree_remove_plain_file_goes(void **state)
{
	struct fake *f = *state;

	file_in(f->b.dir_fd, "data");
	assert_int_equal(remove_tree(f), 0);
	assert_false(has_name(f, "data"));
}

static void tree_remove_symlinks_are_not_followed(void **state)
{
	struct fake *f = *state;
	AUTO_FD int other = dir_in(f->b.dir_fd, "other");
	AUTO_FD int data = dir_in(f->b.dir_fd, "data");

	file_in(other, "kept");
	assert_int_equal(symlinkat("../other", data, "link"), 0);
	assert_int_equal(symlinkat("..", data, "up"), 0);
	assert_int_equal(remove_tree(f), 0);
	assert_true(has_name(f, "other/kept"));

	assert_int_equal(symlinkat("other", f->b.dir_fd, "data"), 0);
	assert_int_equal(remove_tree(f), 0);
	assert_true(has_name(f, "other/kept"));
	assert_false(has_name(f, "data"));
}

static void tree_remove_any_names_go(void **state)
{
	static const char *const names[] = { "...", " ", "\n", "-rf", "\xff\xfe", "%s%n", "a\\b" };
	struct fake *f = *state;
	AUTO_FD int data = dir_in(f->b.dir_fd, "data");
	char longest[256];

	memset(longest, 'x', 255);
	longest[255] = '\0';
	file_in(data, longest);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		AUTO_FD int sub = dir_in(data, names[i]);

		file_in(sub, names[i]);
	}
	assert_int_equal(remove_tree(f), 0);
	assert_false(has_name(f, "data"));
}

/* With few descriptors and a small stack: neither may grow with the depth. */
static void *remove_on_small_stack(void *argument)
{
	return (void *)(intptr_t)remove_tree(argument);
}

static void tree_remove_depth_10000_goes(void **state)
{
	struct fake *f = *state;
	AUTO_FD int fd = dir_in(f->b.dir_fd, "data");
	struct rlimit before, few;
	pthread_attr_t small;
	pthread_t thread;
	void *result = NULL;

	for (int i = 0; i < 10000; i++) {
		int below = dir_in(fd, "deep");

		close(fd);
		fd = below;
	}
	file_in(fd, "bottom");
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = before;
	few.rlim_cur = 64;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	pthread_attr_init(&small);
	assert_int_equal(pthread_attr_setstacksize(&small, 256 << 10), 0);
	assert_int_equal(pthread_create(&thread, &small, remove_on_small_stack, f), 0);
	pthread_join(thread, &result);
	pthread_attr_destroy(&small);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal((intptr_t)result, 0);
	assert_false(has_name(f, "data"));
}

static void tree_remove_wide_directories_go(void **state)
{
	struct fake *f = *state;
	AUTO_FD int data = dir_in(f->b.dir_fd, "data");
	char name[32];

	for (int i = 0; i < 20000; i++) {
		snprintf(name, sizeof(name), "%d", i);
		if (i % 10 == 0) {
			AUTO_FD int sub = dir_in(data, name);

			file_in(sub, "x");
		} else {
			file_in(data, name);
		}
	}
	assert_int_equal(remove_tree(f), 0);
	assert_false(has_name(f, "data"));
}

static void tree_remove_neighbours_stay(void **state)
{
	struct fake *f = *state;
	AUTO_FD int neighbour = dir_in(f->b.dir_fd, "data2");
	AUTO_FD int data = dir_in(f->b.dir_fd, "data");

	file_in(neighbour, "file");
	assert_int_equal(linkat(neighbour, "file", data, "hard", 0), 0);
	assert_int_equal(remove_tree(f), 0);
	assert_true(has_name(f, "data2/file"));
}

struct writer {
	int dir_fd;
	bool stop;
};

static void *write_for_ever(void *argument)
{
	struct writer *w = argument;

	for (unsigned i = 0; !__atomic_load_n(&w->stop, __ATOMIC_ACQUIRE); i++) {
		char name[32];
		int fd;

		snprintf(name, sizeof(name), "w%u", i % 100);
		fd = openat(w->dir_fd, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
		if (fd >= 0)
			close(fd);
	}
	return NULL;
}

/* It ends: by winning, or by saying that somebody writes. */
static void tree_remove_busy_writer_ends(void **state)
{
	struct fake *f = *state;
	AUTO_FD int data = dir_in(f->b.dir_fd, "data");
	AUTO_FD int sub = dir_in(data, "sub");
	struct writer writer = { .dir_fd = sub };
	pthread_t thread;
	int r;

	assert_int_equal(pthread_create(&thread, NULL, write_for_ever, &writer), 0);
	r = remove_tree(f);
	__atomic_store_n(&writer.stop, true, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	assert_true(r == 0 || r == -EBUSY);
	assert_int_equal(remove_tree(f), 0);
}

struct mover {
	int dir_fd;
	bool stop;
};

static void *move_for_ever(void *argument)
{
	struct mover *m = argument;

	while (!__atomic_load_n(&m->stop, __ATOMIC_ACQUIRE)) {
		renameat(m->dir_fd, "data/a", m->dir_fd, "out/a");
		renameat(m->dir_fd, "out/a", m->dir_fd, "data/a");
	}
	return NULL;
}

/* A directory that is moved out under our hands never takes its new neighbours along. */
static void tree_remove_moved_directory_spares_neighbours(void **state)
{
	struct fake *f = *state;
	AUTO_FD int out = dir_in(f->b.dir_fd, "out");
	struct mover mover = { .dir_fd = f->b.dir_fd };
	pthread_t thread;

	file_in(out, "kept");
	assert_int_equal(pthread_create(&thread, NULL, move_for_ever, &mover), 0);
	for (int round = 0; round < 200; round++) {
		if (mkdirat(f->b.dir_fd, "data", 0700) == 0 &&
		    mkdirat(f->b.dir_fd, "data/a", 0700) == 0) {
			mkdirat(f->b.dir_fd, "data/a/b", 0700);
			mkdirat(f->b.dir_fd, "data/a/b/c", 0700);
		}
		remove_tree(f);
	}
	__atomic_store_n(&mover.stop, true, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	assert_true(has_name(f, "out/kept"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fake_set_up, fake_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(tree_remove_absent_succeeds),
		TEST(tree_remove_every_type_goes),
		TEST(tree_remove_told_all_are_counted),
		TEST(tree_remove_plain_file_goes),
		TEST(tree_remove_symlinks_are_not_followed),
		TEST(tree_remove_any_names_go),
		TEST(tree_remove_depth_10000_goes),
		TEST(tree_remove_wide_directories_go),
		TEST(tree_remove_neighbours_stay),
		TEST(tree_remove_busy_writer_ends),
		TEST(tree_remove_moved_directory_spares_neighbours),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
