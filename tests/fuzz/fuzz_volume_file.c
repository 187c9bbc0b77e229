// SPDX-License-Identifier: Apache-2.0
/* volume.json: the file as it is, and the record in it as if its checksum were right. */
#include <errno.h>

#include "fs/base/parse.h"
#include "mountd/volume_file.h"
#include "store/dump.h"
#include "tests/fuzz/fuzz.h"

/* One store for all inputs; what an input adds goes again. */
static struct store *the_store(void)
{
	static struct store *store;
	char *aside = NULL;
	char path[512];

	if (!store) {
		const char *dir = getenv("TMPDIR");

		snprintf(path, sizeof(path), "%s/fuzz_volume_file.db", dir ? dir : "/tmp");
		REQUIRE(store_open(path, &store, &aside) == 0);
		free(aside);
		/* The first transaction that adds makes the store's reserve; that of a refused text would be undone. */
		REQUIRE(store_event_add(store, NULL, "fuzz", "begins") == 0);
	}
	return store;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_FREE char *text = fuzz_text(data, size);
	AUTO_FREE char *record = NULL;
	AUTO_FREE char *id = NULL;
	AUTO_FREE char *again = NULL;
	AUTO_FREE char *same = NULL;
	AUTO(volume_record) *vol = NULL;
	struct store *s = the_store();
	int r;

	if (volume_file_parse((const char *)data, size, &record) == 0)
		REQUIRE(strlen(record) < size);
	r = store_volume_restore(s, text, &id);
	/* A store that an input could damage, or a fault that is not the input's, is a finding. */
	REQUIRE(r == 0 || r == -EINVAL || r == -ENOTSUP || r == -EEXIST);
	if (r < 0)
		return 0;
	REQUIRE(volume_id_is_valid(id));
	REQUIRE(store_volume_by_id(s, id, &vol) == 0 && strcmp(vol->id, id) == 0);
	REQUIRE(store_volume_dump(s, id, &again) == 0);
	REQUIRE(store_volume_compare(s, id, again) == 0);
	REQUIRE(store_volume_delete(s, id) == 0);
	free(id);
	id = NULL;
	/* What was taken once is written so that it is taken again. */
	REQUIRE(store_volume_restore(s, again, &id) == 0);
	REQUIRE(store_volume_dump(s, id, &same) == 0 && strcmp(again, same) == 0);
	REQUIRE(store_volume_delete(s, id) == 0);
	return 0;
}
