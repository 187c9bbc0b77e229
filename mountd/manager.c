// SPDX-License-Identifier: Apache-2.0
#include "mountd/manager.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "fs/base/clock.h"
#include "fs/base/log.h"
#include "mountd/flow.h"
#include "mountd/manager_impl.h"

struct busy_key {
	struct busy_key *next;
	char *key;
};

/* ---- making ---- */

static int open_state_dir(int state_fd, const char *name, int *ret_fd)
{
	int fd;

	if (mkdirat(state_fd, name, 0700) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(state_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	return 0;
}

static int open_dirs(struct manager *m)
{
	int r = open_state_dir(m->layout->state_fd, PATH_VOLUMES, &m->volumes_fd);

	if (r == 0)
		r = open_state_dir(m->layout->state_fd, PATH_RUNS, &m->runs_fd);
	if (r == 0)
		r = open_state_dir(m->layout->run_fd, PATH_KEEPERS, &m->keepers_fd);
	m->volumes_path = path_join(m->layout->state_path, PATH_VOLUMES);
	return r < 0 ? r : m->volumes_path ? 0 : -ENOMEM;
}

static int open_store(struct manager *m, char *ret_error)
{
	AUTO_FREE char *path = path_join(m->layout->state_path, PATH_STORE);
	AUTO_FREE char *set_aside = NULL;
	int r;

	if (!path)
		return -ENOMEM;
	r = store_open(path, &m->store, &set_aside);
	if (r < 0) {
		const char *detail = store_error_text();
		bool has_detail = detail && *detail;

		snprintf(ret_error, ANSWER_TEXT_MAX, "the store %.400s: %s%s%.300s%s", path,
			 r == -ENOTSUP ? "made by a newer version" : strerror(-r),
			 has_detail ? " (" : "", has_detail ? detail : "", has_detail ? ")" : "");
		return r;
	}
	if (set_aside)
		event(m, NULL, "store-set-aside", "the store was damaged; it was renamed to %s",
		      set_aside);
	return 0;
}

int manager_new(const struct layout *layout, struct manager **ret_manager, char *ret_error)
{
	AUTO(manager) *m = calloc(1, sizeof(*m));
	AUTO_FREE char *keepers_path = path_join(layout->run_path, PATH_KEEPERS);
	struct overlay_follower follower = follower_template;
	int r;

	ret_error[0] = '\0';
	if (!m || !keepers_path)
		return -ENOMEM;
	m->layout = layout;
	m->volumes_fd = m->runs_fd = m->keepers_fd = m->successor_fd = -1;
	m->started_ms = clock_now_ms();
	m->cpu_latency_us = -1;
	pthread_mutex_init(&m->lock, NULL);
	clock_cond_init(&m->changed);
	m->generation = 1;
	m->meters = meters_new();
	if (!m->meters)
		return -ENOMEM;
	r = boot_id_get(layout->root, m->boot_id, ret_error, ANSWER_TEXT_MAX);
	if (r < 0)
		return r;
	r = open_dirs(m);
	if (r < 0) {
		snprintf(ret_error, ANSWER_TEXT_MAX, "%s: %s", layout->state_path, strerror(-r));
		return r;
	}
	r = open_store(m, ret_error);
	if (r == 0)
		r = volume_files_new(m->volumes_fd, m->store, &m->files);
	if (r < 0)
		return r;
	follower.arg = m;
	r = overlays_new(m->keepers_fd, keepers_path, &follower, &m->overlays);
	if (r == 0)
		r = usages_new(m, &m->usages);
	if (r < 0)
		return r;
	*ret_manager = take_ptr(&m);
	return 0;
}

void manager_set_cpu_latency(struct manager *m, int64_t us)
{
	m->cpu_latency_us = us;
}

void manager_free(struct manager *m)
{
	if (!m)
		return;
	usages_free(m->usages);
	overlays_free(m->overlays);
	meters_free(m->meters);
	volume_files_free(m->files);
	store_close(m->store);
	mended_free(m);
	while (m->lives)
		live_remove(m, m->lives->id);
	cleanup_fd(&m->volumes_fd);
	cleanup_fd(&m->runs_fd);
	cleanup_fd(&m->keepers_fd);
	cleanup_fd(&m->successor_fd);
	free(m->volumes_path);
	pthread_cond_destroy(&m->changed);
	pthread_mutex_destroy(&m->lock);
	free(m);
}

void manager_reap(struct manager *m)
{
	overlays_reap(m->overlays);
}

bool manager_is_idle(struct manager *m)
{
	struct volume_record **list = NULL;
	int n = store_volume_list(m->store, &list);

	if (n >= 0)
		store_volume_list_free(list, (size_t)n);
	return n == 0;
}

bool manager_has_target(struct manager *m, const char *target)
{
	AUTO(volume_record) *vol = NULL;

	return store_volume_by_target(m->store, target, &vol) == 0;
}

/* ---- waiting ---- */

bool manager_answers(struct manager *m, uint64_t timeout_ms)
{
	const struct timespec until = clock_until(timeout_ms);

	if (pthread_mutex_clocklock(&m->lock, CLOCK_MONOTONIC, &until) != 0)
		return false;
	pthread_mutex_unlock(&m->lock);
	return true;
}

void manager_changed(struct manager *m)
{
	pthread_mutex_lock(&m->lock);
	m->generation++;
	pthread_cond_broadcast(&m->changed);
	pthread_mutex_unlock(&m->lock);
}

void manager_stop(struct manager *m)
{
	pthread_mutex_lock(&m->lock);
	m->stopping = true;
	m->generation++;
	pthread_cond_broadcast(&m->changed);
	pthread_mutex_unlock(&m->lock);
}

bool manager_is_stopping(struct manager *m)
{
	bool stopping;

	pthread_mutex_lock(&m->lock);
	stopping = m->stopping;
	pthread_mutex_unlock(&m->lock);
	return stopping;
}

uint64_t manager_started_ms(const struct manager *m)
{
	return m->started_ms;
}

bool manager_has_successor(struct manager *m)
{
	bool has_one;

	pthread_mutex_lock(&m->lock);
	has_one = m->successor_fd >= 0;
	pthread_mutex_unlock(&m->lock);
	return has_one;
}

int manager_take_successor(struct manager *m)
{
	int fd;

	pthread_mutex_lock(&m->lock);
	fd = take_fd(&m->successor_fd);
	pthread_mutex_unlock(&m->lock);
	return fd;
}

bool keys_await_free(struct manager *m, uint64_t timeout_ms)
{
	const struct timespec until = clock_until(timeout_ms);
	int r = 0;

	pthread_mutex_lock(&m->lock);
	while (m->busy && r != ETIMEDOUT)
		r = pthread_cond_timedwait(&m->changed, &m->lock, &until);
	r = m->busy ? ETIMEDOUT : 0;
	pthread_mutex_unlock(&m->lock);
	return r == 0;
}

bool manager_await_change(struct manager *m, uint64_t *io_generation, uint64_t timeout_ms)
{
	const struct timespec until = clock_until(timeout_ms);
	bool changed;
	int r = 0;

	pthread_mutex_lock(&m->lock);
	while (m->generation == *io_generation && !m->stopping && r != ETIMEDOUT)
		r = pthread_cond_timedwait(&m->changed, &m->lock, &until);
	changed = m->generation != *io_generation;
	*io_generation = m->generation;
	pthread_mutex_unlock(&m->lock);
	return changed;
}

/* ---- keys ---- */

static bool key_is_busy(const struct manager *m, const char *key)
{
	for (const struct busy_key *k = m->busy; k; k = k->next) {
		if (strcmp(k->key, key) == 0)
			return true;
	}
	return false;
}

static int lock_key(struct manager *m, const char *key, bool wait)
{
	struct busy_key *k = calloc(1, sizeof(*k));

	if (k)
		k->key = strdup(key);
	if (!k || !k->key) {
		free(k);
		return -ENOMEM;
	}
	pthread_mutex_lock(&m->lock);
	while (wait && key_is_busy(m, key))
		pthread_cond_wait(&m->changed, &m->lock);
	if (key_is_busy(m, key)) {
		pthread_mutex_unlock(&m->lock);
		free(k->key);
		free(k);
		return -EAGAIN;
	}
	k->next = m->busy;
	m->busy = k;
	pthread_mutex_unlock(&m->lock);
	return 0;
}

int key_lock(struct manager *m, const char *key)
{
	return lock_key(m, key, true);
}

int key_try_lock(struct manager *m, const char *key)
{
	return lock_key(m, key, false);
}

void key_unlock(struct manager *m, const char *key)
{
	struct busy_key *found = NULL;

	pthread_mutex_lock(&m->lock);
	for (struct busy_key **p = &m->busy; *p; p = &(*p)->next) {
		if (strcmp((*p)->key, key) == 0) {
			found = *p;
			*p = found->next;
			break;
		}
	}
	m->generation++;
	m->look_due |= m->look_is_blocked;
	m->look_is_blocked = false;
	pthread_cond_broadcast(&m->changed);
	pthread_mutex_unlock(&m->lock);
	if (found) {
		free(found->key);
		free(found);
	}
}

/* ---- finding ---- */

/* As given, or, when that is unknown and its parent can be resolved, resolved. */
static int find_by_target(struct manager *m, const char *path, struct volume_record **ret_vol)
{
	AUTO(target) *target = NULL;
	AUTO_FREE char *absolute = NULL;
	char why[TARGET_ERROR_MAX];
	int r = path_absolute(path, &absolute);

	if (r < 0)
		return r;
	r = store_volume_by_target(m->store, absolute, ret_vol);
	if (r != -ENOENT)
		return r;
	if (target_open(absolute, &target, why) < 0)
		return -ENOENT;
	return store_volume_by_target(m->store, target->resolved, ret_vol);
}

int volume_find(struct manager *m, const char *volume, struct volume_record **ret_vol)
{
	if (strchr(volume, '/'))
		return find_by_target(m, volume, ret_vol);
	return store_volume_by_id(m->store, volume, ret_vol);
}

int volume_find_locked(struct manager *m, const char *volume, struct volume_record **ret_vol)
{
	for (;;) {
		AUTO(volume_record) *seen = NULL, *vol = NULL;
		int r = volume_find(m, volume, &seen);

		if (r < 0)
			return r;
		r = key_lock(m, seen->id);
		if (r < 0)
			return r;
		/* It may have gone, or come back as another, while we waited. */
		r = volume_find(m, volume, &vol);
		if (r == 0 && strcmp(vol->id, seen->id) == 0) {
			*ret_vol = take_ptr(&vol);
			return 0;
		}
		key_unlock(m, seen->id);
		if (r < 0)
			return r;
	}
}

gid_t volume_plugin_gid(const struct volume_record *vol)
{
	return strcmp(vol->ownership, "converge") == 0 ? vol->fs_group : GID_UNSET;
}

const char *store_why(int error, char *ret_text, size_t size)
{
	const char *detail = store_error_text();

	if (error == -ENOSPC)
		snprintf(ret_text, size, "the store cannot be written: no space left on its disk");
	else if (error == -EROFS)
		snprintf(ret_text, size, "the store cannot be written: Read-only file system");
	else
		snprintf(ret_text, size, "the store: %s%s%.200s", strerror(-error),
			 detail && *detail ? ": " : "", detail ? detail : "");
	return ret_text;
}

void event(struct manager *m, const char *volume_id, const char *kind, const char *format, ...)
{
	char message[ANSWER_TEXT_MAX];
	va_list args;
	int r;

	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	for (char *p = message; *p; p++) {
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = '?';
	}
	meters_event(m->meters, kind);
	r = store_event_add(m->store, volume_id, kind, message);
	if (r < 0)
		log_line(LOG_WARNING, "event",
			 "ignoring that an event is not on record (%s): %s %s", strerror(-r), kind,
			 message);
	manager_changed(m);
}

/* ---- a plugin's view of a volume ---- */

static int open_volume_dir(struct manager *m, const char *id, bool make, int *ret_fd)
{
	int fd;

	if (make && mkdirat(m->volumes_fd, id, 0700) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(m->volumes_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && (errno != ENOENT || make))
		return -errno;
	*ret_fd = fd;
	return 0;
}

int work_open(struct manager *m, const struct volume_record *vol, const struct front_rules *front,
	      bool make_dir, struct volume_work **ret_work, char *ret_error)
{
	AUTO(volume_work) *work = calloc(1, sizeof(*work));
	int r;

	ret_error[0] = '\0';
	if (!work)
		return -ENOMEM;
	work->dir_fd = -1;
	work->plugin = plugin_find(vol->plugin);
	if (!work->plugin) {
		snprintf(ret_error, PLUGIN_ERROR_MAX, "plugin %s is not built yet", vol->plugin);
		return -ENOSYS;
	}
	r = spec_restore(vol->plugin, vol->source, &work->spec);
	if (r < 0) {
		snprintf(ret_error, PLUGIN_ERROR_MAX, "the recorded source cannot be read: %s",
			 strerror(-r));
		return r;
	}
	work->metadata = vol->plugin_metadata ? json_loads(vol->plugin_metadata, 0, NULL) : NULL;
	if (!json_is_object(work->metadata)) {
		json_decref(work->metadata);
		work->metadata = json_object();
	}
	work->dir_path = path_join(m->volumes_path, vol->id);
	if (!work->metadata || !work->dir_path)
		return -ENOMEM;
	r = open_volume_dir(m, vol->id, make_dir, &work->dir_fd);
	if (r < 0) {
		snprintf(ret_error, PLUGIN_ERROR_MAX, "%s: %s", work->dir_path, strerror(-r));
		return r;
	}
	work->building = (struct building){
		.b = {
			.id = vol->id,
			.host = &host_table,
			.source = work->spec->source,
			.dir_fd = work->dir_fd,
			.dir_path = work->dir_path,
			.read_only = vol->read_only,
			.keep_private = vol->keep_private,
			.mount_options = work->spec->mount_options,
			.metadata = work->metadata,
		},
		.root = m->layout->root,
		.front = front,
		.boot_id = m->boot_id,
		.plugin = work->plugin,
		.manager = m,
		.name = "",
	};
	r = flow_metadata_restore(&work->building.b);
	if (r < 0) {
		snprintf(ret_error, PLUGIN_ERROR_MAX, "%s", work->building.b.error);
		return r;
	}
	work->plugin = trace_plugin(&work->trace, &work->building.b, work->plugin, host_trace);
	*ret_work = take_ptr(&work);
	return 0;
}

void volume_work_free(struct volume_work *work)
{
	if (!work)
		return;
	spec_free(work->spec);
	json_decref(work->metadata);
	cleanup_fd(&work->dir_fd);
	free(work->dir_path);
	free(work);
}

/* ---- live volumes ---- */

static struct live **live_find(struct manager *m, const char *id)
{
	struct live **p = &m->lives;

	while (*p && strcmp((*p)->id, id) != 0)
		p = &(*p)->next;
	return p;
}

static void live_free(struct live *live)
{
	if (!live)
		return;
	free(live->id);
	free(live->tree);
	free(live->wanted);
	free(live);
}

int live_add(struct manager *m, const char *id, const char *tree, const char *wanted)
{
	struct live *live = calloc(1, sizeof(*live));

	if (live) {
		live->id = strdup(id);
		live->tree = strdup(tree);
		live->wanted = strdup(wanted);
	}
	if (!live || !live->id || !live->tree || !live->wanted) {
		live_free(live);
		return -ENOMEM;
	}
	live_remove(m, id);
	pthread_mutex_lock(&m->lock);
	live->next = m->lives;
	m->lives = live;
	pthread_mutex_unlock(&m->lock);
	return 0;
}

void live_remove(struct manager *m, const char *id)
{
	struct live **p, *live;

	pthread_mutex_lock(&m->lock);
	p = live_find(m, id);
	live = *p;
	if (live)
		*p = live->next;
	pthread_mutex_unlock(&m->lock);
	live_free(live);
}

bool live_touch(struct manager *m, const char *id, void (*fn)(struct live *live, void *arg),
		void *arg)
{
	struct live *live;

	pthread_mutex_lock(&m->lock);
	live = *live_find(m, id);
	if (live)
		fn(live, arg);
	pthread_mutex_unlock(&m->lock);
	return live != NULL;
}

static void set_dev(struct live *live, void *arg)
{
	live->dev = *(dev_t *)arg;
}

void live_set_dev(struct manager *m, const char *id, dev_t dev)
{
	live_touch(m, id, set_dev, &dev);
}

static void get_dev(struct live *live, void *arg)
{
	*(dev_t *)arg = live->dev;
}

dev_t live_dev(struct manager *m, const char *id)
{
	dev_t dev = 0;

	live_touch(m, id, get_dev, &dev);
	return dev;
}
