// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "fs/base/cleanup.h"
#include "mountd/ctl/file.h"
#include "mountd/object_file.h"
#include "mountd/object_list.h"
#include "mountd/proto.h"
#include "plugins/tree_remove.h"

#define POD_A "{\"kind\": \"Pod\", \"metadata\": {\"name\": \"p\", \"namespace\": \"a\"}}"
#define POD_B "{\"kind\": \"Pod\", \"metadata\": {\"name\": \"p\", \"namespace\": \"b\"}}"
#define POD_PLAIN "{\"kind\": \"Pod\", \"metadata\": {\"name\": \"p\"}}"
#define SECRET                                                                                     \
	"{\"kind\": \"Secret\", \"metadata\": {\"name\": \"s\"}, \"data\": {\"k\": \"CANARY\"}}"

/* ---- selecting ---- */

struct selected {
	int result;
	size_t count;
	char namespace[64];
	char error[OBJECT_LIST_ERROR_MAX];
};

static struct selected select_from(const char *text, const char *pod)
{
	json_t *objects = text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL, *list = NULL;
	AUTO_FREE char *namespace = NULL;
	struct selected s = { .count = 99 };

	assert_true(!text || objects);
	s.result = object_list_select(objects, pod, &list, &namespace, s.error);
	if (s.result == 0) {
		s.count = json_array_size(list);
		snprintf(s.namespace, sizeof(s.namespace), "%s", namespace);
	}
	json_decref(list);
	json_decref(objects);
	assert_null(strstr(s.error, "CANARY"));
	assert_null(strchr(s.error, '\n'));
	return s;
}

static void object_list_select_namespace_is_that_of_the_pod(void **state)
{
	struct selected s;

	(void)state;
	s = select_from("[" SECRET ", " POD_A "]", NULL);
	assert_int_equal(s.result, 0);
	assert_int_equal(s.count, 2);
	assert_string_equal(s.namespace, "a");
	assert_string_equal(select_from("[" POD_PLAIN "]", NULL).namespace, "default");
	assert_string_equal(select_from("[" SECRET "]", NULL).namespace, "default");
	assert_string_equal(select_from("[" SECRET "]", "n/p").namespace, "n");
	assert_string_equal(select_from(NULL, "n/p").namespace, "n");
	assert_string_equal(select_from(NULL, NULL).namespace, "default");
	assert_int_equal(select_from("[" POD_A ", " POD_A "]", NULL).result, 0);
}

static void object_list_select_of_several_pods_one_must_be_named(void **state)
{
	struct selected s = select_from("[" POD_A ", " POD_B ", " SECRET "]", NULL);

	(void)state;
	assert_int_equal(s.result, -EINVAL);
	assert_non_null(strstr(s.error, "--pod"));
	s = select_from("[" POD_A ", " POD_B ", " SECRET "]", "b/p");
	assert_int_equal(s.result, 0);
	assert_int_equal(s.count, 2);
	assert_string_equal(s.namespace, "b");
	s = select_from("[" POD_A ", " POD_B ", " SECRET "]", "c/p");
	assert_int_equal(s.result, 0);
	assert_int_equal(s.count, 1);
}

static void object_list_select_bad_input_is_refused(void **state)
{
	static const char *const bad[] = {
		"{}",
		"[1]",
		"[{}]",
		"[{\"kind\": 1}]",
		"[{\"kind\": \"\"}]",
		"[{\"kind\": \"List\", \"items\": []}]",
		"[{\"kind\": \"Secret\", \"metadata\": \"CANARY\"}]",
		"[{\"kind\": \"Secret\", \"metadata\": {\"name\": [\"CANARY\"]}}]",
		"[{\"kind\": \"Secret\", \"metadata\": {\"name\": \"s\", \"namespace\": 1}}]",
	};
	static const char *const bad_pods[] = { "", "p", "/p", "n/", "n/p/q", "/" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct selected s = select_from(bad[i], NULL);

		assert_int_equal(s.result, -EINVAL);
		assert_true(strlen(s.error) > 0);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad_pods); i++)
		assert_int_equal(select_from(NULL, bad_pods[i]).result, -EINVAL);
}

/* ---- loading ---- */

struct files {
	char dir[64];
	char path[160];
	char said[1024]; /* what a load has printed */
};

static int files_set_up(void **state)
{
	struct files *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	strcpy(f->dir, "/tmp/test_object_list.XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	*state = f;
	return 0;
}

static int files_tear_down(void **state)
{
	struct files *f = *state;
	AUTO_FD int tmp = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
	char error[256];

	assert_int_equal(tree_remove(tmp, f->dir + strlen("/tmp/"), error, sizeof(error)), 0);
	free(f);
	return 0;
}

static const char *put(struct files *f, const char *name, const char *text)
{
	FILE *file;

	snprintf(f->path, sizeof(f->path), "%s/%s", f->dir, name);
	file = fopen(f->path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
	return f->path;
}

/* The number of objects, or -1; what was printed is kept. */
static int load(struct files *f, const char *path)
{
	const struct ctl ctl = { .command = "mount" };
	json_t *array = NULL;
	int out = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	int saved = dup(STDERR_FILENO), exit, count = -1;
	ssize_t n;

	assert_true(out >= 0 && saved >= 0);
	assert_int_equal(dup2(out, STDERR_FILENO), STDERR_FILENO);
	exit = ctl_objects_load(&ctl, "target", path, &array);
	assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
	n = pread(out, f->said, sizeof(f->said) - 1, 0);
	assert_true(n >= 0);
	f->said[n] = '\0';
	if (exit == EXIT_OK) {
		count = (int)json_array_size(array);
		assert_string_equal(f->said, "");
	} else {
		assert_int_equal(exit, EXIT_FAILED);
	}
	json_decref(array);
	close(out);
	close(saved);
	assert_null(strstr(f->said, "CANARY"));
	return count;
}

static void ctl_objects_load_takes_object_list_and_directory(void **state)
{
	struct files *f = *state;

	assert_int_equal(load(f, put(f, "one.json", SECRET)), 1);
	assert_int_equal(load(f, put(f, "list.json",
				     "{\"kind\": \"List\", \"items\": [" SECRET ", " POD_A "]}")),
			 2);
	put(f, ".hidden", "no JSON");
	snprintf(f->path, sizeof(f->path), "%s/dir", f->dir);
	assert_int_equal(mkdir(f->path, 0700), 0);
	assert_int_equal(load(f, f->dir), 3);
}

static void ctl_objects_load_errors_name_file_line_and_column(void **state)
{
	struct files *f = *state;

	assert_int_equal(load(f, put(f, "bad.json", "{\"kind\": \"Secret\",\n  CANARY}")), -1);
	assert_non_null(strstr(f->said, "bad.json: invalid JSON at line 2 column "));
	assert_int_equal(load(f, f->dir), -1);
	assert_non_null(strstr(f->said, "bad.json: invalid JSON at line 2 column "));
	assert_int_equal(load(f, put(f, "bad.json", "[]")), -1);
	assert_non_null(strstr(f->said, "not a JSON object"));
	assert_int_equal(load(f, put(f, "bad.json", "{\"data\": \"CANARY\"}")), -1);
	assert_non_null(strstr(f->said, "no kind"));
	assert_int_equal(load(f, put(f, "bad.json", "{\"kind\": \"List\"}")), -1);
	assert_int_equal(load(f, put(f, "bad.json", "{\"kind\": \"List\", \"items\": [7]}")), -1);
	assert_non_null(strstr(f->said, "item 1"));
	assert_int_equal(load(f, "/nonexistent/objects"), -1);
	assert_non_null(strstr(f->said, "/nonexistent/objects: No such file"));
}

static void ctl_objects_load_more_than_a_request_is_refused(void **state)
{
	struct files *f = *state;
	const char *path = put(f, "large.json", "{}");

	assert_int_equal(truncate(path, PROTO_FRAME_MAX + 1), 0);
	assert_int_equal(load(f, path), -1);
	assert_non_null(strstr(f->said, "16 MiB"));
}

/* What a pod's author names is read beneath a prefix and by no link; nothing else is even opened. */
static void object_file_read_beneath_stays_beneath(void **state)
{
	struct files *f = *state;
	char inner[128], why[OBJECT_FILE_ERROR_MAX];
	json_t *array = NULL;
	static const struct {
		const char *rest;
		int error;
	} cases[] = {
		{ "../secret.json", -EXDEV },
		{ "../dir/fine.json", -EXDEV },
		{ "link", -ELOOP },
		{ "link/passwd", -ELOOP },
		{ "pipe", -EINVAL },
		{ "missing", -ENOENT },
		{ "dir", -ELOOP },
	};

	put(f, "secret.json", SECRET);
	snprintf(inner, sizeof(inner), "%s/dir", f->dir);
	assert_int_equal(mkdir(inner, 0700), 0);
	put(f, "dir/fine.json", SECRET);
	snprintf(f->path, sizeof(f->path), "%s/link", inner);
	assert_int_equal(symlink("/etc", f->path), 0);
	snprintf(f->path, sizeof(f->path), "%s/pipe", inner);
	assert_int_equal(mkfifo(f->path, 0600), 0);
	snprintf(f->path, sizeof(f->path), "%s/dir", inner);
	assert_int_equal(mkdir(f->path, 0700), 0);
	snprintf(f->path, sizeof(f->path), "%s/dir/link.json", inner);
	assert_int_equal(symlink("../fine.json", f->path), 0);
	assert_int_equal(object_file_read_beneath(inner, "fine.json", "given", &array, why), 0);
	assert_int_equal(json_array_size(array), 1);
	json_decref(array);
	snprintf(f->path, sizeof(f->path), "%s/fine.json", inner);
	assert_int_equal(object_file_read_beneath(f->path, "", "given", &array, why), 0);
	json_decref(array);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		why[0] = '\0';
		assert_int_equal(
			object_file_read_beneath(inner, cases[i].rest, "given", &array, why),
			cases[i].error);
		assert_non_null(strstr(why, "objects given"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(object_list_select_namespace_is_that_of_the_pod),
		cmocka_unit_test(object_list_select_of_several_pods_one_must_be_named),
		cmocka_unit_test(object_list_select_bad_input_is_refused),
		cmocka_unit_test_setup_teardown(object_file_read_beneath_stays_beneath,
						files_set_up, files_tear_down),
		cmocka_unit_test_setup_teardown(ctl_objects_load_takes_object_list_and_directory,
						files_set_up, files_tear_down),
		cmocka_unit_test_setup_teardown(ctl_objects_load_errors_name_file_line_and_column,
						files_set_up, files_tear_down),
		cmocka_unit_test_setup_teardown(ctl_objects_load_more_than_a_request_is_refused,
						files_set_up, files_tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
