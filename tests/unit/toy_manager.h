/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_TOY_MANAGER_H
#define TESTS_UNIT_TOY_MANAGER_H

/*
 * toy_manager: a manager in a temporary directory, with one volume "v" on record. The test brings its own
 * plugin_find(), which takes the registry's place; its plugins are called by Kubernetes' keys, for others
 * are no sources.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/base/cleanup.h"
#include "mountd/manager_impl.h"
#include "mountd/path.h"
#include "plugins/builder.h"
#include "plugins/tree_remove.h"

struct fixture {
	char dir[64];
	struct layout *layout;
	struct manager *m;
	struct volume_record *vol;
	struct front_rules front;
	struct volume_work *work;
	char error[ANSWER_TEXT_MAX];
};

static void open_work(struct fixture *f)
{
	volume_work_free(f->work);
	f->work = NULL;
	assert_int_equal(work_open(f->m, f->vol, &f->front, true, &f->work, f->error), 0);
}

static void insert(struct fixture *f, const char *plugin)
{
	struct volume_record *vol = f->vol = volume_record_new();

	vol->id = strdup("v");
	vol->plugin = strdup(plugin);
	assert_true(
		asprintf(&vol->source,
			 "{\"kind\":\"VolumeSource\",\"schemaVersion\":1,\"object\":{\"%s\":{}}}",
			 plugin) > 0);
	vol->source_identity = strdup("");
	vol->target = strdup("/target");
	vol->policy = strdup("Always");
	vol->ownership = strdup("converge");
	vol->excludes = strdup("[]");
	vol->coherence = strdup("exclusive");
	assert_int_equal(store_volume_insert(f->m->store, vol), 0);
	open_work(f);
}

static int manager_set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	strcpy(f->dir, "/tmp/test_manager.XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	assert_int_equal(layout_open(f->dir, true, &f->layout), 0);
	assert_int_equal(manager_new(f->layout, &f->m, f->error), 0);
	*state = f;
	return 0;
}

static int manager_tear_down(void **state)
{
	struct fixture *f = *state;
	AUTO_FD int tmp = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);

	volume_work_free(f->work);
	volume_record_free(f->vol);
	manager_free(f->m);
	layout_free(f->layout);
	assert_int_equal(tree_remove(tmp, f->dir + strlen("/tmp/"), f->error, sizeof(f->error)), 0);
	free(f);
	return 0;
}

#endif
