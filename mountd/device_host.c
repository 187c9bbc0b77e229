// SPDX-License-Identifier: Apache-2.0
#include "mountd/device_host.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "fs/base/log.h"
#include "mountd/flow.h"
#include "mountd/device_holders.h"
#include "mountd/manager_impl.h"
#include "mountd/mount.h"
#include "mountd/steps.h"

static int store_failed(struct volume_builder *b, int error)
{
	char why[PLUGIN_ERROR_MAX];

	return host_fail(b, error, "%s", store_why(error, why, sizeof(why)));
}

/* The metadata of the volume that is presented or staged, or of one that it wraps. */
static int record_metadata(const struct building *building, char **io_metadata)
{
	struct store *store = building->manager->store;
	AUTO(wrapped_record) *wrapped = NULL;
	AUTO(volume_record) *vol = NULL;
	int r;

	if (building->name[0]) {
		r = store_wrapped_get(store, building->b.id, building->name, &wrapped);
		if (r < 0)
			return r;
		free(wrapped->plugin_metadata);
		wrapped->plugin_metadata = take_ptr(io_metadata);
		return store_wrapped_set(store, wrapped);
	}
	r = store_volume_by_id(store, building->b.id, &vol);
	if (r < 0)
		return r;
	free(vol->plugin_metadata);
	vol->plugin_metadata = take_ptr(io_metadata);
	return store_volume_update(store, vol);
}

int device_host_record(struct volume_builder *b)
{
	AUTO_FREE char *metadata = flow_metadata(b);
	int r = metadata ? record_metadata(building_of(b), &metadata) : -ENOMEM;

	if (r < 0)
		return store_failed(b, r);
	step_reached(building_of(b)->manager, STEP_DEVICE_RECORDED);
	return 0;
}

int staged_open(struct manager *m, const char *device_id, int *ret_fd, char *ret_error)
{
	AUTO(device_record) *device = NULL;
	AUTO(volume_record) *vol = NULL;
	AUTO(target) *place = NULL;
	struct mount_view view;
	char why[TARGET_ERROR_MAX];
	AUTO_FD int fd = -1;
	int r = store_volume_by_id(m->store, device_id, &vol);

	if (r == 0)
		r = store_device_by_id(m->store, device_id, &device);
	if (r == -ENOENT || (r == 0 && vol->state != VOLUME_STAGED)) {
		snprintf(ret_error, PLUGIN_ERROR_MAX, "device %s is not staged%s%.200s", device_id,
			 vol && vol->reason ? ": " : "", vol && vol->reason ? vol->reason : "");
		return -ENOENT;
	}
	if (r < 0) {
		store_why(r, ret_error, PLUGIN_ERROR_MAX);
		return r;
	}
	if (target_open(device->staging_path, &place, why) == 0)
		fd = openat(place->parent_fd, place->name,
			    O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	/* Of the descriptor: what it is cannot change any more. */
	if (fd < 0 || strcmp(vol->boot_id ? vol->boot_id : "", m->boot_id) != 0 ||
	    mount_look(fd, "", &view) < 0 || !view.is_root || view.id != vol->mount_id) {
		snprintf(ret_error, PLUGIN_ERROR_MAX,
			 "device %s is not mounted where it was staged: stage it again", device_id);
		return -ENOENT;
	}
	*ret_fd = take_fd(&fd);
	return 0;
}

int device_host_open_staged(struct volume_builder *b, int *ret_fd)
{
	struct manager *m = building_of(b)->manager;
	AUTO(volume_record) *vol = NULL;
	char why[PLUGIN_ERROR_MAX];
	const char *device_id;
	int r = store_volume_by_id(m->store, b->id, &vol);

	if (r < 0)
		return store_failed(b, r);
	device_id = store_device_of(vol);
	if (!device_id)
		return host_fail(b, -ENOENT,
				 "a block device is staged first (stage), then mounted as staged");
	r = staged_open(m, device_id, ret_fd, why);
	return r < 0 ? host_fail(b, r, "%s", why) : 0;
}

const char *device_host_holders(struct volume_builder *b, dev_t rdev, char *ret_text, size_t size)
{
	(void)b;
	return device_holders_describe(rdev, ret_text, size);
}
