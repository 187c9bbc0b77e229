/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_CTL_CALL_H
#define MOUNTD_CTL_CALL_H

/* ctl_call: one request of fsgroupctl, and what is said of its failure. One thread. */

#include "mountd/client.h"

struct ctl {
	const char *root;
	const char *command; /* for messages */
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

#endif
