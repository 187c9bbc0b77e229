// SPDX-License-Identifier: Apache-2.0
#include "plugins/payload_volume.h"

#include <errno.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/vfs.h>

#include "plugins/atomic_writer.h"
#include "plugins/builder.h"

/* The emptyDir, among what this volume wraps. */
static const char WRAPPED[] = "wrapped";

/* Everything that the volume is to hold; with @is_check only what its source says of it. */
static int collect(struct volume_builder *b, const struct payload_kind *kind, gid_t gid,
		   bool is_check, struct payload **ret_payload)
{
	AUTO(payload) *payload = payload_new();
	struct payload_request q = {
		.b = b,
		.gid = gid,
		.where = "",
		.is_check = is_check,
		.payload = payload,
	};
	int r;

	if (!payload)
		return builder_fail(b, -ENOMEM, "out of memory");
	r = payload_source_mode(b, &q.default_mode);
	if (r == 0)
		r = kind->collect(&q);
	if (r == 0)
		r = payload_seal(payload, b->error, sizeof(b->error));
	if (r == 0)
		*ret_payload = take_ptr(&payload);
	return r;
}

int payload_volume_check(struct volume_builder *b, const struct payload_kind *kind)
{
	AUTO(payload) *payload = NULL;

	return collect(b, kind, GID_UNSET, true, &payload);
}

char *payload_volume_identity(const struct volume_builder *b)
{
	return json_dumps(b->source, JSON_COMPACT | JSON_SORT_KEYS);
}

/* What comes from a Secret, a token or a Pod must not outlive the memory it is in. */
static int check_medium(struct volume_builder *b, const struct payload_kind *kind, int lower_fd)
{
	struct statfs fs;

	if (!kind->in_memory)
		return 0;
	if (fstatfs(lower_fd, &fs) < 0) {
		int r = -errno;

		return builder_fail(b, r, "%s/%s: %s", b->dir_path, WRAPPED, strerror(-r));
	}
	if (fs.f_type != TMPFS_MAGIC)
		return builder_fail(b, -EPERM, "%s/%s: not a tmpfs: the payload is not written",
				    b->dir_path, WRAPPED);
	return 0;
}

static int write_payload(struct volume_builder *b, const struct payload_kind *kind, int lower_fd,
			 gid_t gid, const struct payload *payload, bool *ret_changed)
{
	const struct atomic_write w = {
		.dir_fd = lower_fd,
		.payload = payload,
		.rule = { .gid = gid, .read_only = true, .keep_private = b->keep_private },
	};
	int r = check_medium(b, kind, lower_fd);

	return r < 0 ? r : atomic_write(&w, ret_changed, b->error, sizeof(b->error));
}

int payload_volume_set_up(struct volume_builder *b, const struct payload_kind *kind, gid_t gid,
			  int *ret_lower, enum ownership_outcome *ret_ownership)
{
	AUTO(payload) *payload = NULL;
	enum ownership_outcome ignored = OWNERSHIP_IGNORED;
	bool ran = false, changed = false;
	AUTO_FD int fd = -1;
	json_t *source;
	int r;

	/* First all that can be wrong with what the call brought. */
	r = collect(b, kind, gid, false, &payload);
	if (r < 0)
		return r;
	source = kind->in_memory ? json_pack("{s:s}", "medium", "Memory") : json_object();
	if (!source)
		return builder_fail(b, -ENOMEM, "out of memory");
	/* The writer gives the root its group, with the mask of these volumes. */
	r = b->host->set_up(b, WRAPPED, plugin_empty_dir.name, source, GID_UNSET, &fd, &ignored,
			    &ran);
	json_decref(source);
	if (r == 0)
		r = write_payload(b, kind, fd, gid, payload, &changed);
	if (r < 0)
		return r;
	*ret_ownership = OWNERSHIP_DONE;
	*ret_lower = take_fd(&fd);
	return 0;
}

int payload_volume_refresh(struct volume_builder *b, const struct payload_kind *kind, gid_t gid,
			   bool *ret_changed)
{
	AUTO(payload) *payload = NULL;
	AUTO_FD int fd = -1;
	int r = collect(b, kind, gid, false, &payload);

	if (r == 0)
		r = b->host->open_lower(b, WRAPPED, &fd);
	return r < 0 ? r : write_payload(b, kind, fd, gid, payload, ret_changed);
}

int payload_volume_certify(struct volume_builder *b, char **ret_text)
{
	AUTO_FREE char *text = NULL;
	AUTO_FD int fd = -1;
	int r = b->host->certify(b, WRAPPED, &text);

	if (r == 0)
		r = b->host->open_lower(b, WRAPPED, &fd);
	if (r < 0)
		return r;
	if (!atomic_write_is_done(fd))
		return builder_fail(b, -ENOENT, "%s/%s: holds no payload", b->dir_path, WRAPPED);
	*ret_text = take_ptr(&text);
	return 0;
}

int payload_volume_open_lower(struct volume_builder *b, int *ret_lower)
{
	return b->host->open_lower(b, WRAPPED, ret_lower);
}

int payload_volume_tear_down(struct volume_builder *b)
{
	return b->host->tear_down(b, WRAPPED);
}
