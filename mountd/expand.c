// SPDX-License-Identifier: Apache-2.0
/*
 * expand: the file system of a staged device is made as large as the device, which somebody else has made larger. What
 * is mounted is found by its recorded mount id, the device by what is on record of it: no path of the caller's leads to
 * either.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "mountd/device_host.h"
#include "mountd/stage.h"

static enum proto_exit fail(struct answer *answer, int error, const char *why)
{
	return answer_fail(answer, EXIT_FAILED, "%s", why && why[0] ? why : strerror(-error));
}

static enum proto_exit store_failed(struct answer *answer, int error)
{
	char why[ANSWER_TEXT_MAX];

	return fail(answer, error, store_why(error, why, sizeof(why)));
}

/* A node agent names where the device is staged, or once more where a pod has it: then it is that volume's device. */
static int find_locked(struct manager *m, const char *volume, struct volume_record **ret_vol,
		       struct device_record **ret_device)
{
	AUTO(volume_record) *consumer = NULL;
	const char *device_id = NULL;

	if (volume_find(m, volume, &consumer) == 0)
		device_id = store_device_of(consumer);
	return stage_find_locked(m, device_id ? device_id : volume, ret_vol, ret_device);
}

/* What is known of the device now, its size above all. */
static int record(struct manager *m, struct volume_record *vol, struct device_record *device,
		  const struct volume_work *work)
{
	free(device->identity);
	device->identity = work->plugin->device_identity(&work->building.b);
	if (!device->identity || stage_take_metadata(vol, work) < 0)
		return -ENOMEM;
	return store_device_put(m->store, vol, device);
}

static enum proto_exit expand(struct manager *m, struct volume_record *vol,
			      struct device_record *device, bool *ret_grown, struct answer *answer)
{
	AUTO(volume_work) *work = NULL;
	char why[PLUGIN_ERROR_MAX];
	AUTO_FD int fd = -1;
	int r = staged_open(m, vol->id, &fd, why);

	if (r == 0)
		r = work_open(m, vol, NULL, false, &work, why);
	if (r < 0)
		return fail(answer, r, why);
	r = work->plugin->grow_device(&work->building.b, fd, ret_grown);
	if (r < 0)
		return fail(answer, r, work->building.b.error);
	r = record(m, vol, device, work);
	return r < 0 ? store_failed(answer, r) : EXIT_OK;
}

enum proto_exit manager_expand(struct manager *m, const char *volume, struct answer *answer)
{
	AUTO(volume_record) *vol = NULL;
	AUTO(device_record) *device = NULL;
	bool grown = false;
	int r = find_locked(m, volume, &vol, &device);

	if (r == -ENOENT)
		return answer_fail(answer, EXIT_NO_VOLUME, "no staged device is known there");
	if (r < 0)
		return store_failed(answer, r);
	expand(m, vol, device, &grown, answer);
	key_unlock(m, vol->id);
	if (answer->exit != EXIT_OK) {
		event(m, vol->id, "expand-failed", "%s", answer->error);
		return answer->exit;
	}
	if (grown)
		event(m, vol->id, "expanded", "%s", device->identity);
	manager_changed(m);
	answer->result = json_pack("{s:s, s:s, s:b}", "id", vol->id, "stagingPath",
				   device->staging_path, "grown", grown);
	return EXIT_OK;
}
