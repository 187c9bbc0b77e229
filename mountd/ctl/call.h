/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_CTL_CALL_H
#define MOUNTD_CTL_CALL_H

/* ctl_call: one request of fsgroupctl, and what is said of its failure. One thread. */

#include "mountd/client/call.h"

struct ctl {
	const char *root;
	const char *command; /* for messages */
	bool json;	     /* --json: the answer is wanted as JSON */
	bool dry_run;	     /* --dry-run: every request says so, and the answer is a plan */
};

/* ctl_fail: "fsgroupctl: COMMAND SUBJECT: reason" on standard error; returns @exit. @subject may be NULL. */
int ctl_fail(const struct ctl *ctl, int exit, const char *subject, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/*
 * ctl_call: sends @request (stolen) and prints an error or note that comes back.
 * @subject:    the volume, for messages; may be NULL
 * @on_frame:   as for client_call()
 * @ret_result: the last reply's result, the caller's reference, or NULL; may be NULL
 * Returns the exit status.
 */
int ctl_call(const struct ctl *ctl, const char *subject, json_t *request, client_frame_fn on_frame,
	     void *arg, json_t **ret_result);

/*
 * ctl_call_plainly: ctl_call() for a command whose answer people need not see: with --json it is printed, and of a dry
 * run what would be done. @is_told: as for progress_call().
 */
int ctl_call_plainly(const struct ctl *ctl, const char *subject, json_t *request, bool is_told);

/* ctl_show_plan: the answer to a dry run: {"would": [texts]}. Whether it was one. */
bool ctl_show_plan(const struct ctl *ctl, const json_t *result);

/* ctl_usage: "...: WHAT (fsgroupctl --help says more)"; returns EXIT_USAGE. */
int ctl_usage(const struct ctl *ctl, const char *what);

/*
 * ctl_ask_running: the same of a daemon that runs: none is started, nothing is printed, and it is given two seconds.
 * Returns whether it answered with a success.
 */
bool ctl_ask_running(const struct ctl *ctl, json_t *request, json_t **ret_result);

#endif
