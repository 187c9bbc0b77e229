/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_ANSWER_H
#define MOUNTD_ANSWER_H

/*
 * answer: what a request ends in: an exit status of interface.md, a line for people, a result.
 * Holds text and JSON only; one thread.
 */

#include <jansson.h>
#include <stdint.h>

#include "mountd/proto.h"

#define ANSWER_TEXT_MAX 1024

/* Who hears how far a request has got while it runs. Called by its thread, also with a volume's key locked. */
struct answer_listener {
	/* @what: a word for people; @total: 0: nobody knows. Does not block. */
	void (*tell)(void *arg, const char *what, uint64_t done, uint64_t total);
	void *arg;
};

struct answer {
	enum proto_exit exit;
	char error[ANSWER_TEXT_MAX]; /* one printable line, when exit is not 0 */
	char note[ANSWER_TEXT_MAX];  /* what the caller should know though it succeeded, or "" */
	json_t *result;		     /* or NULL */
	const struct answer_listener *listener; /* or NULL */
};

/* answer_tell: to the listener, if there is one. */
void answer_tell(const struct answer *answer, const char *what, uint64_t done, uint64_t total);

/* answer_fail: sets exit and error, and drops the result. Returns @exit, for "return answer_fail(...)". */
enum proto_exit answer_fail(struct answer *answer, enum proto_exit exit, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * answer_would: one more line of what a dry run would do: the result is {"would": [texts]}. Without memory a line is
 * missing. Returns EXIT_OK.
 */
enum proto_exit answer_would(struct answer *answer, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* answer_json: the reply's frame; NULL: no memory. */
json_t *answer_json(const struct answer *answer);
void answer_fini(struct answer *answer);

#endif
