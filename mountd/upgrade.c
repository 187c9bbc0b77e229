// SPDX-License-Identifier: Apache-2.0
/*
 * upgrade: servers of the version that is installed now take over from those that serve (fs/keeper_upgrade.c does it,
 * one overlay after the other), and then another daemon takes our place (successor.h). Keepers stay as they are.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "fs/base/log.h"
#include "fs/base/version.h"
#include "mountd/manager_impl.h"
#include "mountd/path_program.h"
#include "mountd/successor.h"

#define SERVER_PROGRAM "fsgroupfs"
#define DAEMON_PROGRAM "fsgroup-mountd"
#define QUIET_MS 20000
#define BACKUP_NAME PATH_STORE ".schema-%d"

/* One request. Volumes that share an overlay share the row's fate. */
struct job {
	struct manager *m;
	int program_fd;
	json_t *rows;
	struct followed {
		pid_t keeper_pid;
		const json_t *row; /* of rows */
	} * followed;
	size_t count;
	bool is_over; /* the program is no good: the rest is not tried */
};

static void job_fini(struct job *job)
{
	cleanup_fd(&job->program_fd);
	json_decref(job->rows);
	free(job->followed);
}

static const json_t *find_followed(const struct job *job, pid_t keeper_pid)
{
	for (size_t i = 0; i < job->count; i++) {
		if (job->followed[i].keeper_pid == keeper_pid)
			return job->followed[i].row;
	}
	return NULL;
}

/* Without memory it is followed twice, which does no harm. */
static void note_followed(struct job *job, pid_t keeper_pid, const json_t *row)
{
	struct followed *followed = reallocarray(job->followed, job->count + 1, sizeof(*followed));

	if (!followed)
		return;
	job->followed = followed;
	followed[job->count++] = (struct followed){ keeper_pid, row };
}

static json_t *row_new(const char *id, const char *from, const char *to, const char *error)
{
	return json_pack("{s:s, s:s?, s:s?, s:s?}", "volume", id, "from", from, "to", to, "error",
			 error);
}

static bool is_the_programs_fault(int error)
{
	return error != -EBUSY && error != -EOPNOTSUPP && error != -EALREADY && error != -EPIPE;
}

/* A keeper from before there were versions says none. */
static const char *known(const char *version)
{
	return version[0] ? version : "unknown";
}

/* Has the server followed; *ret_before, *ret_after: how things were and are. */
static int follow(struct job *job, struct overlay *o, struct overlay_status *ret_before,
		  struct overlay_status *ret_after, char *ret_error)
{
	/* A keeper that does not answer this is not waited for as long as an upgrade may take. */
	int r = overlay_refresh(o, ret_before);

	if (r < 0) {
		overlay_status_get(o, ret_before);
		*ret_after = *ret_before;
		snprintf(ret_error, OVERLAY_ERROR_MAX, "its keeper does not answer: %s",
			 strerror(-r));
		return -EBUSY;
	}
	r = overlay_upgrade(o, job->program_fd, ret_error);
	if (overlay_refresh(o, ret_after) < 0)
		*ret_after = *ret_before;
	return r;
}

static json_t *upgrade_server(struct job *job, const char *id, struct overlay *o)
{
	struct overlay_status before, after;
	char why[OVERLAY_ERROR_MAX] = "";
	int r = follow(job, o, &before, &after, why);

	job->is_over = job->is_over || (r < 0 && is_the_programs_fault(r));
	if (r < 0)
		event(job->m, id, "upgrade-failed", "server %s stays: %s",
		      known(before.server_version), why);
	else
		event(job->m, id, "upgraded", "server %s was followed by %s",
		      known(before.server_version), known(after.server_version));
	return row_new(id, known(before.server_version), known(after.server_version),
		       r < 0 ? why : NULL);
}

/* The key of the volume is held. */
static void upgrade_volume(struct job *job, const char *id)
{
	AUTO(overlay) *o = overlay_find(job->m->overlays, id);
	struct overlay_status status = { 0 };
	const json_t *same;
	json_t *row;

	if (!o || overlay_is_gone(o))
		return; /* nothing of ours serves it */
	overlay_status_get(o, &status);
	same = find_followed(job, status.keeper_pid);
	if (same) {
		row = json_deep_copy(same);
		if (row)
			json_object_set_new(row, "volume", json_string(id));
	} else if (job->is_over) {
		row = row_new(id, known(status.server_version), known(status.server_version),
			      "not tried, after what happened to another");
	} else {
		row = upgrade_server(job, id, o);
	}
	if (!same && row)
		note_followed(job, status.keeper_pid, row);
	json_array_append_new(job->rows, row);
}

static int upgrade_all(struct job *job)
{
	struct volume_record **list = NULL;
	int n = store_volume_list(job->m->store, &list);

	for (int i = 0; i < n; i++) {
		AUTO(volume_record) *vol = NULL;

		if (volume_find_locked(job->m, list[i]->id, &vol) < 0)
			continue; /* gone since */
		upgrade_volume(job, vol->id);
		key_unlock(job->m, vol->id);
	}
	if (n >= 0)
		store_volume_list_free(list, (size_t)n);
	return n < 0 ? n : 0;
}

static enum proto_exit upgrade(struct job *job, const char *volume, struct answer *answer)
{
	AUTO(volume_record) *vol = NULL;
	char why[ANSWER_TEXT_MAX];
	int r;

	if (!volume) {
		r = upgrade_all(job);
		return r < 0 ? answer_fail(answer, EXIT_FAILED, "%s",
					   store_why(r, why, sizeof(why))) :
			       EXIT_OK;
	}
	r = volume_find_locked(job->m, volume, &vol);
	if (r < 0)
		return volume_not_found(answer, r);
	upgrade_volume(job, vol->id);
	key_unlock(job->m, vol->id);
	if (json_array_size(job->rows) == 0)
		snprintf(answer->note, sizeof(answer->note),
			 "there is nothing to do: the volume is %s, and nothing serves it",
			 volume_state_name(vol->state));
	return EXIT_OK;
}

/* ---- the daemon itself ---- */

/* What is on record, for the version that is here now: the next one's schema may be one that it cannot read. */
static int back_up(struct manager *m)
{
	char name[64];
	AUTO_FREE char *path = NULL;

	snprintf(name, sizeof(name), BACKUP_NAME, STORE_SCHEMA_VERSION);
	path = path_join(m->layout->state_path, name);
	if (!path)
		return -ENOMEM;
	if (unlinkat(m->layout->state_fd, name, 0) < 0 && errno != ENOENT)
		return -errno;
	return store_backup(m->store, path);
}

/* 0: the server's loop will see it. */
static int give_place(struct manager *m, struct successor_says *ret_says, char *ret_error)
{
	AUTO_FD int fd = -1;
	int r = program_open(DAEMON_PROGRAM, &fd, ret_error);

	if (r == 0)
		r = successor_check(fd, m->layout->root, ret_says, ret_error);
	if (r < 0)
		return r;
	if (ret_says->schema != STORE_SCHEMA_VERSION && (r = back_up(m)) < 0) {
		snprintf(ret_error, SUCCESSOR_ERROR_MAX, "a copy of the store: %s", strerror(-r));
		return r;
	}
	if (!keys_await_free(m, QUIET_MS)) {
		snprintf(ret_error, SUCCESSOR_ERROR_MAX,
			 "requests are under way that take long; ask again later");
		return -EBUSY;
	}
	event(m, NULL, "daemon-upgraded", "daemon %s makes place for %s", FSGROUPFS_VERSION,
	      ret_says->version);
	pthread_mutex_lock(&m->lock);
	cleanup_fd(&m->successor_fd);
	m->successor_fd = take_fd(&fd);
	pthread_mutex_unlock(&m->lock);
	kill(getpid(), SIGUSR1);
	return 0;
}

static json_t *upgrade_daemon(struct manager *m)
{
	struct successor_says says = { .version = FSGROUPFS_VERSION };
	char why[SUCCESSOR_ERROR_MAX];
	int r = give_place(m, &says, why);

	if (r < 0)
		event(m, NULL, "upgrade-failed", "daemon %s stays: %s", FSGROUPFS_VERSION, why);
	return json_pack("{s:s, s:s, s:s?}", "from", FSGROUPFS_VERSION, "to",
			 r < 0 ? FSGROUPFS_VERSION : says.version, "error", r < 0 ? why : NULL);
}

enum proto_exit manager_upgrade(struct manager *m, const char *volume, struct answer *answer)
{
	struct job job = { .m = m, .program_fd = -1, .rows = json_array() };
	char why[PROGRAM_ERROR_MAX];
	int r = program_open(SERVER_PROGRAM, &job.program_fd, why);
	enum proto_exit exit =
		r < 0 ? answer_fail(answer, EXIT_FAILED, "%s", why) : upgrade(&job, volume, answer);

	/* After a program that is no good the next may be no better: they were installed together. */
	if (exit == EXIT_OK)
		answer->result = json_pack("{s:O, s:o}", "servers", job.rows, "daemon",
					   volume || job.is_over ? json_null() : upgrade_daemon(m));
	job_fini(&job);
	manager_changed(m);
	return exit;
}
