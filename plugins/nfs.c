// SPDX-License-Identifier: Apache-2.0
#include "plugins/plugin.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "fs/base/cleanup.h"
#include "fs/base/io.h"
#include "fs/base/log.h"
#include "plugins/builder.h"
#include "plugins/lower.h"
#include "plugins/program.h"

/*
 * For how many minutes mount.nfs tries again where the volume's own options say nothing (its default is two;
 * source: nfs(5)). Whoever asks for a mount waits for as long.
 */
#define RETRY "retry=1"

struct nfs {
	const char *server, *path;
};

static bool is_clean(const char *text)
{
	for (; *text; text++) {
		if ((unsigned char)*text <= 0x20 || *text == 0x7f)
			return false;
	}
	return true;
}

static int parse_source(struct volume_builder *b, struct nfs *ret_spec)
{
	struct nfs spec;
	char quoted[128];
	int r;

	if ((r = builder_source_text(b, "server", &spec.server)) < 0 ||
	    (r = builder_source_text(b, "path", &spec.path)) < 0)
		return r;
	if (!spec.server[0])
		return builder_fail(b, -EINVAL, "server: missing");
	log_quote(spec.server, quoted, sizeof(quoted));
	if (spec.server[0] == '-' || !is_clean(spec.server) || strpbrk(spec.server, "/,"))
		return builder_fail(b, -EINVAL, "server: %s is no host name or address", quoted);
	if (!spec.path[0])
		return builder_fail(b, -EINVAL, "path: missing");
	if (spec.path[0] != '/')
		return builder_fail(b, -EINVAL, "path: not absolute");
	for (const char *p = spec.path; *p; p++) {
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			return builder_fail(b, -EINVAL, "path: a control character");
	}
	*ret_spec = spec;
	return 0;
}

static int nfs_check(struct volume_builder *b)
{
	struct nfs spec;

	return parse_source(b, &spec);
}

/* "server:/path", with brackets around an IPv6 address (source: nfs(5)). */
static char *export_of(const struct nfs *spec)
{
	bool is_ipv6 = strchr(spec->server, ':') && spec->server[0] != '[';
	char *text;

	if (asprintf(&text, "%s%s%s:%s", is_ipv6 ? "[" : "", spec->server, is_ipv6 ? "]" : "",
		     spec->path) < 0)
		return NULL;
	return text;
}

static char *nfs_identity(const struct volume_builder *b)
{
	struct volume_builder copy =
		*b; /* reading reports errors; the caller has checked the source */
	struct nfs spec = { "", "" };

	parse_source(&copy, &spec);
	return export_of(&spec);
}

/* Whether the comma-separated @options have @name or @name=. */
static bool has_option(const char *options, const char *name)
{
	size_t len = strlen(name);

	for (const char *p = options; p && *p; p += strcspn(p, ",")) {
		p += *p == ',';
		if (strncmp(p, name, len) == 0 && (p[len] == '=' || p[len] == ',' || !p[len]))
			return true;
	}
	return false;
}

static int make_options(struct volume_builder *b, char **ret_options)
{
	const char *given = b->mount_options ? b->mount_options : "";

	if (!is_clean(given))
		return builder_fail(b, -EINVAL, "mountOptions: white space or a control character");
	if (asprintf(ret_options, "%s%s%s%s", given, *given ? "," : "", b->read_only ? "ro" : "rw",
		     has_option(given, "retry") ? "" : "," RETRY) < 0) {
		*ret_options = NULL;
		return builder_fail(b, -ENOMEM, "out of memory");
	}
	return 0;
}

/* Known once a mount was tried, for that loads the module. */
static bool kernel_has_nfs(void)
{
	char text[8192];

	if (io_read_text(AT_FDCWD, "/proc/filesystems", text, sizeof(text)) < 0)
		return true;
	return strstr(text, "\tnfs\n") || strstr(text, "\tnfs4\n");
}

/* What stands in the way on this node, rather than in the network. */
static int explain(struct volume_builder *b, int error, const char *source)
{
	char path[PATH_MAX], quoted[160];

	log_quote(source, quoted, sizeof(quoted));
	if (program_find("mount.nfs", path, sizeof(path)) < 0)
		return builder_fail(
			b, -ENOENT,
			"%s: mount.nfs is not installed (it comes with nfs-common or nfs-utils)",
			quoted);
	if (!kernel_has_nfs())
		return builder_fail(b, -ENODEV, "%s: this kernel has no NFS client", quoted);
	if (b->error[0] == '\0')
		builder_fail(b, error, "%s: %s", quoted, strerror(-error));
	return error;
}

static bool nfs_is_set_up(struct volume_builder *b)
{
	uint64_t mount_id = builder_mount_recorded(b);

	/* By its number only: a look at the directory waits for the server. */
	return mount_id != 0 && b->host->is_mounted(b, b->dir_fd, LOWER_NAME, mount_id);
}

static int mount_export(struct volume_builder *b)
{
	AUTO_FREE char *source = NULL, *options = NULL;
	struct nfs spec;
	uint64_t mount_id = 0;
	int r = parse_source(b, &spec);

	if (r < 0 || (r = make_options(b, &options)) < 0 || (r = lower_unmount(b)) < 0)
		return r;
	source = export_of(&spec);
	if (!source)
		return builder_fail(b, -ENOMEM, "out of memory");
	b->error[0] = '\0';
	r = b->host->mount_fs(b, source, "nfs", options, b->dir_fd, LOWER_NAME, &mount_id);
	return r < 0 ? explain(b, r, source) : builder_mount_record(b, mount_id);
}

static int nfs_set_up(struct volume_builder *b, gid_t gid, int *ret_lower,
		      enum ownership_outcome *ret_ownership)
{
	int r = nfs_is_set_up(b) ? 0 : mount_export(b);

	(void)gid; /* files on a server are not this node's to change: Kubernetes never does either */
	if (r == 0)
		r = lower_open(b, ret_lower);
	if (r == 0)
		*ret_ownership = OWNERSHIP_IGNORED;
	return r;
}

const struct volume_plugin plugin_nfs = {
	.name = "nfs",
	.attributes = { .idempotency = IDEMPOTENCY_MOUNTPOINT,
			.manages_ownership = false,
			.shared = true },
	.check = nfs_check,
	.identity = nfs_identity,
	.set_up = nfs_set_up,
	.is_set_up = nfs_is_set_up,
	.open_lower = lower_open,
	.tear_down = lower_tear_down,
};
