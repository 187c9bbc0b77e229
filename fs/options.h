/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_OPTIONS_H
#define FS_OPTIONS_H

/*
 * options: what `fsgroupfs -o` understands, as one const struct.
 *
 * Parsing only: nothing is opened or looked up. A list in one -o is split at commas as mount(8) does
 * (a comma within "..." or after a backslash belongs to the value); an -o argument that starts with
 * "exclude=" is taken whole. The first error is a line that names the option and its value.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "fs/exclude.h"
#include "fs/ownership/present.h"

enum run_policy { POLICY_ALWAYS, POLICY_ON_ROOT_MISMATCH, POLICY_ROOT_ONLY };
enum ownership_mode { OWNERSHIP_CONVERGE, OWNERSHIP_VIRTUAL, OWNERSHIP_NONE };
enum coherence { COHERENCE_SHARED, COHERENCE_EXCLUSIVE };
enum transport { TRANSPORT_DEV, TRANSPORT_IO_URING };

#define OPTIONS_ERROR_MAX 512
#define RUN_ID_LEN 32 /* hex digits */

struct overlay_options {
	struct ownership_rule rule; /* gid, read_only, keep_private */
	enum run_policy policy;
	enum ownership_mode ownership;
	enum coherence coherence;
	enum transport transport; /* of requests: ring.h */
	bool handoff;
	bool handoff_in_namespaces; /* copies in containers are replaced too */
	bool idmap;		    /* the overlay's mounts may be idmapped */
	bool paused;
	uint32_t watchdog_ms;	  /* a server that hangs as long is replaced; 0: never */
	uint32_t max_deaths;	  /* of servers in a minute, then none is started; 0: no limit */
	uint32_t listing_seconds; /* instead of listing.c's, for tests; 0: unset */
	uint32_t kill_opcode, kill_point; /* ledger_parse_kill(); 0: none */
	bool root_is_1;		/* SHARED_LAYOUT_ROOT_IS_1; for tests also where it need not be */
	uint64_t converge_rate; /* files a second, 0: no limit */
	int64_t cpu_latency_us; /* cpu_latency.h; -1: unset */
	struct exclude *exclude;
	uint64_t expected_files; /* from an earlier run, for progress; 0: unknown */
	const char
		*volume; /* for logs, or NULL; these texts are borrowed from the argument vector */
	char run_id[RUN_ID_LEN + 1]; /* empty: the run ends with the mount and is never resumed */
	const char *epoch; /* "seconds.nanoseconds" or "none" of a run that is resumed, or NULL */

	/* Of SELinux, checked for its form only; "": that of the source. */
	const char *context;

	/* Mount attributes to set and to clear against those of the lower's mount: MOUNT_ATTR_*. */
	uint64_t mount_attr_set, mount_attr_clear;

	/* Descriptors from a supervisor; -1: none. */
	int lower_fd, parent_fd, control_fd, journal_fd, ready_fd;
};

/* options_init: the defaults. 0 or -ENOMEM. options_fini frees what parsing made. */
int options_init(struct overlay_options *ret_options);
void options_fini(struct overlay_options *o);

/*
 * options_parse: adds one -o argument, which is kept: options borrow from it and commas become NULs.
 * Returns 0, or -EINVAL/-ERANGE/-E2BIG with a line in @ret_error.
 */
int options_parse(struct overlay_options *o, char *list, char ret_error[OPTIONS_ERROR_MAX]);

#endif
