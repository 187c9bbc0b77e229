/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_CTL_INSTALL_H
#define MOUNTD_CTL_INSTALL_H

/* ctl_install: `fsgroupctl install-flexvolume DIR [--attachable]`: puts the drivers where kubelet looks for them. One thread. */

#include "mountd/ctl/call.h"

/* ctl_install_flexvolume: a command of fsgroupctl. Returns the exit status. */
int ctl_install_flexvolume(const struct ctl *ctl, int argc, char **argv);

#endif
