/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_RECOVERY_H
#define FS_RECOVERY_H

/*
 * recovery: what a server that follows a dead one does before it serves, and how it tells whether the
 * dead one had made what a request asks for.
 *
 * Knows the ledger and the tree; libfuse only through session.h.
 */

#include "fs/overlay.h"

/*
 * recovery_run: makes whole what a server left half done and what no request may come for any more. After
 * the keeper's pins are adopted, before any other thread runs.
 */
void recovery_run(struct overlay *ov);

/*
 * recovery_was_made: whether @fd, found under the name that @rec says, is what a dead server made for it.
 * Nobody else can make a name in a directory through the overlay meanwhile (the kernel holds its lock
 * until the request is answered). What somebody made there on the lower tree in the same milliseconds,
 * of the same type and for the same user, cannot be told apart.
 */
bool recovery_was_made(const struct ledger_record *rec, int fd, const struct stat *st);

#endif
