/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_FINDING_H
#define MOUNTD_FINDING_H

/*
 * finding: what a reconstruction has found and does about it: one row a difference. Shared by the files
 * of the reconstruction; nobody else includes it.
 */

#include "mountd/manager_impl.h"

enum finding_action {
	ACTION_REBUILD, /* its record is made again from volume.json */
	ACTION_ADOPT,	/* its keeper is followed again */
	ACTION_REMOUNT,
	ACTION_FINISH_SET_UP,
	ACTION_FINISH_TEAR_DOWN,
	ACTION_MARK_ABSENT,
	ACTION_REPORT, /* nothing is done */
};

struct findings {
	struct manager *m;
	bool dry_run;
	bool starting; /* before the first request: what may take long is left to the mender */
	json_t *rows;  /* array; NULL: nobody asks */
	const struct answer *answer; /* whose listener hears of each volume, or NULL */
	uint64_t looked_at, volumes;
};

/*
 * found: one row; @volume may be NULL. @error: why the action came to nothing, or NULL. What was done is an
 * event too.
 */
void found(struct findings *f, const char *volume, enum finding_action action, const char *error,
	   const char *format, ...) __attribute__((format(printf, 5, 6)));

/* find_lost: records that are gone or damaged while volume.json is there, before the volumes are looked at. */
void find_lost(struct findings *f);

/* find_strays: directories, mounts and keepers below ours that no record names: reported, left alone. */
void find_strays(struct findings *f);

/* reconstruct_volume: compares one recorded volume with what is there, and does what is to be done. Its key is locked. */
void reconstruct_volume(struct findings *f, struct volume_record *vol);

/* vanished: of a volume of this boot at whose target nothing is, nor its mount elsewhere. Its key is locked. */
void vanished(struct findings *f, struct volume_record *vol);

/*
 * remount: brings a volume back whose overlay is dead at its target, or which is to persist. Its key is locked.
 * Returns 0 or -errno with *ret_error (ANSWER_TEXT_MAX bytes); the record then says so.
 */
int remount(struct manager *m, struct volume_record *vol, char *ret_error);

/*
 * stage_reconstruct: the record of a device (a volume without a target) and what is found of it: staged, absent, or
 * what was interrupted. Its key is locked. Never mounts, checks or formats.
 */
void stage_reconstruct(struct findings *f, struct volume_record *vol);

/* remount_is_proven: whether what is set up is still what was set up: device, tree, marker. */
bool remount_is_proven(struct manager *m, const struct volume_record *vol, char *ret_error);

#endif
