// SPDX-License-Identifier: Apache-2.0
#include "store/store.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fs/base/log.h"
#include "store/database.h"

/* What a consumer's source identity begins with. No plugin's own begins so: theirs are "key=value". */
static const char CONSUMER[] = "device:";

/* In the order of the columns in statements.c. */
static const struct field device_fields[] = {
	{ FIELD_TEXT, offsetof(struct device_record, id) },
	{ FIELD_TEXT, offsetof(struct device_record, staging_path) },
	{ FIELD_TEXT, offsetof(struct device_record, identity) },
	{ FIELD_TEXT, offsetof(struct device_record, arguments) },
};

struct device_record *device_record_new(void)
{
	return calloc(1, sizeof(struct device_record));
}

void device_record_free(struct device_record *device)
{
	if (!device)
		return;
	free(device->id);
	free(device->staging_path);
	free(device->identity);
	free(device->arguments);
	free(device);
}

static int device_put(struct store *s, const struct volume_record *vol,
		      const struct device_record *device)
{
	sqlite3_stmt *stmt;
	int r = volume_put(s, vol);

	if (r < 0)
		return r;
	stmt = statement_get(s, STATEMENT_DEVICE_PUT);
	r = statement_bind_record(stmt, device_fields, ARRAY_SIZE(device_fields), device);
	return r < 0 ? r : statement_run(s, stmt);
}

int store_device_put(struct store *s, const struct volume_record *vol,
		     const struct device_record *device)
{
	int r = database_begin(s, TRANSACTION_ADD);

	if (r < 0)
		return r;
	database_touch(s, vol->id);
	r = device_put(s, vol, device);
	return database_end(s, r < 0 ? r : 0);
}

static int device_read(sqlite3_stmt *stmt, struct device_record **ret_device)
{
	AUTO(device_record) *device = device_record_new();
	int r;

	if (!device)
		return -ENOMEM;
	r = statement_read_record(stmt, 0, device_fields, ARRAY_SIZE(device_fields), device);
	if (r == 0)
		*ret_device = take_ptr(&device);
	return r;
}

static int device_find(struct store *s, enum statement which, const char *key,
		       struct device_record **ret_device)
{
	char quoted[200];
	sqlite3_stmt *stmt;
	int r = database_begin(s, TRANSACTION_READ);

	if (r < 0)
		return r;
	stmt = statement_get(s, which);
	r = statement_bind_text(stmt, 1, key);
	if (r == 0)
		r = statement_step(s, stmt);
	if (r == 0) {
		store_error_set("no device %s is on record",
				log_quote(key, quoted, sizeof(quoted)));
		r = -ENOENT;
	} else if (r > 0) {
		r = device_read(stmt, ret_device);
	}
	database_end_read(s);
	return r;
}

int store_device_by_id(struct store *s, const char *id, struct device_record **ret_device)
{
	return device_find(s, STATEMENT_DEVICE_BY_ID, id, ret_device);
}

int store_device_by_staging(struct store *s, const char *path, struct device_record **ret_device)
{
	return device_find(s, STATEMENT_DEVICE_BY_STAGING, path, ret_device);
}

char *store_device_consumer(const char *id)
{
	char *text = NULL;

	return asprintf(&text, "%s%s", CONSUMER, id) < 0 ? NULL : text;
}

const char *store_device_of(const struct volume_record *vol)
{
	size_t len = strlen(CONSUMER);

	if (!vol->source_identity || strncmp(vol->source_identity, CONSUMER, len) != 0)
		return NULL;
	return vol->source_identity + len;
}
