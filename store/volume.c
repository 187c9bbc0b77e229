// SPDX-License-Identifier: Apache-2.0
#include "store/store.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "fs/base/log.h"
#include "fs/base/parse.h"
#include "store/database.h"

/* In the order of VOLUME_COLUMNS in statements.c, and created_at_ms, which is read only. */
#define COLUMN(kind, member)                                                                       \
	{                                                                                          \
		FIELD_##kind, offsetof(struct volume_record, member)                               \
	}
static const struct field volume_fields[] = {
	COLUMN(TEXT, id),
	COLUMN(TEXT, plugin),
	COLUMN(TEXT, source),
	COLUMN(TEXT, source_identity),
	COLUMN(TEXT_OR_NULL, plugin_metadata),
	COLUMN(TEXT_OR_NULL, target),
	COLUMN(TEXT_OR_NULL, target_resolved),
	COLUMN(GID, fs_group),
	COLUMN(TEXT, policy),
	COLUMN(TEXT, ownership),
	COLUMN(TEXT, excludes),
	COLUMN(TEXT, coherence),
	COLUMN(BOOL, keep_private),
	COLUMN(BOOL, read_only),
	COLUMN(BOOL, handoff),
	COLUMN(BOOL, persist),
	COLUMN(U64, converge_rate),
	COLUMN(BOOL, paused),
	COLUMN(STATE, state),
	COLUMN(TEXT_OR_NULL, reason),
	COLUMN(TEXT_OR_NULL, boot_id),
	COLUMN(U64, mount_id),
	COLUMN(TEXT_OR_NULL, run_id),
	COLUMN(BOOL, handoff_in_namespaces),
	COLUMN(TEXT_OR_NULL, mount_options),
	COLUMN(TEXT_OR_NULL, transport),
	COLUMN(BOOL, idmap),
	COLUMN(I64, updated_at_ms),
	COLUMN(I64, created_at_ms),
};
#undef COLUMN

enum { VOLUME_FIELDS_WRITTEN = ARRAY_SIZE(volume_fields) - 1 };

struct volume_record *volume_record_new(void)
{
	struct volume_record *vol = calloc(1, sizeof(*vol));

	if (vol)
		vol->fs_group = GID_UNSET;
	return vol;
}

void volume_record_free(struct volume_record *vol)
{
	if (!vol)
		return;
	fields_free(volume_fields, ARRAY_SIZE(volume_fields), vol);
	free(vol);
}

static int volume_read(sqlite3_stmt *stmt, struct volume_record **ret_vol)
{
	AUTO(volume_record) *vol = volume_record_new();
	int r;

	if (!vol)
		return -ENOMEM;
	r = statement_read_record(stmt, 0, volume_fields, ARRAY_SIZE(volume_fields), vol);
	if (r < 0)
		return r;
	*ret_vol = take_ptr(&vol);
	return 0;
}

/* Runs a statement whose parameters are VOLUME_VALUES. Returns how many rows it changed. */
static int volume_write(struct store *s, enum statement which, const struct volume_record *vol)
{
	sqlite3_stmt *stmt = statement_get(s, which);
	struct volume_record stamped = *vol;
	int r;

	stamped.updated_at_ms = store_now_ms();
	r = statement_bind_record(stmt, volume_fields, VOLUME_FIELDS_WRITTEN, &stamped);
	return r < 0 ? r : statement_run(s, stmt);
}

static int no_such_volume(const char *id)
{
	char quoted[200];

	store_error_set("no volume %s is on record", log_quote(id, quoted, sizeof(quoted)));
	return -ENOENT;
}

/* Whether the volume may get this state (states.c); in the caller's transaction. */
static int check_transition(struct store *s, const char *id, enum volume_state to)
{
	sqlite3_stmt *stmt = statement_get(s, STATEMENT_VOLUME_GET_STATE);
	AUTO_FREE char *name = NULL;
	enum volume_state from;
	int r;

	if ((r = statement_bind_text(stmt, 1, id)) < 0 || (r = statement_step(s, stmt)) < 0)
		return r;
	if (r == 0)
		return no_such_volume(id);
	if ((r = statement_read_text(stmt, 0, &name)) < 0 ||
	    (r = volume_state_from_name(name, &from)) < 0)
		return r;
	if (volume_state_may_become(from, to))
		return 0;
	store_error_set("volume %s is %s and cannot become %s", id, name, volume_state_name(to));
	return -EINVAL;
}

/* A run that the record names must be known: the schema's foreign key says -ENOENT otherwise. */
static int volume_replace(struct store *s, const struct volume_record *vol)
{
	int r = check_transition(s, vol->id, vol->state);

	if (r == 0)
		r = volume_write(s, STATEMENT_VOLUME_UPDATE, vol);
	if (r < 0)
		return r;
	return r > 0 ? 0 : no_such_volume(vol->id);
}

static int check_id(const struct volume_record *vol)
{
	if (vol->id && volume_id_is_valid(vol->id))
		return 0;
	store_error_set("not a volume id");
	return -EINVAL;
}

int volume_put(struct store *s, const struct volume_record *vol)
{
	int r = check_id(vol);

	if (r == 0)
		r = volume_replace(s, vol);
	if (r == -ENOENT)
		r = volume_write(s, STATEMENT_VOLUME_INSERT, vol);
	return r;
}

int store_volume_insert(struct store *s, const struct volume_record *vol)
{
	int r = check_id(vol);

	if (r < 0)
		return r;
	r = database_begin(s, TRANSACTION_ADD);
	if (r < 0)
		return r;
	r = volume_write(s, STATEMENT_VOLUME_INSERT, vol);
	database_touch(s, vol->id);
	return database_end(s, r < 0 ? r : 0);
}

int store_volume_update(struct store *s, const struct volume_record *vol)
{
	int r = database_begin(s, TRANSACTION_CHANGE);

	if (r < 0)
		return r;
	database_touch(s, vol->id);
	return database_end(s, volume_replace(s, vol));
}

static int set_state(struct store *s, const char *id, enum volume_state state, const char *reason,
		     uint64_t mount_id)
{
	sqlite3_stmt *stmt;
	int r = check_transition(s, id, state);

	if (r < 0)
		return r;
	stmt = statement_get(s, STATEMENT_VOLUME_SET_STATE);
	if ((r = statement_bind_text(stmt, 1, id)) < 0 ||
	    (r = statement_bind_text(stmt, 2, volume_state_name(state))) < 0 ||
	    (r = statement_bind_text(stmt, 3, reason)) < 0 ||
	    (r = statement_bind_i64(stmt, 4, (int64_t)mount_id)) < 0 ||
	    (r = statement_bind_i64(stmt, 5, store_now_ms())) < 0 ||
	    (r = statement_run(s, stmt)) < 0)
		return r;
	return r > 0 ? 0 : no_such_volume(id);
}

int store_volume_set_state(struct store *s, const char *id, enum volume_state state,
			   const char *reason, uint64_t mount_id)
{
	int r = database_begin(s, TRANSACTION_CHANGE);

	if (r < 0)
		return r;
	database_touch(s, id);
	return database_end(s, set_state(s, id, state, reason, mount_id));
}

static int volume_find(struct store *s, enum statement which, const char *key,
		       struct volume_record **ret_vol)
{
	sqlite3_stmt *stmt;
	int r = database_begin(s, TRANSACTION_READ);

	if (r < 0)
		return r;
	stmt = statement_get(s, which);
	r = statement_bind_text(stmt, 1, key);
	if (r == 0)
		r = statement_step(s, stmt);
	if (r == 0)
		r = no_such_volume(key);
	else if (r > 0)
		r = volume_read(stmt, ret_vol);
	database_end_read(s);
	return r;
}

int store_volume_by_id(struct store *s, const char *id, struct volume_record **ret_vol)
{
	return volume_find(s, STATEMENT_VOLUME_BY_ID, id, ret_vol);
}

int store_volume_by_target(struct store *s, const char *target, struct volume_record **ret_vol)
{
	return volume_find(s, STATEMENT_VOLUME_BY_TARGET, target, ret_vol);
}

static int volume_list(struct store *s, struct volume_record ***ret_list)
{
	sqlite3_stmt *stmt = statement_get(s, STATEMENT_VOLUME_LIST);
	struct volume_record **list = NULL;
	size_t count = 0;
	int r;

	while ((r = statement_step(s, stmt)) > 0) {
		struct volume_record **longer = reallocarray(list, count + 1, sizeof(*list));

		if (!longer) {
			r = -ENOMEM;
			break;
		}
		list = longer;
		r = volume_read(stmt, &list[count]);
		if (r < 0)
			break;
		count++;
	}
	if (r < 0) {
		store_volume_list_free(list, count);
		return r;
	}
	*ret_list = list;
	return (int)count;
}

int store_volume_list(struct store *s, struct volume_record ***ret_list)
{
	int r = database_begin(s, TRANSACTION_READ);

	if (r < 0)
		return r;
	r = volume_list(s, ret_list);
	database_end_read(s);
	return r;
}

void store_volume_list_free(struct volume_record **list, size_t count)
{
	for (size_t i = 0; i < count; i++)
		volume_record_free(list[i]);
	free(list);
}

/* Runs a statement whose one parameter is a volume's id. */
static int run_by_id(struct store *s, enum statement which, const char *id)
{
	sqlite3_stmt *stmt = statement_get(s, which);
	int r = statement_bind_text(stmt, 1, id);

	return r < 0 ? r : statement_run(s, stmt);
}

static int change_by_id(struct store *s, enum statement which, const char *id)
{
	int r = database_begin(s, TRANSACTION_CHANGE);

	if (r < 0)
		return r;
	r = run_by_id(s, which, id);
	database_touch(s, id);
	return database_end(s, r < 0 ? r : 0);
}

/* With its device, where it is one: they have the same id. */
static int volume_delete(struct store *s, const char *id)
{
	int r = run_by_id(s, STATEMENT_DEVICE_DELETE, id);

	return r < 0 ? r : run_by_id(s, STATEMENT_VOLUME_DELETE, id);
}

int store_volume_delete(struct store *s, const char *id)
{
	int r = database_begin(s, TRANSACTION_CHANGE);

	if (r < 0)
		return r;
	database_touch(s, id);
	r = volume_delete(s, id);
	return database_end(s, r < 0 ? r : 0);
}

int store_marker_drop(struct store *s, const char *volume_id)
{
	return change_by_id(s, STATEMENT_MARKER_DROP, volume_id);
}

int store_marker_get(struct store *s, const char *volume_id, char **ret_certifies)
{
	sqlite3_stmt *stmt;
	int r = database_begin(s, TRANSACTION_READ);

	if (r < 0)
		return r;
	stmt = statement_get(s, STATEMENT_MARKER_GET);
	r = statement_bind_text(stmt, 1, volume_id);
	if (r == 0)
		r = statement_step(s, stmt);
	if (r == 0) {
		store_error_set("volume %s has no marker", volume_id);
		r = -ENOENT;
	} else if (r > 0) {
		r = statement_read_text(stmt, 0, ret_certifies);
	}
	database_end_read(s);
	return r;
}

static int marker_set(struct store *s, const char *volume_id, const char *certifies)
{
	sqlite3_stmt *stmt =
		statement_get(s, certifies ? STATEMENT_MARKER_SET : STATEMENT_MARKER_DROP);
	int r = statement_bind_text(stmt, 1, volume_id);

	if (r == 0 && certifies && (r = statement_bind_text(stmt, 2, certifies)) == 0)
		r = statement_bind_i64(stmt, 3, store_now_ms());
	return r < 0 ? r : statement_run(s, stmt);
}

static int setup_done(struct store *s, const struct volume_record *vol, const char *certifies,
		      const struct run_record *run)
{
	struct volume_record with_run = *vol;
	int r, forgotten = 0;

	if (run) {
		with_run.run_id = run->id;
		forgotten = run_take_part(s, run);
		if (forgotten < 0)
			return forgotten;
	}
	r = volume_replace(s, &with_run);
	if (r < 0)
		return r;
	r = marker_set(s, vol->id, certifies);
	return r < 0 ? r : forgotten;
}

int store_setup_done(struct store *s, const struct volume_record *vol, const char *certifies,
		     const struct run_record *run)
{
	int r = database_begin(s, TRANSACTION_ADD);

	if (r < 0)
		return r;
	database_touch(s, vol->id);
	return database_end(s, setup_done(s, vol, certifies, run));
}
