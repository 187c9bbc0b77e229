/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_MOUNT_OPTIONS_H
#define MOUNTD_MOUNT_OPTIONS_H

/*
 * mount_options: a remount, as mount(8) has it: the options of a volume's mount change while it is in use; nothing of
 * the volume itself does. Part of the manager; its thread rule.
 */

#include "mountd/manager.h"

/*
 * manager_remount: result {"id", "state"}.
 * @place:         the target as its caller sees it (caller_place.h), or NULL; where it is another place, no volume is there
 * @mount_options: those of a mount (mount_flags.h); the others stay. NULL: none
 * @arguments:     of a mount, as PROTOCOL.md names them, from the client, unchecked: what differs from the volume is
 *                 refused by name. What matters only while something is mounted is not looked at.
 */
enum proto_exit manager_remount(struct manager *m, const char *volume, const int *place,
				const char *mount_options, const json_t *arguments,
				struct answer *answer);

#endif
