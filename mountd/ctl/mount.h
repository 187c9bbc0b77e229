/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_CTL_MOUNT_H
#define MOUNTD_CTL_MOUNT_H

/* ctl_mount: "fsgroupctl mount" and "update": their many options made into one request. One thread. */

#include "mountd/ctl/call.h"

/* The whole command; return the exit status. */
int ctl_mount(const struct ctl *ctl, int argc, char **argv);
int ctl_update(const struct ctl *ctl, int argc, char **argv);

#endif
