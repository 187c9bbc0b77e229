/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_CTL_COMPLETE_H
#define MOUNTD_CTL_COMPLETE_H

/*
 * ctl_complete: what may stand at the end of a command line that is being typed, from the usages of ctl_help, and the
 * functions that make bash and zsh ask for it. Volumes are those of a running daemon; none is started. One thread.
 */

#include <stdbool.h>

#include "mountd/ctl/call.h"

/* What may stand there beside the words themselves. */
struct completion {
	bool files, volumes, commands;
	void (*word)(void *arg, const char *word, size_t len);
	void *arg;
};

/*
 * complete_words: what may follow @words (@count of them, the command's name first), the last of which is begun
 * only and may be "". Calls io_completion->word for each word and sets the flags.
 */
void complete_words(const char *const *words, int count, struct completion *io_completion);

/* complete_has_option: whether a usage has this option. complete_takes_value: and a value behind it. */
bool complete_has_option(const char *usage, const char *option);
bool complete_takes_value(const char *usage, const char *option);

/* "fsgroupctl completion bash|zsh", and what the shells call. Returns the exit status. */
int ctl_completion(const struct ctl *ctl, int argc, char **argv);

#endif
