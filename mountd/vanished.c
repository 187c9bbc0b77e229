// SPDX-License-Identifier: Apache-2.0
/*
 * vanished: volumes whose mount somebody else has taken off its target, which is legal: umount(2) by hand. What is
 * left of them is torn down as `fsgroupctl unmount --lazy` would, but for what only an explicit unmount takes away:
 * the data of volumes whose tear-down deletes what users have written, and the record of those that persist.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fs/base/log.h"
#include "mountd/caller_place.h"
#include "mountd/finding.h"
#include "mountd/mount_list.h"

/* What the record says of a volume that stays on it; NULL: it goes altogether. */
static const char *why_kept(const struct volume_record *vol)
{
	const struct volume_plugin *plugin = plugin_find(vol->plugin);

	/* What the plugin alone writes, it can write again. */
	if (!plugin || (plugin->attributes.idempotency == IDEMPOTENCY_MARKER &&
			!plugin->attributes.is_read_only))
		return "unmounted by somebody else; its data is kept";
	return vol->persist ? "unmounted by somebody else; it persists" : NULL;
}

int vanished_tear_down(struct manager *m, struct volume_record *vol, char *ret_error)
{
	const char *kept = why_kept(vol);
	int r = teardown(m, vol, true, kept ? KEEP_DATA : KEEP_NOTHING, ret_error);

	if (r == 0 && kept)
		r = store_volume_set_state(m->store, vol->id, VOLUME_ABSENT, kept, 0);
	else if (r == 0)
		r = store_volume_delete(m->store, vol->id);
	if (r < 0 && !ret_error[0])
		snprintf(ret_error, ANSWER_TEXT_MAX, "%s", strerror(-r));
	/* A tear-down that was begun is finished by the next call; but never one that would delete. */
	if (r < 0)
		(void)store_volume_set_state(m->store, vol->id,
					     kept ? VOLUME_ABSENT : VOLUME_TEARING_DOWN, ret_error,
					     0);
	event(m, vol->id, kept ? "absent" : "unmounted", "%s was unmounted by somebody else%s%s",
	      vol->target, r < 0 ? ": " : "", r < 0 ? ret_error : "");
	manager_changed(m);
	return r;
}

void vanished(struct findings *f, struct volume_record *vol)
{
	enum finding_action action = why_kept(vol) ? ACTION_MARK_ABSENT : ACTION_FINISH_TEAR_DOWN;
	char error[ANSWER_TEXT_MAX] = "";
	int r;

	if (f->starting)
		return;
	r = f->dry_run ? 0 : vanished_tear_down(f->m, vol, error);
	found(f, vol->id, action, r < 0 ? error : NULL, "nothing is mounted at the target");
}

/* ---- looking for them ---- */

/* Whether its mount should be there and is not; asks nobody. */
static bool is_missing(const struct manager *m, const struct volume_record *vol,
		       const uint64_t *ids, size_t count)
{
	return vol->target && vol->mount_id != 0 && vol->state != VOLUME_TEARING_DOWN &&
	       vol->boot_id && strcmp(vol->boot_id, m->boot_id) == 0 &&
	       !mount_list_has(ids, count, vol->mount_id);
}

/* Returns whether nobody else works on it. */
static bool look_at_one(struct findings *f, const char *id)
{
	AUTO(volume_record) *vol = NULL;

	if (key_try_lock(f->m, id) < 0)
		return false;
	if (store_volume_by_id(f->m->store, id, &vol) == 0)
		reconstruct_volume(f, vol);
	key_unlock(f->m, id);
	return true;
}

void vanished_look(struct manager *m)
{
	struct findings f = { .m = m };
	struct volume_record **list = NULL;
	AUTO_FREE uint64_t *ids = NULL;
	int n, count = mount_list_ids(&ids);
	bool blocked = false;

	if (count < 0) {
		log_line(LOG_WARNING, "look", "the mounts cannot be listed: %s", strerror(-count));
		return;
	}
	n = store_volume_list(m->store, &list);
	for (int i = 0; i < n && !manager_is_stopping(m); i++) {
		if (is_missing(m, list[i], ids, (size_t)count))
			blocked |= !look_at_one(&f, list[i]->id);
	}
	/* A request that works on one may be what has unmounted it: looked at again when that has ended. */
	if (blocked)
		look_blocked(m);
	if (n >= 0)
		store_volume_list_free(list, (size_t)n);
}

/* ---- umount(8), which asks us first ---- */

enum proto_exit manager_unmount_by_hand(struct manager *m, const char *volume, const int *place,
					bool lazy, struct answer *answer)
{
	AUTO(volume_record) *vol = NULL;
	char why[ANSWER_TEXT_MAX];
	int r = caller_is_elsewhere(volume, place) ? -ENOENT : volume_find_locked(m, volume, &vol);

	if (r == -ENOENT)
		return EXIT_OK;
	if (r < 0)
		return answer_fail(answer, EXIT_FAILED, "%s", store_why(r, why, sizeof(why)));
	/* What is there instead of a volume that is not is somebody else's. */
	if (vol->target && volume_state_is_live(vol->state)) {
		AUTO(overlay) *o = overlay_find(m->overlays, vol->id);

		/* After a crash between the two it has vanished. */
		r = unmount_target(m, vol, o, lazy, why);
		if (r == 0)
			r = vanished_tear_down(m, vol, why);
		if (r < 0)
			answer_fail(answer, EXIT_FAILED, "%s", why[0] ? why : strerror(-r));
		else
			answer->result = json_pack("{s:s, s:s, s:n}", "volume", vol->id, "target",
						   vol->target, "error");
	}
	key_unlock(m, vol->id);
	return answer->exit;
}
