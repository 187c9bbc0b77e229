// SPDX-License-Identifier: Apache-2.0
/*
 * secret, configMap, downwardAPI and projected against a host whose emptyDir is a directory: in /dev/shm
 * when it is to be in memory.
 */
#include <linux/magic.h>
#include <stdlib.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "tests/unit/fake_host.h"
#include "tests/unit/json_text.h"

struct world {
	struct fake *fake;
	struct host host;
	char inner[96];	      /* the wrapped emptyDir; "": there is none */
	bool memory_is_other; /* a host that does not give what was asked for */
};

/* One at a time: the host's functions find it here. */
static struct world *world;

static int inner_set_up(struct volume_builder *b, const char *name, const char *plugin,
			json_t *source, gid_t gid, int *ret_lower,
			enum ownership_outcome *ret_ownership, bool *ret_ran)
{
	const char *medium = json_string_value(json_object_get(source, "medium"));

	(void)b;
	assert_string_equal(name, "wrapped");
	assert_string_equal(plugin, "emptyDir");
	assert_true(gid == GID_UNSET);
	*ret_ran = world->inner[0] == '\0';
	if (*ret_ran) {
		snprintf(world->inner, sizeof(world->inner), "%s/test_payload.XXXXXX",
			 medium ? "/dev/shm" : world->fake->dir);
		assert_true(!medium || strcmp(medium, "Memory") == 0);
		assert_non_null(mkdtemp(world->inner));
		assert_int_equal(chmod(world->inner, 0777), 0);
	}
	*ret_lower = open(world->memory_is_other ? "/proc/self" : world->inner,
			  O_PATH | O_DIRECTORY | O_CLOEXEC);
	*ret_ownership = OWNERSHIP_DONE;
	return *ret_lower < 0 ? -errno : 0;
}

static int inner_open_lower(struct volume_builder *b, const char *name, int *ret_lower)
{
	(void)b;
	(void)name;
	if (!world->inner[0])
		return -ENOENT;
	*ret_lower = open(world->inner, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return *ret_lower < 0 ? -errno : 0;
}

static int inner_certify(struct volume_builder *b, const char *name, char **ret_text)
{
	(void)b;
	(void)name;
	if (!world->inner[0])
		return -ENOENT;
	*ret_text = strdup("inner");
	return 0;
}

static int inner_tear_down(struct volume_builder *b, const char *name)
{
	char *slash = strrchr(world->inner, '/');
	AUTO_FD int fd = -1;

	(void)name;
	if (!world->inner[0])
		return 0;
	*slash = '\0';
	fd = open(world->inner, O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(tree_remove(fd, slash + 1, b->error, sizeof(b->error)), 0);
	world->inner[0] = '\0';
	return 0;
}

static int world_set_up(void **state)
{
	void *fake = NULL;

	world = calloc(1, sizeof(*world));
	assert_non_null(world);
	assert_int_equal(fake_set_up(&fake), 0);
	world->fake = fake;
	world->host = fake_host;
	world->host.set_up = inner_set_up;
	world->host.open_lower = inner_open_lower;
	world->host.certify = inner_certify;
	world->host.tear_down = inner_tear_down;
	world->fake->b.host = &world->host;
	*state = world;
	return 0;
}

static int world_tear_down(void **state)
{
	struct world *w = *state;
	void *fake = w->fake;

	inner_tear_down(&w->fake->b, "wrapped");
	json_decref(w->fake->b.objects);
	assert_int_equal(fake_tear_down(&fake), 0);
	free(w);
	return 0;
}

static void give(struct world *w, const char *source, const char *objects)
{
	struct volume_builder *b = &w->fake->b;

	json_decref(b->source);
	b->source = json_text_load(source);
	json_decref(b->objects);
	b->objects = objects ? json_text_load(objects) : NULL;
	b->pod_namespace = "ns";
	b->error[0] = '\0';
}

static int set_up_as(struct world *w, const struct volume_plugin *plugin, gid_t gid)
{
	enum ownership_outcome outcome = OWNERSHIP_IGNORED;
	int lower = -1, r = plugin->check(&w->fake->b);

	if (r == 0)
		r = plugin->set_up(&w->fake->b, gid, &lower, &outcome);
	if (r == 0)
		assert_int_equal(outcome, OWNERSHIP_DONE);
	assert_int_equal(r == 0, lower >= 0);
	if (lower >= 0)
		close(lower);
	assert_null(strstr(w->fake->b.error, "CANARY"));
	assert_null(strchr(w->fake->b.error, '\n'));
	return r;
}

/* Fails with @error and a reason that has @words; nothing but a directory of the host's is left. */
static void assert_refused(struct world *w, const struct volume_plugin *plugin, int error,
			   const char *words)
{
	assert_int_equal(set_up_as(w, plugin, GID_UNSET), error);
	if (!strstr(w->fake->b.error, words))
		fail_msg("no \"%s\" in: %s", words, w->fake->b.error);
}

static int refreshed(struct world *w, const struct volume_plugin *plugin, gid_t gid)
{
	bool changed = false;
	int r = plugin->refresh(&w->fake->b, gid, &changed);

	return r < 0 ? r : changed;
}

static void assert_content(struct world *w, const char *path, const char *wanted)
{
	char full[256], text[512];
	AUTO_FD int fd = -1;
	ssize_t n;

	snprintf(full, sizeof(full), "%s/%s", w->inner, path);
	fd = open(full, O_RDONLY | O_CLOEXEC);
	if (!wanted) {
		assert_true(fd < 0);
		return;
	}
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n < 0)
		fail_msg("%s cannot be read", path);
	text[n < 0 ? 0 : n] = '\0';
	assert_string_equal(text, wanted);
}

static void assert_mode(struct world *w, const char *path, mode_t mode)
{
	char full[256];
	struct stat st;

	snprintf(full, sizeof(full), "%s/%s", w->inner, path);
	assert_int_equal(stat(full, &st), 0);
	assert_int_equal(st.st_mode & 07777, mode);
}

/* user: alice, pass: CANARY */
#define SECRET                                                                                     \
	"{'kind': 'Secret', 'metadata': {'name': 's', 'namespace': 'ns'},"                         \
	" 'data': {'user': 'YWxpY2U=', 'pass': 'Q0FOQVJZ'}}"
#define SECRET_CHANGED                                                                             \
	"{'kind': 'Secret', 'metadata': {'name': 's', 'namespace': 'ns'},"                         \
	" 'data': {'user': 'Ym9i'}}"
#define CONFIG_MAP                                                                                 \
	"{'kind': 'ConfigMap', 'metadata': {'name': 'c', 'namespace': 'ns'},"                      \
	" 'data': {'app.conf': 'a=1'}, 'binaryData': {'logo': 'iVBORw=='}}"
#define POD                                                                                             \
	"{'kind': 'Pod', 'metadata': {'name': 'p', 'namespace': 'ns', 'labels': {'b': '2', 'a': '1'}}," \
	" 'spec': {'containers': [{'name': 'm', 'resources': {'limits': {'cpu': '250m'}}}]}}"
#define NODE "{'kind': 'Node', 'status': {'allocatable': {'cpu': '4', 'memory': '1Gi'}}}"
#define TOKEN                                                                                      \
	"{'kind': 'TokenRequest', 'spec': {'audiences': ['vault']}, 'status': {'token': 'CANARY.jwt'}}"

static void secret_every_key_is_a_file(void **state)
{
	struct world *w = *state;
	char *text = NULL;
	struct statfs fs;

	give(w, "{'secretName': 's'}", "[" SECRET "]");
	assert_int_equal(set_up_as(w, &plugin_secret, GID_UNSET), 0);
	assert_content(w, "user", "alice");
	assert_content(w, "pass", "CANARY");
	assert_mode(w, "pass", 0644);
	assert_int_equal(statfs(w->inner, &fs), 0);
	assert_int_equal(fs.f_type, TMPFS_MAGIC);
	assert_int_equal(plugin_secret.certify(&w->fake->b, &text), 0);
	assert_string_equal(text, "inner");
	free(text);
	assert_int_equal(plugin_secret.tear_down(&w->fake->b), 0);
	assert_int_equal(plugin_secret.tear_down(&w->fake->b), 0);
	assert_int_equal(plugin_secret.certify(&w->fake->b, &text), -ENOENT);
}

static void secret_items_have_paths_and_modes(void **state)
{
	struct world *w = *state;

	give(w,
	     "{'secretName': 's', 'defaultMode': 256, 'items': [{'key': 'user', 'path': 'a/b/name'},"
	     " {'key': 'pass', 'path': 'pw', 'mode': 384}]}",
	     "[" SECRET "]");
	assert_int_equal(set_up_as(w, &plugin_secret, GID_UNSET), 0);
	assert_content(w, "a/b/name", "alice");
	assert_content(w, "pw", "CANARY");
	assert_content(w, "user", NULL);
	assert_mode(w, "a/b/name", 0400);
	assert_mode(w, "pw", 0600);
}

static void secret_mode_0400_is_0440_for_a_group_unless_private_is_kept(void **state)
{
	struct world *w = *state;

	give(w, "{'secretName': 's', 'defaultMode': 256}", "[" SECRET "]");
	assert_int_equal(set_up_as(w, &plugin_secret, getegid()), 0);
	assert_mode(w, "pass", 0440);
	assert_mode(w, ".", 02777);
	w->fake->b.keep_private = true;
	assert_int_equal(refreshed(w, &plugin_secret, getegid()), 1);
	assert_mode(w, "pass", 0400);
	assert_int_equal(refreshed(w, &plugin_secret, getegid()), 0);
}

static void secret_refresh_tells_whether_it_changed(void **state)
{
	struct world *w = *state;

	give(w, "{'secretName': 's'}", "[" SECRET "]");
	assert_int_equal(refreshed(w, &plugin_secret, GID_UNSET), -ENOENT); /* not set up */
	assert_int_equal(set_up_as(w, &plugin_secret, GID_UNSET), 0);
	assert_int_equal(refreshed(w, &plugin_secret, GID_UNSET), 0);
	give(w, "{'secretName': 's'}", "[" SECRET_CHANGED "]");
	assert_int_equal(refreshed(w, &plugin_secret, GID_UNSET), 1);
	assert_content(w, "user", "bob");
	assert_content(w, "pass", NULL);
	assert_int_equal(refreshed(w, &plugin_secret, getegid()), 1);
	give(w, "{'secretName': 's'}", NULL);
	assert_int_equal(refreshed(w, &plugin_secret, GID_UNSET), -ENOENT);
	give(w, "{'secretName': 's'}", "[]");
	assert_int_equal(refreshed(w, &plugin_secret, GID_UNSET), -ENOENT);
	assert_content(w, "user", "bob");
}

static void secret_optional_may_be_absent(void **state)
{
	struct world *w = *state;

	give(w, "{'secretName': 's', 'optional': true}", "[" CONFIG_MAP "]");
	assert_int_equal(set_up_as(w, &plugin_secret, GID_UNSET), 0);
	assert_content(w, "user", NULL);
	give(w,
	     "{'secretName': 's', 'optional': true, 'items': [{'key': 'none', 'path': 'n'},"
	     " {'key': 'user', 'path': 'u'}]}",
	     "[" SECRET "]");
	assert_int_equal(refreshed(w, &plugin_secret, GID_UNSET), 1);
	assert_content(w, "u", "alice");
	assert_content(w, "n", NULL);
	/* Without any objects nobody knows whether there is one: what is there is not emptied. */
	give(w, "{'secretName': 's', 'optional': true}", NULL);
	assert_int_equal(refreshed(w, &plugin_secret, GID_UNSET), -ENOENT);
	assert_content(w, "u", "alice");
}

/* A file system that is no tmpfs, for certain, and where nothing can be made. */
static void secret_is_written_to_a_tmpfs_only(void **state)
{
	struct world *w = *state;

	w->memory_is_other = true;
	give(w, "{'secretName': 's'}", "[" SECRET "]");
	assert_refused(w, &plugin_secret, -EPERM, "not a tmpfs");
	give(w, "{'sources': [{'secret': {'name': 's'}}]}", "[" SECRET "]");
	assert_refused(w, &plugin_projected, -EPERM, "not a tmpfs");
	give(w, "{'items': [{'path': 'n', 'fieldRef': {'fieldPath': 'metadata.name'}}]}",
	     "[" POD "]");
	assert_refused(w, &plugin_downward_api, -EPERM, "not a tmpfs");
}

static void secret_bad_sources_are_refused(void **state)
{
	static const struct {
		const char *source, *words;
	} bad[] = {
		{ "{}", "secretName: missing" },
		{ "{'secretName': 7}", "secretName: not a string" },
		{ "{'secretName': 's', 'optional': 'yes'}", "optional: not a boolean" },
		{ "{'secretName': 's', 'defaultMode': 512}", "defaultMode: not an integer" },
		{ "{'secretName': 's', 'defaultMode': '0400'}", "defaultMode: not an integer" },
		{ "{'secretName': 's', 'defaultMode': -1}", "defaultMode: not an integer" },
		{ "{'secretName': 's', 'items': {}}", "items: not an array" },
		{ "{'secretName': 's', 'items': [7]}", "items[0]: not an object" },
		{ "{'secretName': 's', 'items': [{'path': 'p'}]}", "items[0].key: missing" },
		{ "{'secretName': 's', 'items': [{'key': 'user'}]}", "items[0].path: missing" },
		{ "{'secretName': 's', 'items': [{'key': '../x', 'path': 'p'}]}",
		  "not a valid key" },
		{ "{'secretName': 's', 'items': [{'key': 'user', 'path': '../p'}]}", "\"..\"" },
		{ "{'secretName': 's', 'items': [{'key': 'user', 'path': '/etc/p'}]}", "absolute" },
		{ "{'secretName': 's', 'items': [{'key': 'user', 'path': '..data'}]}", "begins" },
		{ "{'secretName': 's', 'items': [{'key': 'user', 'path': 'p', 'mode': 1000}]}",
		  "items[0].mode" },
		{ "{'secretName': 's', 'items': [{'key': 'user', 'path': 'p'},"
		  " {'key': 'pass', 'path': 'p'}]}",
		  "given twice" },
		{ "{'secretName': 's', 'items': [{'key': 'user', 'path': 'p'},"
		  " {'key': 'pass', 'path': 'p/q'}]}",
		  "a directory elsewhere" },
	};
	struct world *w = *state;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		give(w, bad[i].source, "[" SECRET "]");
		assert_refused(w, &plugin_secret, -EINVAL, bad[i].words);
		assert_string_equal(w->inner, "");
	}
	give(w, "{'secretName': 's', 'items': [{'key': 'none', 'path': 'p'}]}", "[" SECRET "]");
	assert_refused(w, &plugin_secret, -ENOENT, "key none");
	give(w, "{'secretName': 'other'}", "[" SECRET "]");
	assert_refused(w, &plugin_secret, -ENOENT, "Secret ns/other");
	assert_string_equal(w->inner, "");
}

static void secret_bad_objects_are_refused(void **state)
{
	static const struct {
		const char *data, *words;
	} bad[] = {
		{ "{'../../etc/cron.d/x': 'Q0FOQVJZ'}", "not a valid key" },
		{ "{'..data': 'Q0FOQVJZ'}", "not a valid key" },
		{ "{'k': 'CANARY!'}", "not base64" },
		{ "{'k': 7}", "not a string" },
		{ "[]", "not an object" },
	};
	struct world *w = *state;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		char object[256];

		snprintf(
			object, sizeof(object),
			"[{'kind': 'Secret', 'metadata': {'name': 's', 'namespace': 'ns'}, 'data': %s}]",
			bad[i].data);
		give(w, "{'secretName': 's'}", object);
		assert_refused(w, &plugin_secret, -EINVAL, bad[i].words);
		assert_string_equal(w->inner, "");
	}
}

static void secret_of_more_than_1_mib_is_refused(void **state)
{
	struct world *w = *state;
	size_t len = (1U << 20) / 3 * 4 + 64;
	AUTO_FREE char *text = malloc(len + 1);
	json_t *data;

	give(w, "{'secretName': 's'}", "[" SECRET "]");
	memset(text, 'A', len);
	text[len] = '\0';
	data = json_object_get(json_array_get(w->fake->b.objects, 0), "data");
	json_object_set_new(data, "large", json_string(text));
	assert_refused(w, &plugin_secret, -E2BIG, "1 MiB");
}

static void config_map_takes_text_and_bytes(void **state)
{
	struct world *w = *state;

	give(w, "{'name': 'c'}", "[" CONFIG_MAP ", " SECRET "]");
	assert_int_equal(set_up_as(w, &plugin_config_map, GID_UNSET), 0);
	assert_content(w, "app.conf", "a=1");
	assert_content(w, "logo", "\x89PNG");
	/* On disk, and not in memory. */
	assert_int_equal(strncmp(w->inner, w->fake->dir, strlen(w->fake->dir)), 0);
	give(w, "{'name': 'c'}",
	     "[{'kind': 'ConfigMap', 'metadata': {'name': 'c', 'namespace': 'ns'},"
	     " 'data': {'k': 'x'}, 'binaryData': {'k': 'eA=='}}]");
	assert_int_equal(refreshed(w, &plugin_config_map, GID_UNSET), -EINVAL);
	assert_content(w, "app.conf", "a=1");
}

static void downward_shows_the_pod(void **state)
{
	struct world *w = *state;

	give(w,
	     "{'items': [{'path': 'labels', 'fieldRef': {'fieldPath': 'metadata.labels'}},"
	     " {'path': 'r/cpu', 'resourceFieldRef': {'containerName': 'm', 'resource': 'limits.cpu',"
	     "  'divisor': '1m'}},"
	     " {'path': 'r/memory', 'mode': 256, 'resourceFieldRef': {'containerName': 'm',"
	     "  'resource': 'limits.memory', 'divisor': '1Mi'}}]}",
	     "[" POD ", " NODE "]");
	assert_int_equal(set_up_as(w, &plugin_downward_api, GID_UNSET), 0);
	assert_content(w, "labels", "a=\"1\"\nb=\"2\"");
	assert_content(w, "r/cpu", "250");
	assert_content(w, "r/memory", "1024");
	assert_mode(w, "r/memory", 0400);
}

static void downward_bad_is_refused(void **state)
{
	static const struct {
		const char *item;
		int error;
		const char *words;
	} bad[] = {
		{ "{'fieldRef': {'fieldPath': 'metadata.name'}}", -EINVAL,
		  "items[0].path: missing" },
		{ "{'path': 'p'}", -EINVAL, "either fieldRef or" },
		{ "{'path': 'p', 'fieldRef': {'fieldPath': 'status.podIP'}}", -EINVAL, "podIP" },
		{ "{'path': 'p', 'fieldRef': {}}", -EINVAL, "items[0].fieldPath: missing" },
		{ "{'path': 'p', 'resourceFieldRef': {'resource': 'limits.cpu'}}", -EINVAL,
		  "containerName: missing" },
		{ "{'path': 'p', 'resourceFieldRef': {'containerName': 'm', 'resource': 'cpu'}}",
		  -EINVAL, "cpu" },
		{ "{'path': 'p', 'resourceFieldRef': {'containerName': 'x', 'resource': 'limits.cpu'}}",
		  -ENOENT, "no container x" },
		{ "{'path': 'p', 'resourceFieldRef': {'containerName': 'm', 'resource': 'limits.memory'}}",
		  -ENOENT, "Node: none" },
	};
	struct world *w = *state;
	char source[256];

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		snprintf(source, sizeof(source), "{'items': [%s]}", bad[i].item);
		give(w, source, "[" POD "]");
		assert_refused(w, &plugin_downward_api, bad[i].error, bad[i].words);
		assert_string_equal(w->inner, "");
	}
}

static void projected_joins_all_sources(void **state)
{
	struct world *w = *state;

	give(w,
	     "{'defaultMode': 420, 'sources': [{'secret': {'name': 's', 'items': [{'key': 'user',"
	     "  'path': 'creds/user', 'mode': 256}]}}, {'configMap': {'name': 'c'}},"
	     " {'downwardAPI': {'items': [{'path': 'labels', 'fieldRef': {'fieldPath': 'metadata.labels'}}]}},"
	     " {'serviceAccountToken': {'audience': 'vault', 'expirationSeconds': 3600, 'path': 'creds/token'}},"
	     " {'secret': {'name': 'none', 'optional': true}}]}",
	     "[" SECRET ", " CONFIG_MAP ", " POD ", " TOKEN "]");
	assert_int_equal(set_up_as(w, &plugin_projected, GID_UNSET), 0);
	assert_content(w, "creds/user", "alice");
	assert_content(w, "creds/token", "CANARY.jwt");
	assert_content(w, "app.conf", "a=1");
	assert_content(w, "labels", "a=\"1\"\nb=\"2\"");
	assert_mode(w, "creds/user", 0400);
	assert_mode(w, "creds/token", 0644);
	assert_int_equal(refreshed(w, &plugin_projected, getegid()), 1);
	assert_mode(w, "creds/user", 0440);
	assert_mode(w, "creds/token", 0640);
	assert_mode(w, "creds", 02755);
}

static void projected_bad_is_refused(void **state)
{
	static const struct {
		const char *sources;
		int error;
		const char *words;
	} bad[] = {
		{ "{'sources': {}}", -EINVAL, "sources: not an array" },
		{ "{}", -EINVAL, "sources: missing" },
		{ "{'sources': [{}]}", -EINVAL, "sources[0]: has no source" },
		{ "{'sources': [7]}", -EINVAL, "sources[0]: has no source" },
		{ "{'sources': [{'clusterTrustBundle': {}}]}", -EINVAL,
		  "clusterTrustBundle is not" },
		{ "{'sources': [{'secret': 7}]}", -EINVAL, "sources[0].secret: not an object" },
		{ "{'sources': [{'secret': {'name': 's'}, 'configMap': {'name': 'c'}}]}", -EINVAL,
		  "has both" },
		{ "{'sources': [{'secret': {}}]}", -EINVAL, "sources[0].secret.name: missing" },
		{ "{'sources': [{'secret': {'name': 's'}}, {'secret': {'name': 's'}}]}", -EINVAL,
		  "given twice: by Secret s and by Secret s" },
		{ "{'sources': [{'secret': {'name': 's'}}, {'configMap': {'name': 'c', 'items':"
		  " [{'key': 'app.conf', 'path': 'user/x'}]}}]}",
		  -EINVAL, "Secret s: path user is a file here" },
		{ "{'sources': [{'serviceAccountToken': {}}]}", -EINVAL,
		  "sources[0].serviceAccountToken.path: missing" },
		{ "{'sources': [{'serviceAccountToken': {'path': 't', 'audience': 'x'}}]}", -ENOENT,
		  "audience \"x\"" },
	};
	struct world *w = *state;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		give(w, bad[i].sources, "[" SECRET ", " CONFIG_MAP ", " TOKEN "]");
		assert_refused(w, &plugin_projected, bad[i].error, bad[i].words);
		assert_string_equal(w->inner, "");
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_set_up, world_tear_down)
	const struct CMUnitTest tests[] = {
		TEST(secret_every_key_is_a_file),
		TEST(secret_items_have_paths_and_modes),
		TEST(secret_mode_0400_is_0440_for_a_group_unless_private_is_kept),
		TEST(secret_refresh_tells_whether_it_changed),
		TEST(secret_optional_may_be_absent),
		TEST(secret_is_written_to_a_tmpfs_only),
		TEST(secret_bad_sources_are_refused),
		TEST(secret_bad_objects_are_refused),
		TEST(secret_of_more_than_1_mib_is_refused),
		TEST(config_map_takes_text_and_bytes),
		TEST(downward_shows_the_pod),
		TEST(downward_bad_is_refused),
		TEST(projected_joins_all_sources),
		TEST(projected_bad_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
