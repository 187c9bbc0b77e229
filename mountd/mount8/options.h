/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_MOUNT8_OPTIONS_H
#define MOUNTD_MOUNT8_OPTIONS_H

/*
 * mount8_options: the -o list of mount.fsgroupfs, as mount(8) and fstab have it, taken apart: what belongs to the volume
 * goes into a request, what belongs to the mount becomes flags, what is mount(8)'s own is left out, and what
 * cannot be honoured is refused by name.
 *
 * Parsing only: nothing is opened. One thread.
 */

#include <jansson.h>
#include <stdbool.h>

#include "mountd/client/words.h"
#include "mountd/mount_flags.h"

struct mount8_options {
	json_t *request; /* the arguments of a mount that the list names */
	struct mount_flags flags;
	bool remount;
	/* Texts out of the list; NULL: not said. */
	const char *plugin, *source, *spec, *objects, *root;
	const char *without_effect; /* the first option that is taken and does nothing */
};

/*
 * mount8_options_parse: @list is changed, and borrowed from. A comma within "..." belongs to the value.
 * @is_sloppy: what is unknown is left out
 * Returns EXIT_OK, or EXIT_USAGE or EXIT_FAILED with one line; *io_options has a request of its own.
 */
int mount8_options_parse(char *list, bool is_sloppy, struct mount8_options *io_options,
			 char ret_error[WORDS_ERROR_MAX]);

#endif
