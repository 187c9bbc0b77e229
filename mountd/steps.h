/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_STEPS_H
#define MOUNTD_STEPS_H

/*
 * steps: the places between the steps of a volume's life at which a crash leaves something different behind:
 * one table, from which tests enumerate them.
 *
 * FSGROUPFS_CRASH_AT=STEP[:N] in the daemon's environment makes it end without a word when it comes to
 * that step for the Nth time. It is looked at in the programs that are shipped, so that what is tested is
 * what is used, but never for the root directory "/": a service cannot be made to crash by its environment.
 */

#include <stdbool.h>
#include <stddef.h>

struct manager;

enum step {
	/* mount */
	STEP_MOUNT_CHECKED,  /* nothing is on record yet */
	STEP_MOUNT_RECORDED, /* the intent is on record */
	STEP_PLUGIN_BOUND,   /* within set_up: a mount is there, the plugin does not know it yet */
	STEP_WRAPPED_RECORDED,
	STEP_WRAPPED_SET_UP,  /* the wrapped volume is set up, its success is not on record */
	STEP_WRAPPED_DONE,    /* it is; the volume around it is not set up yet */
	STEP_MOUNT_SET_UP,    /* set_up has succeeded, which is not on record */
	STEP_MOUNT_DONE,      /* success, marker and run are on record */
	STEP_TARGET_RECORDED, /* the id of the mount to come is on record */
	STEP_TARGET_MOUNTED,  /* it is there */
	STEP_OVERLAY_STARTED, /* an overlay is at the target, its id is not on record */
	STEP_MOUNT_PRESENTED, /* all is done but the answer */
	/* refresh */
	STEP_REFRESHED, /* the plugin has, what it keeps is not on record */
	/* update */
	STEP_UPDATE_RECORDED, /* what is wanted now is on record, the old presentation gone */
	/* unmount */
	STEP_UNMOUNT_RECORDED,
	STEP_UNMOUNT_DETACHED,	/* nothing is at the target */
	STEP_UNMOUNT_ENDED,	/* the overlay's server has ended */
	STEP_WRAPPED_TORN_DOWN, /* the wrapped volume is gone, but for its record */
	STEP_UNMOUNT_TORN_DOWN, /* the plugin has torn down */
	STEP_UNMOUNT_REMOVED,	/* the volume's directory is gone */
	STEP_UNMOUNT_DELETED,	/* the record as well */
	/* stage */
	STEP_STAGE_RECORDED, /* the intent is on record */
	STEP_DEVICE_RECORDED, /* and what identifies the device, or that mkfs begins, or that it has ended */
	STEP_STAGE_MOUNTED, /* the device is mounted, which is not on record */
	STEP_STAGE_DONE,    /* all is done but the answer */
	/* unstage */
	STEP_UNSTAGE_RECORDED,
	STEP_UNSTAGE_UNMOUNTED, /* the device is free */
	STEP_UNSTAGE_REMOVED,	/* the directories are gone */
	STEP_UNSTAGE_DELETED,	/* the record as well */
	/* what keepers report */
	STEP_RUN_FINISHED,   /* that the run is finished is on record, its marks are there still */
	STEP_STATE_CHANGED,  /* the volume's state is another than that on record */
	STEP_STATE_FOLLOWED, /* it is on record */
	STEP_COUNT,
};

/* step_name: "mount.checked"; what stands before the dot is the command in which it is met. */
const char *step_name(enum step step);

/* step_reached: returns, unless the daemon is to crash here. */
void step_reached(struct manager *m, enum step step);

/*
 * step_crash_at: what step_reached() is to do.
 * @text: of FSGROUPFS_CRASH_AT. Returns 0 or -EINVAL (no such step, not a number).
 */
int step_crash_at(struct manager *m, const char *text);

#endif
