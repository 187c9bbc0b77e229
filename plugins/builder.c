// SPDX-License-Identifier: Apache-2.0
#include "plugins/builder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/base/cleanup.h"
#include "fs/base/log.h"

static const char KEY_MOUNT[] = "mountId", KEY_BOOT[] = "bootId";

int builder_fail(struct volume_builder *b, int error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(b->error, sizeof(b->error), format, args);
	va_end(args);
	return error;
}

int builder_source_text(struct volume_builder *b, const char *key, const char **ret_text)
{
	json_t *value = json_object_get(b->source, key);

	if (value && !json_is_null(value) && !json_is_string(value))
		return builder_fail(b, -EINVAL, "%s: not a string", key);
	*ret_text = json_is_string(value) ? json_string_value(value) : "";
	return 0;
}

/* The next component of *io_path: its length, 0 at the end; *io_path points to it. */
static size_t next_component(const char **io_path)
{
	const char *p = *io_path;
	size_t len;

	for (;;) {
		p += strspn(p, "/");
		len = strcspn(p, "/");
		if (len != 1 || *p != '.')
			break;
		p++;
	}
	*io_path = p;
	return len;
}

int builder_source_path(struct volume_builder *b, char **ret_path)
{
	AUTO_FREE char *clean = NULL;
	const char *text = NULL;
	size_t used = 0, len;
	int r = builder_source_text(b, "path", &text);

	if (r < 0)
		return r;
	if (text[0] == '\0')
		return builder_fail(b, -EINVAL, "path: missing");
	if (text[0] != '/')
		return builder_fail(b, -EINVAL, "path: not absolute");
	clean = malloc(strlen(text) + 2);
	if (!clean)
		return builder_fail(b, -ENOMEM, "out of memory");
	while ((len = next_component(&text)) > 0) {
		if (len == 2 && memcmp(text, "..", 2) == 0)
			return builder_fail(b, -EINVAL, "path: must not contain \"..\"");
		clean[used++] = '/';
		memcpy(clean + used, text, len);
		used += len;
		text += len;
	}
	if (used == 0)
		clean[used++] = '/';
	clean[used] = '\0';
	*ret_path = take_ptr(&clean);
	return 0;
}

int builder_open_source(struct volume_builder *b, const char *path, int *ret_fd)
{
	char quoted[256];
	int r;

	b->error[0] = '\0';
	r = b->host->open_source(b, path, ret_fd);
	if (r < 0 && b->error[0] == '\0')
		builder_fail(b, r, "%s: %s", log_quote(path, quoted, sizeof(quoted)), strerror(-r));
	return r;
}

int builder_open_dir(struct volume_builder *b, const char *name, int *ret_fd)
{
	int fd = openat(b->dir_fd, name, O_PATH | O_NOFOLLOW | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0) {
		int error = errno;

		return builder_fail(b, -error, "%s/%s: %s", b->dir_path, name, strerror(error));
	}
	*ret_fd = fd;
	return 0;
}

uint64_t builder_mount_at(const struct volume_builder *b, const char *name)
{
	return builder_mount_in(b->dir_fd, name);
}

uint64_t builder_mount_in(int dir_fd, const char *name)
{
	struct statx st;

	if (statx(dir_fd, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, BUILDER_STATX_MOUNT, &st) <
	    0)
		return 0;
	return st.stx_attributes & STATX_ATTR_MOUNT_ROOT ? st.stx_mnt_id : 0;
}

int builder_mount_record(struct volume_builder *b, uint64_t mount_id)
{
	if (json_object_set_new(b->metadata, KEY_MOUNT, json_integer((json_int_t)mount_id)) < 0 ||
	    json_object_set_new(b->metadata, KEY_BOOT, json_string(b->host->boot_id(b))) < 0)
		return builder_fail(b, -ENOMEM, "out of memory");
	return 0;
}

uint64_t builder_mount_recorded(const struct volume_builder *b)
{
	const char *boot = json_string_value(json_object_get(b->metadata, KEY_BOOT));

	/* Mount ids begin anew with each boot: an old one may be anybody's by now. */
	if (!boot || strcmp(boot, b->host->boot_id(b)) != 0)
		return 0;
	return (uint64_t)json_integer_value(json_object_get(b->metadata, KEY_MOUNT));
}

int builder_unmount(struct volume_builder *b, const char *name, uint64_t left_behind)
{
	uint64_t mount_id = builder_mount_recorded(b);
	int r;

	if (mount_id == 0)
		mount_id = left_behind;
	if (mount_id == 0)
		return 0;
	b->error[0] = '\0';
	r = b->host->unmount(b, b->dir_fd, name, mount_id);
	if (r < 0 && b->error[0] == '\0')
		builder_fail(b, r, "unmount %s/%s: %s", b->dir_path, name, strerror(-r));
	if (r == 0)
		builder_mount_forget(b);
	return r;
}

void builder_mount_forget(struct volume_builder *b)
{
	json_object_del(b->metadata, KEY_MOUNT);
	json_object_del(b->metadata, KEY_BOOT);
}
