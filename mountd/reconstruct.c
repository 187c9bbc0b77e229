// SPDX-License-Identifier: Apache-2.0
/*
 * reconstruct: at the daemon's start, what is on record is compared with what is there. Consumers are
 * not disturbed: nothing is unmounted, removed or started; keepers are adopted, states corrected.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "fs/base/log.h"
#include "mountd/manager_impl.h"
#include "mountd/mount.h"
#include "mountd/tree_identity.h"

/* @target: NULL when its parent is not there. */
static bool look_at(const struct target *target, struct mount_view *ret_view)
{
	return target && mount_look(target->parent_fd, target->name, ret_view) == 0 &&
	       ret_view->is_root;
}

static void set_state(struct manager *m, const struct volume_record *vol, enum volume_state state,
		      const char *reason, uint64_t mount_id)
{
	int r = store_volume_set_state(m->store, vol->id, state, reason, mount_id);

	if (r < 0)
		log_line(LOG_WARNING, "reconstruct",
			 "vol=%s ignoring that its state is not on record: %s", vol->id,
			 strerror(-r));
	if (state != vol->state)
		event(m, vol->id, "reconstructed", "%s -> %s%s%s", volume_state_name(vol->state),
		      volume_state_name(state), reason ? ": " : "", reason ? reason : "");
}

/* The tree that the volume shows, for conflicts with volumes to come: from its run, or looked at again. */
static void remember_live(struct manager *m, const struct volume_record *vol, bool is_virtual)
{
	AUTO(run_record) *run = NULL;
	AUTO(volume_work) *work = NULL;
	AUTO_FREE char *tree = NULL, *wanted = NULL, *text = NULL;
	AUTO_FD int lower = -1;
	char why[PLUGIN_ERROR_MAX];

	if (vol->run_id && store_run_get(m->store, vol->run_id, &run) == 0) {
		(void)live_add(m, vol->id, run->tree, run->wanted);
		return;
	}
	if (!is_virtual || work_open(m, vol, NULL, false, &work, why) < 0 || work->dir_fd < 0)
		return;
	wanted = wanted_text(vol);
	if (!wanted || asprintf(&text, "virtual;%s", wanted) < 0) {
		text = NULL;
		return;
	}
	if (work->plugin->open_lower(&work->building.b, &lower) == 0 &&
	    tree_identity(lower, m->boot_id, &tree) == 0)
		(void)live_add(m, vol->id, tree, text);
}

static bool adopt(struct manager *m, const struct volume_record *vol, const struct target *target)
{
	AUTO(overlay) *o = NULL;
	struct overlay_status status;
	struct mount_view view;

	if (overlay_adopt(m->overlays, vol->id, &o) < 0)
		return false;
	overlay_status_get(o, &status);
	/*
	 * Looked at only now: a keeper that was just starting answers once it has mounted. One whose
	 * overlay is at no target of ours any more only waits for its last users.
	 */
	if (!look_at(target, &view) || (view.id != status.mount_id && view.id != vol->mount_id))
		return false;
	remember_live(m, vol, status.state == VOLUME_VIRTUAL);
	if (status.state != VOLUME_NATIVE)
		live_set_dev(m, vol->id, view.dev);
	if (vol->state == VOLUME_SETTING_UP || vol->state == VOLUME_FAILED)
		set_state(m, vol, status.state, status.reason[0] ? status.reason : NULL, view.id);
	return overlay_attach(o, vol->id, false) == 0;
}

/* No keeper answers. */
static void judge(struct manager *m, const struct volume_record *vol, const struct target *target,
		  const struct mount_view *view, bool mounted)
{
	if (mounted && view->id == vol->mount_id && vol->mount_id != 0) {
		if (vol->state == VOLUME_NATIVE) {
			remember_live(m, vol, false);
			return;
		}
		set_state(m, vol, VOLUME_FAILED, "the overlay's keeper has ended", vol->mount_id);
		return;
	}
	if (mounted && was_handed_off(m, vol, target, view)) {
		set_state(m, vol, VOLUME_NATIVE, NULL, view->id);
		remember_live(m, vol, false);
		return;
	}
	if (mounted) {
		set_state(m, vol, VOLUME_FAILED,
			  "something that is not ours is mounted at the target", vol->mount_id);
		return;
	}
	set_state(m, vol, VOLUME_ABSENT, "nothing is mounted at the target", 0);
}

static void reconstruct_one(struct manager *m, const struct volume_record *vol)
{
	AUTO(target) *target = NULL;
	struct mount_view view = { 0 };
	char why[TARGET_ERROR_MAX];
	bool mounted;

	if (vol->state == VOLUME_TEARING_DOWN || vol->state == VOLUME_STAGED)
		return; /* the next call finishes it */
	if (strcmp(vol->boot_id ? vol->boot_id : "", m->boot_id) != 0) {
		if (vol->state != VOLUME_ABSENT)
			set_state(m, vol, VOLUME_ABSENT, "the machine has been restarted", 0);
		return;
	}
	if (vol->state == VOLUME_ABSENT)
		return;
	(void)target_open(vol->target_resolved, &target, why);
	if (adopt(m, vol, target))
		return;
	mounted = look_at(target, &view);
	if (vol->state != VOLUME_SETTING_UP)
		judge(m, vol, target, &view, mounted);
}

/*
 * A journal serves the run that resumes it: not one that is finished, nor one that the store has
 * forgotten, because another run on the same tree came after it. A keeper has its own open.
 */
static void drop_journals(struct manager *m)
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

void manager_reconstruct(struct manager *m)
{
	struct volume_record **list = NULL;
	int n = store_volume_list(m->store, &list);

	if (n < 0) {
		log_line(LOG_ERROR, "reconstruct", "the store's volumes cannot be listed: %s",
			 strerror(-n));
		return;
	}
	for (int i = 0; i < n; i++)
		reconstruct_one(m, list[i]);
	store_volume_list_free(list, (size_t)n);
	drop_journals(m);
}
