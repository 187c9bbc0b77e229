/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLUGINS_PLUGIN_H
#define PLUGINS_PLUGIN_H

/*
 * plugin: the contract between the volume manager (mountd) and a volume plugin.
 *
 * A plugin is a const table, the last thing in its file, and a row in registry.c. It knows how one kind
 * of volume comes to be and goes away. It does not know the store, FUSE, other volumes or front ends:
 * mounting and nested set-up are reached through the host table that the manager passes in. Plugins
 * keep no state of their own between calls: what they need again is in the builder's metadata.
 *
 * Thread rule: different volumes in parallel, calls for one volume one after the other.
 * Errors: -errno, and one line in builder->error saying what, where and why (no payload, no secret).
 */

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

#include "fs/base/parse.h"

enum idempotency {
	IDEMPOTENCY_NONE, /* set_up may run at every call */
	IDEMPOTENCY_MOUNTPOINT, /* set_up must run unless is_mounted() says that the right thing is mounted */
	IDEMPOTENCY_MARKER, /* set_up must run unless a marker that still certifies is on record */
};

enum ownership_outcome {
	OWNERSHIP_IGNORED, /* the plugin cannot or will not honour the gid; the caller is told so */
	OWNERSHIP_DONE,	   /* already right in the whole tree: applied inside set_up */
	OWNERSHIP_PRESENT, /* the overlay is to show it, and a run to apply it */
};

#define PLUGIN_ERROR_MAX 512

struct host;

/*
 * One volume in the making. Made by the manager; texts are borrowed for the duration of the call.
 */
struct volume_builder {
	const char *id;
	const struct host *host;
	json_t *source;	      /* the bare volume source object, e.g. {"path": "/srv/x"}; borrowed */
	int dir_fd;	      /* the volume's own directory, 0700, ours: <state>/volumes/<id> */
	const char *dir_path; /* its path, for messages and for the lower's path */
	bool read_only;
	json_t *metadata; /* in/out: an object, empty at first set-up; what restore needs; no payload */
	char error[PLUGIN_ERROR_MAX]; /* set with every failure */
};

/*
 * host: what the manager does for plugins. Descriptors in, no path is resolved twice.
 */
struct host {
	/*
	 * open_source: an O_PATH descriptor of a source path that the caller's front end is allowed to use:
	 * beneath an allowed prefix, no symbolic link followed below that prefix (openat2); where
	 * everything is allowed, resolved as the kernel does. -EACCES with builder->error: not allowed.
	 */
	int (*open_source)(struct volume_builder *b, const char *path, int *ret_fd);
	/*
	 * bind: a clone of the directory mount @source_fd attached at @name below @dir_fd (made 0700 when
	 * absent), private. Its unique mount id goes to *ret_mount_id.
	 */
	int (*bind)(struct volume_builder *b, int source_fd, int dir_fd, const char *name,
		    uint64_t *ret_mount_id);
	/* mount_tmpfs: a tmpfs of @size_bytes (0: the kernel's default), root mode @mode, noswap where known. */
	int (*mount_tmpfs)(struct volume_builder *b, int dir_fd, const char *name,
			   uint64_t size_bytes, mode_t mode, uint64_t *ret_mount_id);
	/* is_mounted: whether what is mounted at @name is the mount with this unique id, in this boot. */
	bool (*is_mounted)(struct volume_builder *b, int dir_fd, const char *name,
			   uint64_t mount_id);
	/*
	 * unmount: not lazy; 0 when the mount with this id is not there, and what else is stays; -EBUSY with
	 * the holders in b->error.
	 */
	int (*unmount)(struct volume_builder *b, int dir_fd, const char *name, uint64_t mount_id);
	/* boot_id: of this boot; borrowed. */
	const char *(*boot_id)(const struct volume_builder *b);
};

struct volume_plugin {
	const char *name; /* the Kubernetes source key */
	struct {
		enum idempotency idempotency;
		bool manages_ownership; /* false: the gid is ignored by default; `virtual` on request */
		bool shared; /* coherence: others may write below us (local, hostPath, nfs) */
	} attributes;

	/*
	 * check: whether the source object is one that this plugin can set up: -EINVAL and b->error name
	 * the first field that is missing, of a wrong type or not supported. Touches nothing on disk.
	 */
	int (*check)(struct volume_builder *b);

	/* identity: canonical text of what makes two sources the same; the caller's to free; NULL: no memory. */
	char *(*identity)(const struct volume_builder *b);

	/*
	 * set_up: makes the lower tree; idempotent; called again after a crash anywhere inside it.
	 * @gid:      fsGroup, GID_UNSET: leave ownership alone; then nothing is due: OWNERSHIP_DONE
	 * @ret_lower: an O_PATH descriptor of the lower tree's root, the caller's to close
	 */
	int (*set_up)(struct volume_builder *b, gid_t gid, int *ret_lower,
		      enum ownership_outcome *ret_ownership);

	/*
	 * certify (IDEMPOTENCY_MARKER): the text that a marker keeps: what must still be there for the
	 * marker to be valid (the directory's file handle; for a tmpfs its mount id and the boot id).
	 * Also used to check: the manager compares it with the recorded one.
	 */
	int (*certify)(struct volume_builder *b, char **ret_text);

	/* is_set_up (IDEMPOTENCY_MOUNTPOINT): the right thing is mounted, by mount id, boot id and source. */
	bool (*is_set_up)(struct volume_builder *b);

	/* open_lower: as set_up's ret_lower, of a volume that is set up. */
	int (*open_lower)(struct volume_builder *b, int *ret_lower);

	/*
	 * tear_down: undoes set_up, also a half-done one; idempotent; 0 when nothing is there. Deletes data
	 * only where the kind of volume says so (emptyDir), by descriptor, never across a mount boundary.
	 */
	int (*tear_down)(struct volume_builder *b);
};

/* plugin_find: the plugin with this name, or NULL. */
const struct volume_plugin *plugin_find(const char *name);

/* plugin_at: the plugins in registry order; NULL after the last. */
const struct volume_plugin *plugin_at(size_t index);

extern const struct volume_plugin plugin_empty_dir;
extern const struct volume_plugin plugin_host_path;
extern const struct volume_plugin plugin_local;

#endif
