/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_CTL_CONFIG_H
#define MOUNTD_CTL_CONFIG_H

/* ctl_config: "fsgroupctl config": mountd.conf as the daemon would read it, without one. One thread. */

#include "mountd/ctl/call.h"
#include "mountd/rules.h"

/*
 * config_problems: what is allowed by the grammar and cannot be meant: names of no plugin, a default that is not
 * allowed. An array of {"section", "key", "message"}, the caller's; NULL: no memory.
 */
json_t *config_problems(const struct rules *rules);

/* The whole command; returns the exit status. */
int ctl_config(const struct ctl *ctl, int argc, char **argv);

#endif
