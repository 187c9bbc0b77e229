// SPDX-License-Identifier: Apache-2.0
#include "store/database.h"

/*
 * Every statement of the store, prepared once when it is opened. The columns of a volume and of a run
 * stand in the order of their field tables in volume.c and run.c; created_at_ms comes after them, for
 * only an insert writes it.
 */
#define VOLUME_COLUMNS                                                                              \
	"id, plugin, source, source_identity, plugin_metadata, target, target_resolved, fs_group, " \
	"policy, ownership, excludes, coherence, keep_private, read_only, handoff, persist, "       \
	"converge_rate, paused, state, reason, boot_id, mount_id, run_id, "                         \
	"handoff_in_namespaces, mount_options, transport, idmap, updated_at_ms"
#define VOLUME_VALUES                                                                              \
	"?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, "   \
	"?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28"

#define RUN_COLUMNS                                                                                \
	"id, tree, wanted, epoch, finished, seen, changed, correct, excluded, failed, updated_at_ms"
#define RUN_VALUES "?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11"

#define WRAPPED_COLUMNS "volume_id, name, plugin, source, plugin_metadata, certifies"

#define STRINGIFY(value) #value
#define STRING_OF(macro) STRINGIFY(macro)

const char *const statement_texts[STATEMENT_COUNT] = {
	[STATEMENT_VOLUME_INSERT] = "INSERT INTO volume (" VOLUME_COLUMNS
				    ", created_at_ms) VALUES (" VOLUME_VALUES ", ?28)",
	[STATEMENT_VOLUME_UPDATE] =
		"UPDATE volume SET (" VOLUME_COLUMNS ") = (" VOLUME_VALUES ") WHERE id = ?1",
	[STATEMENT_VOLUME_SET_STATE] =
		"UPDATE volume SET state = ?2, reason = ?3, mount_id = ?4, updated_at_ms = ?5 "
		"WHERE id = ?1",
	[STATEMENT_VOLUME_GET_STATE] = "SELECT state FROM volume WHERE id = ?1",
	[STATEMENT_VOLUME_BY_ID] =
		"SELECT " VOLUME_COLUMNS ", created_at_ms FROM volume WHERE id = ?1",
	/* A target as given goes before one that only resolves to the same. */
	[STATEMENT_VOLUME_BY_TARGET] =
		"SELECT " VOLUME_COLUMNS ", created_at_ms FROM volume "
		"WHERE target = ?1 OR target_resolved = ?1 ORDER BY target IS NOT ?1 LIMIT 1",
	[STATEMENT_VOLUME_LIST] =
		"SELECT " VOLUME_COLUMNS ", created_at_ms FROM volume ORDER BY id",
	[STATEMENT_VOLUME_DELETE] = "DELETE FROM volume WHERE id = ?1",

	[STATEMENT_MARKER_SET] =
		"INSERT INTO marker (volume_id, certifies, at_ms) VALUES (?1, ?2, ?3) "
		"ON CONFLICT (volume_id) DO UPDATE SET certifies = excluded.certifies, at_ms = excluded.at_ms",
	[STATEMENT_MARKER_GET] = "SELECT certifies FROM marker WHERE volume_id = ?1",
	[STATEMENT_MARKER_DROP] = "DELETE FROM marker WHERE volume_id = ?1",

	[STATEMENT_WRAPPED_SET] =
		"INSERT INTO wrapped (" WRAPPED_COLUMNS ") VALUES (?1, ?2, ?3, ?4, ?5, ?6) "
		"ON CONFLICT (volume_id, name) DO UPDATE SET plugin = excluded.plugin, source = excluded.source, "
		"plugin_metadata = excluded.plugin_metadata, certifies = excluded.certifies",
	[STATEMENT_WRAPPED_GET] =
		"SELECT " WRAPPED_COLUMNS " FROM wrapped WHERE volume_id = ?1 AND name = ?2",
	[STATEMENT_WRAPPED_LIST] =
		"SELECT " WRAPPED_COLUMNS " FROM wrapped WHERE volume_id = ?1 ORDER BY name",
	[STATEMENT_WRAPPED_DELETE] = "DELETE FROM wrapped WHERE volume_id = ?1 AND name = ?2",

	[STATEMENT_RUN_INSERT] =
		"INSERT INTO run (" RUN_COLUMNS ", created_at_ms) VALUES (" RUN_VALUES ", ?11) "
		"ON CONFLICT (id) DO NOTHING",
	[STATEMENT_RUN_TAKE_OVER] =
		"UPDATE run SET updated_at_ms = ?4 WHERE id = ?1 AND tree = ?2 AND wanted = ?3",
	/*
	 * A new run makes the others of its tree untrue: what they had applied is overwritten. Beyond
	 * that the oldest go, for a tree that is gone takes no new run.
	 */
	[STATEMENT_RUN_PRUNE] =
		"DELETE FROM run WHERE id <> ?1 AND (tree = ?2 OR "
		"seq <= (SELECT max(seq) FROM run) - " STRING_OF(
			STORE_RUNS_MAX) ") "
					"AND NOT EXISTS (SELECT 1 FROM volume WHERE volume.run_id = run.id)",
	/* A later run of another ownership has made it untrue. */
	[STATEMENT_RUN_FIND] =
		"SELECT " RUN_COLUMNS ", created_at_ms FROM run WHERE tree = ?1 AND wanted = ?2 "
		"AND seq = (SELECT max(seq) FROM run WHERE tree = ?1)",
	[STATEMENT_RUN_GET] = "SELECT " RUN_COLUMNS ", created_at_ms FROM run WHERE id = ?1",
	[STATEMENT_RUN_SET_EPOCH] = "UPDATE run SET epoch = ?2, updated_at_ms = ?3 WHERE id = ?1",
	[STATEMENT_RUN_SET_COUNTERS] =
		"UPDATE run SET (seen, changed, correct, excluded, failed, updated_at_ms) = "
		"(?1, ?2, ?3, ?4, ?5, ?6) WHERE id = ?7",
	[STATEMENT_RUN_FINISH] =
		"UPDATE run SET (seen, changed, correct, excluded, failed, updated_at_ms, finished) = "
		"(?1, ?2, ?3, ?4, ?5, ?6, 1) WHERE id = ?7",

	[STATEMENT_FAILURE_CLEAR] = "DELETE FROM failure WHERE volume_id = ?1",
	[STATEMENT_FAILURE_INSERT] =
		"INSERT INTO failure (volume_id, number, path, error) VALUES (?1, ?2, ?3, ?4)",
	[STATEMENT_FAILURE_SET_TOTAL] = "UPDATE volume SET failures_total = ?2 WHERE id = ?1",
	[STATEMENT_FAILURE_GET_TOTAL] = "SELECT failures_total FROM volume WHERE id = ?1",
	[STATEMENT_FAILURE_LIST] =
		"SELECT path, error FROM failure WHERE volume_id = ?1 ORDER BY number",

	[STATEMENT_DEVICE_PUT] =
		"INSERT INTO device (id, staging_path, identity, json) VALUES (?1, ?2, ?3, ?4) "
		"ON CONFLICT (id) DO UPDATE SET (staging_path, identity, json) = (?2, ?3, ?4)",
	[STATEMENT_DEVICE_BY_ID] =
		"SELECT id, staging_path, identity, json FROM device WHERE id = ?1",
	[STATEMENT_DEVICE_BY_STAGING] =
		"SELECT id, staging_path, identity, json FROM device WHERE staging_path = ?1",
	[STATEMENT_DEVICE_DELETE] = "DELETE FROM device WHERE id = ?1",

	[STATEMENT_EVENT_INSERT] =
		"INSERT INTO event (at_ms, volume_id, kind, message) VALUES (?1, ?2, ?3, ?4)",
	[STATEMENT_EVENT_PRUNE] =
		"DELETE FROM event WHERE id <= (SELECT max(id) FROM event) - " STRING_OF(
			STORE_EVENTS_MAX),
	[STATEMENT_EVENT_LIST] =
		"SELECT id, at_ms, volume_id, kind, message FROM event WHERE id > ?1 ORDER BY id LIMIT ?2",
};
