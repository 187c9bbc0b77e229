// SPDX-License-Identifier: Apache-2.0
#include "mountd/ctl/doctor.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "mountd/ctl/show.h"
#include "mountd/proto.h"

static const struct {
	const char *name;
	unsigned colour;
} verdicts[] = {
	[VERDICT_OK] = { "ok", 32 },
	[VERDICT_WARN] = { "warn", 33 },
	[VERDICT_FAIL] = { "fail", 31 },
};

void doctor_find(struct doctor *d, const char *check, enum verdict verdict, const char *mend,
		 const char *format, ...)
{
	char message[1024], shown[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	/* Paths and answers of others are in it: what is no UTF-8 cannot be JSON. */
	json_array_append_new(d->findings,
			      json_pack("{s:s, s:s, s:s, s:s?}", "check", check, "verdict",
					verdicts[verdict].name, "message",
					text_show(message, shown, sizeof(shown)), "mend", mend));
}

static const char *text_of(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

static unsigned colour_of(const char *verdict)
{
	for (size_t i = 0; i < ARRAY_SIZE(verdicts); i++) {
		if (strcmp(verdict, verdicts[i].name) == 0)
			return verdicts[i].colour;
	}
	return 0;
}

static void show(const json_t *findings)
{
	const struct text_terminal terminal = text_terminal(STDOUT_FILENO);
	const json_t *item;
	size_t i;

	json_array_foreach(findings, i, item) {
		const char *verdict = text_of(item, "verdict"), *mend = text_of(item, "mend");

		if (terminal.has_colours)
			printf("\033[%um%-4s\033[0m", colour_of(verdict), verdict);
		else
			printf("%-4s", verdict);
		printf("  %-16s %s", text_of(item, "check"), text_of(item, "message"));
		printf("%s%s\n", mend ? ": " : "", mend ? mend : "");
	}
}

static bool has_failed(const json_t *findings)
{
	const json_t *item;
	size_t i;

	json_array_foreach(findings, i, item) {
		if (strcmp(text_of(item, "verdict"), verdicts[VERDICT_FAIL].name) == 0)
			return true;
	}
	return false;
}

int ctl_doctor(const struct ctl *ctl, int argc, char **argv)
{
	static const struct option longs[] = { { 0 } };
	struct doctor d = { .ctl = ctl, .is_root = geteuid() == 0 };
	int exit;

	optind = 0;
	if (getopt_long(argc, argv, "", longs, NULL) != -1)
		return EXIT_USAGE;
	if (optind < argc)
		return ctl_usage(ctl, "an argument too many");
	d.findings = json_array();
	if (!d.is_root)
		doctor_find(&d, "rights", VERDICT_WARN, "run it as root",
			    "some things only root may look at");
	doctor_kernel(&d);
	doctor_limits(&d);
	doctor_programs(&d);
	doctor_files(&d);
	doctor_daemon(&d);
	if (ctl->json)
		show_json(d.findings, false);
	else
		show(d.findings);
	exit = has_failed(d.findings) ? EXIT_FAILED : EXIT_OK;
	json_decref(d.findings);
	return exit;
}
