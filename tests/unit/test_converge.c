// SPDX-License-Identifier: Apache-2.0
#include "fs/converge.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "fs/base/cleanup.h"

/* Longer than any walk here: then SIGALRM ends the test. */
enum { LIMIT_SECONDS = 20 };

/* A tree of ours, "moved" in it a directory, and what converges it. */
struct fixture {
	char path[64];
	struct overlay_options options;
	struct tree tree;
	struct shared shared;
	struct node_table *nodes;
	struct run run;
	struct brake brake;
	struct converger *converger;
	int moved_fd;
	atomic_bool moves; /* the directory is moved as the walk comes to the root */
	sem_t moved, finished;
};

static void on_changed(void *context, uint64_t node_id)
{
	struct fixture *f = context;
	struct stat st;

	if (node_id != node_root(f->nodes) || !atomic_exchange(&f->moves, false))
		return;
	assert_return_code(fstat(f->moved_fd, &st), errno);
	converge_moved(f->converger, f->moved_fd, &st, 0);
	sem_post(&f->moved);
	/* Until the walk has been told to end; pace_stop() says so first. */
	while (atomic_load(&f->brake.is_on))
		sched_yield();
}

static void on_state_changed(void *context)
{
	(void)context;
}

static bool on_no_descriptor(void *context, uint64_t *io_began_ms)
{
	(void)context, (void)io_began_ms;
	return false;
}

static void on_finished(void *context)
{
	sem_post(&((struct fixture *)context)->finished);
}

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	const struct converge_events events = { on_changed, on_state_changed, on_finished,
						on_no_descriptor, f };
	int root;

	assert_non_null(f);
	snprintf(f->path, sizeof(f->path), "/tmp/test_converge.XXXXXX");
	assert_non_null(mkdtemp(f->path));
	/* As in a server: descriptors are reached by their number in the working directory. */
	assert_return_code(chdir("/proc/self/fd"), errno);
	root = open(f->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_return_code(root, errno);
	assert_return_code(mkdirat(root, "moved", 0700), errno);
	f->moved_fd = openat(root, "moved", O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_return_code(f->moved_fd, errno);
	assert_return_code(options_init(&f->options), errno);
	f->options.rule.gid = getegid();
	assert_return_code(tree_init(root, &f->tree), errno);
	assert_return_code(shared_create(&f->shared), errno);
	assert_return_code(node_table_new(&f->shared, &f->tree, 0, &f->nodes), errno);
	assert_return_code(run_start(&f->run, &f->options, &f->shared, &f->tree, f->nodes), errno);
	assert_return_code(converge_new(&f->run, &f->brake, &events, &f->converger), errno);
	sem_init(&f->moved, 0, 0);
	sem_init(&f->finished, 0, 0);
	alarm(LIMIT_SECONDS);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;
	char path[80];

	alarm(0);
	converge_free(f->converger);
	node_table_free(f->nodes);
	shared_fini(&f->shared);
	tree_fini(&f->tree);
	options_fini(&f->options);
	cleanup_fd(&f->moved_fd);
	snprintf(path, sizeof(path), "%s/moved", f->path);
	rmdir(path);
	rmdir(f->path);
	free(f);
	return 0;
}

static void check_converged(const struct fixture *f)
{
	const struct shared_header *h = f->shared.header;
	struct stat st;

	assert_true(converge_is_done(f->converger));
	assert_int_equal(atomic_load(&h->walk_done), 1);
	assert_int_equal(atomic_load(&h->failed), 0);
	assert_int_equal(atomic_load(&h->changed), 2);
	assert_return_code(fstat(f->moved_fd, &st), errno);
	assert_int_equal(st.st_mode & 07777, 02770);
}

static void converge_start_walks_to_the_root(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(converge_start(f->converger), 0);
	assert_int_equal(sem_wait(&f->finished), 0);
	converge_stop(f->converger);
	check_converged(f);
}

/* Between the root, which is the last of the walk, and what was moved meanwhile. */
static void converge_stop_with_something_moved_ends_the_walk(void **state)
{
	struct fixture *f = *state;

	atomic_store(&f->moves, true);
	assert_int_equal(converge_start(f->converger), 0);
	assert_int_equal(sem_wait(&f->moved), 0);
	converge_stop(f->converger);
	assert_false(converge_is_done(f->converger));
	assert_int_equal(atomic_load(&f->shared.header->walk_done), 0);
	assert_int_equal(converge_start(f->converger), 0);
	assert_int_equal(sem_wait(&f->finished), 0);
	converge_stop(f->converger);
	check_converged(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(converge_start_walks_to_the_root, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(converge_stop_with_something_moved_ends_the_walk,
						set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
