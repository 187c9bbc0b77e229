// SPDX-License-Identifier: Apache-2.0
#include "fs/caller.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "fs/base/io.h"
#include "fs/caller_views.h"
#include "fs/process_status.h"

/* What this thread is now; a switch that changes nothing costs nothing. */
static __thread mode_t current_umask = (mode_t)-1;
static __thread uid_t current_uid;
static __thread gid_t current_gid;

/* glibc's setfsuid and setfsgid are per thread, unlike its setuid family. */
static void become(uid_t uid, gid_t gid)
{
	if (gid != current_gid)
		setfsgid(gid);
	if (uid != current_uid)
		setfsuid(uid);
	current_gid = gid;
	current_uid = uid;
}

void caller_enter(const struct caller *c, gid_t gid)
{
	become(c->uid, gid);
	if (c->umask != current_umask) {
		umask(c->umask);
		current_umask = c->umask;
	}
}

void caller_enter_owner(uid_t uid)
{
	become(uid, 0);
}

void caller_leave(void)
{
	become(0, 0);
}

/* Raises or drops one of this thread's effective capabilities; what is not permitted stays dropped. */
static int set_effective(int capability, bool on)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
	struct __user_cap_data_struct *word = &data[CAP_TO_INDEX(capability)];

	if (syscall(SYS_capget, &header, data) < 0)
		return -errno;
	if (on)
		word->effective |= word->permitted & CAP_TO_MASK(capability);
	else
		word->effective &= ~(uint32_t)CAP_TO_MASK(capability);
	return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

int caller_enter_stranger(gid_t gid)
{
	return caller_enter_member(gid == 0 ? 1 : 0);
}

int caller_enter_member(gid_t gid)
{
	become(0, gid);
	return set_effective(CAP_FSETID, false);
}

void caller_leave_stranger(void)
{
	(void)set_effective(CAP_FSETID, true);
	become(0, 0);
}

/* ---- what /proc says of him ---- */

/* The map of a process's user namespace, as it looks from ours. Returns its length, or -1. */
static ssize_t read_map(const struct caller *c, const char *process, const char *name,
			char *ret_map, size_t size)
{
	char path[48];
	AUTO_FD int fd = -1;

	snprintf(path, sizeof(path), "%s/%s", process, name);
	fd = openat(c->proc_fd, path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -1 : io_read_all(fd, ret_map, size);
}

/*
 * Capabilities are worth something in one's own user namespace only, and everybody can make one below
 * ours. There the map is another: an equal one takes privilege over the same ids.
 */
static bool is_in_our_user_namespace(const struct caller *c)
{
	char ours[4096], theirs[4096], pid[16];
	ssize_t len = read_map(c, "self", "uid_map", ours, sizeof(ours));

	snprintf(pid, sizeof(pid), "%d", (int)c->pid);
	return len > 0 && read_map(c, pid, "uid_map", theirs, sizeof(theirs)) == len &&
	       memcmp(ours, theirs, (size_t)len) == 0;
}

static bool has_capability(const char *status, int capability)
{
	const char *set = process_status_find(status, "CapEff");

	return set && strtoull(set, NULL, 16) >> capability & 1;
}

bool caller_has_capability(const struct caller *c, int capability)
{
	AUTO_FREE char *status = process_status_read(c->proc_fd, c->pid);

	return status && has_capability(status, capability) && is_in_our_user_namespace(c);
}

static bool is_in_groups(const char *status, gid_t gid)
{
	const char *groups = process_status_find(status, "Groups");

	return groups && process_status_has(groups, gid);
}

/* ---- the rules where a request names the caller ---- */

static bool is_in_group_or_capable(const struct caller *c, const struct stat *shown)
{
	AUTO_FREE char *status = NULL;

	if (c->gid == shown->st_gid || c->extra_group == shown->st_gid)
		return true;
	status = process_status_read(c->proc_fd, c->pid);
	return status && (is_in_groups(status, shown->st_gid) ||
			  (has_capability(status, CAP_FSETID) && is_in_our_user_namespace(c)));
}

static bool is_owner_or_capable(const struct caller *c, const struct stat *shown)
{
	return c->uid == shown->st_uid || caller_has_capability(c, CAP_FOWNER);
}

/* ---- where mounts are idmapped ---- */

enum {
	FILE_SYSTEM_ID = 3
}; /* of the four numbers of Uid and Gid: real, effective, saved, file system */

struct person {
	char *status;
	struct id_map *uids,
		*gids; /* of his user namespace; NULL: cannot be told, and no capability counts */
};

static uint32_t file_system_id(const struct person *p, const char *key)
{
	const char *ids = process_status_find(p->status, key);

	return ids ? process_status_number(ids, FILE_SYSTEM_ID) : ID_NONE;
}

static struct id_map *read_id_map(const struct caller *c, const char *name, bool is_ours)
{
	enum { MAP_BYTES = 16384 }; /* at most 340 lines */
	AUTO_FREE char *text = malloc(MAP_BYTES);
	AUTO_FREE struct id_map *map = calloc(1, sizeof(*map));
	char pid[16];
	ssize_t len;

	if (!text || !map)
		return NULL;
	/* In ours there are all ids that we have numbers for. */
	if (is_ours) {
		id_map_identity(map);
		return take_ptr(&map);
	}
	snprintf(pid, sizeof(pid), "%d", (int)c->pid);
	len = read_map(c, pid, name, text, MAP_BYTES - 1);
	if (len < 0)
		return NULL;
	text[len] = '\0';
	return id_map_parse(text, map) == 0 ? take_ptr(&map) : NULL;
}

/*
 * A capability counts in its holder's user namespace, and for the files whose ids, as the mount shows them, are ids
 * there. So one in a namespace that somebody made for himself is worth his own files.
 */
static bool is_capable(const struct person *p, int capability, uint32_t uid, uint32_t gid)
{
	return p->uids && p->gids && has_capability(p->status, capability) &&
	       id_map_has_lower(p->uids, uid) &&
	       /* inode_owner_or_capable() looks at the owner alone. */
	       (capability == CAP_FOWNER || id_map_has_lower(p->gids, gid));
}

/* in_group_or_capable(): ids are those that the view shows, ID_NONE where it has none. */
static bool keeps_set_group_id(const struct person *p, uint32_t uid, uint32_t gid)
{
	if (gid != ID_NONE && (file_system_id(p, "Gid") == gid || is_in_groups(p->status, gid)))
		return true;
	return is_capable(p, CAP_FSETID, uid, gid);
}

/* inode_owner_or_capable() */
static bool may_change_mode(const struct person *p, uint32_t uid, uint32_t gid)
{
	return (uid != ID_NONE && file_system_id(p, "Uid") == uid) ||
	       is_capable(p, CAP_FOWNER, uid, gid);
}

static enum caller_answer ask_views(const struct caller *c, const struct stat *shown,
				    bool (*says)(const struct person *p, uint32_t uid,
						 uint32_t gid))
{
	bool is_ours = is_in_our_user_namespace(c);
	AUTO_FREE char *status = process_status_read(c->proc_fd, c->pid);
	AUTO_FREE struct id_map *uids = read_id_map(c, "uid_map", is_ours);
	AUTO_FREE struct id_map *gids = read_id_map(c, "gid_map", is_ours);
	AUTO_FREE struct caller_view *views = NULL;
	const struct person person = { status, uids, gids };
	int count = status ? caller_views_find(c->proc_fd, c->device_fd, c->pid, &views) : -ESRCH;
	int yes = 0;

	for (int i = 0; i < count; i++)
		yes += says(&person, id_map_down(&views[i].uids, shown->st_uid),
			    id_map_down(&views[i].gids, shown->st_gid));
	return count <= 0   ? CALLER_UNSURE :
	       yes == 0	    ? CALLER_NO :
	       yes == count ? CALLER_YES :
			      CALLER_UNSURE;
}

/* ---- the rules ---- */

enum caller_answer caller_in_group_or_capable(const struct caller *c, const struct stat *shown)
{
	if (c->is_idmapped)
		return ask_views(c, shown, keeps_set_group_id);
	return is_in_group_or_capable(c, shown) ? CALLER_YES : CALLER_NO;
}

enum caller_answer caller_owner_or_capable(const struct caller *c, const struct stat *shown)
{
	if (c->is_idmapped)
		return ask_views(c, shown, may_change_mode);
	return is_owner_or_capable(c, shown) ? CALLER_YES : CALLER_NO;
}
