/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_CTL_SHOW_H
#define MOUNTD_CTL_SHOW_H

/*
 * ctl_show: status objects and events as people read them. Texts of others are made fit for a terminal
 * (text.h). Writes to standard output where no stream is named; one thread.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "mountd/ctl/text.h"

/* show_json: the value as JSON: indented, or one line for streams. */
void show_json(const json_t *value, bool one_line);

/* show_status: one volume in full. */
void show_status(const json_t *status, const struct text_terminal *terminal);

/*
 * show_list: a table of an array of status objects, as wide as @terminal.
 * @lines: at most so many lines; 0: no limit. Returns how many were printed.
 */
size_t show_list(const json_t *list, const struct text_terminal *terminal, size_t lines);

/* show_progress: one line: a bar that draws over itself on a terminal, else a line each time. */
void show_progress(const json_t *status, const struct text_terminal *terminal, FILE *out);

/* show_bar: "[####----]  50%  " for @part between 0 and 1. */
void show_bar(double part, FILE *out);

/* show_line: @text after @before; NULL stands for "-". */
void show_line(const char *before, const char *text);

/* show_event: one line. */
void show_event(const json_t *event);

#endif
