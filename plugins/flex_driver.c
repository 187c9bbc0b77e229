// SPDX-License-Identifier: Apache-2.0
#include "plugins/flex_driver.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "fs/base/log.h"
#include "plugins/builder.h"
#include "plugins/program.h"

#define WORDS_MAX 8

/* ---- finding a driver ---- */

static bool is_part(const char *text, size_t len, const char *allowed)
{
	/* "." and ".." are no names of directories of ours. */
	return len > 0 && len <= NAME_MAX / 2 && strspn(text, allowed) >= len &&
	       strspn(text, ".") < len;
}

bool flex_driver_name_is_valid(const char *name)
{
	static const char lower[] = "abcdefghijklmnopqrstuvwxyz0123456789.-";
	static const char any[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
	size_t vendor = strcspn(name, "/");

	return name[vendor] == '/' && is_part(name, vendor, lower) &&
	       is_part(name + vendor + 1, strlen(name + vendor + 1), any);
}

static int check_owner(struct volume_builder *b, const char *path, const struct stat *st)
{
	char quoted[256];

	if ((st->st_uid == 0 || st->st_uid == geteuid()) && !(st->st_mode & 022))
		return 0;
	return builder_fail(
		b, -EPERM,
		"FlexVolume driver: %s must be owned by root and writable by nobody else",
		log_quote(path, quoted, sizeof(quoted)));
}

static int open_beneath(int dir_fd, const char *name, int *ret_fd)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};
	int fd = (int)syscall(SYS_openat2, dir_fd, name, &how, sizeof(how));

	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	return 0;
}

/* One step towards the driver: what must belong to root, as must all that is above it. */
static int step(struct volume_builder *b, int dir_fd, const char *name, const char *path,
		int *ret_fd, struct stat *ret_st)
{
	AUTO_FD int fd = -1;
	char quoted[256];
	int r = open_beneath(dir_fd, name, &fd);

	if (r == 0 && fstat(fd, ret_st) < 0)
		r = -errno;
	if (r < 0)
		return builder_fail(b, r, "FlexVolume driver: %s: %s",
				    log_quote(path, quoted, sizeof(quoted)),
				    r == -ELOOP ? "a symbolic link" : strerror(-r));
	r = check_owner(b, path, ret_st);
	if (r == 0)
		*ret_fd = take_fd(&fd);
	return r;
}

char *flex_driver_dir(struct volume_builder *b)
{
	const char *configured = b->host->settings(b)->flexvolume_dir, *root = b->host->root(b);
	char *dir;

	if (configured)
		dir = strdup(configured);
	else if (asprintf(&dir, "%s/" FLEX_DRIVER_DIR, strcmp(root, "/") ? root : "") < 0)
		dir = NULL;
	if (!dir)
		builder_fail(b, -ENOMEM, "out of memory");
	return dir;
}

int flex_driver_open(struct volume_builder *b, const char *dir, const char *name,
		     struct flex_driver **ret_driver)
{
	AUTO(flex_driver) *driver = calloc(1, sizeof(*driver));
	AUTO_FD int top_fd = -1, dir_fd = -1, fd = -1;
	char vendor[NAME_MAX + 1], quoted[300];
	const char *base;
	struct stat st;
	int r;

	if (!driver)
		return builder_fail(b, -ENOMEM, "out of memory");
	if (!flex_driver_name_is_valid(name))
		return builder_fail(b, -EINVAL, "driver: %s is not of the form vendor/driver",
				    log_quote(name, quoted, sizeof(quoted)));
	base = strchr(name, '/') + 1;
	snprintf(vendor, sizeof(vendor), "%.*s~%s", (int)(base - 1 - name), name, base);
	if (asprintf(&driver->path, "%s/%s/%s", dir, vendor, base) < 0) {
		driver->path = NULL;
		return builder_fail(b, -ENOMEM, "out of memory");
	}
	log_quote(driver->path, quoted, sizeof(quoted));
	/* The way to the directory is the administrator's own, links and all. */
	top_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (top_fd < 0 || fstat(top_fd, &st) < 0) {
		r = -errno;
		return builder_fail(b, r, "FlexVolume driver: %s: %s", quoted, strerror(-r));
	}
	if ((r = check_owner(b, dir, &st)) < 0 ||
	    (r = step(b, top_fd, vendor, driver->path, &dir_fd, &st)) < 0 ||
	    (r = step(b, dir_fd, base, driver->path, &fd, &st)) < 0)
		return r;
	if (!S_ISREG(st.st_mode) || !(st.st_mode & 0111))
		return builder_fail(b, -EACCES, "FlexVolume driver: %s is not an executable file",
				    quoted);
	if (asprintf(&driver->version, "%ju:%ju:%jd:%jd.%09ld", (uintmax_t)st.st_dev,
		     (uintmax_t)st.st_ino, (intmax_t)st.st_size, (intmax_t)st.st_mtim.tv_sec,
		     st.st_mtim.tv_nsec) < 0) {
		driver->version = NULL;
		return builder_fail(b, -ENOMEM, "out of memory");
	}
	*ret_driver = take_ptr(&driver);
	return 0;
}

void flex_driver_free(struct flex_driver *driver)
{
	if (!driver)
		return;
	free(driver->path);
	free(driver->version);
	free(driver);
}

/* ---- its answer ---- */

void flex_reply_free(struct flex_reply *reply)
{
	if (!reply)
		return;
	free(reply->device);
	free(reply);
}

/* As Go's decoder finds a field: by its name in any case; the last one of several. */
static json_t *field(json_t *object, const char *name)
{
	json_t *value, *found = NULL;
	const char *key;

	json_object_foreach(object, key, value) {
		if (strcasecmp(key, name) == 0 && !json_is_null(value))
			found = value;
	}
	return found;
}

static int __attribute__((format(printf, 3, 4)))
bad(char *ret_error, int error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(ret_error, PLUGIN_ERROR_MAX, format, args);
	va_end(args);
	return error;
}

/* The message of an answer, short and quoted; spaces stay, so that people can read it. */
static void say(char *ret_error, json_t *message, const char *otherwise)
{
	const char *text = json_string_value(message);

	program_quote(text && *text ? text : otherwise, ret_error, PLUGIN_ERROR_MAX / 2);
}

static int take_bool(json_t *object, const char *name, bool *io_value, char *ret_error)
{
	json_t *value = field(object, name);

	if (!value)
		return 0;
	if (!json_is_boolean(value))
		return bad(ret_error, -EBADMSG, "its answer's %s is not true or false", name);
	*io_value = json_is_true(value);
	return 0;
}

static int take_fields(json_t *object, struct flex_reply *reply, char *ret_error)
{
	json_t *capabilities = field(object, "capabilities");
	json_t *device = field(object, "device");
	int r;

	reply->attach = reply->fs_group = true;
	if (device && !json_is_string(device))
		return bad(ret_error, -EBADMSG, "its answer's device is not a string");
	if (device && *json_string_value(device)) {
		reply->device = strdup(json_string_value(device));
		if (!reply->device)
			return bad(ret_error, -ENOMEM, "out of memory");
	}
	if (capabilities && !json_is_object(capabilities))
		return bad(ret_error, -EBADMSG, "its answer's capabilities are not an object");
	r = take_bool(capabilities, "attach", &reply->attach, ret_error);
	return r < 0 ? r : take_bool(capabilities, "fsGroup", &reply->fs_group, ret_error);
}

static int judge(json_t *object, int exit_status, struct flex_reply *reply, char *ret_error)
{
	json_t *status = field(object, "status"), *message = field(object, "message");

	if (!json_is_string(status))
		return bad(ret_error, -EBADMSG, "its answer has no status");
	if (strcmp(json_string_value(status), "Not supported") == 0)
		return bad(ret_error, -EOPNOTSUPP, "not supported by the driver");
	if (strcmp(json_string_value(status), "Success") != 0) {
		say(ret_error, message, "it failed without a message");
		return -EIO;
	}
	if (exit_status != 0)
		return bad(ret_error, -EBADMSG, "it said Success and ended with status %d",
			   exit_status);
	return take_fields(object, reply, ret_error);
}

int flex_reply_parse(const char *output, size_t len, int exit_status, struct flex_reply **ret_reply,
		     char *ret_error)
{
	AUTO(flex_reply) *reply = calloc(1, sizeof(*reply));
	json_error_t where;
	json_t *object;
	int r;

	if (!reply)
		return bad(ret_error, -ENOMEM, "out of memory");
	/* Exactly one document: a stray line of a library is a mistake that kubelet does not forgive either. */
	object = json_loadb(output, len, 0, &where);
	if (!json_is_object(object)) {
		json_decref(object);
		if (len == 0)
			return bad(ret_error, -EBADMSG, "it printed nothing");
		return bad(ret_error, -EBADMSG,
			   "its output is not one JSON object (line %d column %d)",
			   object ? 1 : where.line, object ? 1 : where.column);
	}
	r = judge(object, exit_status, reply, ret_error);
	json_decref(object);
	if (r == 0)
		*ret_reply = take_ptr(&reply);
	return r;
}

/* ---- calling it ---- */

int flex_driver_call(struct volume_builder *b, const struct flex_driver *driver,
		     const char *const *words, uint64_t timeout_ms, struct flex_reply **ret_reply)
{
	const char *argv[WORDS_MAX + 2] = { driver->path };
	struct program_request q = {
		.path = driver->path,
		.argv = argv,
		.cwd_fd = -1,
		.may_leave = true, /* a FUSE server that it has mounted */
		.timeout_ms = timeout_ms ? timeout_ms : b->host->settings(b)->flexvolume_timeout_ms,
		.output_max = FLEX_OUTPUT_MAX,
	};
	AUTO(program_result) *result = NULL;
	char quoted[200], why[PLUGIN_ERROR_MAX];
	int r;

	for (size_t i = 0; i < WORDS_MAX && words[i]; i++)
		argv[i + 1] = words[i];
	log_quote(driver->path, quoted, sizeof(quoted));
	r = program_run(&q, &result);
	if (r == -ETIMEDOUT)
		return builder_fail(b, r, "%s %s: not done within %llu s: killed", quoted, words[0],
				    (unsigned long long)q.timeout_ms / 1000);
	if (r < 0)
		return builder_fail(b, r, "%s %s: cannot run: %s", quoted, words[0], strerror(-r));
	if (result->output_cut)
		return builder_fail(b, -EBADMSG, "%s %s: printed more than %d bytes", quoted,
				    words[0], FLEX_OUTPUT_MAX);
	r = flex_reply_parse(result->output, result->output_len,
			     result->signal ? 128 + result->signal : result->exit_status, ret_reply,
			     why);
	return r < 0 ? builder_fail(b, r, "%s %s: %.250s", quoted, words[0], why) : 0;
}
