/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_DIFFERENTIAL_SITUATION_H
#define TESTS_DIFFERENTIAL_SITUATION_H

/*
 * situation: what an overlay's keeper and servers are at when one of them does not do what it should: what a failure that
 * does not come again is understood from.
 */

#include <stdio.h>
#include <sys/types.h>

/* situation_print_text: each line of @text, with "# " in front. */
void situation_print_text(FILE *out, const char *text);

/*
 * situation_print: of the process @pid and all below it, each thread: its name, state, system call, and where in the
 * kernel it waits. What cannot be read is left out.
 */
void situation_print(FILE *out, pid_t pid);

#endif
