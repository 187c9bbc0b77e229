// SPDX-License-Identifier: Apache-2.0
/*
 * explain: why one file is shown as it is, and what keeps a volume from being native. The overlay's server is asked,
 * with a deadline; this process looks at nothing at or below a target.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fs/base/keyval.h"
#include "fs/base/log.h"
#include "mountd/holders.h"
#include "mountd/manager_impl.h"
#include "mountd/native_look.h"
#include "mountd/overlay_control.h"
#include "mountd/volume_path.h"

#define ANSWER_MS 1000 /* the server's, or that of what looks at a native mount */
#define HOLDERS_LISTED_MAX 100

/* ---- one file ---- */

/* What the server's reasons mean (fs/explain.h), and one of ours. */
static const struct {
	const char *reason, *text;
} reasons[] = {
	/* clang-format off */
	{ "pending", "shown as wanted; the walk has not brought its ownership to the disk yet" },
	{ "virtual", "the volume is virtual: shown so for ever, and never written" },
	{ "unmanaged", "ownership=none: shown as it is on disk" },
	{ "excluded", "left out by a pattern: shown as it is on disk" },
	{ "over", "the run is over: shown as it is on disk" },
	{ "created", "made by a user since the run began: shown as it is on disk" },
	{ "changed", "its owner, mode or ACL was changed by a user since the run began: shown as it is on disk" },
	{ "settled", "made or changed by a user since the run began: shown as it is on disk" },
	{ "rootOnly", "policy RootOnly leaves all but the root directory alone: shown as it is on disk" },
	{ "right", "it was right already: shown as it is on disk" },
	{ "native", "the volume is native: nothing of ours is in between" },
	/* clang-format on */
};

static const char *text_of(const char *reason)
{
	for (size_t i = 0; i < ARRAY_SIZE(reasons); i++) {
		if (strcmp(reasons[i].reason, reason) == 0)
			return reasons[i].text;
	}
	return "";
}

/* A text of the server's message, printable; "" where there is none. */
static const char *get(const char *message, const char *key, char *ret_text, size_t size)
{
	if (keyval_get(message, key, ret_text, size) < 0)
		ret_text[0] = '\0';
	for (char *p = ret_text; *p; p++) {
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = '?';
	}
	return ret_text;
}

static json_t *get_number(const char *message, const char *key)
{
	char text[32];
	uint64_t value = 0;

	if (parse_u64(get(message, key, text, sizeof(text)), &value) < 0)
		return json_null();
	return json_integer((json_int_t)value);
}

static json_t *entry_of_message(const char *message)
{
	char type[16], mode[8], shown_mode[8], reason[32], pattern[4096], failed[16];
	uint32_t error = 0;

	get(message, "reason", reason, sizeof(reason));
	get(message, "pattern", pattern, sizeof(pattern));
	if (parse_u32(get(message, "failed", failed, sizeof(failed)), &error) < 0 || error > 4095)
		error = 0;
	return json_pack(
		"{s:s, s:o, s:o, s:o, s:s, s:o, s:s, s:s, s:s, s:s?, s:s?, s:b}", "type",
		get(message, "type", type, sizeof(type)), "inode", get_number(message, "ino"),
		"uid", get_number(message, "uid"), "gid", get_number(message, "gid"), "mode",
		get(message, "mode", mode, sizeof(mode)), "shownGid",
		get_number(message, "shown_gid"), "shownMode",
		get(message, "shown_mode", shown_mode, sizeof(shown_mode)), "reason", reason,
		"because", text_of(reason), "pattern", pattern[0] ? pattern : NULL, "failure",
		error ? strerror((int)error) : NULL, "acl", strstr(message, "\nacl=1\n") != NULL);
}

static const char *type_of(mode_t mode)
{
	return S_ISREG(mode)  ? "file" :
	       S_ISDIR(mode)  ? "directory" :
	       S_ISLNK(mode)  ? "symlink" :
	       S_ISFIFO(mode) ? "fifo" :
	       S_ISSOCK(mode) ? "socket" :
	       S_ISBLK(mode)  ? "block" :
				"character";
}

static json_t *entry_of_native(const struct native_view *view)
{
	const struct stat *st = &view->st;
	char mode[8];

	snprintf(mode, sizeof(mode), "%04o", st->st_mode & 07777);
	return json_pack("{s:s, s:I, s:I, s:I, s:s, s:I, s:s, s:s, s:s, s:n, s:n, s:b}", "type",
			 type_of(st->st_mode), "inode", (json_int_t)st->st_ino, "uid",
			 (json_int_t)st->st_uid, "gid", (json_int_t)st->st_gid, "mode", mode,
			 "shownGid", (json_int_t)st->st_gid, "shownMode", mode, "reason", "native",
			 "because", text_of("native"), "pattern", "failure", "acl", view->has_acl);
}

static enum proto_exit path_failed(struct answer *answer, int error, const char *at)
{
	switch (error) {
	case -ETIMEDOUT:
	case -EHOSTDOWN:
	case -EBUSY:
		return answer_fail(answer, EXIT_FAILED, "the volume's server does not answer");
	case -EPIPE:
	case -ENOTCONN:
		return answer_fail(answer, EXIT_FAILED, "the volume has no server");
	case -ENOTDIR:
		return answer_fail(
			answer, EXIT_FAILED,
			"%s%sis below something that is no directory; links are not followed", at,
			*at ? " " : "");
	default:
		return answer_fail(answer, EXIT_FAILED, "%s%s%s", at, *at ? ": " : "",
				   strerror(-error));
	}
}

static enum proto_exit ask_server(struct overlay *o, const char *rest, json_t **ret_entry,
				  struct answer *answer)
{
	AUTO_FREE char *message = malloc(KEYVAL_MAX + 1);
	char at[1200];
	int r;

	if (!message)
		return path_failed(answer, -ENOMEM, "");
	r = overlay_explain(o, *rest ? rest : ".", ANSWER_MS, message);
	if (r < 0)
		return path_failed(answer, r, "");
	r = control_error(message, NULL);
	if (r < 0)
		return path_failed(answer, r, get(message, "at", at, sizeof(at)));
	if (!keyval_verb_is(message, "explained"))
		return path_failed(answer, -EBADMSG, "");
	*ret_entry = entry_of_message(message);
	return EXIT_OK;
}

static enum proto_exit look_native(const struct volume_record *vol, const char *rest,
				   json_t **ret_entry, struct answer *answer)
{
	AUTO(target) *target = NULL;
	struct native_view view;
	char why[TARGET_ERROR_MAX];
	int r = target_open(vol->target_resolved, &target, why);

	if (r < 0)
		return answer_fail(answer, EXIT_FAILED, "%s", why);
	r = native_look(target->parent_fd, target->name, rest, ANSWER_MS, &view);
	if (r == -ETIMEDOUT)
		return answer_fail(answer, EXIT_FAILED, "the volume's file system does not answer");
	if (r < 0)
		return path_failed(answer, r, "");
	*ret_entry = entry_of_native(&view);
	return EXIT_OK;
}

/* ---- what keeps a volume from being native ---- */

static void add_obstacle(json_t *list, const char *kind, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void add_obstacle(json_t *list, const char *kind, const char *format, ...)
{
	char text[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	json_array_append_new(list, json_pack("{s:s, s:s, s:n, s:n, s:n}", "kind", kind, "text",
					      text, "pid", "program", "mntns"));
}

/* The process of the last obstacle. */
static void name_process(json_t *list, const json_t *process)
{
	json_t *last = json_array_get(list, json_array_size(list) - 1);
	static const char *const keys[] = { "pid", "program", "mntns" };

	for (size_t i = 0; last && i < ARRAY_SIZE(keys); i++)
		json_object_set(last, keys[i], json_object_get(process, keys[i]));
}

static void add_holders(json_t *list, dev_t dev)
{
	json_t *holders = holders_detail(dev, HOLDERS_LISTED_MAX), *item, *use;
	size_t i, j;

	json_array_foreach(holders, i, item) {
		char uses[128] = "";

		json_array_foreach(json_object_get(item, "uses"), j, use) {
			size_t used = strlen(uses);

			snprintf(uses + used, sizeof(uses) - used, "%s%s", j ? ", " : "",
				 json_string_value(use));
		}
		add_obstacle(list, "holder", "process %lld (%s) uses it: %s",
			     (long long)json_integer_value(json_object_get(item, "pid")),
			     json_string_value(json_object_get(item, "program")), uses);
		name_process(list, item);
	}
	json_decref(holders);
}

static void add_copies(json_t *list, dev_t dev)
{
	json_t *copies = holders_copies(dev), *item;
	size_t i;

	json_array_foreach(copies, i, item) {
		add_obstacle(list, "copy",
			     "it is mounted at %s in the mount namespace of process %lld (%s)",
			     json_string_value(json_object_get(item, "path")),
			     (long long)json_integer_value(json_object_get(item, "pid")),
			     json_string_value(json_object_get(item, "program")));
		name_process(list, item);
	}
	json_decref(copies);
}

static void add_failures(struct manager *m, const char *id, json_t *list)
{
	struct failure_record *failures = NULL;
	uint64_t total = 0;
	int n = store_failures_get(m->store, id, &failures, &total);

	for (int i = 0; i < n; i++)
		add_obstacle(list, "failure", "%s: %s", failures[i].path,
			     strerror(failures[i].error));
	if (n >= 0)
		store_failures_free(failures, (size_t)n);
	if (n > 0 && total > (uint64_t)n)
		add_obstacle(list, "failure", "and %llu more",
			     (unsigned long long)total - (uint64_t)n);
}

static json_t *obstacles(struct manager *m, const struct volume_record *vol, struct overlay *o)
{
	json_t *list = json_array();
	struct overlay_status status = { 0 };
	bool is_converged = vol->state == VOLUME_CONVERGED;
	dev_t dev = live_dev(m, vol->id);

	if (vol->state == VOLUME_NATIVE)
		return list;
	if (o)
		overlay_status_get(o, &status);
	if (vol->state == VOLUME_VIRTUAL)
		add_obstacle(list, "virtual", "it is virtual: shown for ever, never written");
	else if (vol->state == VOLUME_PRESENTED && vol->paused)
		add_obstacle(list, "walk", "the walk is paused");
	else if (volume_state_is_live(vol->state) && !is_converged)
		add_obstacle(list, "walk", "the walk is not done: %llu of about %llu entries seen",
			     (unsigned long long)status.counters.seen,
			     (unsigned long long)status.total);
	else if (!is_converged)
		add_obstacle(list, "state", "the volume is %s", volume_state_name(vol->state));
	if (!vol->handoff && vol->state != VOLUME_VIRTUAL)
		add_obstacle(list, "handoff", "handoff=no: it was asked to stay an overlay");
	if (status.counters.excluded > 0)
		add_obstacle(list, "excluded", "%llu entries are left out: %s",
			     (unsigned long long)status.counters.excluded, vol->excludes);
	add_failures(m, vol->id, list);
	if (vol->reason)
		add_obstacle(list, "reason", "%s", vol->reason);
	if (is_converged && dev) {
		add_holders(list, dev);
		add_copies(list, dev);
	}
	return list;
}

/* ---- the request ---- */

static enum proto_exit not_in_a_volume(struct answer *answer, int error)
{
	char why[ANSWER_TEXT_MAX];

	switch (error) {
	case -ENOENT:
		return answer_fail(answer, EXIT_NO_VOLUME, "no volume is there");
	case -EXDEV:
		return answer_fail(answer, EXIT_FAILED, "'..' below a target is not followed");
	case -ENOTDIR:
	case -ELOOP:
	case -EACCES:
	case -ENAMETOOLONG:
		return answer_fail(answer, EXIT_FAILED, "%s", strerror(-error));
	default:
		return answer_fail(answer, EXIT_FAILED, "%s", store_why(error, why, sizeof(why)));
	}
}

enum proto_exit manager_explain(struct manager *m, const char *path, struct answer *answer)
{
	AUTO(volume_record) *vol = NULL;
	AUTO(overlay) *o = NULL;
	AUTO_FREE char *rest = NULL;
	char quoted[4096];
	json_t *entry = NULL;
	int r = volume_of_path(m->store, path, &vol, &rest);

	if (r < 0)
		return not_in_a_volume(answer, r);
	volume_correct_native(m, vol);
	o = overlay_find(m->overlays, vol->id);
	if (o && overlay_is_gone(o)) {
		overlay_unref(o);
		o = NULL;
	}
	/* Of a target the entry is an extra: what keeps the volume from being native is told without it. */
	if (vol->state == VOLUME_NATIVE || !o)
		r = vol->state == VOLUME_NATIVE ? look_native(vol, rest, &entry, answer) :
						  volume_not_live(vol, answer);
	else
		r = ask_server(o, rest, &entry, answer);
	if (r != EXIT_OK && *rest)
		return answer->exit;
	if (r != EXIT_OK) {
		snprintf(answer->note, sizeof(answer->note), "%s", answer->error);
		answer->exit = EXIT_OK;
		answer->error[0] = '\0';
	}
	answer->result =
		json_pack("{s:s, s:s, s:s, s:s, s:s?, s:o, s:o}", "volume", vol->id, "target",
			  vol->target, "path", *rest ? log_quote(rest, quoted, sizeof(quoted)) : "",
			  "state", volume_state_name(vol->state), "reason", vol->reason, "entry",
			  entry ? entry : json_null(), "obstacles",
			  *rest ? json_array() : obstacles(m, vol, o));
	return EXIT_OK;
}
