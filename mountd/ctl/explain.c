// SPDX-License-Identifier: Apache-2.0
#include "mountd/ctl/explain.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "fs/base/cleanup.h"
#include "mountd/ctl/show.h"
#include "mountd/path.h"
#include "mountd/proto.h"

static const char *text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "-";
}

static long long number_of(const json_t *object, const char *key)
{
	return (long long)json_integer_value(json_object_get(object, key));
}

static void show_entry(const json_t *entry)
{
	bool same = number_of(entry, "gid") == number_of(entry, "shownGid") &&
		    strcmp(text_of(entry, "mode"), text_of(entry, "shownMode")) == 0;

	printf("  on disk     %s, owner %lld, group %lld, mode %s%s\n", text_of(entry, "type"),
	       number_of(entry, "uid"), number_of(entry, "gid"), text_of(entry, "mode"),
	       json_is_true(json_object_get(entry, "acl")) ? ", with an ACL" : "");
	if (same)
		puts("  shown       as it is on disk");
	else
		printf("  shown       owner %lld, group %lld, mode %s%s\n", number_of(entry, "uid"),
		       number_of(entry, "shownGid"), text_of(entry, "shownMode"),
		       json_is_true(json_object_get(entry, "acl")) ?
			       "; the ACL's mask goes with the mode" :
			       "");
	show_line("  because     ", text_of(entry, "because"));
	if (json_is_string(json_object_get(entry, "pattern")))
		show_line("  pattern     ", text_of(entry, "pattern"));
	if (json_is_string(json_object_get(entry, "failure")))
		show_line("  the walk could not change it: ", text_of(entry, "failure"));
}

static void show(const json_t *result)
{
	const json_t *entry = json_object_get(result, "entry"), *item;
	const char *path = text_of(result, "path");
	char shown[4096];
	size_t i;

	printf("volume %s, %s\n", text_of(result, "volume"), text_of(result, "state"));
	printf("  target      %s\n", text_show(text_of(result, "target"), shown, sizeof(shown)));
	if (*path)
		show_line("  file        ", path);
	if (json_is_object(entry))
		show_entry(entry);
	json_array_foreach(json_object_get(result, "obstacles"), i, item)
		show_line(i == 0 ? "  not native  " : "              ", text_of(item, "text"));
}

int ctl_explain(const struct ctl *ctl, int argc, char **argv)
{
	static const struct option longs[] = { { 0 } };
	AUTO_FREE char *absolute = NULL;
	json_t *request, *result = NULL;
	int exit;

	optind = 0;
	if (getopt_long(argc, argv, "", longs, NULL) != -1)
		return EXIT_USAGE;
	if (argc - optind != 1)
		return ctl_usage(ctl, optind == argc ? "PATH is missing" : "an argument too many");
	if (path_absolute(argv[optind], &absolute) < 0)
		return ctl_usage(ctl, "PATH is empty");
	request = json_pack("{s:s, s:s}", "command", ctl->command, "path", absolute);
	if (!request)
		return ctl_fail(ctl, EXIT_FAILED, argv[optind], "not valid UTF-8");
	exit = ctl_call(ctl, argv[optind], request, NULL, NULL, &result);
	if (result && ctl->json)
		show_json(result, false);
	else if (result)
		show(result);
	json_decref(result);
	return exit;
}
