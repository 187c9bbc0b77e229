/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_FLEX_ANSWER_H
#define MOUNTD_FLEX_ANSWER_H

/*
 * flex_answer: the answers that kubelet understands: one JSON object with a status (source: Kubernetes,
 * DriverStatus of the FlexVolume plugin). Does not know call-outs. Answers are the caller's reference; NULL:
 * no memory. One thread.
 */

#include <jansson.h>

#define FLEX_MESSAGE_MAX 2048

/* flex_failure: kubelet tries the call again, later and later. */
json_t *flex_failure(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* flex_bad_path: the failure of an argument @what that is no absolute path. */
json_t *flex_bad_path(const char *what, const char *path);

/* flex_success: @note (may be NULL) is the message. */
json_t *flex_success(const char *note);

/* flex_not_supported: kubelet remembers this and does what it does for drivers without the call. */
json_t *flex_not_supported(const char *command);

/*
 * flex_ask: one request of the daemon, whose refusal is the answer's message. Blocks for as long as the daemon
 * takes. @request: the caller's reference is taken; NULL: an argument was not valid UTF-8.
 */
json_t *flex_ask(const char *root, json_t *request);

#endif
