/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_CTL_EXPLAIN_H
#define MOUNTD_CTL_EXPLAIN_H

/* ctl_explain: "fsgroupctl explain": why a file is shown as it is. The path is not looked at here. One thread. */

#include "mountd/ctl/call.h"

/* The whole command; returns the exit status. */
int ctl_explain(const struct ctl *ctl, int argc, char **argv);

#endif
