// SPDX-License-Identifier: Apache-2.0
/*
 * records: the store as a whole, for people: checked, written out, read back.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fs/base/log.h"
#include "mountd/manager_impl.h"
#include "store/dump.h"

static enum proto_exit store_failed(struct answer *answer, int error)
{
	char why[ANSWER_TEXT_MAX];

	return answer_fail(answer, EXIT_FAILED, "%s", store_why(error, why, sizeof(why)));
}

/* Whether volume.json says what the record says. */
static const char *file_fault(struct manager *m, const char *id)
{
	AUTO_FREE char *text = NULL;
	int r = volume_file_read(m->files, id, &text);

	if (r == 0)
		r = store_volume_compare(m->store, id, text);
	return r == 0	     ? NULL :
	       r == -ENOENT  ? VOLUME_FILE " is not there" :
	       r == -EUCLEAN ? "the record or its " VOLUME_FILE " is damaged" :
			       strerror(-r);
}

enum proto_exit manager_store_check(struct manager *m, struct answer *answer)
{
	struct volume_record **list = NULL;
	json_t *faults = json_array();
	int n = store_check(m->store);

	if (n == 0)
		n = store_volume_list(m->store, &list);
	if (n < 0) {
		json_decref(faults);
		return store_failed(answer, n);
	}
	for (int i = 0; i < n; i++) {
		const char *fault = file_fault(m, list[i]->id);

		if (fault)
			json_array_append_new(faults, json_pack("{s:s, s:s}", "volume", list[i]->id,
								"fault", fault));
	}
	store_volume_list_free(list, (size_t)n);
	answer->result = json_pack("{s:i, s:i, s:o}", "schemaVersion", STORE_SCHEMA_VERSION,
				   "volumes", n, "faults", faults);
	return EXIT_OK;
}

static int dump_volumes(struct manager *m, json_t *volumes)
{
	struct volume_record **list = NULL;
	int n = store_volume_list(m->store, &list), r = n < 0 ? n : 0;

	for (int i = 0; r == 0 && i < n; i++) {
		AUTO_FREE char *text = NULL;
		json_t *volume;

		r = store_volume_dump(m->store, list[i]->id, &text);
		if (r == -ENOENT) { /* gone since */
			r = 0;
			continue;
		}
		volume = r == 0 ? json_loads(text, 0, NULL) : NULL;
		/* A target that is no UTF-8 fits no JSON document: said, and left to its volume.json. */
		if (r == 0 && json_array_append_new(volumes, volume) < 0)
			log_line(LOG_WARNING, "dump", "vol=%s is left out: its texts are no UTF-8",
				 list[i]->id);
	}
	if (n >= 0)
		store_volume_list_free(list, (size_t)n);
	return r;
}

enum proto_exit manager_store_dump(struct manager *m, struct answer *answer)
{
	json_t *volumes = json_array();
	int r = volumes ? dump_volumes(m, volumes) : -ENOMEM;

	if (r < 0) {
		json_decref(volumes);
		return store_failed(answer, r);
	}
	answer->result =
		json_pack("{s:i, s:o}", "schemaVersion", STORE_SCHEMA_VERSION, "volumes", volumes);
	return EXIT_OK;
}

/* NULL: it is on record now. */
static const char *restore_one(struct manager *m, json_t *volume, char *ret_id, size_t id_size,
			       char *ret_why)
{
	AUTO_FREE char *text = json_dumps(volume, JSON_COMPACT);
	AUTO_FREE char *id = NULL;
	int r = text ? store_text_id(m->store, text, &id) : -ENOMEM;

	snprintf(ret_id, id_size, "%s", id ? id : "?");
	if (r < 0)
		return "it is not a volume of a dump";
	r = key_lock(m, ret_id);
	if (r < 0)
		return strerror(-r);
	free(id);
	id = NULL;
	r = store_volume_restore(m->store, text, &id);
	key_unlock(m, ret_id);
	return r == 0	    ? NULL :
	       r == -EEXIST ? "it, or a volume at its target, is on record already: left as it is" :
	       r == -ENOTSUP ? "it was made by a newer version" :
			       store_why(r, ret_why, ANSWER_TEXT_MAX);
}

enum proto_exit manager_store_restore(struct manager *m, json_t *dump, struct answer *answer)
{
	json_t *volumes = json_object_get(dump, "volumes"), *volume, *rows;
	size_t i;

	if (!json_is_array(volumes))
		return answer_fail(answer, EXIT_FAILED, "not a dump: it has no array \"volumes\"");
	rows = json_array();
	json_array_foreach(volumes, i, volume) {
		char id[VOLUME_ID_MAX + 1], why[ANSWER_TEXT_MAX];
		const char *error = restore_one(m, volume, id, sizeof(id), why);

		json_array_append_new(rows, json_pack("{s:s, s:s, s:s?}", "volume", id, "action",
						      error ? "none" : "restored", "error", error));
		if (!error)
			event(m, id, "restored", "its record was read from a dump");
	}
	answer->result = rows;
	mend_wanted(m);
	return EXIT_OK;
}
