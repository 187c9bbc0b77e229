// SPDX-License-Identifier: Apache-2.0
#include "mountd/mount_options.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/mount.h>

#include "mountd/caller_place.h"
#include "mountd/manager_impl.h"

/* A hand-off comes once: what it has put at the target is found by the second try. */
#define CHANGE_TRIES 3

/* ---- what may not differ ---- */

static bool text_differs(const void *field, const json_t *value)
{
	const char *text = *(char *const *)field;

	return !json_is_string(value) || !text || strcmp(text, json_string_value(value)) != 0;
}

/* Volumes of before there was a choice have none on record. */
static bool transport_differs(const void *field, const json_t *value)
{
	const char *text = *(char *const *)field;

	return !json_is_string(value) || strcmp(text ? text : "dev", json_string_value(value)) != 0;
}

static bool bool_differs(const void *field, const json_t *value)
{
	return !json_is_boolean(value) || json_is_true(value) != *(const bool *)field;
}

static bool rate_differs(const void *field, const json_t *value)
{
	return !json_is_integer(value) || json_integer_value(value) < 0 ||
	       (uint64_t)json_integer_value(value) != *(const uint64_t *)field;
}

static bool gid_differs(const void *field, const json_t *value)
{
	return !json_is_integer(value) || json_integer_value(value) != *(const gid_t *)field;
}

static bool list_differs(const void *field, const json_t *value)
{
	AUTO_FREE char *text = json_dumps(value, JSON_COMPACT);

	return !text || strcmp(text, *(char *const *)field) != 0;
}

#define FIELD(member) offsetof(struct volume_record, member)
static const struct {
	const char *argument;
	size_t offset;
	bool (*differs)(const void *field,
			const json_t *value); /* NULL: nothing to compare it with */
	const char *name;		      /* for people */
} arguments[] = {
	{ "volumeId", FIELD(id), text_differs, "volume-id" },
	{ "plugin", FIELD(plugin), text_differs, "plugin" },
	{ "fsGroup", FIELD(fs_group), gid_differs, "gid" },
	{ "policy", FIELD(policy), text_differs, "policy" },
	{ "ownership", FIELD(ownership), text_differs, "ownership" },
	{ "excludes", FIELD(excludes), list_differs, "exclude" },
	{ "coherence", FIELD(coherence), text_differs, "coherence" },
	{ "transport", FIELD(transport), transport_differs, "transport" },
	{ "keepPrivate", FIELD(keep_private), bool_differs, "keep-private" },
	{ "handoff", FIELD(handoff), bool_differs, "handoff" },
	{ "handoffInNamespaces", FIELD(handoff_in_namespaces), bool_differs, "handoff" },
	{ "idmap", FIELD(idmap), bool_differs, "idmap" },
	{ "persist", FIELD(persist), bool_differs, "persist" },
	{ "convergeRate", FIELD(converge_rate), rate_differs, "converge-rate" },
	{ "conflict", 0, NULL, NULL },
	{ "settleMs", 0, NULL, NULL },
	{ "pod", 0, NULL, NULL },
	{ "staged", 0, NULL, NULL },
};
#undef FIELD

static enum proto_exit check_one(const struct volume_record *vol, const char *key,
				 const json_t *value, struct answer *answer)
{
	for (size_t i = 0; i < ARRAY_SIZE(arguments); i++) {
		if (strcmp(arguments[i].argument, key) != 0)
			continue;
		if (!arguments[i].differs ||
		    !arguments[i].differs((const char *)vol + arguments[i].offset, value))
			return EXIT_OK;
		return answer_fail(answer, EXIT_FAILED,
				   "%s cannot change by a remount: fsgroupctl update says what can",
				   arguments[i].name);
	}
	return answer_fail(answer, EXIT_USAGE, "a remount has no argument %.64s", key);
}

/*
 * The kernel takes no other label either (selinux_sb_remount()). The one that the mount has is perhaps nobody's wish:
 * mount(8) hands back what the kernel shows.
 */
static enum proto_exit check_context(const struct volume_record *vol,
				     const struct mount_flags *flags, struct answer *answer)
{
	AUTO_FREE char *shown = NULL;
	struct mount_flags now = { 0 };
	char why[ANSWER_TEXT_MAX];

	if (!*flags->context)
		return EXIT_OK;
	if (mount_flags_parse(vol->mount_options, &now, why, sizeof(why)) < 0)
		return answer_fail(answer, EXIT_FAILED, "%s", why);
	if (strcmp(now.context, flags->context) == 0 ||
	    (mount_fs_options(vol->target_resolved, &shown) == 0 &&
	     mount_flags_has_context(shown, flags->context)))
		return EXIT_OK;
	return answer_fail(answer, EXIT_FAILED, "context cannot change by a remount");
}

static enum proto_exit check(const struct volume_record *vol, const json_t *given,
			     const struct mount_flags *flags, struct answer *answer)
{
	const char *key;
	json_t *value;

	if (!vol->target || !volume_state_is_live(vol->state))
		return volume_not_live(vol, answer);
	json_object_foreach((json_t *)given, key, value) {
		if (check_one(vol, key, value, answer) != EXIT_OK)
			return answer->exit;
	}
	if (vol->read_only && (flags->clear & MOUNT_ATTR_RDONLY))
		return answer_fail(
			answer, EXIT_FAILED,
			"rw: the volume was mounted as a read-only one: unmount it and mount it again");
	return check_context(vol, flags, answer);
}

/* ---- doing ---- */

/* The mount that is at the target now; its id is on record, or will be when the hand-off is followed. */
static int change_once(struct manager *m, const struct volume_record *vol,
		       const struct target *target, const struct mount_flags *flags,
		       uint64_t *io_done)
{
	AUTO(overlay) *o = overlay_find(m->overlays, vol->id);
	AUTO(volume_record) *now = NULL;
	struct overlay_status status;
	int r;

	/* Followed: what a hand-off has put there is on record then. */
	if (o)
		(void)overlay_refresh(o, &status);
	r = store_volume_by_id(m->store, vol->id, &now);
	if (r < 0)
		return r;
	if (now->mount_id == *io_done)
		return 0;
	r = mount_change(target->parent_fd, target->name, now->mount_id, flags);
	if (r < 0)
		return r;
	*io_done = now->mount_id;
	/* It may have been on its way out: what takes its place has then been asked too early. */
	return -EAGAIN;
}

static int change(struct manager *m, const struct volume_record *vol,
		  const struct mount_flags *flags, char *ret_error)
{
	AUTO(target) *target = NULL;
	uint64_t done = 0;
	int r = target_open(vol->target_resolved, &target, ret_error);

	if (r < 0)
		return r;
	r = -EAGAIN;
	for (int i = 0; (r == -EAGAIN || r == -ENOENT) && i < CHANGE_TRIES; i++)
		r = change_once(m, vol, target, flags, &done);
	if (r == -EAGAIN || (r == -ENOENT && done != 0))
		r = 0;
	if (r < 0)
		snprintf(ret_error, ANSWER_TEXT_MAX, "%s",
			 r == -ENOENT ? "its mount is not at the target" :
			 r == -EBUSY  ? "files are open for writing" :
					strerror(-r));
	return r;
}

/* The follower writes the same row: it is muted meanwhile. */
static int record(struct manager *m, const char *id, const struct mount_flags *flags)
{
	AUTO(overlay) *o = overlay_find(m->overlays, id);
	AUTO(volume_record) *now = NULL;
	struct mount_flags old = { 0 }, both;
	char why[ANSWER_TEXT_MAX];
	int r;

	if (o)
		overlay_mute(o, id, true);
	r = store_volume_by_id(m->store, id, &now);
	if (r == 0)
		r = mount_flags_parse(now->mount_options, &old, why, sizeof(why));
	if (r == 0) {
		both = mount_flags_over(&old, flags);
		/* What was not asked for at first is not from now on. */
		memcpy(both.context, old.context, sizeof(both.context));
		free(take_ptr(&now->mount_options));
		r = mount_flags_text(&both, &now->mount_options);
	}
	if (r == 0)
		r = store_volume_update(m->store, now);
	if (o)
		overlay_mute(o, id, false);
	return r;
}

static enum proto_exit remount_locked(struct manager *m, const struct volume_record *vol,
				      const struct mount_flags *flags, const json_t *given,
				      struct answer *answer)
{
	char why[ANSWER_TEXT_MAX] = "";
	int r;

	if (check(vol, given, flags, answer) != EXIT_OK)
		return answer->exit;
	if (flags->set == 0 && flags->clear == 0)
		return EXIT_OK;
	r = change(m, vol, flags, why);
	if (r < 0)
		return answer_fail(answer, EXIT_FAILED, "%s", why);
	r = record(m, vol->id, flags);
	if (r < 0)
		return answer_fail(answer, EXIT_FAILED, "changed, but not on record: %.400s",
				   store_why(r, why, sizeof(why)));
	return EXIT_OK;
}

enum proto_exit manager_remount(struct manager *m, const char *volume, const int *place,
				const char *mount_options, const json_t *given,
				struct answer *answer)
{
	AUTO(volume_record) *vol = NULL;
	struct mount_flags flags = { 0 };
	char why[ANSWER_TEXT_MAX];
	int r = mount_flags_parse(mount_options, &flags, why, sizeof(why));

	if (r < 0)
		return answer_fail(answer, EXIT_FAILED, "%s", why);
	r = caller_is_elsewhere(volume, place) ? -ENOENT : volume_find_locked(m, volume, &vol);
	if (r < 0)
		return volume_not_found(answer, r);
	if (remount_locked(m, vol, &flags, given, answer) == EXIT_OK) {
		answer->result = json_pack("{s:s, s:s}", "id", vol->id, "state",
					   volume_state_name(vol->state));
		event(m, vol->id, "remounted", "%s: %s", vol->target,
		      mount_options ? mount_options : "");
	}
	key_unlock(m, vol->id);
	return answer->exit;
}
