// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "fs/base/cleanup.h"
#include "mountd/ctl/complete.h"
#include "mountd/ctl/help.h"

struct found {
	char words[4096]; /* each behind a space */
	struct completion completion;
};

static void add(void *arg, const char *word, size_t len)
{
	struct found *found = arg;
	size_t used = strlen(found->words);

	snprintf(found->words + used, sizeof(found->words) - used, " %.*s", (int)len, word);
}

static void complete(struct found *ret_found, int count, const char *const *words)
{
	*ret_found = (struct found){ .completion = { .word = add } };
	ret_found->completion.arg = ret_found;
	complete_words(words, count, &ret_found->completion);
}

#define COMPLETE(found, ...)                                                                       \
	complete(found, (int)ARRAY_SIZE(((const char *[]){ __VA_ARGS__ })),                        \
		 (const char *[]){ __VA_ARGS__ })

static void complete_first_word_is_a_command(void **state)
{
	struct found found;

	(void)state;
	COMPLETE(&found, "mo");
	assert_true(found.completion.commands);
	COMPLETE(&found, "--root", "/x", "");
	assert_true(found.completion.commands);
	COMPLETE(&found, "--root", "/x");
	assert_true(found.completion.files);
	COMPLETE(&found, "frob", "");
	assert_string_equal(found.words, "");
	assert_false(found.completion.commands || found.completion.volumes);
}

static void complete_options_of_the_command(void **state)
{
	struct found found;

	(void)state;
	COMPLETE(&found, "mount", "--po");
	assert_string_equal(found.words, " --pod --policy");
	COMPLETE(&found, "wait", "v", "--");
	assert_string_equal(found.words, " --for --timeout --json");
	COMPLETE(&found, "unmount", "--a");
	assert_string_equal(found.words, " --all");
}

static void complete_values_of_an_option(void **state)
{
	struct found found;

	(void)state;
	COMPLETE(&found, "mount", "--policy", "");
	assert_string_equal(found.words, " Always OnRootMismatch RootOnly");
	COMPLETE(&found, "wait", "v", "--for", "con");
	assert_string_equal(found.words, " converged");
	COMPLETE(&found, "converge", "v", "--rate", "");
	assert_string_equal(found.words, " max");
	COMPLETE(&found, "mount", "--plugin", "se");
	assert_string_equal(found.words, " secret");
	COMPLETE(&found, "mount", "--objects", "");
	assert_true(found.completion.files);
	COMPLETE(&found, "mount", "--staged", "");
	assert_true(found.completion.volumes && !found.completion.files);
	COMPLETE(&found, "mount", "--fsgroup", "");
	assert_string_equal(found.words, "");
	assert_false(found.completion.files || found.completion.volumes);
}

static void complete_argument_of_the_command(void **state)
{
	struct found found;

	(void)state;
	COMPLETE(&found, "unmount", "");
	assert_true(found.completion.volumes && !found.completion.files);
	/* An option without a value stands before it. */
	COMPLETE(&found, "unmount", "--lazy", "");
	assert_true(found.completion.volumes);
	COMPLETE(&found, "store", "");
	assert_string_equal(found.words, " check dump restore");
	COMPLETE(&found, "completion", "z");
	assert_string_equal(found.words, " zsh");
	COMPLETE(&found, "help", "");
	assert_true(found.completion.commands);
}

static void complete_knows_which_options_take_values(void **state)
{
	const char *usage = help_find("mount")->usage;

	(void)state;
	assert_true(complete_takes_value(usage, "--target"));
	assert_true(complete_takes_value(usage, "--exclude"));
	assert_false(complete_takes_value(usage, "--keep-private"));
	assert_true(complete_has_option(usage, "--keep-private"));
	assert_false(complete_has_option(usage, "--keep"));
	assert_false(complete_has_option(usage, "mount"));
}

/* What --help says of an option the usage has, so that it is completed, and the other way round. */
static void help_details_are_those_of_the_usage(void **state)
{
	const struct command_help *help;

	(void)state;
	for (unsigned i = 0; (help = help_at(i)) != NULL; i++) {
		const char *at = help->usage;

		assert_true(help->usage[0] && help->about[0] && help->examples[0]);
		for (at = strstr(at, "--"); at; at = strstr(at + 2, "--")) {
			char option[64], *end = option;

			for (const char *p = at; *p && !strchr(" ]|\n", *p); p++)
				*end++ = *p;
			*end = '\0';
			if (help->details && !strstr(help->details, option))
				fail_msg("%s: %s is not explained", help->name, option);
		}
		for (at = help->details ? strstr(help->details, "\n  --") : NULL; at;
		     at = strstr(at + 5, "\n  --")) {
			char option[64];

			snprintf(option, sizeof(option), "%.*s", (int)strcspn(at + 3, " "), at + 3);
			if (!complete_has_option(help->usage, option))
				fail_msg("%s: %s is not in the usage", help->name, option);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(complete_first_word_is_a_command),
		cmocka_unit_test(complete_options_of_the_command),
		cmocka_unit_test(complete_values_of_an_option),
		cmocka_unit_test(complete_argument_of_the_command),
		cmocka_unit_test(complete_knows_which_options_take_values),
		cmocka_unit_test(help_details_are_those_of_the_usage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
