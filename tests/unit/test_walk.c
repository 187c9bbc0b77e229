// SPDX-License-Identifier: Apache-2.0
#include "fs/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "fs/base/cleanup.h"

enum { DIRS = 12, DIRS_BELOW = 7, FILES = 9, DEEP = 300, SEEN_MAX = 4096, WALKERS_MAX = 8 };

/* What a walk has met, in order. */
struct record {
	pthread_mutex_t lock;
	char *seen[SEEN_MAX];
	bool is_left[SEEN_MAX];
	size_t count, allowed;
	pthread_t walkers[WALKERS_MAX]; /* who has met a file */
	size_t walker_count;
	unsigned waits; /* at each file, so often */
	bool rests;
};

static int removed_below = -1; /* the tree that file_and_remove() removes directories of */

struct fixture {
	char path[64];
	struct tree tree;
	struct record record;
};

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

__attribute__((format(printf, 1, 2))) static void make_dir(const char *format, ...)
{
	char path[256];
	va_list args;

	va_start(args, format);
	vsnprintf(path, sizeof(path), format, args);
	va_end(args);
	assert_return_code(mkdir(path, 0755), errno);
	for (int i = 0; i < FILES; i++) {
		char file[300];
		int fd;

		snprintf(file, sizeof(file), "%s/f%d", path, i);
		fd = open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
		assert_return_code(fd, errno);
		close(fd);
	}
}

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	int root;

	assert_non_null(f);
	snprintf(f->path, sizeof(f->path), "/tmp/test_walk.XXXXXX");
	assert_non_null(mkdtemp(f->path));
	for (int i = 0; i < DIRS; i++) {
		make_dir("%s/d%d", f->path, i);
		for (int j = 0; j < DIRS_BELOW; j++)
			make_dir("%s/d%d/e%d", f->path, i, j);
	}
	/* As in a server: descriptors are reached by their number in the working directory. */
	assert_return_code(chdir("/proc/self/fd"), errno);
	root = open(f->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_return_code(root, errno);
	assert_return_code(tree_init(root, &f->tree), errno);
	pthread_mutex_init(&f->record.lock, NULL);
	f->record.allowed = SIZE_MAX;
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	for (size_t i = 0; i < f->record.count; i++)
		free(f->record.seen[i]);
	tree_fini(&f->tree);
	nftw(f->path, remove_entry, 64, FTW_DEPTH | FTW_PHYS);
	free(f);
	return 0;
}

static void note(struct record *record, const struct walk_dir *dir, const char *name, bool is_left)
{
	char path[1024];

	walk_path(dir, name, path, sizeof(path));
	pthread_mutex_lock(&record->lock);
	assert_true(record->count < SEEN_MAX);
	record->is_left[record->count] = is_left;
	record->seen[record->count++] = strdup(path);
	pthread_mutex_unlock(&record->lock);
}

static void note_walker(struct record *record)
{
	size_t i = 0;

	pthread_mutex_lock(&record->lock);
	while (i < record->walker_count && !pthread_equal(record->walkers[i], pthread_self()))
		i++;
	if (i == record->walker_count && i < WALKERS_MAX)
		record->walkers[record->walker_count++] = pthread_self();
	pthread_mutex_unlock(&record->lock);
}

static bool go_on(void *context, bool *io_rested)
{
	struct record *record = context;
	bool may;

	*io_rested = *io_rested || record->rests;
	pthread_mutex_lock(&record->lock);
	may = record->count < record->allowed;
	pthread_mutex_unlock(&record->lock);
	return may;
}

static bool file(void *context, const struct walk_dir *dir, int dir_fd,
		 const struct tree_entry *entry)
{
	const struct timespec moment = { .tv_nsec = 20000 };
	struct record *record = context;
	struct stat st;

	for (unsigned i = 0; i < record->waits; i++)
		nanosleep(&moment, NULL);
	note_walker(record);
	assert_return_code(tree_stat_entry(dir_fd, entry->name, &st), 0);
	assert_true(S_ISREG(st.st_mode));
	note(context, dir, entry->name, false);
	return true;
}

/* The state is the depth; directories called "no" are not entered. */
static bool enter(void *context, const struct walk_dir *dir, const char *name, uint64_t *ret_state)
{
	(void)context;
	*ret_state = walk_state(dir) + 1;
	return strcmp(name, "no") != 0;
}

static void leave(void *context, const struct walk_dir *dir, int fd, const struct stat *st)
{
	(void)fd, (void)st;
	note(context, dir, "", true);
}

static void failed(void *context, const struct walk_dir *dir, const char *name, int error)
{
	(void)context, (void)dir;
	fail_msg("%s: %s", name, strerror(error));
}

static bool find_descriptor(void *context, uint64_t *io_began_ms)
{
	(void)context, (void)io_began_ms;
	return false;
}

static int walk(struct fixture *f, unsigned threads, unsigned further)
{
	const struct walk_hooks hooks = { go_on,	   file,      enter, leave, failed,
					  find_descriptor, &f->record };

	return walk_tree(&f->tree, f->tree.root_fd, 0, threads, further, &hooks);
}

/* Somebody else takes everything away: each file when it is met, and its directory with the last. */
static bool file_and_remove(void *context, const struct walk_dir *dir, int dir_fd,
			    const struct tree_entry *entry)
{
	char path[32];

	file(context, dir, dir_fd, entry);
	assert_return_code(unlinkat(dir_fd, entry->name, 0), errno);
	walk_path(dir, "", path, sizeof(path));
	if (unlinkat(removed_below, path, AT_REMOVEDIR) < 0)
		assert_int_equal(errno, ENOTEMPTY);
	return true;
}

static size_t find(const struct record *record, const char *path)
{
	for (size_t i = 0; i < record->count; i++) {
		if (strcmp(record->seen[i], path) == 0)
			return i;
	}
	fail_msg("%s was not met", path);
	return 0;
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Everything once; a directory after all that lies below it. */
static void check_order(struct record *record, size_t expected)
{
	AUTO_FREE char **sorted = calloc(SEEN_MAX, sizeof(*sorted));

	assert_int_equal(record->count, expected);
	assert_string_equal(record->seen[record->count - 1], ".");
	for (size_t i = 0; i + 1 < record->count; i++) {
		char parent[1024], *slash;

		snprintf(parent, sizeof(parent), "%s", record->seen[i]);
		slash = strrchr(parent, '/');
		if (slash)
			*slash = '\0';
		assert_true(!slash || find(record, parent) > i);
	}
	assert_non_null(sorted);
	memcpy(sorted, record->seen, record->count * sizeof(*sorted));
	qsort(sorted, record->count, sizeof(*sorted), compare);
	for (size_t i = 1; i < record->count; i++)
		assert_string_not_equal(sorted[i - 1], sorted[i]);
}

enum { ENTRIES = 1 + DIRS * (1 + FILES + DIRS_BELOW * (1 + FILES)) };

static void walk_tree_one_thread_meets_each_once_children_first(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(walk(f, 1, 0), 1);
	check_order(&f->record, ENTRIES);
	assert_true(f->record.is_left[find(&f->record, "d3/e2")]);
	assert_false(f->record.is_left[find(&f->record, "d3/e2/f8")]);
}

static void walk_tree_many_threads_meet_each_once_children_first(void **state)
{
	struct fixture *f = *state;

	for (int round = 0; round < 20; round++) {
		for (size_t i = 0; i < f->record.count; i++)
			free(f->record.seen[i]);
		f->record.count = 0;
		assert_int_equal(walk(f, 4, 0), 1);
		check_order(&f->record, ENTRIES);
	}
}

static void walk_tree_waiting_takes_further_threads(void **state)
{
	struct fixture *f = *state;

	f->record.waits = 3;
	assert_int_equal(walk(f, 1, 2), 1);
	assert_int_equal(f->record.walker_count, 3);
	check_order(&f->record, ENTRIES);
}

static void walk_tree_not_waiting_takes_no_further_threads(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(walk(f, 1, 2), 1);
	assert_int_equal(f->record.walker_count, 1);
	check_order(&f->record, ENTRIES);
}

static void walk_tree_told_to_rest_takes_no_further_threads(void **state)
{
	struct fixture *f = *state;

	f->record.waits = 3;
	f->record.rests = true;
	assert_int_equal(walk(f, 1, 2), 1);
	assert_int_equal(f->record.walker_count, 1);
	check_order(&f->record, ENTRIES);
}

static void walk_tree_refused_directory_is_passed_over(void **state)
{
	struct fixture *f = *state;

	make_dir("%s/d1/no", f->path);
	assert_int_equal(walk(f, 4, 0), 1);
	check_order(&f->record, ENTRIES);
}

/* ext4 refuses to go on behind an entry of a directory that is no more. */
static void walk_tree_removed_directory_is_no_failure(void **state)
{
	struct fixture *f = *state;
	const struct walk_hooks hooks = { go_on,  file_and_remove, enter,     leave,
					  failed, find_descriptor, &f->record };
	char path[sizeof(f->path) + sizeof("/d0/e0")];

	removed_below = f->tree.root_fd;
	assert_int_equal(walk_tree(&f->tree, f->tree.root_fd, 0, 1, 0, &hooks), 1);
	check_order(&f->record, ENTRIES);
	snprintf(path, sizeof(path), "%s/d0/e0", f->path);
	assert_int_equal(access(path, F_OK), -1);
}

static void walk_tree_stopped_returns_0_and_leaves_nothing_open(void **state)
{
	struct fixture *f = *state;
	int before = dup(0), after;

	close(before);
	f->record.allowed = 40;
	assert_int_equal(walk(f, 4, 0), 0);
	assert_true(f->record.count < ENTRIES);
	after = dup(0);
	close(after);
	assert_int_equal(before, after);
}

static void walk_tree_deep_cuts_the_front_of_paths(void **state)
{
	struct fixture *f = *state;
	int fd = open(f->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	size_t last;

	for (int i = 0; i < DEEP; i++) {
		int below;

		assert_return_code(mkdirat(fd, "deeper", 0755), errno);
		below = openat(fd, "deeper", O_PATH | O_DIRECTORY | O_CLOEXEC);
		close(fd);
		fd = below;
	}
	close(fd);
	assert_int_equal(walk(f, 4, 0), 1);
	assert_int_equal(f->record.count, ENTRIES + DEEP);
	/* The deepest path is longer than the buffer: its end is what is kept. */
	last = 0;
	for (size_t i = 0; i < f->record.count; i++) {
		if (strlen(f->record.seen[i]) > strlen(f->record.seen[last]))
			last = i;
	}
	assert_true(strlen(f->record.seen[last]) > 1000);
	assert_memory_equal(f->record.seen[last], "deeper/", 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(walk_tree_one_thread_meets_each_once_children_first,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			walk_tree_many_threads_meet_each_once_children_first, set_up, tear_down),
		cmocka_unit_test_setup_teardown(walk_tree_waiting_takes_further_threads, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(walk_tree_not_waiting_takes_no_further_threads,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(walk_tree_told_to_rest_takes_no_further_threads,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(walk_tree_refused_directory_is_passed_over, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(walk_tree_removed_directory_is_no_failure, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(walk_tree_stopped_returns_0_and_leaves_nothing_open,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(walk_tree_deep_cuts_the_front_of_paths, set_up,
						tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
