// SPDX-License-Identifier: Apache-2.0
#include "fs/exclude.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

struct position {
	char *glob;	/* of one component; "**" */
	bool any_depth; /* the component is "**" */
	bool last;
	bool dirs_only;
	char *pattern; /* of the last component only: as it was added */
};

struct exclude {
	struct position positions[EXCLUDE_POSITIONS];
	size_t count;
	uint64_t root;
};

struct exclude *exclude_new(void)
{
	return calloc(1, sizeof(struct exclude));
}

void exclude_free(struct exclude *ex)
{
	if (!ex)
		return;
	for (size_t i = 0; i < ex->count; i++) {
		free(ex->positions[i].glob);
		free(ex->positions[i].pattern);
	}
	free(ex);
}

bool exclude_is_empty(const struct exclude *ex)
{
	return ex->count == 0;
}

uint64_t exclude_root(const struct exclude *ex)
{
	return ex->root;
}

/* A "**" may stand for no directory at all: what follows it is possible at once. */
static uint64_t close_over(const struct exclude *ex, uint64_t set)
{
	for (size_t i = 0; i < ex->count; i++) {
		if (set & 1ULL << i && ex->positions[i].any_depth && !ex->positions[i].last)
			set |= 1ULL << (i + 1);
	}
	return set;
}

static int add_position(struct exclude *ex, const char *text, size_t len, bool dirs_only)
{
	struct position *p;

	if (len == 0 || (len == 1 && text[0] == '.') || (len == 2 && memcmp(text, "..", 2) == 0))
		return -EINVAL;
	if (ex->count == EXCLUDE_POSITIONS)
		return -E2BIG;
	p = &ex->positions[ex->count];
	p->glob = strndup(text, len);
	if (!p->glob)
		return -ENOMEM;
	p->any_depth = strcmp(p->glob, "**") == 0;
	p->last = false;
	p->pattern = NULL;
	p->dirs_only = dirs_only;
	ex->count++;
	return 0;
}

int exclude_add(struct exclude *ex, const char *pattern)
{
	const char *given = pattern;
	size_t first = ex->count, len = strlen(pattern);
	bool dirs_only = len > 1 && pattern[len - 1] == '/';
	bool anchored;
	int r = 0;

	if (pattern[0] == '!')
		return -EINVAL;
	if (dirs_only)
		len--;
	anchored = memchr(pattern, '/', len) != NULL;
	if (pattern[0] == '/') {
		pattern++;
		len--;
	}
	if (!anchored)
		r = add_position(ex, "**", 2, false);
	while (r == 0) {
		const char *slash = memchr(pattern, '/', len);
		size_t part = slash ? (size_t)(slash - pattern) : len;

		r = add_position(ex, pattern, part, dirs_only);
		if (!slash)
			break;
		pattern += part + 1;
		len -= part + 1;
	}
	if (r == 0) {
		ex->positions[ex->count - 1].pattern = strdup(given);
		r = ex->positions[ex->count - 1].pattern ? 0 : -ENOMEM;
	}
	if (r < 0) {
		while (ex->count > first)
			free(ex->positions[--ex->count].glob);
		return r;
	}
	ex->positions[ex->count - 1].last = true;
	ex->root = close_over(ex, ex->root | 1ULL << first);
	return 0;
}

/* Whether the child is excluded by the position that ends a pattern. */
static bool excludes(const struct position *p, const char *name, bool is_dir)
{
	return p->last && (is_dir || !p->dirs_only) &&
	       (p->any_depth || fnmatch(p->glob, name, 0) == 0);
}

const char *exclude_pattern(const struct exclude *ex, uint64_t parent, const char *name,
			    bool is_dir)
{
	for (size_t i = 0; !(parent & EXCLUDE_MATCHED) && i < ex->count; i++) {
		if (parent & 1ULL << i && excludes(&ex->positions[i], name, is_dir))
			return ex->positions[i].pattern;
	}
	return NULL;
}

uint64_t exclude_child(const struct exclude *ex, uint64_t parent, const char *name, bool is_dir)
{
	uint64_t set = parent & EXCLUDE_MATCHED;

	for (size_t i = 0; i < ex->count; i++) {
		const struct position *p = &ex->positions[i];
		bool matches;

		if (!(parent & 1ULL << i))
			continue;
		matches = p->any_depth || fnmatch(p->glob, name, 0) == 0;
		if (p->any_depth)
			set |= 1ULL << i;
		if (!matches)
			continue;
		if (p->last) {
			if (is_dir || !p->dirs_only)
				set |= EXCLUDE_MATCHED;
		} else if (!p->any_depth) {
			set |= 1ULL << (i + 1);
		}
	}
	return close_over(ex, set);
}
