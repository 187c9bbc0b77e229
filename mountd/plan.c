// SPDX-License-Identifier: Apache-2.0
#include "mountd/plan.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "fs/ownership/apply.h"
#include "mountd/neighbours.h"
#include "mountd/root_record.h"

#define IGNORED "fsGroup ignored: "

int presenting_fail(struct presenting *p, int error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(p->error, ANSWER_TEXT_MAX, format, args);
	va_end(args);
	return error;
}

int presenting_store_failed(struct presenting *p, int error)
{
	store_why(error, p->error, ANSWER_TEXT_MAX);
	return error;
}

void plan_free(struct plan *plan)
{
	if (!plan)
		return;
	free(plan->tree);
	free(plan->wanted);
	run_record_free(plan->run);
	overlay_unref(plan->shared);
	free(plan);
}

char *wanted_text(const struct volume_record *vol)
{
	char *text = NULL;

	if (asprintf(&text, "gid=%u;mask=%s;scope=%s;keepPrivate=%d;excludes=%s",
		     (unsigned)vol->fs_group, vol->read_only ? "ro" : "rw",
		     strcmp(vol->policy, "RootOnly") == 0 ? "root" : "tree", vol->keep_private,
		     vol->excludes) < 0)
		return NULL;
	return text;
}

/* ---- labels of SELinux ---- */

static void source_label(const struct presenting *p, char ret_label[SELINUX_LABEL_MAX + 1])
{
	if (selinux_why_not("") || selinux_label_of(p->lower_fd, ret_label) < 0)
		ret_label[0] = '\0';
}

/* What an overlay of @vol has besides its files' own: the context= that was asked for; "": nothing was. */
static int asked_label(const struct presenting *p, const struct volume_record *vol,
		       struct mount_flags *ret_flags)
{
	return mount_flags_parse(vol->mount_options, ret_flags, p->error, ANSWER_TEXT_MAX);
}

/* Whether the files are to be seen with a label that they have not: only an overlay can do that. */
static int wants_foreign_label(const struct presenting *p, bool *ret_wants)
{
	char own[SELINUX_LABEL_MAX + 1];
	struct mount_flags flags;
	int r = asked_label(p, p->vol, &flags);

	if (r < 0)
		return r;
	source_label(p, own);
	*ret_wants = selinux_label_is_foreign(flags.context, own);
	return 0;
}

/* One overlay has one label, and a tree that is mounted itself has its own. */
static int check_same_label(struct presenting *p, const struct volume_record *first)
{
	char own[SELINUX_LABEL_MAX + 1];
	struct mount_flags mine, theirs = { 0 };
	int r = asked_label(p, p->vol, &mine);

	if (r == 0)
		r = asked_label(p, first, &theirs);
	if (r < 0)
		return r;
	source_label(p, own);
	if (first->state == VOLUME_NATIVE ?
		    !selinux_label_is_foreign(mine.context, own) :
		    strcmp(selinux_label_to_mount(mine.context, own),
			   selinux_label_to_mount(theirs.context, own)) == 0)
		return 0;
	return presenting_fail(p, -EBUSY,
			       "volume %s shows the same tree with another context=", first->id);
}

/* An overlay's mounts may be idmapped, or may not; those of the tree itself always. */
static int check_idmap(struct presenting *p, const struct volume_record *first)
{
	if (!p->vol->idmap || first->idmap || first->state == VOLUME_NATIVE)
		return 0;
	return presenting_fail(p, -EBUSY, "volume %s shows the same tree without idmap=yes",
			       first->id);
}

/* ---- deciding ---- */

static bool is_plainly_native(struct presenting *p, const struct stat *lower, struct plan *plan)
{
	const struct volume_record *vol = p->vol;
	bool asked_virtual = strcmp(vol->ownership, "virtual") == 0;

	if (vol->fs_group == GID_UNSET)
		return true;
	if (strcmp(vol->ownership, "none") == 0) {
		plan->reason = "ownership=none";
		return true;
	}
	if (!asked_virtual &&
	    (!p->plugin->attributes.manages_ownership || p->outcome == OWNERSHIP_IGNORED)) {
		plan->reason = IGNORED "the plugin does not manage ownership";
		snprintf(p->note, ANSWER_TEXT_MAX,
			 "fsGroup %u is ignored: %s does not manage ownership",
			 (unsigned)vol->fs_group, p->plugin->name);
		return true;
	}
	if (!S_ISDIR(lower->st_mode)) {
		plan->reason = IGNORED "the source is not a directory";
		snprintf(p->note, ANSWER_TEXT_MAX,
			 "fsGroup %u is ignored: the source is not a directory",
			 (unsigned)vol->fs_group);
		return true;
	}
	/* Virtual was asked for what comes later too: a plugin that is done has not done that. */
	return p->outcome == OWNERSHIP_DONE && !asked_virtual;
}

bool plan_is_plainly_native(struct presenting *p, const struct stat *lower, struct plan *plan)
{
	bool foreign = false;
	size_t used;

	if (!is_plainly_native(p, lower, plan))
		return false;
	used = strlen(p->note);
	if (wants_foreign_label(p, &foreign) == 0 && foreign)
		snprintf(p->note + used, ANSWER_TEXT_MAX - used,
			 "%scontext= is ignored: the source itself is mounted, with its labels",
			 used ? "; " : "");
	return true;
}

bool present_is_ignored(const struct volume_record *vol)
{
	return vol->state == VOLUME_NATIVE && vol->reason &&
	       strncmp(vol->reason, IGNORED, strlen(IGNORED)) == 0;
}

static struct ownership_rule rule_of(const struct volume_record *vol)
{
	return (struct ownership_rule){
		.gid = vol->fs_group,
		.read_only = vol->read_only,
		.keep_private = vol->keep_private,
	};
}

static bool root_matches(const struct presenting *p, const struct stat *lower)
{
	const struct ownership_rule rule = rule_of(p->vol);

	return present_root_matches(&rule, lower);
}

/* Whether nothing is below the directory. */
static int tree_is_empty(int dir_fd, bool *ret_empty)
{
	AUTO_FD int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOATIME);
	char buffer[4096] __attribute__((aligned(8)));
	ssize_t len = fd < 0 ? -1 : getdents64(fd, buffer, sizeof(buffer));

	if (len < 0)
		return -errno;
	for (ssize_t at = 0; at < len;) {
		const struct dirent64 *entry = (const struct dirent64 *)(buffer + at);

		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			return 0;
		at += entry->d_reclen;
	}
	*ret_empty = true;
	return 0;
}

static int new_run(struct plan *plan)
{
	unsigned char bytes[16];
	char id[2 * sizeof(bytes) + 1];

	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		return -EIO;
	format_hex(bytes, sizeof(bytes), id);
	plan->run = run_record_new();
	if (!plan->run)
		return -ENOMEM;
	plan->run->id = strdup(id);
	plan->run->tree = strdup(plan->tree);
	plan->run->wanted = strdup(plan->wanted);
	return plan->run->id && plan->run->tree && plan->run->wanted ? 0 : -ENOMEM;
}

/*
 * Where there is nothing but the root, the root is all that a run would change. Asked again afterwards:
 * what is made below a root that is right already gets its group from there.
 */
static int own_empty_tree(struct presenting *p, bool *ret_done)
{
	const struct ownership_rule rule = rule_of(p->vol);
	bool empty = false;
	int r = tree_is_empty(p->lower_fd, &empty);

	if (r < 0 || !empty)
		return r;
	r = apply_entry(p->lower_fd, "/proc/self/fd", &rule, NULL);
	if (r < 0)
		return r;
	return tree_is_empty(p->lower_fd, ret_done);
}

/* A run that has nothing left to do when it begins. */
static int finish_at_once(struct plan *plan)
{
	int r = new_run(plan);

	if (r < 0)
		return r;
	plan->run->finished = true;
	plan->run->counters = (struct run_counters){ .seen = 1, .correct = 1 };
	plan->native = true;
	return 0;
}

/* Which run the volume takes part in, or that none is due. */
static int choose_run(struct presenting *p, const struct stat *lower, bool is_overlay_needed,
		      struct plan *plan)
{
	AUTO(run_record) *last = NULL;
	bool skips = strcmp(p->vol->policy, "OnRootMismatch") == 0, empty = false;
	enum root_record record;
	int r = store_run_find(p->m->store, plan->tree, plan->wanted, &last);

	if (r < 0 && r != -ENOENT)
		return presenting_store_failed(p, r);
	record = root_record_read(p->lower_fd, plan->tree, plan->wanted, last ? last->id : NULL);
	/* Another node, or another state directory, has done something else here since. */
	if (last && (record == ROOT_RECORD_OTHER || record == ROOT_RECORD_BEGUN)) {
		run_record_free(last);
		last = NULL;
	}
	/* An interrupted run resumes under every policy: a root that is right says nothing of the rest. */
	if (last && !last->finished) {
		plan->run = take_ptr(&last);
		plan->resumes = true;
		return 0;
	}
	if (last)
		plan->total = last->counters.seen;
	if (is_overlay_needed)
		return new_run(plan);
	/* One run for each set-up that ran: none where it did not run, and the last was finished. */
	if ((last || record == ROOT_RECORD_EQUAL) && (skips || !p->setup_ran)) {
		plan->native = true;
		return 0;
	}
	/* A root that is right says nothing of the rest where the last run is known to have wanted else. */
	if (skips && record == ROOT_RECORD_NONE && root_matches(p, lower)) {
		plan->native = true;
		return 0;
	}
	/* What cannot be changed now is the overlay's to show and to report. */
	if (own_empty_tree(p, &empty) == 0 && empty)
		return finish_at_once(plan);
	return new_run(plan);
}

static int become_virtual(struct plan *plan)
{
	char *text = NULL;

	if (asprintf(&text, "virtual;%s", plan->wanted) < 0)
		return -ENOMEM;
	free(plan->wanted);
	plan->wanted = text;
	plan->is_virtual = true;
	return 0;
}

/*
 * The same ownership on the same tree: one overlay serves both. Where the first is native already so is
 * this one: beside it an overlay would be a second file system to lock the same files on.
 */
static int join(struct presenting *p, const char *first, struct plan *plan)
{
	AUTO(volume_record) *vol = NULL;
	struct overlay_status status;
	int r = store_volume_by_id(p->m->store, first, &vol);

	if (r < 0 && r != -ENOENT)
		return presenting_store_failed(p, r);
	r = vol ? check_same_label(p, vol) : 0;
	if (r == 0 && vol)
		r = check_idmap(p, vol);
	if (r < 0)
		return r;
	plan->shared = overlay_find(p->m->overlays, first);
	if (plan->shared && overlay_refresh(plan->shared, &status) == 0 &&
	    status.state != VOLUME_NATIVE) {
		snprintf(plan->shared_with, sizeof(plan->shared_with), "%s", first);
		return 0;
	}
	overlay_unref(plan->shared);
	plan->shared = NULL;
	volume_record_free(take_ptr(&vol));
	if (store_volume_by_id(p->m->store, first, &vol) == 0 && vol->state == VOLUME_NATIVE)
		plan->native = true;
	return 0;
}

/* Another wanted ownership on the same, an enclosing or an enclosed tree (design, section 2). */
static int settle_conflict(struct presenting *p, struct plan *plan)
{
	struct neighbours n;
	int r = neighbours_find(p->m, p->vol->id, p->lower_fd, plan->tree, plan->wanted,
				!plan->is_virtual, &n);

	if (r < 0)
		return r;
	if (n.other[0] && p->conflict_is_refused)
		return presenting_fail(
			p, -EBUSY,
			"volume %s has another ownership on %s (conflict=virtual would show this one its own)",
			n.other, n.where);
	if (n.other[0]) {
		event(p->m, p->vol->id, "conflict",
		      "volume %s has another ownership on %s: shown as virtual", n.other, n.where);
		r = become_virtual(plan);
		return r < 0 ? r : settle_conflict(p, plan); /* perhaps another shows just that */
	}
	return n.equal[0] ? join(p, n.equal, plan) : 0;
}

int plan_decide(struct presenting *p, const struct stat *lower, struct plan *plan)
{
	bool foreign = false;
	int r = wants_foreign_label(p, &foreign);

	if (r < 0)
		return r;
	plan->wanted = wanted_text(p->vol);
	if (!plan->wanted)
		return -ENOMEM;
	/* Read-only: nothing is ever written to the lower tree. */
	if ((strcmp(p->vol->ownership, "virtual") == 0 || p->vol->read_only) &&
	    become_virtual(plan) < 0)
		return -ENOMEM;
	r = settle_conflict(p, plan);
	if (r < 0 || plan->shared || plan->native)
		return r;
	if (!plan->is_virtual)
		return choose_run(p, lower, foreign, plan);
	plan->native = !foreign && strcmp(p->vol->ownership, "virtual") != 0 &&
		       strcmp(p->vol->policy, "OnRootMismatch") == 0 && root_matches(p, lower);
	return 0;
}
