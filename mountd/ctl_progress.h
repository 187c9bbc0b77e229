/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_CTL_PROGRESS_H
#define MOUNTD_CTL_PROGRESS_H

/*
 * ctl_progress: what a person sees while a request takes longer than a second: a line on standard error, where that is a
 * terminal, that goes again when the request ends. A thread of its own asks for the volume's status meanwhile.
 */

#include "mountd/ctl_call.h"

struct progress;

/*
 * progress_start: @volume as in a request, borrowed until the end; NULL: there is none, and only the time is shown.
 * @what: shown before the time where the status says nothing
 * NULL: standard error is no terminal, or there is no memory: nothing will be shown.
 */
struct progress *progress_start(const struct ctl *ctl, const char *volume, const char *what);

/* progress_stop: NULL is fine. */
void progress_stop(struct progress *progress);

#endif
