// SPDX-License-Identifier: Apache-2.0
#include "mountd/ctl_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/base/cleanup.h"
#include "fs/base/io.h"
#include "fs/base/log.h"
#include "mountd/proto.h"

/* Opens what can be read to its end. A FIFO in a directory must not hold us. */
static int open_file(int dir_fd, const char *path, int *ret_fd)
{
	struct stat st;
	AUTO_FD int fd = -1;

	if (strcmp(path, "-") == 0)
		fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
	else
		fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	*ret_fd = take_fd(&fd);
	return 0;
}

int ctl_file_read(int dir_fd, const char *path, char **ret_text)
{
	AUTO_FD int fd = -1;
	AUTO_FREE char *text = malloc(PROTO_FRAME_MAX + 1);
	ssize_t used;
	int r = proto_keep_secret();

	if (!text)
		return -ENOMEM;
	if (r == 0)
		r = open_file(dir_fd, path, &fd);
	if (r < 0)
		return r;
	used = io_read_all(fd, text, PROTO_FRAME_MAX);
	if (used < 0)
		return (int)used;
	text[used] = '\0';
	if (used == PROTO_FRAME_MAX || memchr(text, '\0', (size_t)used)) {
		explicit_bzero(text, (size_t)used);
		return used == PROTO_FRAME_MAX ? -EFBIG : -EILSEQ;
	}
	*ret_text = take_ptr(&text);
	return 0;
}

/* ---- objects ---- */

/* A load under way. */
struct loading {
	const struct ctl *ctl;
	const char *subject;
	const char *path; /* as given */
	json_t *array;
	size_t bytes; /* of all the files; a request holds PROTO_FRAME_MAX */
};

/* @name: of a file in the directory that was given, or NULL. */
static int fail(const struct loading *l, const char *name, const char *why)
{
	char quoted_path[256], quoted_name[128];

	return ctl_fail(l->ctl, EXIT_FAILED, l->subject, "objects %s%s%s: %s",
			log_quote(l->path, quoted_path, sizeof(quoted_path)), name ? "/" : "",
			name ? log_quote(name, quoted_name, sizeof(quoted_name)) : "", why);
}

static const char *why_not_read(int error)
{
	switch (error) {
	case -EFBIG:
		return "more than the 16 MiB that a request holds";
	case -EILSEQ:
		return "holds a NUL byte";
	default:
		return strerror(-error);
	}
}

static bool is_object_of_kind(const json_t *object)
{
	const char *kind = json_string_value(json_object_get(object, "kind"));

	return kind && *kind;
}

static int add_list(struct loading *l, const char *name, const json_t *list)
{
	const json_t *items = json_object_get(list, "items");
	char why[64];
	json_t *item;
	size_t i;

	if (!json_is_array(items))
		return fail(l, name, "a List without an array of items");
	json_array_foreach(items, i, item) {
		if (!is_object_of_kind(item)) {
			snprintf(why, sizeof(why), "item %zu of the List has no kind", i + 1);
			return fail(l, name, why);
		}
		if (json_array_append(l->array, item) < 0)
			return fail(l, name, strerror(ENOMEM));
	}
	return EXIT_OK;
}

static int add_value(struct loading *l, const char *name, json_t *value)
{
	if (!json_is_object(value))
		return fail(l, name, "not a JSON object");
	if (!is_object_of_kind(value))
		return fail(l, name, "the object has no kind");
	if (strcmp(json_string_value(json_object_get(value, "kind")), "List") == 0)
		return add_list(l, name, value);
	return json_array_append(l->array, value) < 0 ? fail(l, name, strerror(ENOMEM)) : EXIT_OK;
}

static int add_file(struct loading *l, int dir_fd, const char *path, const char *name)
{
	AUTO_FREE char *text = NULL;
	json_error_t error;
	json_t *value;
	char why[96];
	size_t len;
	int r = ctl_file_read(dir_fd, path, &text);

	if (r < 0)
		return fail(l, name, why_not_read(r));
	len = strlen(text);
	l->bytes += len;
	if (l->bytes > PROTO_FRAME_MAX) {
		explicit_bzero(text, len);
		return fail(l, name, why_not_read(-EFBIG));
	}
	value = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
	explicit_bzero(text, len);
	if (!value) {
		/* jansson's own message may quote the text. */
		snprintf(why, sizeof(why), "invalid JSON at line %d column %d", error.line,
			 error.column);
		return fail(l, name, why);
	}
	r = add_value(l, name, value);
	json_decref(value);
	return r;
}

static int is_visible(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

static int add_dir(struct loading *l, int dir_fd)
{
	struct dirent **names = NULL;
	int n = scandirat(dir_fd, ".", &names, is_visible, alphasort);
	int exit = n < 0 ? fail(l, NULL, strerror(errno)) : EXIT_OK;

	for (int i = 0; i < n; i++) {
		struct stat st;

		if (exit == EXIT_OK && fstatat(dir_fd, names[i]->d_name, &st, 0) < 0)
			exit = fail(l, names[i]->d_name, strerror(errno));
		else if (exit == EXIT_OK && S_ISREG(st.st_mode))
			exit = add_file(l, dir_fd, names[i]->d_name, names[i]->d_name);
		else if (exit == EXIT_OK && !S_ISDIR(st.st_mode))
			exit = fail(l, names[i]->d_name, "not a file");
		free(names[i]);
	}
	free(names);
	return exit;
}

int ctl_objects_load(const struct ctl *ctl, const char *subject, const char *path,
		     json_t **ret_array)
{
	struct loading l = { .ctl = ctl, .subject = subject, .path = path };
	AUTO_FD int dir_fd = -1;
	int exit;

	l.array = json_array();
	if (!l.array)
		return fail(&l, NULL, strerror(ENOMEM));
	if (strcmp(path, "-") != 0)
		dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd >= 0)
		exit = add_dir(&l, dir_fd);
	else
		exit = add_file(&l, AT_FDCWD, path, NULL);
	if (exit != EXIT_OK) {
		json_decref(l.array);
		return exit;
	}
	*ret_array = l.array;
	return EXIT_OK;
}
