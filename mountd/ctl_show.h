/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_CTL_SHOW_H
#define MOUNTD_CTL_SHOW_H

/*
 * ctl_show: status objects and events as people read them. Texts of others are quoted. Writes to
 * standard output; one thread.
 */

#include <jansson.h>
#include <stdbool.h>

/* show_json: the value as JSON: indented, or one line for streams. */
void show_json(const json_t *value, bool one_line);

/* show_status: one volume in full. show_list: a table of an array of status objects. */
void show_status(const json_t *status);
void show_list(const json_t *list);

/* show_progress: one line: a bar that draws over itself on a terminal, else a line each time. */
void show_progress(const json_t *status, bool is_terminal);

/* show_event: one line. */
void show_event(const json_t *event);

#endif
