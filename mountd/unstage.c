// SPDX-License-Identifier: Apache-2.0
/*
 * unstage: the end of a device's life, and what is found of it by a reconstruction. The device is given back when
 * no volume uses it and nothing else on the node does; only then its record goes.
 */
#include "mountd/stage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "fs/base/log.h"
#include "mountd/device_host.h"
#include "mountd/finding.h"
#include "mountd/flow.h"
#include "mountd/steps.h"

static enum proto_exit fail(struct answer *answer, int error, const char *why)
{
	return answer_fail(answer, EXIT_FAILED, "%s", why && why[0] ? why : strerror(-error));
}

static enum proto_exit store_failed(struct answer *answer, int error)
{
	char why[ANSWER_TEXT_MAX];

	return fail(answer, error, store_why(error, why, sizeof(why)));
}

/* ---- places ---- */

int place_open(const struct device_record *device, struct place *ret_place, char *ret_error)
{
	struct target *target = NULL;
	int r = target_open(device->staging_path, &target, ret_error);

	if (r == 0)
		*ret_place = (struct place){
			.target = target,
			.place = { .dir_fd = target->parent_fd,
				   .name = target->name,
				   .path = device->staging_path },
		};
	return r;
}

static bool is_own_place(const struct manager *m, const struct device_record *device)
{
	size_t len = strlen(m->volumes_path);

	return strncmp(device->staging_path, m->volumes_path, len) == 0 &&
	       device->staging_path[len] == '/';
}

/* ---- unstaging ---- */

/* Calls @fn with each consumer of the device; how many there are, or the store's errors. */
static int each_consumer(struct manager *m, const char *device_id,
			 void (*fn)(void *arg, const struct volume_record *vol), void *arg)
{
	struct volume_record **list = NULL;
	int n = store_volume_list(m->store, &list), count = 0;

	for (int i = 0; i < n; i++) {
		const char *of = store_device_of(list[i]);

		if (!of || strcmp(of, device_id) != 0)
			continue;
		fn(arg, list[i]);
		count++;
	}
	if (n >= 0)
		store_volume_list_free(list, (size_t)n);
	return n < 0 ? n : count;
}

/* @arg: ANSWER_TEXT_MAX bytes; the first is named. */
static void name_consumer(void *arg, const struct volume_record *vol)
{
	char *text = arg, quoted[300];

	if (!text[0])
		snprintf(text, ANSWER_TEXT_MAX, "%s at %s", vol->id,
			 log_quote(vol->target, quoted, sizeof(quoted)));
}

static void list_consumer(void *arg, const struct volume_record *vol)
{
	json_array_append_new(arg, json_string(vol->id));
}

json_t *device_status(struct manager *m, const struct volume_record *vol)
{
	AUTO(device_record) *device = NULL;
	json_t *consumers, *arguments, *status;

	if (vol->target || store_device_by_id(m->store, vol->id, &device) < 0)
		return json_null();
	consumers = json_array();
	(void)each_consumer(m, vol->id, list_consumer, consumers);
	arguments = json_loads(device->arguments, 0, NULL);
	status = json_pack("{s:O?, s:s, s:s, s:o}", "path", json_object_get(arguments, "device"),
			   "stagingPath", device->staging_path, "identity", device->identity,
			   "consumers", consumers);
	json_decref(arguments);
	return status ? status : json_null();
}

static int remove_dirs(struct manager *m, const struct device_record *device,
		       const struct place *place, char *ret_error)
{
	int r = 0;

	/* Never more than empty directories of our own. */
	if (is_own_place(m, device) &&
	    unlinkat(place->place.dir_fd, place->place.name, AT_REMOVEDIR) < 0 && errno != ENOENT)
		r = -errno;
	if (r == 0)
		r = volume_file_remove(m->files, device->id);
	if (r == 0 && unlinkat(m->volumes_fd, device->id, AT_REMOVEDIR) < 0 && errno != ENOENT)
		r = -errno;
	if (r < 0)
		snprintf(ret_error, ANSWER_TEXT_MAX, "the volume's directory: %s", strerror(-r));
	return r;
}

int stage_take_metadata(struct volume_record *vol, const struct volume_work *work)
{
	char *text = flow_metadata(&work->building.b);

	if (!text)
		return -ENOMEM;
	free(vol->plugin_metadata);
	vol->plugin_metadata = text;
	return 0;
}

int unstage(struct manager *m, struct volume_record *vol, const struct device_record *device,
	    char *ret_error)
{
	AUTO(volume_work) *work = NULL;
	struct place place = { 0 };
	char why[PLUGIN_ERROR_MAX];
	int r = work_open(m, vol, NULL, false, &work, why);

	if (r < 0) {
		snprintf(ret_error, ANSWER_TEXT_MAX, "%s", why);
		return r;
	}
	r = place_open(device, &place, ret_error);
	if (r == -ENOENT || r == -ENOTDIR) {
		ret_error[0] = '\0';
		return 0; /* without its parent nothing can be mounted there */
	}
	if (r < 0)
		return r;
	r = work->plugin->unmount_device(&work->building.b, &place.place);
	if (r < 0)
		snprintf(ret_error, ANSWER_TEXT_MAX, "%s", work->building.b.error);
	if (stage_take_metadata(vol, work) < 0)
		r = -ENOMEM;
	if (r == 0)
		step_reached(m, STEP_UNSTAGE_UNMOUNTED);
	if (r == 0)
		r = remove_dirs(m, device, &place, ret_error);
	target_free(place.target);
	return r;
}

bool is_still_staged(struct manager *m, const char *id)
{
	char why[PLUGIN_ERROR_MAX];
	AUTO_FD int fd = -1;

	return staged_open(m, id, &fd, why) == 0;
}

enum proto_exit unstage_known(struct manager *m, struct volume_record *vol,
			      const struct device_record *device, struct answer *answer)
{
	bool was_staged = is_still_staged(m, vol->id);
	char why[ANSWER_TEXT_MAX] = "";
	int r = each_consumer(m, vol->id, name_consumer, why);

	if (r > 0)
		return answer_fail(answer, EXIT_FAILED, "in use by %d volume%s: %s%s", r,
				   r > 1 ? "s" : "", why, r > 1 ? ", ..." : "");
	if (r == 0)
		r = store_volume_set_state(m->store, vol->id, VOLUME_TEARING_DOWN, NULL,
					   vol->mount_id);
	if (r < 0)
		return store_failed(answer, r);
	step_reached(m, STEP_UNSTAGE_RECORDED);
	r = unstage(m, vol, device, why);
	if (r == 0) {
		step_reached(m, STEP_UNSTAGE_REMOVED);
		r = store_volume_delete(m->store, vol->id);
		step_reached(m, STEP_UNSTAGE_DELETED);
		return r < 0 ? store_failed(answer, r) : EXIT_OK;
	}
	fail(answer, r, why);
	/* Still there: it is what it was. Else the next call goes on. */
	vol->state = was_staged ? VOLUME_STAGED : VOLUME_TEARING_DOWN;
	(void)store_volume_set_state(m->store, vol->id, vol->state, NULL, vol->mount_id);
	if (was_staged && !is_still_staged(m, vol->id))
		(void)store_volume_set_state(m->store, vol->id, VOLUME_TEARING_DOWN, answer->error,
					     vol->mount_id);
	return answer->exit;
}

int stage_find_locked(struct manager *m, const char *volume, struct volume_record **ret_vol,
		      struct device_record **ret_device)
{
	AUTO(device_record) *seen = NULL, *device = NULL;
	AUTO(volume_record) *vol = NULL;
	AUTO_FREE char *path = NULL;
	int r;

	if (strchr(volume, '/')) {
		r = path_absolute(volume, &path);
		if (r == 0)
			r = store_device_by_staging(m->store, path, &seen);
		if (r < 0)
			return r;
	}
	r = volume_find_locked(m, seen ? seen->id : volume, &vol);
	if (r < 0)
		return r;
	r = store_device_by_id(m->store, vol->id, &device);
	if (r < 0) {
		key_unlock(m, vol->id);
		return r;
	}
	*ret_vol = take_ptr(&vol);
	*ret_device = take_ptr(&device);
	return 0;
}

/* What is neither staged nor known is unstaged already; what others mounted is theirs. */
static enum proto_exit unstage_unknown(struct manager *m, const char *volume, struct answer *answer)
{
	AUTO(volume_record) *vol = NULL;

	if (!strchr(volume, '/') && store_volume_by_id(m->store, volume, &vol) == 0)
		return answer_fail(answer, EXIT_FAILED, "is a mounted volume, not a staged device");
	return unmount_unknown(volume, answer);
}

static enum proto_exit would_unstage(struct manager *m, const struct volume_record *vol,
				     const struct device_record *device, struct answer *answer)
{
	char why[ANSWER_TEXT_MAX] = "", quoted[256];
	int r = each_consumer(m, vol->id, name_consumer, why);

	if (r < 0)
		return store_failed(answer, r);
	if (r > 0)
		return answer_fail(answer, EXIT_FAILED, "in use by %d volume%s: %s%s", r,
				   r > 1 ? "s" : "", why, r > 1 ? ", ..." : "");
	if (is_still_staged(m, vol->id))
		answer_would(answer, "take the device off %s, if nobody uses it",
			     log_quote(device->staging_path, quoted, sizeof(quoted)));
	return answer_would(answer, "forget device %s", vol->id);
}

enum proto_exit manager_unstage(struct manager *m, const char *volume, bool dry_run,
				struct answer *answer)
{
	AUTO(volume_record) *vol = NULL;
	AUTO(device_record) *device = NULL;
	int r = stage_find_locked(m, volume, &vol, &device);

	if (r == -ENOENT)
		return unstage_unknown(m, volume, answer) == EXIT_OK && dry_run ?
			       answer_would(answer, "do nothing: no such device is known") :
			       answer->exit;
	if (r < 0)
		return store_failed(answer, r);
	if (dry_run) {
		would_unstage(m, vol, device, answer);
		key_unlock(m, vol->id);
		return answer->exit;
	}
	unstage_known(m, vol, device, answer);
	key_unlock(m, vol->id);
	if (answer->exit != EXIT_OK)
		event(m, vol->id, "unstage-failed", "%s", answer->error);
	else
		answer->result =
			json_pack("{s:s, s:s}", "id", vol->id, "stagingPath", device->staging_path);
	if (answer->exit == EXIT_OK)
		event(m, vol->id, "unstaged", "%s", device->staging_path);
	return answer->exit;
}

/* ---- what is found ---- */

static void set_state(struct findings *f, struct volume_record *vol, enum volume_state state,
		      const char *reason)
{
	int r = f->dry_run ?
			0 :
			store_volume_set_state(f->m->store, vol->id, state, reason, vol->mount_id);

	if (r < 0)
		log_line(LOG_WARNING, "reconstruct",
			 "vol=%s ignoring that its state is not on record: %s", vol->id,
			 strerror(-r));
}

/* A program that was writing to the device when we died is reported for as long as the record stays. */
static void report_unfinished(struct findings *f, struct volume_record *vol)
{
	AUTO(volume_work) *work = NULL;
	char why[PLUGIN_ERROR_MAX], reason[ANSWER_TEXT_MAX] = "staging was interrupted";
	const char *program = NULL;

	if (work_open(f->m, vol, NULL, false, &work, why) == 0 && work->plugin->device_unfinished)
		program = work->plugin->device_unfinished(&work->building.b);
	if (program)
		snprintf(
			reason, sizeof(reason),
			"%s was interrupted, and is not repeated: see what is on the device, and unstage",
			program);
	set_state(f, vol, VOLUME_FAILED, reason);
	found(f, vol->id, ACTION_REPORT, NULL, "%s", reason);
}

static void finish_unstage(struct findings *f, struct volume_record *vol)
{
	AUTO(device_record) *device = NULL;
	struct answer answer = { 0 };
	int r = store_device_by_id(f->m->store, vol->id, &device);

	if (r == 0 && !f->dry_run)
		unstage_known(f->m, vol, device, &answer);
	found(f, vol->id, ACTION_FINISH_TEAR_DOWN,
	      r < 0	      ? strerror(-r) :
	      answer.error[0] ? answer.error :
				NULL,
	      "its unstaging was interrupted");
	answer_fini(&answer);
}

void stage_reconstruct(struct findings *f, struct volume_record *vol)
{
	bool same_boot = strcmp(vol->boot_id ? vol->boot_id : "", f->m->boot_id) == 0;
	const char *why = same_boot ? "nothing is mounted where it was staged" :
				      "the machine has been restarted";

	switch (vol->state) {
	case VOLUME_SETTING_UP:
		report_unfinished(f, vol);
		break;
	case VOLUME_TEARING_DOWN:
		if (!same_boot)
			found(f, vol->id, ACTION_REPORT, NULL,
			      "its unstaging was interrupted before %s: the next unstage finishes it",
			      why);
		else if (!f->starting)
			finish_unstage(f, vol);
		break;
	case VOLUME_STAGED:
		if (is_still_staged(f->m, vol->id))
			break;
		set_state(f, vol, VOLUME_ABSENT, why);
		found(f, vol->id, ACTION_MARK_ABSENT, NULL, "%s", why);
		break;
	default:
		break; /* failed and absent wait for their caller */
	}
}
