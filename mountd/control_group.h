/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_CONTROL_GROUP_H
#define MOUNTD_CONTROL_GROUP_H

/*
 * control_group: groups of our own for the daemon and for each keeper, so that whoever ends the group of the
 * command that started them, or the daemon's, does not end them.
 *
 * Knows the session manager's hierarchies, and nothing of what runs in a group. Best effort: where a hierarchy
 * cannot be written nothing happens. No state, any thread.
 */

#include <limits.h>

enum { CONTROL_GROUP_HIERARCHIES = 3, CONTROL_GROUP_PATH_MAX = NAME_MAX + 64 };

/* Where a group is, in each hierarchy; an empty path: not there. */
struct control_group {
	char paths[CONTROL_GROUP_HIERARCHIES][CONTROL_GROUP_PATH_MAX];
};

/* control_group_find: the group @name, in the hierarchies that there are. It need not exist. */
void control_group_find(const char *name, struct control_group *ret_group);

/* control_group_join: the calling process goes into the group, which is made. Async-signal-safe. */
void control_group_join(const struct control_group *group);

/* control_group_leave: the calling process goes back to the root of each hierarchy. */
void control_group_leave(const struct control_group *group);

/* control_group_remove: unless somebody is in it. control_groups_sweep: the same of all whose names begin so. */
void control_group_remove(const struct control_group *group);
void control_groups_sweep(const char *prefix);

#endif
