/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_RULES_H
#define MOUNTD_RULES_H

/*
 * rules: mountd.conf: what each front end may ask for, and what is assumed where it says nothing
 * (interface.md, Configuration, and what is allowed).
 *
 * Knows the file. Does not know plugins or volumes: it compares names. Called by the request handlers
 * before anything is done. A loaded struct rules is never changed, so any thread may read it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fs/base/cleanup.h"
#include "fs/base/log.h"
#include "plugins/plugin.h"

#define RULES_ERROR_MAX 512

enum front_end { FRONT_CTL, FRONT_FLEXVOLUME, FRONT_MOUNT, FRONT_CSI, FRONT_END_COUNT };

/* rules_front_end_from_name: the front end of a section's name. 0 or -EINVAL. */
int rules_front_end_from_name(const char *name, enum front_end *ret_front);
const char *rules_front_end_name(enum front_end front);

struct front_rules {
	/* NULL-terminated lists of words; NULL: not restricted. */
	char **plugins, **sources, **objects, **ownership;
	bool format;
	/* Assumed where the request says nothing. */
	char *policy;		 /* "Always" | "OnRootMismatch" | "RootOnly" */
	char *default_ownership; /* "converge" | "virtual" | "none" */
	char **exclude;		 /* may be NULL */
	uint64_t converge_rate;	 /* files a second; 0: no limit */
	uint64_t settle_ms;
	char *conflict; /* "refuse" | "virtual" */
	bool idmap;	/* whether mounts of overlays may be idmapped */
	char *context;	/* of overlays (fs/base/selinux.h), or NULL: that of the source */
	/* No keys of the file: */
	bool is_root_at_shell; /* what only a person may ask for: [ctl] */
	const struct plugin_settings *settings;
};

struct rules {
	struct front_rules front[FRONT_END_COUNT];
	struct plugin_settings settings;
	enum log_level log_level;
	int64_t cpu_latency_us; /* [daemon]: of overlays' servers (fs/base/parse.h); -1: unset */
	char *status_group; /* [daemon]: who may look, beside root: a name or a gid; NULL: nobody */
};

/* rules_default_settings: of plugins, where mountd.conf says nothing. */
extern const struct plugin_settings rules_default_settings;

/*
 * rules_parse: the rules in the text of a mountd.conf.
 * @ret_error: RULES_ERROR_MAX bytes: on -EINVAL one line with line, column, and the section's or key's name
 * Returns 0, -EINVAL or -ENOMEM.
 */
int rules_parse(const char *text, struct rules **ret_rules, char *ret_error);

/*
 * rules_load: the rules of the file at @path; an absent file gives the built-in ones.
 * Returns 0, -EPERM (others own it or may write it), -EINVAL, -EFBIG, -ENOMEM, or open()'s and
 * read()'s errors; *ret_error says which.
 */
int rules_load(const char *path, struct rules **ret_rules, char *ret_error);
void rules_free(struct rules *rules);
DEFINE_AUTO(rules)

/* Whether the front end may use this plugin or ownership mode. */
bool rules_plugin_is_allowed(const struct front_rules *front, const char *plugin);
bool rules_ownership_is_allowed(const struct front_rules *front, const char *ownership);

/*
 * rules_source_prefix: the longest allowed prefix that @path (absolute) lies beneath, whole components
 * compared; *ret_rest is what follows it, without a leading slash. Borrowed. NULL: not allowed.
 * Where sources are not restricted the prefix is "".
 */
const char *rules_source_prefix(const struct front_rules *front, const char *path,
				const char **ret_rest);

/* rules_objects_prefix: the same for files of Kubernetes objects: `objects`, or without that rule `sources`. */
const char *rules_objects_prefix(const struct front_rules *front, const char *path,
				 const char **ret_rest);

#endif
