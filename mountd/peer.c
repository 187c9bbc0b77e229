// SPDX-License-Identifier: Apache-2.0
#include "mountd/peer.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

#include "fs/base/cleanup.h"
#include "fs/base/io.h"
#include "fs/base/parse.h"

/* What the kernel shows in place of a group that is not mapped in our user namespace. */
#define OVERFLOW_GID_FILE "/proc/sys/kernel/overflowgid"
#define OVERFLOW_GID 65534

static bool has_supplementary(int fd, gid_t gid)
{
	AUTO_FREE gid_t *groups = NULL;
	socklen_t len = 0;

	/* First how many: the call fails with the length that it would need. */
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, NULL, &len) == 0 || errno != ERANGE)
		return false;
	groups = malloc(len);
	if (!groups || getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &len) < 0)
		return false;
	for (size_t i = 0; i < len / sizeof(*groups); i++) {
		if (groups[i] == gid)
			return true;
	}
	return false;
}

struct peer peer_look(int fd, gid_t status_gid)
{
	struct peer peer = { .kind = PEER_STRANGER };
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return peer;
	peer.uid = cred.uid;
	if (cred.uid == 0 || cred.uid == geteuid())
		peer.kind = PEER_ROOT;
	else if (status_gid != GID_UNSET &&
		 (cred.gid == status_gid || has_supplementary(fd, status_gid)))
		peer.kind = PEER_STATUS;
	return peer;
}

static gid_t overflow_gid(void)
{
	char line[32];
	gid_t gid;

	if (io_read_line(AT_FDCWD, OVERFLOW_GID_FILE, line, sizeof(line)) < 0 ||
	    parse_gid(line, &gid) < 0)
		return OVERFLOW_GID;
	return gid;
}

int peer_group_resolve(const char *text, gid_t *ret_gid)
{
	gid_t gid;
	int r = parse_gid(text, &gid);

	if (r == -EINVAL) {
		const struct group *group;

		errno = 0;
		group = getgrnam(text);
		if (!group)
			return errno ? -errno : -ENOENT;
		gid = group->gr_gid;
	} else if (r < 0) {
		return r;
	}
	if (gid == overflow_gid())
		return -EINVAL;
	*ret_gid = gid;
	return 0;
}
