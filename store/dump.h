/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_DUMP_H
#define STORE_DUMP_H

/*
 * dump: one volume's rows as a JSON text and back: what stands in volume.json and in a dump of the
 * store. {"schemaVersion": n, "<table>": [{"<column>": value, ...}, ...], ...}: its row in "volume", the
 * run it takes part in, and the rows of every table that refers to it but its failures.
 *
 * Follows the schema by itself: a new column or table needs no line here. Texts that are no UTF-8
 * (targets may be anything) come back as they were. Thread rule and errors of store.h.
 */

#include "store/store.h"

/* store_volume_dump: the caller's to free. -ENOENT: no such volume. */
int store_volume_dump(struct store *s, const char *id, char **ret_text);

/*
 * store_volume_restore: adds the volume of such a text; the run is taken over where it is not on record.
 * @text: from outside, unchecked; columns that it lacks take their defaults, what is unknown is ignored
 *
 * Returns 0 with its id (the caller's to free), -EEXIST (its id or target is on record already: nothing
 * is changed), -ENOTSUP (made by a newer version), or -EINVAL (it is no such text).
 */
int store_volume_restore(struct store *s, const char *text, char **ret_id);

/*
 * store_volume_compare: the record of @id with such a text of it. 0: equal, or one of them is newer;
 * -EUCLEAN: they differ though neither was changed since: one of them is damaged. -ENOENT, -EINVAL.
 */
int store_volume_compare(struct store *s, const char *id, const char *text);

/* store_text_id: the volume's id in such a text; for one that cannot be restored. -EINVAL. */
int store_text_id(struct store *s, const char *text, char **ret_id);

/*
 * store_watch: from now on @changed is called after each committed change of a volume, with no lock held,
 * by the thread that made it. One watcher; set before there are other threads.
 */
void store_watch(struct store *s, void (*changed)(void *arg, const char *volume_id), void *arg);

/*
 * store_batch_begin, store_batch_end: what is changed between them is one transaction, durable at its end only, and
 * the watcher is told of none of it: for hundreds of small changes before there are other threads. Each change
 * still fails for itself. Ending a batch that could not be begun is fine.
 */
int store_batch_begin(struct store *s);
int store_batch_end(struct store *s);

#endif
