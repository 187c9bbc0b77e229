/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_CTL_STATUS_H
#define MOUNTD_CTL_STATUS_H

/* ctl_status: the commands of fsgroupctl that only look: status, list, events, metrics. One thread. */

#include "mountd/ctl/call.h"

/* The whole commands; each returns the exit status. */
int ctl_status(const struct ctl *ctl, int argc, char **argv);
int ctl_list(const struct ctl *ctl, int argc, char **argv);
int ctl_events(const struct ctl *ctl, int argc, char **argv);
int ctl_metrics(const struct ctl *ctl, int argc, char **argv);

#endif
