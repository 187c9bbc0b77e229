/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_CTL_VOLUME_H
#define MOUNTD_CTL_VOLUME_H

/* ctl_volume: the commands of fsgroupctl that act on a volume that is there. One thread, and that of a progress line. */

#include "mountd/ctl/call.h"

/* volume_request: {"command", "volume"}: @argument is an id or a target, which is made absolute, or NULL. NULL: no memory. */
json_t *volume_request(const struct ctl *ctl, const char *argument);

/* The whole commands; each returns the exit status. ctl_steer is pause, resume and recover. */
int ctl_unmount(const struct ctl *ctl, int argc, char **argv);
int ctl_wait(const struct ctl *ctl, int argc, char **argv);
int ctl_steer(const struct ctl *ctl, int argc, char **argv);
int ctl_refresh(const struct ctl *ctl, int argc, char **argv);
int ctl_converge(const struct ctl *ctl, int argc, char **argv);

#endif
