// SPDX-License-Identifier: Apache-2.0
/*
 * stray: what lies below our directories and is not on record: records that can be made again from
 * volume.json; all else is reported and left alone, but for empty control groups of keepers.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "fs/base/log.h"
#include "fs/base/parse.h"
#include "mountd/finding.h"
#include "mountd/mount.h"
#include "store/dump.h"

static bool is_on_record(struct manager *m, const char *id)
{
	AUTO(volume_record) *vol = NULL;

	/* What cannot be told counts as on record: it is not reported as a stranger. */
	return store_volume_by_id(m->store, id, &vol) != -ENOENT;
}

static void rebuild(struct findings *f, const char *id, const char *text, const char *what)
{
	AUTO_FREE char *restored = NULL;
	char why[ANSWER_TEXT_MAX];
	int r = f->dry_run ? 0 : store_volume_restore(f->m->store, text, &restored);

	if (r < 0)
		found(f, id, ACTION_REBUILD, store_why(r, why, sizeof(why)), "%s", what);
	else
		found(f, id, ACTION_REBUILD, NULL, "%s", what);
}

/* A flipped bit in the database that no check of its own finds. */
static void compare(struct findings *f, const char *id, const char *text)
{
	if (store_volume_compare(f->m->store, id, text) != -EUCLEAN)
		return;
	if (!f->dry_run && store_volume_delete(f->m->store, id) < 0)
		return;
	rebuild(f, id, text, "its record is damaged: it is not what was written last");
}

/* The name of a directory proves nothing. */
static int read_record(struct manager *m, const char *name, char **ret_text)
{
	AUTO_FREE char *text = NULL;
	AUTO_FREE char *id = NULL;
	int r = volume_file_read(m->files, name, &text);

	if (r == 0 && (store_text_id(m->store, text, &id) < 0 || strcmp(id, name) != 0))
		r = -EUCLEAN;
	if (r == 0)
		*ret_text = take_ptr(&text);
	return r;
}

static void look_for_lost(void *arg, const char *name)
{
	struct findings *f = arg;
	AUTO_FREE char *text = NULL;
	bool known;
	int r;

	if (!volume_id_is_valid(name))
		return;
	/* Nobody else works on it: a set-up writes its record first, and its directory after it. */
	if (key_try_lock(f->m, name) < 0)
		return;
	known = is_on_record(f->m, name);
	r = known && !f->starting ? -ENOENT : read_record(f->m, name, &text);
	if (r == 0 && known)
		compare(f, name, text);
	else if (r == 0)
		rebuild(f, name, text, "it is not on record, but its volume.json is there");
	key_unlock(f->m, name);
}

void find_lost(struct findings *f)
{
	int r = volume_files_each(f->m->files, look_for_lost, f);

	if (r < 0)
		found(f, NULL, ACTION_REPORT, strerror(-r),
		      "the volumes' directory cannot be read");
}

/* ---- strangers ---- */

/* In a dry run also what would be on record by now. */
static bool is_known(struct findings *f, const char *id)
{
	AUTO_FREE char *text = NULL;

	return is_on_record(f->m, id) ||
	       (f->dry_run && volume_id_is_valid(id) && read_record(f->m, id, &text) == 0);
}

static void look_for_strays(void *arg, const char *name)
{
	struct findings *f = arg;
	char quoted[256];

	if (!is_known(f, name))
		found(f, NULL, ACTION_REPORT, NULL, "a directory of no volume on record: %s/%s",
		      f->m->volumes_path, log_quote(name, quoted, sizeof(quoted)));
}

static void find_mounts(struct findings *f)
{
	struct mount_entry *list = NULL;
	size_t skip = strlen(f->m->volumes_path) + 1;
	int n = mount_list_below(f->m->volumes_path, &list);

	for (int i = 0; i < n; i++) {
		char id[VOLUME_ID_MAX + 2], quoted[256], type[64];

		snprintf(id, sizeof(id), "%.*s", (int)strcspn(list[i].point + skip, "/"),
			 list[i].point + skip);
		if (!is_known(f, id))
			found(f, NULL, ACTION_REPORT, NULL,
			      "%s is mounted at %s, where no volume on record is",
			      log_quote(list[i].type, type, sizeof(type)),
			      log_quote(list[i].point, quoted, sizeof(quoted)));
	}
	if (n >= 0)
		mount_list_free(list, (size_t)n);
}

static void look_at_socket(struct findings *f, const char *name)
{
	static const char suffix[] = ".sock";
	size_t len = strlen(name), skip = sizeof(suffix) - 1;
	AUTO(overlay) *o = NULL;
	char id[VOLUME_ID_MAX + 1];
	struct overlay_status status;

	if (len <= skip || len - skip > VOLUME_ID_MAX || strcmp(name + len - skip, suffix) != 0)
		return;
	snprintf(id, sizeof(id), "%.*s", (int)(len - skip), name);
	if (!volume_id_is_valid(id) || is_known(f, id) || overlay_adopt(f->m->overlays, id, &o) < 0)
		return;
	overlay_status_get(o, &status);
	found(f, NULL, ACTION_REPORT, NULL,
	      "a keeper (pid %d) serves an overlay of %s, which is not on record",
	      (int)status.keeper_pid, id);
}

static void find_keepers(struct findings *f)
{
	AUTO_FD int fd = openat(f->m->keepers_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	if (!dir)
		return;
	take_fd(&fd);
	while ((entry = readdir(dir)) != NULL)
		look_at_socket(f, entry->d_name);
	closedir(dir);
}

void find_strays(struct findings *f)
{
	(void)volume_files_each(f->m->files, look_for_strays, f);
	find_mounts(f);
	find_keepers(f);
	if (!f->dry_run)
		overlays_sweep(f->m->overlays);
}
