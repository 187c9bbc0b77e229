// SPDX-License-Identifier: Apache-2.0
#include "fs/base/selinux.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "fs/base/io.h"

/* Of the initial user namespace: fixed by the kernel (include/linux/proc_ns.h, PROC_USER_INIT_INO). */
#define INITIAL_USER_NAMESPACE "user:[4026531837]"

/* The first line of a file, or what of it fits; false: it cannot be read. */
static bool read_text(const char *root, const char *path, char *ret_text, size_t size)
{
	char whole[PATH_MAX];

	return snprintf(whole, sizeof(whole), "%s%s", root, path) < (int)sizeof(whole) &&
	       io_read_line(AT_FDCWD, whole, ret_text, size) == 0;
}

static bool is_in_initial_user_namespace(const char *root)
{
	char path[PATH_MAX], name[64];
	ssize_t len;

	if (snprintf(path, sizeof(path), "%s/proc/self/ns/user", root) >= (int)sizeof(path))
		return false;
	len = readlink(path, name, sizeof(name) - 1);
	return len == (ssize_t)strlen(INITIAL_USER_NAMESPACE) &&
	       memcmp(name, INITIAL_USER_NAMESPACE, (size_t)len) == 0;
}

const char *selinux_why_not(const char *root)
{
	char enforce[2], own[SELINUX_LABEL_MAX + 2];

	if (!read_text(root, "/sys/fs/selinux/enforce", enforce, sizeof(enforce)) ||
	    strspn(enforce, "01") != 1)
		return "SELinux is off";
	/* "kernel", without a colon, until there is a policy. */
	if (!read_text(root, "/proc/self/attr/current", own, sizeof(own)) || !strchr(own, ':'))
		return "SELinux has no policy";
	if (!is_in_initial_user_namespace(root))
		return "a user namespace cannot label a FUSE mount";
	return NULL;
}

bool selinux_label_is_valid(const char *label)
{
	size_t colons = 0, len = strlen(label), part = 0;

	if (strcmp(label, SELINUX_LABEL_NONE) == 0)
		return true;
	if (len > SELINUX_LABEL_MAX)
		return false;
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)label[i];

		/* Quotes and backslashes would end it in a list of options. */
		if (c <= ' ' || c >= 0x7f || c == '"' || c == '\\')
			return false;
		if (c != ':') {
			part++;
			continue;
		}
		if (part == 0 && colons < 3)
			return false;
		colons++;
		part = 0;
	}
	return colons >= 2 && part > 0;
}

int selinux_label_of(int fd, char ret_label[SELINUX_LABEL_MAX + 1])
{
	char path[64], label[SELINUX_LABEL_MAX + 2];
	ssize_t len;

	/* By its link in /proc: an O_PATH descriptor has no attributes. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	len = getxattr(path, "security.selinux", label, sizeof(label) - 1);
	if (len < 0)
		return -errno;
	/* The kernel counts the NUL at its end, a file system may not. */
	if (len > 0 && label[len - 1] == '\0')
		len--;
	if (len > SELINUX_LABEL_MAX)
		return -ERANGE;
	label[len] = '\0';
	if (strlen(label) != (size_t)len || !selinux_label_is_valid(label) ||
	    strcmp(label, SELINUX_LABEL_NONE) == 0)
		return -EINVAL;
	memcpy(ret_label, label, (size_t)len + 1);
	return 0;
}

const char *selinux_label_to_mount(const char *asked, const char *own)
{
	if (strcmp(asked, SELINUX_LABEL_NONE) == 0)
		return "";
	return *asked ? asked : own;
}

bool selinux_label_is_foreign(const char *asked, const char *own)
{
	return *asked && strcmp(asked, SELINUX_LABEL_NONE) != 0 && strcmp(asked, own) != 0;
}
