/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_CLIENT_WORDS_H
#define MOUNTD_CLIENT_WORDS_H

/*
 * client_words: the arguments of a mount, as people write them on a command line or in fstab, made those of a request
 * (PROTOCOL.md). Knows names, numbers and paths. Does not know how a message gets out. Used by fsgroupctl and by
 * mount.fsgroupfs. One thread.
 *
 * All return EXIT_OK, or EXIT_USAGE or EXIT_FAILED (proto.h) with one line in @ret_error.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define WORDS_ERROR_MAX 512

/* words_find: whether there is an argument of that name; '-' and '_' are the same. *ret_is_flag: it has no value. */
bool words_find(const char *name, bool *ret_is_flag);

/* words_set: an argument that words_find() knows. @value: NULL of a flag. */
int words_set(json_t *request, const char *name, const char *value,
	      char ret_error[WORDS_ERROR_MAX]);

/* words_set_text: text that is not UTF-8 cannot travel in JSON. */
int words_set_text(json_t *request, const char *key, const char *value,
		   char ret_error[WORDS_ERROR_MAX]);

/* words_set_path: made absolute here: the daemon stands elsewhere. */
int words_set_path(json_t *request, const char *key, const char *path,
		   char ret_error[WORDS_ERROR_MAX]);

/* words_set_source: of @plugin, which may be NULL: a path where that plugin takes one. */
int words_set_source(json_t *request, const char *plugin, const char *source,
		     char ret_error[WORDS_ERROR_MAX]);

#endif
