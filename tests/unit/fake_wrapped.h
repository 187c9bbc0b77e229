/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_FAKE_WRAPPED_H
#define TESTS_UNIT_FAKE_WRAPPED_H

/*
 * fake_wrapped: fake_host's table with wrapped volumes: one of a name is a directory of that name in the volume's
 * own, and its marker certifies the directory's inode number. What a test wants to see or to decide is in
 * a struct fake_wrapped, one at a time.
 */

#include "tests/unit/fake_host.h"

struct fake_wrapped {
	char name[64], plugin[64];
	json_t *source; /* as given */
	gid_t gid;	/* of set_up */
	int set_ups, tear_downs, ownings, records;
	gid_t owned_gid;
	int set_up_fails; /* -errno */
	enum ownership_outcome outcome;
	bool is_node_agent;
	struct plugin_settings settings;
	char root[96];
};

static struct fake_wrapped wrapped;

static int fake_wrapped_open(struct volume_builder *b, const char *name, int *ret_lower)
{
	int fd = openat(b->dir_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	*ret_lower = fd;
	return 0;
}

static int fake_wrapped_set_up(struct volume_builder *b, const char *name, const char *plugin,
			       json_t *source, gid_t gid, int *ret_lower,
			       enum ownership_outcome *ret_ownership, bool *ret_ran)
{
	if (wrapped.set_up_fails < 0) {
		snprintf(b->error, sizeof(b->error), "the wrapped volume failed");
		return wrapped.set_up_fails;
	}
	snprintf(wrapped.name, sizeof(wrapped.name), "%s", name);
	snprintf(wrapped.plugin, sizeof(wrapped.plugin), "%s", plugin);
	json_decref(wrapped.source);
	wrapped.source = json_deep_copy(source);
	wrapped.gid = gid;
	wrapped.set_ups++;
	*ret_ran = mkdirat(b->dir_fd, name, 0777) == 0;
	*ret_ownership = wrapped.outcome;
	return fake_wrapped_open(b, name, ret_lower);
}

static int fake_wrapped_certify(struct volume_builder *b, const char *name, char **ret_text)
{
	struct stat st;

	if (fstatat(b->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -ENOENT;
	assert_true(asprintf(ret_text, "inode %lu %d", (unsigned long)st.st_ino, wrapped.set_ups) >
		    0);
	return 0;
}

static int fake_wrapped_tear_down(struct volume_builder *b, const char *name)
{
	wrapped.tear_downs++;
	return tree_remove(b->dir_fd, name, b->error, sizeof(b->error));
}

static int fake_wrapped_own_tree(struct volume_builder *b, int dir_fd, gid_t gid, bool read_only)
{
	(void)b;
	(void)dir_fd;
	(void)read_only;
	wrapped.ownings++;
	wrapped.owned_gid = gid;
	return 0;
}

static const struct plugin_settings *fake_settings(const struct volume_builder *b)
{
	(void)b;
	return &wrapped.settings;
}

static const char *fake_root(const struct volume_builder *b)
{
	(void)b;
	return wrapped.root;
}

static bool fake_is_root_at_shell(const struct volume_builder *b)
{
	(void)b;
	return !wrapped.is_node_agent;
}

static int fake_record(struct volume_builder *b)
{
	(void)b;
	wrapped.records++;
	return 0;
}

static struct host fake_wrapping_host;

static int fake_wrapped_begin(void **state)
{
	struct fake *f;

	fake_set_up(state);
	f = *state;
	fake_wrapping_host = fake_host;
	fake_wrapping_host.set_up = fake_wrapped_set_up;
	fake_wrapping_host.open_lower = fake_wrapped_open;
	fake_wrapping_host.certify = fake_wrapped_certify;
	fake_wrapping_host.tear_down = fake_wrapped_tear_down;
	fake_wrapping_host.own_tree = fake_wrapped_own_tree;
	fake_wrapping_host.record = fake_record;
	fake_wrapping_host.settings = fake_settings;
	fake_wrapping_host.root = fake_root;
	fake_wrapping_host.is_root_at_shell = fake_is_root_at_shell;
	f->b.host = &fake_wrapping_host;
	wrapped = (struct fake_wrapped){
		.outcome = OWNERSHIP_DONE,
		.settings = { .flexvolume_timeout_ms = 20000,
			      .git_user = (char *)"nobody",
			      .git_timeout_ms = 20000,
			      .git_size_bytes = 64 << 20 },
	};
	snprintf(wrapped.root, sizeof(wrapped.root), "%s", f->dir);
	return 0;
}

static int fake_wrapped_end(void **state)
{
	json_decref(wrapped.source);
	wrapped.source = NULL;
	return fake_tear_down(state);
}

#endif
