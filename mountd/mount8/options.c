// SPDX-License-Identifier: Apache-2.0
#include "mountd/mount8/options.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>

#include "fs/base/cleanup.h"
#include "fs/base/log.h"
#include "mountd/proto.h"

/* What mount(8), its helpers and fstab's readers say to each other, and what is so anyway. */
static const char *const left_out[] = {
	"defaults",   "auto",	    "noauto",  "nofail", "_netdev", "async",  "nouser",
	"nousers",    "noowner",    "nogroup", "silent", "loud",    "nomand", "nosync",
	"noiversion", "nolazytime", "comment", "helper", "uhelper",
};

/* Of the file system, which is the source's: mount(8) says that not every file system honours these. */
static const char *const without_effect[] = { "sync", "dirsync", "lazytime", "iversion", "mand" };

/* What the kernel shows of every overlay, and mount(8) hands back when it remounts. */
static const char *const of_the_kernel[] = { "user_id",	    "group_id", "default_permissions",
					     "allow_other", "max_read", "rootmode",
					     "blksize",	    "subtype",	"fd",
					     "seclabel" };

static const struct {
	const char *name, *why;
} refused[] = {
	{ "user", "only root mounts volumes" },
	{ "users", "only root mounts volumes" },
	{ "owner", "only root mounts volumes" },
	{ "group", "only root mounts volumes; the volume's group is gid=N" },
	{ "fscontext", "an overlay has one label, which is context=" },
	{ "defcontext", "an overlay has one label, which is context=" },
	{ "rootcontext", "an overlay has one label, which is context=" },
	{ "loop", "mount the image first, and name where it is mounted" },
	{ "offset", "mount the image first, and name where it is mounted" },
	{ "sizelimit", "mount the image first, and name where it is mounted" },
	{ "bind", "a volume is no bind mount" },
	{ "rbind", "a volume is no bind mount" },
	{ "nosymfollow", "the hand-off cannot keep it" },
	{ "uid", "owners are never changed, only the group is" },
};

static bool is_in(const char *const *list, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++) {
		if (strcmp(list[i], name) == 0)
			return true;
	}
	return false;
}

static int refuse(const char *name, const char *why, char *ret_error)
{
	char quoted[96];

	snprintf(ret_error, WORDS_ERROR_MAX, "option %s: %s",
		 log_quote(name, quoted, sizeof(quoted)), why);
	return EXIT_USAGE;
}

/* Texts that are kept for later. NULL: it is none of these. */
static const char **text_of(struct mount8_options *o, const char *name)
{
	const struct {
		const char *name;
		const char **text;
	} rows[] = {
		{ "source", &o->source },
		{ "spec", &o->spec },
		{ "objects", &o->objects },
		{ "root", &o->root },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (strcmp(name, rows[i].name) == 0)
			return rows[i].text;
	}
	return NULL;
}

static int take_word(struct mount8_options *o, const char *name, const char *value, bool is_flag,
		     char *ret_error)
{
	if (is_flag && value)
		return refuse(name, "has no value", ret_error);
	if (!is_flag && (!value || !*value))
		return refuse(name, "needs a value", ret_error);
	if (strcmp(name, "plugin") == 0)
		o->plugin = value;
	return words_set(o->request, name, value, ret_error);
}

static int take(struct mount8_options *o, const char *name, const char *value, bool is_sloppy,
		char *ret_error)
{
	const char **text = text_of(o, name);
	bool is_flag;

	if (strcmp(name, "remount") == 0) {
		o->remount = true;
		return EXIT_OK;
	}
	if (is_in(left_out, ARRAY_SIZE(left_out), name) || strncasecmp(name, "x-", 2) == 0 ||
	    (!value && mount_flags_add(&o->flags, name)))
		return EXIT_OK;
	if (is_in(without_effect, ARRAY_SIZE(without_effect), name)) {
		o->without_effect = o->without_effect ? o->without_effect : name;
		return EXIT_OK;
	}
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		if (strcmp(name, refused[i].name) == 0)
			return refuse(name, refused[i].why, ret_error);
	}
	if (strcmp(name, "context") == 0)
		return value && mount_flags_set_context(&o->flags, value) ?
			       EXIT_OK :
			       refuse(name, "needs a label of SELinux", ret_error);
	if (text && (!value || !*value))
		return refuse(name, "needs a value", ret_error);
	if (text) {
		*text = value;
		return EXIT_OK;
	}
	/* The name that the overlay alone has for it, too. */
	if (strcmp(name, "gid") == 0)
		name = "fsgroup";
	if (words_find(name, &is_flag))
		return take_word(o, name, value, is_flag, ret_error);
	if (is_sloppy)
		return EXIT_OK;
	return refuse(name, "unknown", ret_error);
}

int mount8_options_parse(char *list, bool is_sloppy, struct mount8_options *io_options,
			 char ret_error[WORDS_ERROR_MAX])
{
	const char *options[256];
	size_t count = 0;

	while (*list != '\0') {
		if (count == ARRAY_SIZE(options))
			return refuse("...", "too many options", ret_error);
		options[count++] = mount_flags_next(&list);
		/* What comes before it in the list is of the remount as well. */
		io_options->remount |= strcmp(options[count - 1], "remount") == 0;
	}
	for (size_t i = 0; i < count; i++) {
		char *value = strchr(options[i], '=');
		int exit;

		if (value)
			*value++ = '\0';
		if (!*options[i] || (io_options->remount &&
				     is_in(of_the_kernel, ARRAY_SIZE(of_the_kernel), options[i])))
			continue;
		exit = take(io_options, options[i], value, is_sloppy, ret_error);
		if (exit != EXIT_OK)
			return exit;
	}
	return EXIT_OK;
}
