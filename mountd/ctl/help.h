/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_CTL_HELP_H
#define MOUNTD_CTL_HELP_H

/*
 * ctl_help: what fsgroupctl says of its commands: one table, which --help, "help COMMAND" and the completion are made
 * from. No state, one thread.
 *
 * The grammar of a usage, which ctl_complete reads: words of capital letters stand for something (FILE, DIR, PATH,
 * TARGET, ID ...), others for themselves; "|" between them means either; an option with a value is "--name VALUE";
 * brackets and dots are for people.
 */

struct command_help {
	const char *name;
	const char *usage;    /* what follows the name; lines */
	const char *about;    /* one line */
	const char *details;  /* options and what else is to be known; lines; or NULL */
	const char *examples; /* a command a line, "#" begins what it does; lines */
};

/* help_find: NULL: no such command. help_at: the command at @index, NULL behind the last. */
const struct command_help *help_find(const char *name);
const struct command_help *help_at(unsigned index);

/* help_all: every command's usage. help_command: one command in full. Both on standard output. */
void help_all(void);
void help_command(const struct command_help *help);

#endif
