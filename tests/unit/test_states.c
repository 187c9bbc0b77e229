// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "fs/base/cleanup.h"
#include "plugins/tree_remove.h"
#include "store/store.h"

enum { STATES = VOLUME_TEARING_DOWN + 1 };

/* Whatever happens, a volume can be set up anew, be found gone or broken, and be taken away. */
static void volume_state_may_become_always_what_ends_it(void **state)
{
	(void)state;
	for (int from = 0; from < STATES; from++) {
		assert_true(volume_state_may_become(from, from));
		assert_true(volume_state_may_become(from, VOLUME_SETTING_UP));
		assert_true(volume_state_may_become(from, VOLUME_ABSENT));
		assert_true(volume_state_may_become(from, VOLUME_FAILED));
		assert_true(volume_state_may_become(from, VOLUME_TEARING_DOWN));
	}
}

static void volume_state_may_become_another_kind_only_by_set_up(void **state)
{
	(void)state;
	for (int to = VOLUME_PRESENTED; to <= VOLUME_CONVERGED; to++) {
		assert_false(volume_state_may_become(VOLUME_NATIVE, to));
		assert_false(volume_state_may_become(VOLUME_VIRTUAL, to));
		assert_false(volume_state_may_become(VOLUME_STAGED, to));
		assert_false(volume_state_may_become(to, VOLUME_VIRTUAL));
		assert_true(volume_state_may_become(to, VOLUME_NATIVE));
		assert_true(volume_state_may_become(VOLUME_SETTING_UP, to));
	}
	assert_false(volume_state_may_become(VOLUME_VIRTUAL, VOLUME_NATIVE));
	assert_false(volume_state_may_become(VOLUME_NATIVE, VOLUME_VIRTUAL));
}

static void volume_state_is_live_at_the_target_only(void **state)
{
	(void)state;
	assert_true(volume_state_is_live(VOLUME_PRESENTED));
	assert_true(volume_state_is_live(VOLUME_NATIVE));
	assert_true(volume_state_is_live(VOLUME_VIRTUAL));
	assert_false(volume_state_is_live(VOLUME_SETTING_UP));
	assert_false(volume_state_is_live(VOLUME_STAGED));
	assert_false(volume_state_is_live(VOLUME_ABSENT));
	assert_false(volume_state_is_live(VOLUME_FAILED));
	assert_false(volume_state_is_live(VOLUME_TEARING_DOWN));
}

/* Every pair, through each function that writes a state. */
static void store_transitions_are_those_of_the_table(void **state)
{
	char dir[] = "/tmp/test_states.XXXXXX", path[64], *aside = NULL, why[256];
	AUTO(volume_record) *vol = volume_record_new();
	struct store *s = NULL;
	AUTO_FD int tmp = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/store.db", dir);
	assert_int_equal(store_open(path, &s, &aside), 0);
	vol->id = strdup("v");
	vol->plugin = strdup("local");
	vol->source = strdup("{}");
	vol->source_identity = strdup("");
	vol->target = strdup("/target");
	vol->policy = strdup("Always");
	vol->ownership = strdup("converge");
	vol->excludes = strdup("[]");
	vol->coherence = strdup("exclusive");
	assert_int_equal(store_volume_insert(s, vol), 0);
	for (int from = 0; from < STATES; from++) {
		for (int to = 0; to < STATES; to++) {
			int wanted = volume_state_may_become(from, to) ? 0 : -EINVAL;

			for (int way = 0; way < 3; way++) {
				int r;

				assert_int_equal(
					store_volume_set_state(s, "v", VOLUME_SETTING_UP, NULL, 0),
					0);
				assert_int_equal(store_volume_set_state(s, "v", from, NULL, 0), 0);
				vol->state = to;
				r = way == 0 ? store_volume_set_state(s, "v", to, NULL, 0) :
				    way == 1 ? store_volume_update(s, vol) :
					       store_setup_done(s, vol, "marker", NULL);
				assert_int_equal(r, wanted);
			}
		}
	}
	store_close(s);
	assert_int_equal(tree_remove(tmp, dir + strlen("/tmp/"), why, sizeof(why)), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(volume_state_may_become_always_what_ends_it),
		cmocka_unit_test(volume_state_may_become_another_kind_only_by_set_up),
		cmocka_unit_test(volume_state_is_live_at_the_target_only),
		cmocka_unit_test(store_transitions_are_those_of_the_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
