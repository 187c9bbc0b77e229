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
#include <stdint.h>
#include <sys/types.h>

#include "fs/base/parse.h"

enum idempotency {
	IDEMPOTENCY_NONE, /* set_up runs at every call; what is inside it may have a strategy of its own */
	IDEMPOTENCY_MOUNTPOINT, /* set_up must run unless is_mounted() says that the right thing is mounted */
	IDEMPOTENCY_MARKER, /* set_up must run unless a marker that still certifies is on record */
};

enum ownership_outcome {
	OWNERSHIP_IGNORED, /* the plugin cannot or will not honour the gid; the caller is told so */
	OWNERSHIP_DONE,	   /* already right in the whole tree: applied inside set_up */
	OWNERSHIP_PRESENT, /* the overlay is to show it, and a run to apply it */
};

#define PLUGIN_ERROR_MAX 512

/* The longest chain of volumes that wrap volumes; a cycle is longer than that. */
#define PLUGIN_DEPTH_MAX 4

struct host;
struct device_request;
struct device_place;
struct trace;

/* What mountd.conf says for plugins, in its section [plugins]. */
struct plugin_settings {
	char *flexvolume_dir; /* of FlexVolume drivers; NULL: kubelet's own place below the root directory */
	uint64_t flexvolume_timeout_ms; /* for one call-out */
	char *git_user;			/* whom git runs as; never root */
	uint64_t git_timeout_ms;	/* for one git command */
	uint64_t git_size_bytes;	/* what a clone may take, history included */
};

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
	bool keep_private;	   /* files 0600 and 0400 keep their bits */
	const char *mount_options; /* a PersistentVolume's, joined with commas; NULL: none */
	/*
	 * What the call brought with it, read by plugins/objects.h only: an array of Kubernetes objects, and
	 * the namespace that they are looked up in. NULL: the call brought none (tear-down, reconstruction).
	 * Payloads: never recorded, logged or put into an error.
	 */
	json_t *objects;
	const char *pod_namespace;
	json_t *metadata; /* in/out: an object, empty at first set-up; what restore needs; no payload */
	char error[PLUGIN_ERROR_MAX]; /* set with every failure */
	/* Who hears how many entries tear_down has deleted so far; NULL: nobody. Does not block. */
	void (*on_deleted)(void *arg, uint64_t entries);
	void *on_deleted_arg;
	const struct trace *trace; /* plugins/trace.h only */
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
	/* settings: borrowed; what is built in where the call came from nobody (tear-down, reconstruction). */
	const struct plugin_settings *(*settings)(const struct volume_builder *b);
	/* root: the root directory (--root) of this manager, without a slash at its end but for "/"; borrowed. */
	const char *(*root)(const struct volume_builder *b);
	/* is_root_at_shell: whether root asks at fsgroupctl, and not a node agent on behalf of a pod. */
	bool (*is_root_at_shell)(const struct volume_builder *b);
	/*
	 * mount_fs: a new mount of file system @type from @source (a device's path, "host:/export") with the
	 * comma-separated @options of mount(8) (NULL: none) at @name below @dir_fd, private. For block
	 * devices and network file systems. Blocks for as long as the device or the network does.
	 */
	int (*mount_fs)(struct volume_builder *b, const char *source, const char *type,
			const char *options, int dir_fd, const char *name, uint64_t *ret_mount_id);
	/*
	 * set_up: runs the whole set-up flow for the volume @name (a plain name, unique in this volume) that
	 * this one wraps: of plugin @plugin with the source object @source, in the directory @name below the
	 * volume's own, with a marker and metadata of its own. The wrapped plugin sees the same objects,
	 * namespace and flags. *ret_ran: whether its set_up had to run. -ELOOP: nested too deep.
	 */
	int (*set_up)(struct volume_builder *b, const char *name, const char *plugin,
		      json_t *source, gid_t gid, int *ret_lower,
		      enum ownership_outcome *ret_ownership, bool *ret_ran);
	/* open_lower: of a wrapped volume that is set up; -ENOENT: it is not. */
	int (*open_lower)(struct volume_builder *b, const char *name, int *ret_lower);
	/* certify: what its marker certifies now; -ENOENT: it has no valid one. */
	int (*certify)(struct volume_builder *b, const char *name, char **ret_text);
	/* tear_down: of a wrapped volume, with its marker; 0 when there is none. */
	int (*tear_down)(struct volume_builder *b, const char *name);
	/*
	 * own_tree: the eager form of a run: gives what is below @dir_fd to @gid with the mask's bits,
	 * children before their directory, @dir_fd itself last. GID_UNSET: nothing. Never leaves the file
	 * system. The first error ends it.
	 */
	int (*own_tree)(struct volume_builder *b, int dir_fd, gid_t gid, bool read_only);
	/*
	 * record: puts b->metadata on record now, before a step that cannot be undone; durable when it
	 * returns 0. What b->metadata holds when a call of the plugin returns is recorded anyway.
	 */
	int (*record)(struct volume_builder *b);
	/*
	 * open_staged: an O_PATH descriptor of the root of the global mount that this volume is a consumer of,
	 * found by its recorded mount id. -ENOENT with b->error: it is not staged, or not in this boot.
	 */
	int (*open_staged)(struct volume_builder *b, int *ret_fd);
	/*
	 * device_holders: one line on who keeps the block device @rdev busy: its mounts in any mount namespace,
	 * devices built on it, processes that have it open. Returns @ret_text.
	 */
	const char *(*device_holders)(struct volume_builder *b, dev_t rdev, char *ret_text,
				      size_t size);
};

/* How a device is to be staged; texts are borrowed. */
struct device_request {
	const char *path;    /* of the device, as the caller gave it */
	const char *fs_type; /* NULL: what is on it; with format: ext4 */
	const char *options; /* of mount(8); NULL: none */
	bool format;	     /* make a file system if, and only if, the device is empty */
};

/* Where a device is mounted once, for all its consumers; borrowed. */
struct device_place {
	int dir_fd;
	const char *name; /* of a directory in it, made 0700 when absent */
	const char *path; /* of both, for messages */
};

/* What a volume takes of what it may take. */
struct volume_usage {
	uint64_t bytes, entries, limit_bytes;
	bool is_cut; /* there is more than was counted */
};

struct volume_plugin {
	const char *name; /* the Kubernetes source key */
	struct {
		enum idempotency idempotency;
		bool manages_ownership; /* false: the gid is ignored by default; `virtual` on request */
		bool shared;	  /* coherence: others may write below us (local, hostPath, nfs) */
		bool refreshable; /* a repeated mount calls refresh */
		bool attachable; /* has mount_device, unmount_device, grow_device; is staged before it is mounted */
		bool is_read_only;    /* the plugin alone writes the tree: mask 0440 and 02550 */
		bool needs_objects;   /* a call without objects cannot set it up */
		int metadata_version; /* of what it keeps in builder->metadata; 0 is a version too */
	} attributes;

	/*
	 * check: whether the source object is one that this plugin can set up: -EINVAL and b->error name
	 * the first field that is missing, of a wrong type or not supported. Touches nothing on disk. May set
	 * b->read_only, where what the source leads to is read-only.
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

	/*
	 * refresh (attributes.refreshable): brings a volume that is set up to what its source says now;
	 * never called for one that is not. @gid as for set_up; ownership of what it writes is right before
	 * it can be seen. *ret_changed: false when nothing was written. A crash inside it leaves the old or
	 * the new content, never a mixture.
	 */
	int (*refresh)(struct volume_builder *b, gid_t gid, bool *ret_changed);

	/* is_shared: where only the source tells whether others may write below us; NULL: attributes.shared. */
	bool (*is_shared)(const struct volume_builder *b);

	/*
	 * manages: where only the source, or what an earlier set_up has learnt, tells whether ownership is managed;
	 * asked where set_up did not run. NULL: attributes.manages_ownership.
	 */
	bool (*manages)(const struct volume_builder *b);

	/*
	 * usage: counts what a volume that is set up takes, where nothing else keeps it to its limit; bounded, but
	 * never quick. -ENODATA: it has no such limit. NULL: volumes of this plugin never have.
	 */
	int (*usage)(struct volume_builder *b, struct volume_usage *ret_usage);

	/*
	 * restore: brings metadata that an earlier version of the plugin kept (attributes.metadata_version
	 * was @version then) to today's form; NULL: there was no earlier one. -ENOTSUP: it is newer than us.
	 */
	int (*restore)(struct volume_builder *b, int version);

	/* open_lower: as set_up's ret_lower, of a volume that is set up. */
	int (*open_lower)(struct volume_builder *b, int *ret_lower);

	/*
	 * tear_down: undoes set_up, also a half-done one; idempotent; 0 when nothing is there. Deletes data
	 * only where the kind of volume says so (emptyDir), by descriptor, never across a mount boundary.
	 */
	int (*tear_down)(struct volume_builder *b);

	/*
	 * mount_device (attributes.attachable): mounts the device of the request once, at @place, after
	 * probing, checking and, only with request->format, formatting it; idempotent, also after a crash.
	 * What identifies the device is on record before anything is written to it, and compared when it is
	 * staged again: -ESTALE: it is another device now. A mkfs that was interrupted is -EUCLEAN, and not
	 * repeated. A mount at @place that is not of this device is -EBUSY and stays.
	 */
	int (*mount_device)(struct volume_builder *b, const struct device_request *request,
			    const struct device_place *place);
	/*
	 * probe_device: what mount_device would do with the device, as far as looking at it tells: "make ext4 on ...".
	 * Nothing is written. Fails as mount_device would.
	 */
	int (*probe_device)(struct volume_builder *b, const struct device_request *request,
			    char *ret_text, size_t size);
	/*
	 * unmount_device: undoes it; 0 when it is not mounted. -EBUSY with the holders in b->error: unless
	 * nobody on the node uses the device any more, it is not undone.
	 */
	int (*unmount_device)(struct volume_builder *b, const struct device_place *place);
	/*
	 * grow_device: makes the file system of the mounted device as large as the device is now, if it is writable;
	 * idempotent. @mount_fd: O_PATH, of the root of its mount, which is the recorded one. *ret_grown: false when it
	 * filled its device already. Fails as device_grow() does.
	 */
	int (*grow_device)(struct volume_builder *b, int mount_fd, bool *ret_grown);
	/* device_identity: canonical text of what b->metadata knows of the device; NULL: no memory. */
	char *(*device_identity)(const struct volume_builder *b);
	/* device_unfinished: the program that was writing to the device when we died, or NULL; borrowed. */
	const char *(*device_unfinished)(const struct volume_builder *b);
};

/* plugin_find: the plugin with this name, or NULL. */
const struct volume_plugin *plugin_find(const char *name);

/* plugin_at: the plugins in registry order; NULL after the last. */
const struct volume_plugin *plugin_at(size_t index);

extern const struct volume_plugin plugin_config_map;
extern const struct volume_plugin plugin_downward_api;
extern const struct volume_plugin plugin_claim;
extern const struct volume_plugin plugin_empty_dir;
extern const struct volume_plugin plugin_flex_volume;
extern const struct volume_plugin plugin_git_repo;
extern const struct volume_plugin plugin_host_path;
extern const struct volume_plugin plugin_local;
extern const struct volume_plugin plugin_projected;
extern const struct volume_plugin plugin_secret;
extern const struct volume_plugin plugin_nfs;
extern const struct volume_plugin plugin_gce_persistent_disk; /* these six: block.c */
extern const struct volume_plugin plugin_aws_elastic_block_store;
extern const struct volume_plugin plugin_azure_disk;
extern const struct volume_plugin plugin_cinder;
extern const struct volume_plugin plugin_iscsi;
extern const struct volume_plugin plugin_fc;

#endif
