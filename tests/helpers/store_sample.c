// SPDX-License-Identifier: Apache-2.0
/*
 * store_sample PATH: a store at PATH with one of everything in it, as this version of the schema keeps it. What
 * scripts/make-store-fixture makes a fixture of; tests/unit/test_store_migrate.c knows its contents.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "store/store.h"

#define RUN "0123456789abcdef0123456789abcdef"

static void require(int result, const char *what)
{
	if (result >= 0)
		return;
	fprintf(stderr, "store_sample: %s: %s (%s)\n", what, strerror(-result), store_error_text());
	exit(1);
}

static struct volume_record *volume(const char *id, const char *plugin, const char *source,
				    const char *target)
{
	struct volume_record *vol = volume_record_new();

	if (!vol)
		exit(1);
	vol->id = strdup(id);
	vol->plugin = strdup(plugin);
	vol->source = strdup(source);
	vol->source_identity = strdup("identity");
	vol->target = strdup(target);
	vol->target_resolved = strdup(target);
	vol->policy = strdup("OnRootMismatch");
	vol->ownership = strdup("converge");
	vol->excludes = strdup("[\"*.key\"]");
	vol->coherence = strdup("exclusive");
	vol->boot_id = strdup("11111111-2222-3333-4444-555555555555");
	return vol;
}

int main(int argc, char **argv)
{
	static const char empty_dir[] =
		"{\"kind\":\"Volume\",\"object\":{\"emptyDir\":{},\"name\":\"e\"},\"schemaVersion\":1}";
	static const char secret[] =
		"{\"kind\":\"Volume\",\"object\":{\"name\":\"s\",\"secret\":{\"secretName\":\"s\"}},\"schemaVersion\":1}";
	struct run_record run = { .id = (char *)RUN,
				  .tree = (char *)"aabb:1.cc",
				  .wanted = (char *)"gid=4242" };
	struct run_counters counters = { 7, 5, 1, 0, 1 };
	struct failure_record failure = { (char *)"a/b", EPERM };
	struct wrapped_record wrapped = { (char *)"wrapping", (char *)"data",
					  (char *)"emptyDir", (char *)"{\"medium\":\"Memory\"}",
					  (char *)"{}",	      (char *)"tmpfs x 1" };
	AUTO(volume_record) *running = volume("running", "emptyDir", empty_dir, "/t/running");
	AUTO(volume_record) *wrapping = volume("wrapping", "secret", secret, "/t/wrapping");
	struct store *s = NULL;
	char *aside = NULL;

	if (argc != 2) {
		fprintf(stderr, "usage: store_sample PATH\n");
		return 2;
	}
	require(store_open(argv[1], &s, &aside), "open");
	running->fs_group = 4242;
	running->plugin_metadata = strdup("{\"mountId\":7}");
	running->mount_id = UINT64_MAX;
	running->converge_rate = 100;
	running->mount_options = strdup("nosuid,noatime");
	running->transport = strdup("io_uring");
	running->persist = running->handoff = running->idmap = true;
	require(store_volume_insert(s, running), "insert");
	running->state = VOLUME_CONVERGING;
	require(store_setup_done(s, running, "handle 1 aabb", &run), "done");
	require(store_run_set_epoch(s, RUN, "1.000000002"), "epoch");
	require(store_run_set_counters(s, RUN, &counters), "counters");
	require(store_failures_set(s, "running", &failure, 1, 12), "failures");
	wrapping->read_only = true;
	require(store_volume_insert(s, wrapping), "insert");
	require(store_wrapped_set(s, &wrapped), "wrapped");
	require(store_volume_set_state(s, "wrapping", VOLUME_FAILED, "a reason", 3), "state");
	require(store_event_add(s, "running", "mounted", "emptyDir at /t/running"), "event");
	store_close(s);
	free(aside);
	return 0;
}
