/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_CTL_PROGRESS_H
#define MOUNTD_CTL_PROGRESS_H

/*
 * ctl_progress: what a person sees while a request takes longer than a second: a line on standard error, where that is a
 * terminal, that goes again when the request ends. A thread of its own asks for the volume's status meanwhile.
 */

#include "mountd/ctl/call.h"

struct progress;

/*
 * progress_start: @volume as in a request, borrowed until the end; NULL: there is none, and only the time is shown.
 * @what: shown before the time where the status says nothing
 * NULL: standard error is no terminal, or there is no memory: nothing will be shown.
 */
struct progress *progress_start(const struct ctl *ctl, const char *volume, const char *what);

/* progress_stop: NULL is fine. */
void progress_stop(struct progress *progress);

/*
 * progress_call: ctl_call() with such a line. Of the volume that @request (stolen) names the status is shown while its
 * walk is on, else what the daemon tells, else the time.
 * @is_told: the request is one that takes "progress" (PROTOCOL.md)
 */
int progress_call(const struct ctl *ctl, const char *subject, json_t *request, bool is_told,
		  json_t **ret_result);

#endif
