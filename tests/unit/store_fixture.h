/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_STORE_FIXTURE_H
#define TESTS_UNIT_STORE_FIXTURE_H

/* store_fixture: a store in a directory of its own below /tmp, which goes with all that is in it. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/base/cleanup.h"
#include "plugins/tree_remove.h"
#include "store/store.h"

struct fixture {
	char dir[64];
	char path[96];
	struct store *store;
};

static inline void open_store(struct fixture *f)
{
	char *aside = NULL;

	assert_int_equal(store_open(f->path, &f->store, &aside), 0);
	assert_null(aside);
}

static inline int store_set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	strcpy(f->dir, "/tmp/test_store.XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	snprintf(f->path, sizeof(f->path), "%s/store.db", f->dir);
	open_store(f);
	*state = f;
	return 0;
}

static inline int store_tear_down(void **state)
{
	struct fixture *f = *state;
	AUTO_FD int tmp = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
	char why[256];

	store_close(f->store);
	assert_int_equal(tree_remove(tmp, f->dir + strlen("/tmp/"), why, sizeof(why)), 0);
	free(f);
	return 0;
}

/* A volume with all that a record must have, not yet in the store; freed by its caller. */
static inline struct volume_record *make_record(const char *id, const char *plugin)
{
	struct volume_record *vol = volume_record_new();

	assert_non_null(vol);
	vol->id = strdup(id);
	vol->plugin = strdup(plugin);
	vol->source = strdup("{}");
	vol->source_identity = strdup(plugin);
	vol->policy = strdup("Always");
	vol->ownership = strdup("converge");
	vol->excludes = strdup("[]");
	vol->coherence = strdup("exclusive");
	return vol;
}

#endif
