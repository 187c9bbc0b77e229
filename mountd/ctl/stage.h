/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_CTL_STAGE_H
#define MOUNTD_CTL_STAGE_H

/* ctl_stage: fsgroupctl stage and unstage: their options, and the requests that they make. One thread. */

#include "mountd/ctl/call.h"

/* ctl_stage, ctl_unstage: argv[0] is what messages of getopt begin with. Return the exit status. */
int ctl_stage(const struct ctl *ctl, int argc, char **argv);
int ctl_unstage(const struct ctl *ctl, int argc, char **argv);

#endif
