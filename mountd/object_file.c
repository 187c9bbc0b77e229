// SPDX-License-Identifier: Apache-2.0
#include "mountd/object_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "fs/base/cleanup.h"
#include "fs/base/io.h"
#include "fs/base/log.h"
#include "mountd/proto.h"

/* A load under way. */
struct loading {
	const char *path; /* as given */
	bool follow;
	json_t *array;
	size_t bytes; /* of all the files; a request holds PROTO_FRAME_MAX */
	char *error;
};

int object_text_read(int fd, char **ret_text)
{
	AUTO_FREE char *text = malloc(PROTO_FRAME_MAX + 1);
	ssize_t used;

	if (!text)
		return -ENOMEM;
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

/* @name: of a file in the directory that was given, or NULL. Returns @error. */
static int fail(const struct loading *l, int error, const char *name, const char *why)
{
	char quoted_path[256], quoted_name[128];

	snprintf(l->error, OBJECT_FILE_ERROR_MAX, "objects %s%s%s: %s",
		 log_quote(l->path, quoted_path, sizeof(quoted_path)), name ? "/" : "",
		 name ? log_quote(name, quoted_name, sizeof(quoted_name)) : "", why);
	return error;
}

static int fail_errno(const struct loading *l, int error, const char *name)
{
	return fail(l, error, name,
		    error == -EFBIG  ? "more than the 16 MiB that a request holds" :
		    error == -EILSEQ ? "holds a NUL byte" :
		    error == -ELOOP  ? "a symbolic link is not followed here" :
				       strerror(-error));
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
		return fail(l, -EINVAL, name, "a List without an array of items");
	json_array_foreach(items, i, item) {
		if (!is_object_of_kind(item)) {
			snprintf(why, sizeof(why), "item %zu of the List has no kind", i + 1);
			return fail(l, -EINVAL, name, why);
		}
		if (json_array_append(l->array, item) < 0)
			return fail_errno(l, -ENOMEM, name);
	}
	return 0;
}

static int add_value(struct loading *l, const char *name, json_t *value)
{
	if (!json_is_object(value))
		return fail(l, -EINVAL, name, "not a JSON object");
	if (!is_object_of_kind(value))
		return fail(l, -EINVAL, name, "the object has no kind");
	if (strcmp(json_string_value(json_object_get(value, "kind")), "List") == 0)
		return add_list(l, name, value);
	return json_array_append(l->array, value) < 0 ? fail_errno(l, -ENOMEM, name) : 0;
}

static int add_file(struct loading *l, int fd, const char *name)
{
	AUTO_FREE char *text = NULL;
	json_error_t error;
	json_t *value;
	char why[96];
	size_t len;
	int r = object_text_read(fd, &text);

	if (r < 0)
		return fail_errno(l, r, name);
	len = strlen(text);
	l->bytes += len;
	if (l->bytes > PROTO_FRAME_MAX) {
		explicit_bzero(text, len);
		return fail_errno(l, -EFBIG, name);
	}
	value = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
	explicit_bzero(text, len);
	if (!value) {
		/* jansson's own message may quote the text. */
		snprintf(why, sizeof(why), "invalid JSON at line %d column %d", error.line,
			 error.column);
		return fail(l, -EINVAL, name, why);
	}
	r = add_value(l, name, value);
	json_decref(value);
	return r;
}

/* What can be read without waiting: nothing else is opened. -EISDIR: a directory, in *ret_fd nevertheless. */
static int open_plain(int path_fd, int *ret_fd)
{
	char link[64];
	struct stat st;
	int fd;

	if (fstat(path_fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return -EINVAL;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", path_fd);
	fd = open(link, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	return S_ISDIR(st.st_mode) ? -EISDIR : 0;
}

static int open_beneath(int dir_fd, const char *path, bool follow, int *ret_fd)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC,
		.resolve =
			follow ? 0 : RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};
	int fd = (int)syscall(SYS_openat2, dir_fd, path, &how, sizeof(how));

	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	return 0;
}

static int add_name(struct loading *l, int dir_fd, const char *name)
{
	AUTO_FD int path_fd = -1, fd = -1;
	int r = open_beneath(dir_fd, name, l->follow, &path_fd);

	if (r == 0)
		r = open_plain(path_fd, &fd);
	if (r == -EISDIR)
		return 0;
	if (r == -EINVAL)
		return fail(l, r, name, "not a file");
	return r < 0 ? fail_errno(l, r, name) : add_file(l, fd, name);
}

static int is_visible(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

static int add_dir(struct loading *l, int dir_fd)
{
	struct dirent **names = NULL;
	int n = scandirat(dir_fd, ".", &names, is_visible, alphasort);
	int r = n < 0 ? fail_errno(l, -errno, NULL) : 0;

	for (int i = 0; i < n; i++) {
		if (r == 0)
			r = add_name(l, dir_fd, names[i]->d_name);
		free(names[i]);
	}
	free(names);
	return r;
}

int object_file_read(int fd, const char *path, bool follow, json_t **ret_array, char *ret_error)
{
	struct loading l = { .path = path, .follow = follow, .error = ret_error };
	struct stat st;
	int r = 0;

	l.array = json_array();
	if (!l.array)
		r = fail_errno(&l, -ENOMEM, NULL);
	else if (fstat(fd, &st) < 0)
		r = fail_errno(&l, -errno, NULL);
	if (r == 0)
		r = S_ISDIR(st.st_mode) ? add_dir(&l, fd) : add_file(&l, fd, NULL);
	if (r < 0) {
		json_decref(l.array);
		return r;
	}
	*ret_array = l.array;
	return 0;
}

int object_file_read_beneath(const char *prefix, const char *rest, const char *path,
			     json_t **ret_array, char *ret_error)
{
	struct loading l = { .path = path, .error = ret_error };
	AUTO_FD int prefix_fd = open(prefix, O_PATH | O_CLOEXEC | (*rest ? O_DIRECTORY : 0));
	AUTO_FD int path_fd = -1, fd = -1;
	int r = 0;

	if (prefix_fd < 0)
		return fail_errno(&l, -errno, NULL);
	if (*rest)
		r = open_beneath(prefix_fd, rest, false, &path_fd);
	if (r == 0)
		r = open_plain(*rest ? path_fd : prefix_fd, &fd);
	if (r == -EINVAL)
		return fail(&l, r, NULL, "neither a file nor a directory");
	if (r < 0 && r != -EISDIR)
		return fail_errno(&l, r, NULL);
	return object_file_read(fd, path, false, ret_array, ret_error);
}
