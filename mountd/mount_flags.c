// SPDX-License-Identifier: Apache-2.0
#include "mountd/mount_flags.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>

#include "fs/base/cleanup.h"
#include "fs/base/log.h"

static const struct {
	const char *name;
	uint64_t set, clear;
} rows[] = {
	{ "ro", MOUNT_ATTR_RDONLY, 0 },
	{ "rw", 0, MOUNT_ATTR_RDONLY },
	{ "nosuid", MOUNT_ATTR_NOSUID, 0 },
	{ "suid", 0, MOUNT_ATTR_NOSUID },
	{ "nodev", MOUNT_ATTR_NODEV, 0 },
	{ "dev", 0, MOUNT_ATTR_NODEV },
	{ "noexec", MOUNT_ATTR_NOEXEC, 0 },
	{ "exec", 0, MOUNT_ATTR_NOEXEC },
	{ "nodiratime", MOUNT_ATTR_NODIRATIME, 0 },
	{ "diratime", 0, MOUNT_ATTR_NODIRATIME },
	{ "noatime", MOUNT_ATTR_NOATIME, MOUNT_ATTR__ATIME },
	{ "strictatime", MOUNT_ATTR_STRICTATIME, MOUNT_ATTR__ATIME },
	{ "relatime", MOUNT_ATTR_RELATIME, MOUNT_ATTR__ATIME },
};

/* Other names of the same in mount(8): of what is not, the kernel's default comes instead. */
static const struct {
	const char *name, *means;
} aliases[] = {
	{ "atime", "relatime" },
	{ "norelatime", "strictatime" },
	{ "nostrictatime", "relatime" },
};

bool mount_flags_add(struct mount_flags *flags, const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(aliases); i++) {
		if (strcmp(name, aliases[i].name) == 0)
			name = aliases[i].means;
	}
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (strcmp(name, rows[i].name) != 0)
			continue;
		*flags = mount_flags_over(
			flags, &(struct mount_flags){ .set = rows[i].set, .clear = rows[i].clear });
		return true;
	}
	return false;
}

bool mount_flags_set_context(struct mount_flags *flags, const char *label)
{
	if (!selinux_label_is_valid(label))
		return false;
	snprintf(flags->context, sizeof(flags->context), "%s", label);
	return true;
}

char *mount_flags_next(char **io_list)
{
	char *start = *io_list, *in = start, *out = start;
	bool quoted = false;

	for (; *in != '\0' && (quoted || *in != ','); in++) {
		if (*in == '"')
			quoted = !quoted;
		else
			*out++ = *in;
	}
	*io_list = *in == ',' ? in + 1 : in;
	*out = '\0';
	return start;
}

bool mount_flags_has_context(char *list, const char *label)
{
	while (*list) {
		const char *option = mount_flags_next(&list);

		if (strncmp(option, "context=", strlen("context=")) == 0 &&
		    strcmp(option + strlen("context="), label) == 0)
			return true;
	}
	return false;
}

static bool add_option(struct mount_flags *flags, const char *option)
{
	if (strncmp(option, "context=", strlen("context=")) == 0)
		return mount_flags_set_context(flags, option + strlen("context="));
	return !*option || mount_flags_add(flags, option);
}

int mount_flags_parse(const char *list, struct mount_flags *ret_flags, char *ret_error, size_t size)
{
	AUTO_FREE char *copy = strdup(list ? list : "");
	struct mount_flags flags = { 0 };
	char *next = copy, quoted[96];

	if (!copy) {
		snprintf(ret_error, size, "%s", strerror(ENOMEM));
		return -ENOMEM;
	}
	while (*next) {
		const char *option = mount_flags_next(&next);

		if (add_option(&flags, option))
			continue;
		snprintf(ret_error, size, "mount option %s: not one of a mount",
			 log_quote(option, quoted, sizeof(quoted)));
		return -EINVAL;
	}
	*ret_flags = flags;
	return 0;
}

/* The relative atime mode is no bit: that the mode is to change says that it is meant. */
static bool has(const struct mount_flags *flags, size_t row)
{
	if (rows[row].clear == MOUNT_ATTR__ATIME)
		return (flags->clear & MOUNT_ATTR__ATIME) != 0 &&
		       (flags->set & MOUNT_ATTR__ATIME) == rows[row].set;
	return (rows[row].set && (flags->set & rows[row].set)) ||
	       (rows[row].clear && (flags->clear & rows[row].clear));
}

int mount_flags_text(const struct mount_flags *flags, char **ret_text)
{
	char text[2 * SELINUX_LABEL_MAX] = "";
	size_t used = 0;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (has(flags, i))
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s",
						 used ? "," : "", rows[i].name);
	}
	if (*flags->context)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%scontext=\"%s\"",
					 used ? "," : "", flags->context);
	*ret_text = used ? strdup(text) : NULL;
	return used && !*ret_text ? -ENOMEM : 0;
}

struct mount_flags mount_flags_over(const struct mount_flags *flags,
				    const struct mount_flags *later)
{
	struct mount_flags both = {
		.set = (flags->set & ~later->clear) | later->set,
		.clear = (flags->clear & ~(later->set & ~(uint64_t)MOUNT_ATTR__ATIME)) |
			 later->clear,
	};

	memcpy(both.context, *later->context ? later->context : flags->context,
	       sizeof(both.context));
	return both;
}
