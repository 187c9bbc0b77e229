// SPDX-License-Identifier: Apache-2.0
#include "plugins/payload.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/base/log.h"

enum { DIR_MODE = 0755, KEY_MAX = 253 };

struct payload *payload_new(void)
{
	return calloc(1, sizeof(struct payload));
}

static void entry_fini(struct payload_entry *entry)
{
	if (entry->bytes)
		explicit_bzero(entry->bytes, entry->len);
	free(entry->bytes);
	free(entry->path);
	free(entry->origin);
}

void payload_free(struct payload *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->count; i++)
		entry_fini(&p->entries[i]);
	free(p->entries);
	free(p);
}

static int __attribute__((format(printf, 4, 5)))
fail(char *ret_error, size_t size, int error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(ret_error, size, format, args);
	va_end(args);
	return error;
}

/* Makes room for one more entry; the array holds no contents itself, so that it may move. */
static struct payload_entry *next_entry(struct payload *p)
{
	if (p->count == p->capacity) {
		size_t capacity = p->capacity ? 2 * p->capacity : 16;
		struct payload_entry *entries =
			reallocarray(p->entries, capacity, sizeof(*entries));

		if (!entries)
			return NULL;
		p->entries = entries;
		p->capacity = capacity;
	}
	return &p->entries[p->count];
}

/* @path without empty names and "."; *ret_why says what is wrong with it. */
static int clean_path(const char *path, char **ret_path, const char **ret_why)
{
	AUTO_FREE char *clean = malloc(strlen(path) + 1);
	size_t used = 0, len;

	if (!clean)
		return -ENOMEM;
	*ret_why = *path == '/' ? "is absolute" : NULL;
	for (const char *name = path; *name && !*ret_why; name += len + (name[len] == '/')) {
		len = strcspn(name, "/");
		if (len == 0 || (len == 1 && name[0] == '.'))
			continue;
		if (len == 2 && memcmp(name, "..", 2) == 0)
			*ret_why = "has a \"..\" in it";
		else if (used == 0 && len > 2 && memcmp(name, "..", 2) == 0)
			*ret_why = "begins with \"..\"";
		else if (len > PAYLOAD_NAME_MAX)
			*ret_why = "has a name of more than 255 bytes";
		if (used > 0)
			clean[used++] = '/';
		memcpy(clean + used, name, len);
		used += len;
	}
	clean[used] = '\0';
	if (!*ret_why && used == 0)
		*ret_why = "is empty";
	if (!*ret_why && used > PAYLOAD_PATH_MAX)
		*ret_why = "has more than 4095 bytes";
	if (*ret_why)
		return -EINVAL;
	*ret_path = take_ptr(&clean);
	return 0;
}

int payload_add(struct payload *p, const char *path, const void *bytes, size_t len, mode_t mode,
		const char *origin, char *ret_error, size_t size)
{
	AUTO_FREE char *clean = NULL;
	AUTO_FREE unsigned char *copy = malloc(len ? len : 1);
	AUTO_FREE char *from = strdup(origin);
	struct payload_entry *entry = next_entry(p);
	const char *why = NULL;
	char quoted[128];
	int r;

	if (len > PAYLOAD_MAX - p->bytes)
		return fail(ret_error, size, -E2BIG, "%s: more than %u MiB in one volume", origin,
			    PAYLOAD_MAX >> 20);
	if (!copy || !from || !entry)
		return fail(ret_error, size, -ENOMEM, "out of memory");
	r = clean_path(path, &clean, &why);
	if (r < 0)
		return fail(ret_error, size, r, "%s: path %s %s", origin,
			    log_quote(path, quoted, sizeof(quoted)), why ? why : strerror(-r));
	if (len > 0)
		memcpy(copy, bytes, len);
	*entry = (struct payload_entry){
		.path = take_ptr(&clean),
		.mode = mode,
		.bytes = take_ptr(&copy),
		.len = len,
		.origin = take_ptr(&from),
	};
	p->count++;
	p->bytes += len;
	return 0;
}

static int add_dir(struct payload *p, const char *path, size_t len)
{
	struct payload_entry *entry = next_entry(p);

	if (!entry)
		return -ENOMEM;
	*entry = (struct payload_entry){
		.path = strndup(path, len),
		.is_dir = true,
		.mode = DIR_MODE,
	};
	if (!entry->path)
		return -ENOMEM;
	p->count++;
	return 0;
}

/* What is below a directory stands together: the end of a name sorts first, then the slash. */
static int rank(char c)
{
	return c == '\0' ? 0 : c == '/' ? 1 : 2 + (unsigned char)c;
}

static int compare_paths(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return rank(*a) - rank(*b);
}

static int compare_entries(const void *a, const void *b)
{
	const struct payload_entry *x = a, *y = b;

	return compare_paths(x->path, y->path);
}

static int conflict(const struct payload_entry *a, const struct payload_entry *b, char *ret_error,
		    size_t size)
{
	const struct payload_entry *file = a->is_dir ? b : a;
	char quoted[128];

	log_quote(a->path, quoted, sizeof(quoted));
	if (a->is_dir || b->is_dir)
		return fail(ret_error, size, -EINVAL,
			    "%s: path %s is a file here and a directory elsewhere", file->origin,
			    quoted);
	return fail(ret_error, size, -EINVAL, "path %s is given twice: by %s and by %s", quoted,
		    a->origin, b->origin);
}

/* Whether @path is below the directory of the first @len bytes of @other. */
static bool shares_dir(const char *path, const char *other, size_t len)
{
	return path && strncmp(path, other, len) == 0 && path[len] == '/';
}

static void sort(struct payload *p)
{
	if (p->count > 0)
		qsort(p->entries, p->count, sizeof(*p->entries), compare_entries);
}

int payload_seal(struct payload *p, char *ret_error, size_t size)
{
	const char *previous = NULL;
	size_t files = p->count;

	sort(p);
	for (size_t i = 0; i < files; i++) {
		const char *path = p->entries[i].path;

		for (size_t len = 0; path[len]; len++) {
			if (path[len] == '/' && !shares_dir(previous, path, len) &&
			    add_dir(p, path, len) < 0)
				return fail(ret_error, size, -ENOMEM, "out of memory");
		}
		previous = path;
	}
	sort(p);
	for (size_t i = 1; i < p->count; i++) {
		if (strcmp(p->entries[i - 1].path, p->entries[i].path) == 0)
			return conflict(&p->entries[i - 1], &p->entries[i], ret_error, size);
	}
	return 0;
}

static int compare_to_entry(const void *path, const void *entry)
{
	return compare_paths(path, ((const struct payload_entry *)entry)->path);
}

const struct payload_entry *payload_find(const struct payload *p, const char *path)
{
	if (p->count == 0)
		return NULL;
	return bsearch(path, p->entries, p->count, sizeof(*p->entries), compare_to_entry);
}

bool payload_key_is_valid(const char *key)
{
	static const char allowed[] =
		"-._0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
	size_t len = strlen(key);

	return len > 0 && len <= KEY_MAX && strspn(key, allowed) == len && strcmp(key, ".") != 0 &&
	       strncmp(key, "..", 2) != 0;
}
