// SPDX-License-Identifier: Apache-2.0
#include "fs/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>

#include "fs/base/cleanup.h"
#include "fs/base/parse.h"
#include "fs/base/selinux.h"
#include "fs/failover.h"
#include "fs/ledger.h"

enum { WATCHDOG_DEFAULT_S = 10, WATCHDOG_MAX_S = 24 * 3600 };

int options_init(struct overlay_options *ret_options)
{
	*ret_options = (struct overlay_options){
		.rule.gid = GID_UNSET,
		.policy = POLICY_ALWAYS,
		.ownership = OWNERSHIP_CONVERGE,
		.coherence = COHERENCE_SHARED,
		.handoff = true,
		.cpu_latency_us = -1,
		.watchdog_ms = WATCHDOG_DEFAULT_S * 1000,
		.max_deaths = FAILOVER_DEATHS,
		.context = "",
		.lower_fd = -1,
		.parent_fd = -1,
		.control_fd = -1,
		.journal_fd = -1,
		.ready_fd = -1,
	};
	ret_options->exclude = exclude_new();
	return ret_options->exclude ? 0 : -ENOMEM;
}

void options_fini(struct overlay_options *o)
{
	exclude_free(o->exclude);
	o->exclude = NULL;
}

/* Each value parser returns 0 or -errno; @value is never NULL. */

static int choose(const char *value, const char *const *names, size_t count, unsigned *ret_index)
{
	for (size_t i = 0; i < count; i++) {
		if (strcmp(value, names[i]) == 0) {
			*ret_index = (unsigned)i;
			return 0;
		}
	}
	return -EINVAL;
}

static int set_gid(struct overlay_options *o, const char *value)
{
	return parse_gid(value, &o->rule.gid);
}

static int set_policy(struct overlay_options *o, const char *value)
{
	static const char *const names[] = { "Always", "OnRootMismatch", "RootOnly" };
	unsigned i = o->policy;
	int r = choose(value, names, ARRAY_SIZE(names), &i);

	o->policy = i;
	return r;
}

static int set_ownership(struct overlay_options *o, const char *value)
{
	static const char *const names[] = { "converge", "virtual", "none" };
	unsigned i = o->ownership;
	int r = choose(value, names, ARRAY_SIZE(names), &i);

	o->ownership = i;
	return r;
}

static int set_coherence(struct overlay_options *o, const char *value)
{
	static const char *const names[] = { "shared", "exclusive" };
	unsigned i = o->coherence;
	int r = choose(value, names, ARRAY_SIZE(names), &i);

	o->coherence = i;
	return r;
}

static int set_transport(struct overlay_options *o, const char *value)
{
	static const char *const names[] = { "dev", "io_uring" };
	unsigned i = o->transport;
	int r = choose(value, names, ARRAY_SIZE(names), &i);

	o->transport = i;
	return r;
}

static int set_handoff(struct overlay_options *o, const char *value)
{
	o->handoff_in_namespaces = strcmp(value, "namespaces") == 0;
	if (o->handoff_in_namespaces) {
		o->handoff = true;
		return 0;
	}
	return parse_bool(value, &o->handoff);
}

static int set_idmap(struct overlay_options *o, const char *value)
{
	return parse_bool(value, &o->idmap);
}

static int set_exclude(struct overlay_options *o, const char *value)
{
	return exclude_add(o->exclude, value);
}

static int set_converge_rate(struct overlay_options *o, const char *value)
{
	return parse_u64(value, &o->converge_rate);
}

static int set_cpu_latency(struct overlay_options *o, const char *value)
{
	return parse_cpu_latency(value, &o->cpu_latency_us);
}

static int set_total(struct overlay_options *o, const char *value)
{
	return parse_u64(value, &o->expected_files);
}

static int set_run(struct overlay_options *o, const char *value)
{
	unsigned char bytes[RUN_ID_LEN / 2];
	int r = parse_hex(value, bytes, sizeof(bytes));

	if (r == 0)
		memcpy(o->run_id, value, RUN_ID_LEN + 1);
	return r;
}

static int set_epoch(struct overlay_options *o, const char *value)
{
	o->epoch = value;
	return *value ? 0 : -EINVAL;
}

static int set_volume(struct overlay_options *o, const char *value)
{
	o->volume = value;
	return volume_id_is_valid(value) ? 0 : -EINVAL;
}

static int set_context(struct overlay_options *o, const char *value)
{
	o->context = value;
	return selinux_label_is_valid(value) ? 0 : -EINVAL;
}

static int set_descriptor(const char *value, int *ret_fd)
{
	uint32_t fd = 0;
	int r = parse_u32_up_to(value, INT32_MAX, &fd);

	if (r == 0)
		*ret_fd = (int)fd;
	return r;
}

static int set_lower_fd(struct overlay_options *o, const char *value)
{
	return set_descriptor(value, &o->lower_fd);
}

static int set_parent_fd(struct overlay_options *o, const char *value)
{
	return set_descriptor(value, &o->parent_fd);
}

static int set_control_fd(struct overlay_options *o, const char *value)
{
	return set_descriptor(value, &o->control_fd);
}

static int set_journal_fd(struct overlay_options *o, const char *value)
{
	return set_descriptor(value, &o->journal_fd);
}

static int set_watchdog(struct overlay_options *o, const char *value)
{
	uint32_t seconds = 0;
	int r = parse_u32_up_to(value, WATCHDOG_MAX_S, &seconds);

	if (r == 0)
		o->watchdog_ms = seconds * 1000;
	return r;
}

static int set_max_deaths(struct overlay_options *o, const char *value)
{
	return parse_u32_up_to(value, FAILOVER_DEATHS_MAX, &o->max_deaths);
}

/*
 * For tests: whoever may start an overlay may kill its server as well, so nobody gets anything by it; and
 * mountd composes these options itself.
 */
static int set_debug_kill(struct overlay_options *o, const char *value)
{
	return ledger_parse_kill(value, &o->kill_opcode, &o->kill_point);
}

/* For tests, which cannot wait for an hour. */
static int set_debug_listing(struct overlay_options *o, const char *value)
{
	return parse_u32(value, &o->listing_seconds);
}

static int set_ready_fd(struct overlay_options *o, const char *value)
{
	return set_descriptor(value, &o->ready_fd);
}

static const struct {
	const char *name;
	int (*set)(struct overlay_options *o, const char *value);
} value_options[] = {
	{ "gid", set_gid },
	{ "policy", set_policy },
	{ "ownership", set_ownership },
	{ "coherence", set_coherence },
	{ "transport", set_transport },
	{ "handoff", set_handoff },
	{ "idmap", set_idmap },
	{ "exclude", set_exclude },
	{ "context", set_context },
	{ "converge_rate", set_converge_rate },
	{ "cpu_latency", set_cpu_latency },
	{ "total", set_total },
	{ "volume", set_volume },
	{ "run", set_run },
	{ "epoch", set_epoch },
	{ "lower_fd", set_lower_fd },
	{ "parent_fd", set_parent_fd },
	{ "control_fd", set_control_fd },
	{ "journal_fd", set_journal_fd },
	{ "ready_fd", set_ready_fd },
	{ "watchdog", set_watchdog },
	{ "max_deaths", set_max_deaths },
	{ "debug_kill", set_debug_kill },
	{ "debug_listing", set_debug_listing },
};

/* The mount flags of mount(8); an atime mode replaces the others. */
static const struct {
	const char *name;
	uint64_t set, clear;
} flag_options[] = {
	{ "rw", 0, MOUNT_ATTR_RDONLY },
	{ "suid", 0, MOUNT_ATTR_NOSUID },
	{ "nosuid", MOUNT_ATTR_NOSUID, 0 },
	{ "dev", 0, MOUNT_ATTR_NODEV },
	{ "nodev", MOUNT_ATTR_NODEV, 0 },
	{ "exec", 0, MOUNT_ATTR_NOEXEC },
	{ "noexec", MOUNT_ATTR_NOEXEC, 0 },
	{ "noatime", MOUNT_ATTR_NOATIME, MOUNT_ATTR__ATIME },
	{ "relatime", MOUNT_ATTR_RELATIME, MOUNT_ATTR__ATIME },
	{ "strictatime", MOUNT_ATTR_STRICTATIME, MOUNT_ATTR__ATIME },
	/* Of what is not, the kernel's default comes instead. */
	{ "atime", MOUNT_ATTR_RELATIME, MOUNT_ATTR__ATIME },
	{ "norelatime", MOUNT_ATTR_STRICTATIME, MOUNT_ATTR__ATIME },
	{ "nostrictatime", MOUNT_ATTR_RELATIME, MOUNT_ATTR__ATIME },
	{ "nodiratime", MOUNT_ATTR_NODIRATIME, 0 },
	{ "diratime", 0, MOUNT_ATTR_NODIRATIME },
	{ "defaults", 0, 0 },
};

static int parse_one(struct overlay_options *o, char *option, char *ret_error)
{
	char *value = strchr(option, '=');
	int r = -EINVAL;

	if (value) {
		*value++ = '\0';
		for (size_t i = 0; i < ARRAY_SIZE(value_options); i++) {
			if (strcmp(option, value_options[i].name) != 0)
				continue;
			r = value_options[i].set(o, value);
			if (r < 0)
				snprintf(ret_error, OPTIONS_ERROR_MAX, "option %s: %s value \"%s\"",
					 option,
					 r == -ERANGE ? "out of range" :
					 r == -E2BIG  ? "too many components with this" :
							"invalid",
					 value);
			return r;
		}
	} else if (strcmp(option, "ro") == 0) {
		o->rule.read_only = true;
		o->mount_attr_set |= MOUNT_ATTR_RDONLY;
		return 0;
	} else if (strcmp(option, "keep_private") == 0) {
		o->rule.keep_private = true;
		return 0;
	} else if (strcmp(option, "paused") == 0) {
		o->paused = true;
		return 0;
	} else if (strcmp(option, "debug_root") == 0) { /* for tests */
		o->root_is_1 = true;
		return 0;
	} else {
		for (size_t i = 0; i < ARRAY_SIZE(flag_options); i++) {
			if (strcmp(option, flag_options[i].name) != 0)
				continue;
			o->mount_attr_set &= ~flag_options[i].clear;
			o->mount_attr_set |= flag_options[i].set;
			o->mount_attr_clear |= flag_options[i].clear;
			if (strcmp(option, "rw") == 0)
				o->rule.read_only = false;
			return 0;
		}
	}
	snprintf(ret_error, OPTIONS_ERROR_MAX, "unknown option \"%s\"", option);
	return -EINVAL;
}

/* Cuts the first option off *io_list, undoing quotes and backslashes in place. */
static char *next_option(char **io_list)
{
	char *start = *io_list, *in = start, *out = start;
	bool quoted = false;

	for (; *in != '\0' && (quoted || *in != ','); in++) {
		if (*in == '"') {
			quoted = !quoted;
			continue;
		}
		if (*in == '\\' && in[1] != '\0')
			in++;
		*out++ = *in;
	}
	*io_list = *in == ',' ? in + 1 : in;
	*out = '\0';
	return start;
}

int options_parse(struct overlay_options *o, char *list, char ret_error[OPTIONS_ERROR_MAX])
{
	if (strncmp(list, "exclude=", strlen("exclude=")) == 0)
		return parse_one(o, list, ret_error);
	while (*list != '\0') {
		char *option = next_option(&list);
		int r = *option ? parse_one(o, option, ret_error) : 0;

		if (r < 0)
			return r;
	}
	return 0;
}
