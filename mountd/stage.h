/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_STAGE_H
#define MOUNTD_STAGE_H

/* stage: what stage.c, unstage.c and expand.c share. Part of the manager; the device's key is locked. */

#include "mountd/manager_impl.h"

/* Where a device is, or is to be, mounted; @target is to be freed. */
struct place {
	struct target *target;
	struct device_place place;
};

/* place_open: target_open() of the staging path. */
int place_open(const struct device_record *device, struct place *ret_place, char *ret_error);

/*
 * stage_find_locked: the device of this id, or of this staging path as given, with its key locked, which the caller
 * unlocks. -ENOENT: no such device, or the store's errors; nothing is locked then.
 */
int stage_find_locked(struct manager *m, const char *volume, struct volume_record **ret_vol,
		      struct device_record **ret_device);

/* stage_take_metadata: what the plugin has left in the builder, into the record that is to be written. -ENOMEM. */
int stage_take_metadata(struct volume_record *vol, const struct volume_work *work);

/* is_still_staged: whether the global mount is what the record says. */
bool is_still_staged(struct manager *m, const char *id);

/* unstage: undoes what there is of the device, but for its record. *ret_error: ANSWER_TEXT_MAX bytes. */
int unstage(struct manager *m, struct volume_record *vol, const struct device_record *device,
	    char *ret_error);

/* unstage_known: the same with its record, if no volume uses it; else the record says how far it came. */
enum proto_exit unstage_known(struct manager *m, struct volume_record *vol,
			      const struct device_record *device, struct answer *answer);

#endif
