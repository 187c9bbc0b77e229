// SPDX-License-Identifier: Apache-2.0
/* Every plugin of the registry behind the decorator. */
#include "tests/unit/fake_wrapped.h"

#include "fs/base/parse.h"
#include "plugins/trace.h"

static char lines[4096];

static void note(const struct volume_builder *b, const struct traced_call *call)
{
	const char *line = call->line;

	(void)b;
	assert_true(strlen(lines) + strlen(line) + 2 < sizeof(lines));
	strcat(lines, line);
	strcat(lines, "\n");
}

static int begin(void **state)
{
	lines[0] = '\0';
	return fake_wrapped_begin(state);
}

static void trace_plugin_lacks_what_the_plugin_lacks(void **state)
{
	struct fake *f = *state;

	for (size_t i = 0; plugin_at(i); i++) {
		const struct volume_plugin *plugin = plugin_at(i);
		struct trace trace;
		const struct volume_plugin *traced = trace_plugin(&trace, &f->b, plugin, note);

		assert_string_equal(traced->name, plugin->name);
		assert_memory_equal(&traced->attributes, &plugin->attributes,
				    sizeof(plugin->attributes));
		assert_int_equal(!traced->certify, !plugin->certify);
		assert_int_equal(!traced->is_set_up, !plugin->is_set_up);
		assert_int_equal(!traced->refresh, !plugin->refresh);
		assert_int_equal(!traced->restore, !plugin->restore);
		assert_int_equal(!traced->mount_device, !plugin->mount_device);
		assert_int_equal(!traced->unmount_device, !plugin->unmount_device);
		assert_int_equal(!traced->grow_device, !plugin->grow_device);
		assert_ptr_equal(traced->identity, plugin->identity);
		/* What does something is decorated. */
		assert_ptr_not_equal(traced->set_up, plugin->set_up);
		assert_ptr_not_equal(traced->tear_down, plugin->tear_down);
		assert_ptr_not_equal(traced->open_lower, plugin->open_lower);
		assert_ptr_not_equal(traced->check, plugin->check);
		assert_true(!plugin->refresh || traced->refresh != plugin->refresh);
		assert_true(!plugin->certify || traced->certify != plugin->certify);
		assert_true(!plugin->is_set_up || traced->is_set_up != plugin->is_set_up);
	}
}

/* Each plugin's check refuses or takes a source full of words that no line may have. */
static void trace_plugin_lines_have_no_word_of_the_source(void **state)
{
	struct fake *f = *state;

	fake_source(
		f,
		"{\"secretName\":\"hushA\",\"repository\":\"hushB\",\"driver\":\"hushC\",\"medium\":\"hushD\","
		"\"path\":\"hushE\",\"claimName\":\"hushF\",\"options\":{\"hushG\":\"hushH\"},\"name\":7}");
	for (size_t i = 0; plugin_at(i); i++) {
		struct trace trace;
		const struct volume_plugin *plugin = plugin_at(i);
		const struct volume_plugin *traced = trace_plugin(&trace, &f->b, plugin, note);
		char wanted[64];
		int r;

		lines[0] = '\0';
		r = traced->check(&f->b);
		assert_int_equal(r, plugin->check(&f->b));
		snprintf(wanted, sizeof(wanted),
			 "vol=v plugin=%s call=check result=%s us=", plugin->name,
			 r < 0 ? strerrorname_np(-r) : "ok");
		assert_memory_equal(lines, wanted, strlen(wanted));
		assert_null(strstr(lines, "hush"));
		assert_ptr_equal(strchr(lines, '\n'), lines + strlen(lines) - 1);
	}
}

static void trace_plugin_calls_go_through(void **state)
{
	struct fake *f = *state;
	enum ownership_outcome outcome = OWNERSHIP_IGNORED;
	AUTO_FREE char *text = NULL;
	AUTO_FD int lower = -1, again = -1;
	struct trace trace;
	const struct volume_plugin *traced = trace_plugin(&trace, &f->b, &plugin_empty_dir, note);

	assert_int_equal(traced->set_up(&f->b, GID_UNSET, &lower, &outcome), 0);
	assert_int_equal(outcome, OWNERSHIP_DONE);
	assert_true(lower >= 0);
	assert_int_equal(traced->certify(&f->b, &text), 0);
	assert_non_null(text);
	assert_int_equal(traced->tear_down(&f->b), 0);
	assert_int_equal(traced->open_lower(&f->b, &again), -ENOENT);
	assert_non_null(strstr(lines, "plugin=emptyDir call=set_up result=ok us="));
	assert_non_null(strstr(lines, "call=certify result=ok"));
	assert_non_null(strstr(lines, "call=tear_down result=ok"));
	assert_non_null(strstr(lines, "call=open_lower result=ENOENT"));
}

static void trace_plugin_answers_that_are_no_errors(void **state)
{
	struct fake *f = *state;
	struct trace trace;
	const struct volume_plugin *traced = trace_plugin(&trace, &f->b, &plugin_local, note);

	assert_false(traced->is_set_up(&f->b));
	assert_non_null(strstr(lines, "plugin=local call=is_set_up result=no"));
}

int main(void)
{
#define WITH_HOST(test) cmocka_unit_test_setup_teardown(test, begin, fake_wrapped_end)
	const struct CMUnitTest tests[] = {
		WITH_HOST(trace_plugin_lacks_what_the_plugin_lacks),
		WITH_HOST(trace_plugin_lines_have_no_word_of_the_source),
		WITH_HOST(trace_plugin_calls_go_through),
		WITH_HOST(trace_plugin_answers_that_are_no_errors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
