// SPDX-License-Identifier: Apache-2.0
/* What the server and the requests' table ask of a manager before anything is done. */
#include <pthread.h>

#include "tests/unit/toy_manager.h"

/* Takes the registry's place; no plugin is called here. */
static const struct volume_plugin toy = { .name = "emptyDir" };

const struct volume_plugin *plugin_find(const char *name)
{
	return strcmp(name, toy.name) == 0 ? &toy : NULL;
}

static void *ask(void *arg)
{
	struct fixture *f = arg;

	return manager_answers(f->m, 10) ? f : NULL;
}

static bool answers(struct fixture *f)
{
	pthread_t thread;
	void *result;

	assert_int_equal(pthread_create(&thread, NULL, ask, f), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	return result != NULL;
}

static void manager_answers_while_its_lock_is_free(void **state)
{
	struct fixture *f = *state;

	assert_true(answers(f));
	pthread_mutex_lock(&f->m->lock);
	assert_false(answers(f));
	pthread_mutex_unlock(&f->m->lock);
	assert_true(answers(f));
}

static void manager_has_target_as_it_is_on_record(void **state)
{
	struct fixture *f = *state;

	insert(f, "emptyDir");
	assert_true(manager_has_target(f->m, "/target"));
	assert_false(manager_has_target(f->m, "/target/"));
	assert_false(manager_has_target(f->m, "/other/../target"));
	assert_false(manager_has_target(f->m, "v"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(manager_answers_while_its_lock_is_free,
						manager_set_up, manager_tear_down),
		cmocka_unit_test_setup_teardown(manager_has_target_as_it_is_on_record,
						manager_set_up, manager_tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
