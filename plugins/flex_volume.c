// SPDX-License-Identifier: Apache-2.0
#include "plugins/plugin.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "fs/base/cleanup.h"
#include "fs/base/log.h"
#include "plugins/builder.h"
#include "plugins/flex_driver.h"
#include "plugins/objects.h"

/*
 * The call-outs in kubelet's order, with its arguments and options (source: Kubernetes
 * pkg/volume/flexvolume/{attacher,mounter,detacher,unmounter,driver-call,util}.go):
 *
 *     init
 *     attach <options> <node>               where its capabilities have attach
 *     waitforattach <device> <options>      the same
 *     mountdevice <dir> <device> <options>  the same
 *     mount <dir> <options>
 *     unmount <dir>, unmountdevice <dir>, detach <volume> <node>
 *
 * A call-out that is "Not supported" is not repeated, and done as kubelet does it: mountdevice by a mount
 * (which never formats), mount by a bind of the device's mount, the others by unmounting.
 * getvolumename and isattached, whose answers kubelet does not use, are not called.
 */

/* In the volume's own directory: what the driver mounts, and its device's own mount. */
static const char LOWER[] = "lower", DEVICE[] = "device";

/* Metadata: the driver as it was asked, what it can, and how far it has come. */
static const char KEY_DIRECTORY[] = "driverDirectory", KEY_VERSION[] = "driverVersion",
		  KEY_ATTACH[] = "attach", KEY_FS_GROUP[] = "fsGroup",
		  KEY_UNSUPPORTED[] = "notSupported", KEY_DEVICE[] = "device",
		  KEY_ATTACHED[] = "attached", KEY_DEVICE_MOUNTED[] = "deviceMounted",
		  KEY_MOUNTED[] = "mounted";

#define WAIT_FOR_ATTACH_MS (10 * 60 * 1000)

struct flex_volume {
	const char *driver, *fs_type;
	json_t *options; /* borrowed; NULL: none */
};

/* Kubernetes reserves these prefixes (source: its validation of flexVolume options). */
static bool is_reserved(const char *key)
{
	static const char *const domains[] = { "kubernetes.io", "k8s.io" };
	size_t len = strcspn(key, "/");

	for (size_t i = 0; key[len] == '/' && i < ARRAY_SIZE(domains); i++) {
		size_t domain = strlen(domains[i]);

		if (len >= domain && memcmp(key + len - domain, domains[i], domain) == 0 &&
		    (len == domain || key[len - domain - 1] == '.'))
			return true;
	}
	return false;
}

static int check_options(struct volume_builder *b, json_t *options)
{
	char quoted[96];
	const char *key;
	json_t *value;

	if (!json_is_object(options))
		return builder_fail(b, -EINVAL, "options: not an object");
	json_object_foreach(options, key, value) {
		log_quote(key, quoted, sizeof(quoted));
		if (!json_is_string(value))
			return builder_fail(b, -EINVAL, "options: %s: not a string", quoted);
		if (is_reserved(key))
			return builder_fail(b, -EINVAL, "options: %s: a reserved name", quoted);
	}
	return 0;
}

static int parse_source(struct volume_builder *b, struct flex_volume *ret_spec)
{
	json_t *secret = json_object_get(b->source, "secretRef");
	struct flex_volume spec = { .options = json_object_get(b->source, "options") };
	char quoted[96];
	int r;

	if ((r = builder_source_text(b, "driver", &spec.driver)) < 0 ||
	    (r = builder_source_text(b, "fsType", &spec.fs_type)) < 0)
		return r;
	if (!spec.driver[0])
		return builder_fail(b, -EINVAL, "driver: missing");
	if (!flex_driver_name_is_valid(spec.driver))
		return builder_fail(b, -EINVAL, "driver: %s is not of the form vendor/driver",
				    log_quote(spec.driver, quoted, sizeof(quoted)));
	/* kubelet hands secrets over in a driver's arguments, which everybody on the node can read. */
	if (secret && !json_is_null(secret))
		return builder_fail(
			b, -ENOTSUP,
			"secretRef: not supported: a driver gets secrets as arguments only");
	if (json_is_null(spec.options))
		spec.options = NULL;
	if (spec.options && (r = check_options(b, spec.options)) < 0)
		return r;
	*ret_spec = spec;
	return 0;
}

static int flex_volume_check(struct volume_builder *b)
{
	struct flex_volume spec;

	return parse_source(b, &spec);
}

static char *flex_volume_identity(const struct volume_builder *b)
{
	struct volume_builder copy =
		*b; /* reading reports errors; the caller has checked the source */
	struct flex_volume spec = { .driver = "", .fs_type = "" };
	json_t *list;
	char *text;

	parse_source(&copy, &spec);
	list = json_pack("{s:s, s:s, s:O?}", "driver", spec.driver, "fsType", spec.fs_type,
			 "options", spec.options);
	text = list ? json_dumps(list, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
	json_decref(list);
	return text;
}

/* ---- what is known of the driver ---- */

static bool flag(const struct volume_builder *b, const char *key)
{
	return json_is_true(json_object_get(b->metadata, key));
}

static int set_flag(struct volume_builder *b, const char *key, bool value)
{
	if (json_object_set_new(b->metadata, key, json_boolean(value)) < 0)
		return builder_fail(b, -ENOMEM, "out of memory");
	return 0;
}

/* On record before the driver acts: what it may have begun is undone, whatever happens to us meanwhile. */
static int intend(struct volume_builder *b, const char *key)
{
	int r;

	if (flag(b, key))
		return 0;
	r = set_flag(b, key, true);
	return r < 0 ? r : b->host->record(b);
}

static bool is_unsupported(const struct volume_builder *b, const char *command)
{
	return json_is_true(
		json_object_get(json_object_get(b->metadata, KEY_UNSUPPORTED), command));
}

static int remember_unsupported(struct volume_builder *b, const char *command)
{
	json_t *all = json_object_get(b->metadata, KEY_UNSUPPORTED);

	if (!all) {
		all = json_object();
		if (json_object_set_new(b->metadata, KEY_UNSUPPORTED, all) < 0)
			return builder_fail(b, -ENOMEM, "out of memory");
	}
	if (json_object_set_new(all, command, json_true()) < 0)
		return builder_fail(b, -ENOMEM, "out of memory");
	return 0;
}

/* One call-out: *ret_supported: false when the driver leaves it to us, now or at an earlier call. */
static int call(struct volume_builder *b, const struct flex_driver *driver,
		const char *const *words, uint64_t timeout_ms, struct flex_reply **ret_reply,
		bool *ret_supported)
{
	int r;

	*ret_supported = !is_unsupported(b, words[0]);
	if (!*ret_supported)
		return 0;
	r = flex_driver_call(b, driver, words, timeout_ms, ret_reply);
	if (r == -EOPNOTSUPP) {
		*ret_supported = false;
		r = remember_unsupported(b, words[0]);
	}
	return r;
}

/* The driver, in the directory on record, or in today's, which goes on record. */
static int open_driver(struct volume_builder *b, const char *name, struct flex_driver **ret_driver)
{
	const char *recorded = json_string_value(json_object_get(b->metadata, KEY_DIRECTORY));
	AUTO_FREE char *dir = recorded ? strdup(recorded) : flex_driver_dir(b);

	if (!dir ||
	    (!recorded && json_object_set_new(b->metadata, KEY_DIRECTORY, json_string(dir)) < 0))
		return builder_fail(b, -ENOMEM, "out of memory");
	return flex_driver_open(b, dir, name, ret_driver);
}

/* Asks the driver what it can, once for each version of it. */
static int learn(struct volume_builder *b, const struct flex_driver *driver)
{
	const char *const words[] = { "init", NULL };
	const char *known = json_string_value(json_object_get(b->metadata, KEY_VERSION));
	AUTO(flex_reply) *reply = NULL;
	int r;

	if (known && strcmp(known, driver->version) == 0)
		return 0;
	json_object_del(b->metadata, KEY_UNSUPPORTED);
	r = flex_driver_call(b, driver, words, 0, &reply);
	if (r < 0)
		return r;
	if ((r = set_flag(b, KEY_ATTACH, reply->attach)) < 0 ||
	    (r = set_flag(b, KEY_FS_GROUP, reply->fs_group)) < 0)
		return r;
	if (json_object_set_new(b->metadata, KEY_VERSION, json_string(driver->version)) < 0)
		return builder_fail(b, -ENOMEM, "out of memory");
	return 0;
}

/* ---- options ---- */

static void add_pod(struct volume_builder *b, json_t *all)
{
	static const struct {
		const char *option, *section, *field;
	} fields[] = {
		{ "kubernetes.io/pod.name", "metadata", "name" },
		{ "kubernetes.io/pod.namespace", "metadata", "namespace" },
		{ "kubernetes.io/pod.uid", "metadata", "uid" },
		{ "kubernetes.io/serviceAccount.name", "spec", "serviceAccountName" },
	};
	json_t *pod = NULL;

	if (!b->objects || objects_find_pod(b, &pod) < 0) {
		b->error[0] = '\0'; /* a volume needs no pod */
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		json_t *value =
			json_object_get(json_object_get(pod, fields[i].section), fields[i].field);

		json_object_set_new(
			all, fields[i].option,
			json_string(json_is_string(value) ? json_string_value(value) : ""));
	}
}

/* @for_mount: with what only mount gets: the pod and the group. The caller's to free. */
static char *make_options(struct volume_builder *b, const struct flex_volume *spec, bool for_mount,
			  gid_t gid)
{
	json_t *all = json_object();
	char number[16], *text;

	json_object_set_new(all, "kubernetes.io/fsType", json_string(spec->fs_type));
	json_object_set_new(all, "kubernetes.io/readwrite",
			    json_string(b->read_only ? "ro" : "rw"));
	json_object_set_new(all, "kubernetes.io/pvOrVolumeName", json_string(b->id));
	if (for_mount)
		add_pod(b, all);
	if (for_mount && gid != GID_UNSET) {
		snprintf(number, sizeof(number), "%u", (unsigned)gid);
		/* Its name in Kubernetes 1.15 and later; the documents still have an older one. */
		json_object_set_new(all, "kubernetes.io/mounterArgs.FsGroup", json_string(number));
	}
	if (spec->options)
		json_object_update_missing(all, spec->options);
	text = json_dumps(all, JSON_COMPACT | JSON_SORT_KEYS);
	json_decref(all);
	if (!text)
		builder_fail(b, -ENOMEM, "out of memory");
	return text;
}

/* ---- setting up ---- */

static int make_dir(struct volume_builder *b, const char *name)
{
	if (mkdirat(b->dir_fd, name, 0750) < 0 && errno != EEXIST) {
		int r = -errno;

		return builder_fail(b, r, "make %s/%s: %s", b->dir_path, name, strerror(-r));
	}
	return 0;
}

static char *path_of(struct volume_builder *b, const char *name)
{
	char *path;

	if (asprintf(&path, "%s/%s", b->dir_path, name) < 0) {
		builder_fail(b, -ENOMEM, "out of memory");
		return NULL;
	}
	return path;
}

static int keep_device(struct volume_builder *b, const struct flex_reply *reply)
{
	if (!reply || !reply->device)
		return 0;
	if (json_object_set_new(b->metadata, KEY_DEVICE, json_string(reply->device)) < 0)
		return builder_fail(b, -EBADMSG, "the driver's device is not valid UTF-8");
	return 0;
}

static const char *device_of(const struct volume_builder *b)
{
	const char *device = json_string_value(json_object_get(b->metadata, KEY_DEVICE));

	return device ? device : "";
}

static int attach(struct volume_builder *b, const struct flex_driver *driver, const char *options,
		  const char *node)
{
	const char *const words[] = { "attach", options, node, NULL };
	AUTO(flex_reply) *reply = NULL, *waited = NULL;
	bool supported;
	int r;

	if ((r = intend(b, KEY_ATTACHED)) < 0 ||
	    (r = call(b, driver, words, 0, &reply, &supported)) < 0 ||
	    (r = keep_device(b, reply)) < 0)
		return r;
	const char *const wait_words[] = { "waitforattach", device_of(b), options, NULL };
	r = call(b, driver, wait_words, WAIT_FOR_ATTACH_MS, &waited, &supported);
	return r < 0 ? r : keep_device(b, waited);
}

static int mount_device(struct volume_builder *b, const struct flex_driver *driver,
			const struct flex_volume *spec, const char *options)
{
	AUTO_FREE char *path = path_of(b, DEVICE);
	const char *const words[] = { "mountdevice", path, device_of(b), options, NULL };
	AUTO(flex_reply) *reply = NULL;
	uint64_t ignored;
	bool supported;
	int r;

	if (!path)
		return -ENOMEM;
	if (builder_mount_at(b, DEVICE) != 0 && flag(b, KEY_DEVICE_MOUNTED))
		return 0;
	if ((r = make_dir(b, DEVICE)) < 0 || (r = intend(b, KEY_DEVICE_MOUNTED)) < 0 ||
	    (r = call(b, driver, words, 0, &reply, &supported)) < 0 || supported)
		return r;
	if (device_of(b)[0] != '/')
		return builder_fail(
			b, -EINVAL,
			"the driver mounts no device, and has named none to be mounted");
	/* What kubelet would format is refused by the mount. */
	return b->host->mount_fs(b, device_of(b), spec->fs_type[0] ? spec->fs_type : "ext4",
				 b->read_only ? "ro" : NULL, b->dir_fd, DEVICE, &ignored);
}

/* The driver leaves the mount to us: what it has mounted for the device is bound. */
static int bind_device(struct volume_builder *b, uint64_t *ret_mount_id)
{
	AUTO_FD int fd = -1;
	int r;

	if (!flag(b, KEY_ATTACH))
		return builder_fail(b, -EOPNOTSUPP, "the driver supports neither attach nor mount");
	r = builder_open_dir(b, DEVICE, &fd);
	return r < 0 ? r : b->host->bind(b, fd, b->dir_fd, LOWER, ret_mount_id);
}

static int mount_volume(struct volume_builder *b, const struct flex_driver *driver,
			const struct flex_volume *spec, gid_t gid)
{
	AUTO_FREE char *path = path_of(b, LOWER);
	AUTO_FREE char *options = make_options(b, spec, true, gid);
	const char *const words[] = { "mount", path, options, NULL };
	AUTO(flex_reply) *reply = NULL;
	uint64_t mount_id = 0;
	bool supported;
	int r;

	if (!path || !options)
		return -ENOMEM;
	if ((r = make_dir(b, LOWER)) < 0 || (r = intend(b, KEY_MOUNTED)) < 0 ||
	    (r = call(b, driver, words, 0, &reply, &supported)) < 0)
		return r;
	if (!supported && (r = bind_device(b, &mount_id)) < 0)
		return r;
	mount_id = builder_mount_at(b, LOWER);
	if (mount_id == 0)
		return builder_fail(b, -EBADMSG, "%s mount: it said Success and mounted nothing",
				    spec->driver);
	return builder_mount_record(b, mount_id);
}

static bool flex_volume_is_set_up(struct volume_builder *b)
{
	uint64_t mount_id = builder_mount_recorded(b);

	return mount_id != 0 && b->host->is_mounted(b, b->dir_fd, LOWER, mount_id);
}

static bool flex_volume_manages(const struct volume_builder *b)
{
	return flag(b, KEY_FS_GROUP);
}

static int flex_volume_tear_down(struct volume_builder *b);

static int set_up_anew(struct volume_builder *b, const struct flex_volume *spec, gid_t gid)
{
	AUTO(flex_driver) *driver = NULL;
	AUTO_FREE char *options = make_options(b, spec, false, gid);
	struct utsname node;
	int r;

	if (!options)
		return -ENOMEM;
	/* A mount that an interrupted set-up left may be half of one. */
	if (builder_mount_at(b, LOWER) != 0 && (r = flex_volume_tear_down(b)) < 0)
		return r;
	if ((r = open_driver(b, spec->driver, &driver)) < 0 || (r = learn(b, driver)) < 0)
		return r;
	uname(&node);
	if (flag(b, KEY_ATTACH) && ((r = attach(b, driver, options, node.nodename)) < 0 ||
				    (r = mount_device(b, driver, spec, options)) < 0))
		return r;
	return mount_volume(b, driver, spec, gid);
}

static int flex_volume_open_lower(struct volume_builder *b, int *ret_lower)
{
	return builder_open_dir(b, LOWER, ret_lower);
}

static int flex_volume_set_up(struct volume_builder *b, gid_t gid, int *ret_lower,
			      enum ownership_outcome *ret_ownership)
{
	struct flex_volume spec;
	int r = parse_source(b, &spec);

	if (r == 0 && !flex_volume_is_set_up(b))
		r = set_up_anew(b, &spec, gid);
	if (r < 0)
		return r;
	/* A driver without the capability has seen to the group itself, or cannot. */
	*ret_ownership = !flex_volume_manages(b) ? OWNERSHIP_IGNORED :
			 gid == GID_UNSET	 ? OWNERSHIP_DONE :
						   OWNERSHIP_PRESENT;
	return flex_volume_open_lower(b, ret_lower);
}

/* ---- tearing down ---- */

/*
 * One of the two directories: the driver's call-out, or, where it leaves that to us, an unmount.
 * @key: whether the driver was ever asked to mount it
 */
static int unmount_dir(struct volume_builder *b, const struct flex_driver *driver,
		       const char *command, const char *name, const char *key)
{
	AUTO_FREE char *path = path_of(b, name);
	const char *const words[] = { command, path, NULL };
	AUTO(flex_reply) *reply = NULL;
	uint64_t mount_id = builder_mount_at(b, name);
	bool supported;
	int r;

	if (!path)
		return -ENOMEM;
	r = call(b, driver, words, 0, &reply, &supported);
	/* In another boot it may not know what it never mounted; nothing is there to be lost. */
	if (r < 0 && mount_id != 0)
		return r;
	if (!supported && mount_id != 0)
		r = b->host->unmount(b, b->dir_fd, name, mount_id);
	if (!supported && r < 0)
		return r;
	if (builder_mount_at(b, name) != 0)
		return builder_fail(b, -EBUSY, "%s: still mounted after the driver's %s", path,
				    command);
	b->error[0] = '\0';
	json_object_del(b->metadata, key);
	return 0;
}

static int detach(struct volume_builder *b, const struct flex_driver *driver)
{
	struct utsname node;
	AUTO(flex_reply) *reply = NULL;
	bool supported;
	int r;

	uname(&node);
	const char *const words[] = { "detach", b->id, node.nodename, NULL };
	r = call(b, driver, words, 0, &reply, &supported);
	if (r < 0)
		return r;
	json_object_del(b->metadata, KEY_ATTACHED);
	json_object_del(b->metadata, KEY_DEVICE);
	return 0;
}

static int remove_dir(struct volume_builder *b, const char *name)
{
	if (unlinkat(b->dir_fd, name, AT_REMOVEDIR) < 0 && errno != ENOENT) {
		int r = -errno;

		return builder_fail(b, r, "remove %s/%s: %s", b->dir_path, name, strerror(-r));
	}
	return 0;
}

static int undo_call_outs(struct volume_builder *b, const char *name)
{
	AUTO(flex_driver) *driver = NULL;
	uint64_t mount_id = builder_mount_at(b, LOWER), recorded = builder_mount_recorded(b);
	int r = open_driver(b, name, &driver);

	if (r < 0)
		return r;
	if (mount_id != 0 && recorded != 0 && mount_id != recorded)
		return builder_fail(b, -EBUSY, "%s/%s: something that is not ours is mounted there",
				    b->dir_path, LOWER);
	if (mount_id != 0 || flag(b, KEY_MOUNTED))
		r = unmount_dir(b, driver, "unmount", LOWER, KEY_MOUNTED);
	if (r == 0 && (builder_mount_at(b, DEVICE) != 0 || flag(b, KEY_DEVICE_MOUNTED)))
		r = unmount_dir(b, driver, "unmountdevice", DEVICE, KEY_DEVICE_MOUNTED);
	if (r == 0 && flag(b, KEY_ATTACHED))
		r = detach(b, driver);
	return r;
}

static int flex_volume_tear_down(struct volume_builder *b)
{
	bool is_begun = builder_mount_at(b, LOWER) != 0 || builder_mount_at(b, DEVICE) != 0 ||
			flag(b, KEY_MOUNTED) || flag(b, KEY_DEVICE_MOUNTED) ||
			flag(b, KEY_ATTACHED);
	const char *name = NULL;
	int r = builder_source_text(b, "driver", &name);

	if (r == 0 && is_begun)
		r = undo_call_outs(b, name);
	if (r == 0)
		r = builder_unmount(b, LOWER, 0); /* nothing is there: forgets it */
	if (r == 0)
		r = remove_dir(b, LOWER);
	if (r == 0)
		r = remove_dir(b, DEVICE);
	if (r == 0)
		json_object_del(b->metadata,
				KEY_DIRECTORY); /* the next set-up looks where it is then */
	return r;
}

const struct volume_plugin plugin_flex_volume = {
	.name = "flexVolume",
	.attributes = { .idempotency = IDEMPOTENCY_MOUNTPOINT,
			.manages_ownership = true,
			.shared = true },
	.check = flex_volume_check,
	.identity = flex_volume_identity,
	.set_up = flex_volume_set_up,
	.is_set_up = flex_volume_is_set_up,
	.manages = flex_volume_manages,
	.open_lower = flex_volume_open_lower,
	.tear_down = flex_volume_tear_down,
};
