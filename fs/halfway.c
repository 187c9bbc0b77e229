// SPDX-License-Identifier: Apache-2.0
#include "fs/halfway.h"

#include <assert.h>
#include <errno.h>
#include <linux/xattr.h>
#include <string.h>
#include <sys/xattr.h>

#include "fs/base/cleanup.h"
#include "fs/base/log.h"
#include "fs/ownership/apply.h"
#include "fs/shared.h"
#include "fs/tree.h"

_Static_assert((int)HALFWAY_HANDLE_MAX == (int)NODE_HANDLE_MAX, "any handle that a node has");

struct halfway_record *halfway_begin(struct shared *shared, uint64_t node_id)
{
	struct halfway_record *records = shared->header->halfway;
	unsigned at = 0;
	uint32_t unused = 0;

	while (!atomic_compare_exchange_strong(&records[at].is_used, &unused, 1)) {
		unused = 0;
		at++;
		assert(at < HALFWAY_MAX);
	}
	records[at].node_id = node_id;
	return &records[at];
}

bool halfway_note(struct halfway_record *record, const struct tree *tree, int fd,
		  const struct stat *before, bool has_no_xattr)
{
	char path[TREE_FD_PATH_MAX];
	struct tree_key key;
	bool has_none = has_no_xattr;
	bool has_acl = false;
	ssize_t len = -1;

	if (S_ISLNK(before->st_mode))
		return has_none;
	if (!has_no_xattr)
		has_acl =
			getxattr(tree_fd_path(fd, path), XATTR_NAME_POSIX_ACL_ACCESS, NULL, 0) > 0;
	if (!has_no_xattr && !S_ISDIR(before->st_mode)) {
		len = getxattr(path, XATTR_NAME_CAPS, record->capability,
			       sizeof(record->capability));
		has_none = len < 0 && (errno == ENODATA || errno == EOPNOTSUPP);
	}
	if (len <= 0 && !has_acl &&
	    (S_ISDIR(before->st_mode) || !(before->st_mode & (S_ISUID | S_ISGID))))
		return has_none;
	/* Without handles no server follows a dead one. */
	if (tree_key_get(tree, fd, before, &key) < 0 || !key.is_handle)
		return has_none;
	record->capability_len = len > 0 ? (uint32_t)len : 0;
	record->ino = before->st_ino;
	record->mode = before->st_mode;
	record->size = before->st_size;
	record->mtime_sec = before->st_mtim.tv_sec;
	record->mtime_nsec = before->st_mtim.tv_nsec;
	record->handle_type = key.type;
	record->handle_len = key.len;
	memcpy(record->handle, key.bytes, key.len);
	atomic_store(&record->is_noted, 1);
	return has_none;
}

void halfway_done(struct halfway_record *record)
{
	atomic_store(&record->is_noted, 0);
}

void halfway_end(struct halfway_record *record)
{
	halfway_done(record);
	record->node_id = 0;
	atomic_store(&record->is_used, 0);
}

static int finish(const struct halfway_record *record, const struct tree *tree,
		  const struct ownership_rule *rule)
{
	struct tree_key key = { .is_handle = true,
				.type = record->handle_type,
				.len = record->handle_len };
	struct stat before = { .st_mode = record->mode, .st_size = record->size };
	AUTO_FD int fd = -1;
	struct stat now;
	int r;

	if (record->handle_len > HALFWAY_HANDLE_MAX ||
	    record->capability_len > HALFWAY_CAPABILITY_MAX)
		return -EBADMSG;
	memcpy(key.bytes, record->handle, key.len);
	before.st_mtim.tv_sec = record->mtime_sec;
	before.st_mtim.tv_nsec = record->mtime_nsec;
	r = tree_open_handle(tree, &key, &fd);
	if (r == 0)
		r = tree_stat(fd, &now);
	if (r == -ESTALE)
		return 0; /* removed since */
	if (r < 0 || now.st_ino != record->ino)
		return r;
	return apply_finish(fd, TREE_FD_DIR, rule, &before, record->capability,
			    record->capability_len);
}

void halfway_recover(struct shared *shared, const struct tree *tree,
		     const struct ownership_rule *rule,
		     void (*invalidate)(void *context, uint64_t node_id), void *context)
{
	for (unsigned i = 0; i < HALFWAY_MAX; i++) {
		struct halfway_record *record = &shared->header->halfway[i];

		if (!atomic_load(&record->is_used))
			continue;
		if (atomic_load(&record->is_noted)) {
			int r = finish(record, tree, rule);

			if (r < 0)
				log_line(LOG_WARNING, "recover",
					 "a file may have lost set-ID bits or capabilities: %s",
					 strerror(-r));
		}
		if (record->node_id != 0)
			invalidate(context, record->node_id);
		halfway_end(record);
	}
}
