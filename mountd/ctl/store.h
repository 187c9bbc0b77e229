/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_CTL_STORE_H
#define MOUNTD_CTL_STORE_H

/* ctl_store: "fsgroupctl reconstruct" and "fsgroupctl store": the records as a whole. One thread. */

#include "mountd/ctl/call.h"

/* The whole commands; each returns the exit status. */
int ctl_reconstruct(const struct ctl *ctl, int argc, char **argv);
int ctl_store(const struct ctl *ctl, int argc, char **argv);

#endif
