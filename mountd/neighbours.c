// SPDX-License-Identifier: Apache-2.0
#include "mountd/neighbours.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "mountd/mount.h"

/* The newcomer. */
struct seeker {
	struct manager *m;
	const char *id, *tree, *wanted;
	char *place; /* of its tree within the file system; NULL: it cannot be told */
	dev_t dev;
};

static void seeker_fini(struct seeker *s)
{
	free(s->place);
}

/* One live volume, as copied from the list. */
struct candidate {
	char id[VOLUME_ID_MAX + 1];
	bool is_equal; /* wants the same ownership */
};

static size_t fs_len(const char *tree)
{
	return strcspn(tree, ":");
}

static bool is_on_same_fs(const char *a, const char *b)
{
	return fs_len(a) == fs_len(b) && strncmp(a, b, fs_len(a)) == 0;
}

static bool writes_ownership(const struct live *live)
{
	return strncmp(live->wanted, "virtual;", strlen("virtual;")) != 0;
}

/* Those on the same tree are judged at once; *ret_list gets those elsewhere on the file system that write. */
static int look_through(const struct seeker *s, bool writes, struct neighbours *n,
			struct candidate **ret_list, size_t *ret_count)
{
	struct manager *m = s->m;
	struct candidate *list;
	size_t total = 0, count = 0;

	pthread_mutex_lock(&m->lock);
	for (const struct live *live = m->lives; live; live = live->next)
		total++;
	list = calloc(total + 1, sizeof(*list));
	for (const struct live *live = m->lives; list && live; live = live->next) {
		bool equal = strcmp(live->wanted, s->wanted) == 0;

		if (strcmp(live->id, s->id) == 0 || !is_on_same_fs(live->tree, s->tree))
			continue;
		if (strcmp(live->tree, s->tree) != 0) {
			if (writes && writes_ownership(live)) {
				snprintf(list[count].id, sizeof(list[count].id), "%s", live->id);
				list[count++].is_equal = equal;
			}
		} else if (equal) {
			snprintf(n->equal, sizeof(n->equal), "%s", live->id);
		} else if (writes && writes_ownership(live)) {
			snprintf(n->other, sizeof(n->other), "%s", live->id);
			n->where = "the same tree";
		}
	}
	pthread_mutex_unlock(&m->lock);
	if (!list)
		return -ENOMEM;
	*ret_list = list;
	*ret_count = count;
	return 0;
}

/* "/a" encloses "/a/b", and "/" encloses all. */
static bool encloses(const char *outer, const char *inner)
{
	size_t len = strlen(outer);

	if (strcmp(outer, "/") == 0)
		return true;
	return strncmp(outer, inner, len) == 0 && inner[len] == '/';
}

/* Where the candidate's tree lies to the newcomer's; NULL: apart, or it cannot be told. */
static const char *position(const struct seeker *s, const char *id)
{
	AUTO(volume_record) *vol = NULL;
	AUTO(volume_work) *work = NULL;
	AUTO_FREE char *place = NULL;
	AUTO_FD int lower = -1;
	char why[PLUGIN_ERROR_MAX];
	struct stat st;

	if (store_volume_by_id(s->m->store, id, &vol) < 0 ||
	    work_open(s->m, vol, NULL, false, &work, why) < 0 || work->dir_fd < 0 ||
	    work->plugin->open_lower(&work->building.b, &lower) < 0)
		return NULL;
	/* Subvolumes of one file system are apart: no walk goes from one into the other. */
	if (fstatat(lower, "", &st, AT_EMPTY_PATH) < 0 || st.st_dev != s->dev ||
	    mount_place(lower, &place) < 0)
		return NULL;
	if (encloses(place, s->place))
		return "an enclosing tree";
	return encloses(s->place, place) ? "an enclosed tree" : NULL;
}

/* Whether its run may still change files: two walks over one tree would undo each other's exceptions. */
static bool is_walking(struct manager *m, const char *id)
{
	AUTO(overlay) *o = overlay_find(m->overlays, id);
	struct overlay_status status;

	if (!o || overlay_is_gone(o))
		return false;
	overlay_status_get(o, &status);
	return status.state != VOLUME_NATIVE &&
	       !(status.state == VOLUME_CONVERGED && status.counters.failed == 0);
}

int neighbours_find(struct manager *m, const char *id, int lower_fd, const char *tree,
		    const char *wanted, bool writes, struct neighbours *ret_neighbours)
{
	__attribute__((cleanup(seeker_fini))) struct seeker s = {
		.m = m, .id = id, .tree = tree, .wanted = wanted
	};
	AUTO_FREE struct candidate *list = NULL;
	struct neighbours n = { .where = NULL };
	struct stat st;
	size_t count = 0;
	int r = look_through(&s, writes, &n, &list, &count);

	if (r < 0)
		return r;
	if (count > 0 && !n.other[0] && fstatat(lower_fd, "", &st, AT_EMPTY_PATH) == 0) {
		s.dev = st.st_dev;
		r = mount_place(lower_fd, &s.place);
		if (r == -ENOMEM)
			return r;
	}
	for (size_t i = 0; s.place && !n.other[0] && i < count; i++) {
		const char *where = position(&s, list[i].id);

		if (!where || (list[i].is_equal && !is_walking(m, list[i].id)))
			continue;
		snprintf(n.other, sizeof(n.other), "%s", list[i].id);
		n.where = where;
	}
	*ret_neighbours = n;
	return 0;
}
