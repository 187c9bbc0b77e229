/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_CTL_UPGRADE_H
#define MOUNTD_CTL_UPGRADE_H

/* ctl_upgrade: "fsgroupctl upgrade". One thread. */

#include "mountd/ctl/call.h"

/* The whole command; returns the exit status. */
int ctl_upgrade(const struct ctl *ctl, int argc, char **argv);

#endif
