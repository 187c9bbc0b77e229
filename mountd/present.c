// SPDX-License-Identifier: Apache-2.0
/*
 * present: from a lower tree to what the consumer sees at the target: the tree itself where nothing is
 * to be shown, else an overlay and a run (design, sections 2.3 and 4).
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "fs/base/log.h"
#include "mountd/mount.h"
#include "mountd/plan.h"
#include "mountd/root_record.h"
#include "mountd/tree_identity.h"

#define SHARE_TRIES 10
#define SHARE_PAUSE_MS 50
#define TREE_KEY "tree:"
#define FS_KEY "fs:"
#define OVERLAY_TYPE "fuse.fsgroupfs"

/* Success of set-up, marker and due run in one transaction. */
static int record_setup(struct presenting *p, struct plan *plan)
{
	int r;

	free(p->vol->run_id);
	p->vol->run_id = plan->run ? strdup(plan->run->id) : NULL;
	if (plan->run && !p->vol->run_id)
		return -ENOMEM;
	r = store_setup_done(p->m->store, p->vol, p->certifies, plan->run);
	if (r < 0)
		return presenting_store_failed(p, r);
	if (r > 0)
		journals_drop(p->m);
	step_reached(p->m, STEP_MOUNT_DONE);
	return 0;
}

/*
 * The intent stands on the tree too before anything of it changes. Where the root takes no such record
 * it has none, or what is there cannot be changed, and neither can the root.
 */
static void record_on_root(struct presenting *p, const struct plan *plan)
{
	int r;

	if (!plan->run || plan->shared)
		return;
	r = plan->run->finished ?
		    root_record_finish(p->lower_fd, plan->tree, plan->wanted, plan->run->id) :
		    root_record_begin(p->lower_fd, plan->tree, plan->wanted, plan->run->id);
	if (r < 0 && r != -EOPNOTSUPP && r != -EROFS)
		log_line(LOG_WARNING, "present",
			 "vol=%s ignoring that its root takes no record: %s", p->vol->id,
			 strerror(-r));
}

static int record_state(struct presenting *p, enum volume_state state, const char *reason)
{
	int r = store_volume_set_state(p->m->store, p->vol->id, state, reason, p->vol->mount_id);

	if (r < 0)
		return presenting_store_failed(p, r);
	p->vol->state = state;
	return 0;
}

/* A detached clone goes to the target; its id is on record before it can be seen. */
static int attach_clone(struct presenting *p, int tree_fd, enum volume_state state,
			const char *reason)
{
	int r = record_state(p, VOLUME_SETTING_UP, NULL);

	if (r < 0)
		return r;
	step_reached(p->m, STEP_TARGET_RECORDED);
	r = mount_attach(tree_fd, p->target->parent_fd, p->target->name);
	if (r < 0)
		return presenting_fail(p, r, "mounting at the target: %s", strerror(-r));
	step_reached(p->m, STEP_TARGET_MOUNTED);
	return record_state(p, state, reason);
}

/* What its mount is to have that the lower tree's has not, and the reverse. */
static int wanted_flags(struct presenting *p, struct mount_flags *ret_flags)
{
	int r = mount_flags_parse(p->vol->mount_options, ret_flags, p->error, ANSWER_TEXT_MAX);

	if (r == 0 && p->vol->read_only)
		(void)mount_flags_add(ret_flags, "ro");
	return r;
}

static int present_native(struct presenting *p, const struct plan *plan)
{
	AUTO_FD int tree = -1;
	struct mount_flags flags = { 0 };
	int r = wanted_flags(p, &flags);

	if (r == 0)
		r = mount_clone(p->lower_fd, &flags, &tree, &p->vol->mount_id);

	if (r < 0)
		return presenting_fail(p, r, "cloning the lower tree's mount: %s", strerror(-r));
	return attach_clone(p, tree, VOLUME_NATIVE, plan->reason);
}

static int open_journal(struct presenting *p, const char *run_id, int *ret_fd)
{
	char name[64];
	int fd;

	snprintf(name, sizeof(name), "%s.journal", run_id);
	fd = openat(p->m->runs_fd, name, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
		    0600);
	if (fd < 0) {
		int r = -errno;

		return presenting_fail(p, r, "the run's journal: %s", strerror(-r));
	}
	*ret_fd = fd;
	return 0;
}

void journal_remove(struct manager *m, const char *run_id)
{
	char name[64];

	snprintf(name, sizeof(name), "%.32s.journal", run_id);
	unlinkat(m->runs_fd, name, 0);
}

void journals_drop(struct manager *m)
{
	AUTO_FD int fd = openat(m->runs_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	if (!dir)
		return;
	take_fd(&fd);
	while ((entry = readdir(dir)) != NULL) {
		AUTO(run_record) *run = NULL;
		char id[33];
		int r;

		if (strlen(entry->d_name) < 32)
			continue;
		snprintf(id, sizeof(id), "%.32s", entry->d_name);
		r = store_run_get(m->store, id, &run);
		if (r == -ENOENT || (r == 0 && run->finished))
			journal_remove(m, id);
	}
	closedir(dir);
}

/* NULL-terminated patterns out of the record's JSON array; borrowed from @list. */
static const char **patterns_of(json_t *list)
{
	const char **patterns = calloc(json_array_size(list) + 1, sizeof(*patterns));
	size_t i, count = 0;
	json_t *item;

	json_array_foreach(list, i, item) {
		if (patterns && json_is_string(item))
			patterns[count++] = json_string_value(item);
	}
	return patterns;
}

/* What mountinfo shows as the overlay's source: the path of a source that has one. */
static const char *source_text(const struct volume_record *vol, json_t *record)
{
	json_t *path = NULL;

	(void)json_unpack(record, "{s:{s:{s:o}}}", "object", vol->plugin, "path", &path);
	if (!path)
		(void)json_unpack(record, "{s:{s:{s:{s:o}}}}", "object", "spec", vol->plugin,
				  "path", &path);
	return json_is_string(path) ? json_string_value(path) : vol->plugin;
}

bool is_orphan(const struct volume_record *vol)
{
	json_t *record = json_loads(vol->source, 0, NULL);
	bool is_it = vol->mount_id == 0 &&
		     (vol->state == VOLUME_SETTING_UP || vol->state == VOLUME_TEARING_DOWN) &&
		     mount_is_overlay(vol->target_resolved, OVERLAY_TYPE, source_text(vol, record));

	json_decref(record);
	return is_it;
}

/* To fsgroupfs "ro" is a read-only volume; a mount that is read-only is made so later. */
static int overlay_options(struct presenting *p, char **ret_options)
{
	struct mount_flags flags = { 0 };
	int r = mount_flags_parse(p->vol->mount_options, &flags, p->error, ANSWER_TEXT_MAX);

	flags.set &= ~(uint64_t)MOUNT_ATTR_RDONLY;
	flags.clear &= ~(uint64_t)MOUNT_ATTR_RDONLY;
	return r < 0 ? r : mount_flags_text(&flags, ret_options);
}

/* Of the overlay that was just started, before its caller hears of it. */
static int make_read_only(struct presenting *p)
{
	struct mount_flags flags = { 0 };
	int r = wanted_flags(p, &flags);

	if (r < 0 || !(flags.set & MOUNT_ATTR_RDONLY))
		return r;
	flags = (struct mount_flags){ .set = MOUNT_ATTR_RDONLY };
	r = mount_change(p->target->parent_fd, p->target->name, p->vol->mount_id, &flags);
	/* There is no hand-off before we listen to its keeper. */
	if (r < 0)
		return presenting_fail(p, r, "making the mount read-only: %s", strerror(-r));
	return 0;
}

static int start_overlay(struct presenting *p, const struct plan *plan,
			 struct overlay **ret_overlay)
{
	const struct volume_record *vol = p->vol;
	json_t *list = json_loads(vol->excludes, 0, NULL);
	json_t *record = json_loads(vol->source, 0, NULL);
	AUTO_FREE const char **patterns = patterns_of(list);
	AUTO_FD int journal_fd = -1;
	struct overlay_spec spec = {
		.volume_id = vol->id,
		.source = source_text(vol, record),
		.target = vol->target_resolved,
		.lower_fd = p->lower_fd,
		.parent_fd = p->target->parent_fd,
		.gid = vol->fs_group,
		.read_only = vol->read_only,
		.keep_private = vol->keep_private,
		.handoff = vol->handoff && !plan->is_virtual,
		.handoff_in_namespaces = vol->handoff_in_namespaces,
		.idmap = vol->idmap,
		.paused = vol->paused,
		/* Whether a matching root spares the run is decided already, with more to go by than the root. */
		.policy = strcmp(vol->policy, "OnRootMismatch") == 0 ? "Always" : vol->policy,
		.ownership = plan->is_virtual ? "virtual" : "converge",
		.excludes = (char *const *)patterns,
		.converge_rate = vol->converge_rate,
		.cpu_latency_us = p->m->cpu_latency_us,
		.total = plan->total,
		.coherence = plan->is_virtual ? "shared" : vol->coherence,
		.transport = vol->transport ? vol->transport : "dev",
		.run = plan->run ? plan->run->id : NULL,
		.epoch = plan->resumes && !plan->run->epoch ? "none" :
			 plan->run			    ? plan->run->epoch :
							      NULL,
	};
	AUTO_FREE char *options = NULL;
	char why[OVERLAY_ERROR_MAX];
	int r = patterns ? overlay_options(p, &options) : -ENOMEM;

	spec.mount_options = options;
	if (r == 0 && plan->run)
		r = open_journal(p, plan->run->id, &journal_fd);
	if (r == 0) {
		spec.journal_fd = journal_fd;
		r = overlay_start(p->m->overlays, &spec, ret_overlay, why);
		if (r < 0)
			presenting_fail(p, r, "%s", why[0] ? why : strerror(-r));
	}
	json_decref(list);
	json_decref(record);
	return r;
}

static void learn_dev(struct presenting *p)
{
	struct mount_view view;

	if (mount_look(p->target->parent_fd, p->target->name, &view) == 0)
		live_set_dev(p->m, p->vol->id, view.dev);
}

static int present_overlay(struct presenting *p, const struct plan *plan)
{
	AUTO(overlay) *o = NULL;
	struct overlay_status status;
	int r = start_overlay(p, plan, &o);

	if (r < 0)
		return r;
	step_reached(p->m, STEP_OVERLAY_STARTED);
	overlay_status_get(o, &status);
	p->vol->mount_id = status.mount_id;
	learn_dev(p);
	r = make_read_only(p);
	if (r == 0)
		r = record_state(p, status.state, status.reason[0] ? status.reason : NULL);
	/* Attached in any case: the undoing of a failure finds the overlay so. */
	if (overlay_attach(o, p->vol->id, false) < 0 && r == 0)
		r = -ENOMEM;
	return r;
}

/* The same overlay at one more target: one server, one cache, shared locks. */
static int present_shared(struct presenting *p, const struct plan *plan)
{
	AUTO(volume_record) *first = NULL;
	AUTO(target) *target = NULL;
	struct overlay_status status;
	struct mount_view view;
	struct mount_flags flags = { 0 };
	char why[TARGET_ERROR_MAX];
	AUTO_FD int mount_fd = -1;
	AUTO_FD int tree = -1;
	int r = store_volume_by_id(p->m->store, plan->shared_with, &first);

	if (r == 0)
		r = target_open(first->target_resolved, &target, why);
	if (r == 0) {
		mount_fd = openat(target->parent_fd, target->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		r = mount_fd < 0 ? -errno : mount_look(mount_fd, "", &view);
	}
	overlay_status_get(plan->shared, &status);
	if (r == 0 && view.id != first->mount_id && view.id != status.mount_id)
		r = -ESTALE;
	if (r == 0)
		r = wanted_flags(p, &flags);
	if (r == 0)
		r = mount_flags_like(p->lower_fd, &flags, &flags);
	if (r == 0)
		r = mount_clone(mount_fd, &flags, &tree, &p->vol->mount_id);
	if (r == 0)
		r = overlay_share(p->m->overlays, plan->shared, p->vol->id);
	if (r < 0)
		return presenting_fail(p, r, "sharing the overlay of volume %s: %s",
				       plan->shared_with, strerror(-r));
	live_set_dev(p->m, p->vol->id, view.dev);
	r = attach_clone(p, tree, status.state, status.reason[0] ? status.reason : NULL);
	if (overlay_attach(plan->shared, p->vol->id, false) < 0 && r == 0)
		r = -ENOMEM;
	return r;
}

bool was_handed_off(struct manager *m, const struct volume_record *vol, const struct target *target,
		    const struct mount_view *view)
{
	AUTO(run_record) *run = NULL;
	AUTO(volume_work) *work = NULL;
	AUTO_FD int lower_fd = -1;
	char why[PLUGIN_ERROR_MAX];
	struct stat lower, there;

	if (!vol->handoff || !vol->run_id || store_run_get(m->store, vol->run_id, &run) < 0 ||
	    !run->finished)
		return false;
	if (work_open(m, vol, NULL, false, &work, why) < 0 || work->dir_fd < 0 ||
	    work->plugin->open_lower(&work->building.b, &lower_fd) < 0)
		return false;
	/* The device first: what is not on the lower's file system may be an overlay, and is not asked. */
	if (fstatat(lower_fd, "", &lower, AT_EMPTY_PATH) < 0 || lower.st_dev != view->dev)
		return false;
	return fstatat(target->parent_fd, target->name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
	       there.st_dev == lower.st_dev && there.st_ino == lower.st_ino;
}

/*
 * Decided and announced under one key for the whole file system: of two volumes that come at the same time
 * on trees that enclose each other the second sees the first.
 */
static int decide_and_announce(struct presenting *p, const struct stat *lower, struct plan *plan)
{
	AUTO_FREE char *key = NULL;
	int r;

	if (asprintf(&key, FS_KEY "%.*s", (int)strcspn(plan->tree, ":"), plan->tree) < 0) {
		key = NULL;
		return -ENOMEM;
	}
	r = key_lock(p->m, key);
	if (r < 0)
		return r;
	r = plan_decide(p, lower, plan);
	if (r == 0)
		r = live_add(p->m, p->vol->id, plan->tree, plan->wanted);
	key_unlock(p->m, key);
	return r;
}

static int present_planned(struct presenting *p, const struct stat *lower, struct plan *plan)
{
	int r = decide_and_announce(p, lower, plan);

	if (r < 0)
		return r;
	if (plan->shared) {
		AUTO(volume_record) *first = NULL;

		if (store_volume_by_id(p->m->store, plan->shared_with, &first) == 0 &&
		    first->run_id && store_run_get(p->m->store, first->run_id, &plan->run) < 0)
			plan->run = NULL;
	}
	r = record_setup(p, plan);
	if (r < 0)
		return r;
	record_on_root(p, plan);
	if (plan->native)
		return present_native(p, plan);
	return plan->shared ? present_shared(p, plan) : present_overlay(p, plan);
}

/*
 * The overlay to be shared may be handed off while it is being shared: then what is there by now is planned
 * for, once it is known.
 */
static int present_until_settled(struct presenting *p, const struct stat *lower,
				 struct plan **io_plan)
{
	uint64_t generation = 0;
	int r = present_planned(p, lower, *io_plan);

	for (int i = 0; r == -ESTALE && (*io_plan)->shared && i < SHARE_TRIES; i++) {
		AUTO(plan) *next = calloc(1, sizeof(*next));

		if (!next)
			return -ENOMEM;
		next->tree = take_ptr(&(*io_plan)->tree);
		plan_free(*io_plan);
		*io_plan = take_ptr(&next);
		manager_await_change(p->m, &generation, SHARE_PAUSE_MS);
		p->error[0] = '\0';
		r = present_planned(p, lower, *io_plan);
	}
	return r;
}

int present_volume(struct presenting *p)
{
	AUTO(plan) *plan = calloc(1, sizeof(*plan));
	AUTO_FREE char *key = NULL;
	enum target_kind kind = TARGET_ABSENT;
	struct stat lower;
	int r;

	if (!plan)
		return -ENOMEM;
	if (fstatat(p->lower_fd, "", &lower, AT_EMPTY_PATH) < 0)
		return -errno;
	r = target_look(p->target, &kind);
	if (r == 0 && kind != (S_ISDIR(lower.st_mode) ? TARGET_DIRECTORY : TARGET_FILE))
		return presenting_fail(p, -ENOTDIR, "the target is not a %s, as the source needs",
				       S_ISDIR(lower.st_mode) ? "directory" : "regular file");
	if (r < 0)
		return presenting_fail(p, r, "the target: %s", strerror(-r));
	if (plan_is_plainly_native(p, &lower, plan)) {
		r = record_setup(p, plan);
		return r < 0 ? r : present_native(p, plan);
	}
	r = tree_identity(p->lower_fd, p->m->boot_id, &plan->tree);
	if (r < 0)
		return presenting_fail(p, r, "identifying the lower tree: %s", strerror(-r));
	if (asprintf(&key, TREE_KEY "%s", plan->tree) < 0) {
		key = NULL;
		return -ENOMEM;
	}
	r = key_lock(p->m, key);
	if (r < 0)
		return r;
	r = present_until_settled(p, &lower, &plan);
	key_unlock(p->m, key);
	if (r < 0)
		live_remove(p->m, p->vol->id);
	return r;
}
