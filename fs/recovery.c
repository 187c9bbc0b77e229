// SPDX-License-Identifier: Apache-2.0
#include "fs/recovery.h"

#include <linux/fuse.h>
#include <string.h>

#include "fs/backing.h"
#include "fs/base/cleanup.h"
#include "fs/base/log.h"
#include "fs/request.h"
#include "fs/session.h"

static bool is_before(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec != b->tv_sec ? a->tv_sec < b->tv_sec : a->tv_nsec < b->tv_nsec;
}

bool recovery_was_made(const struct ledger_record *rec, int fd, const struct stat *st)
{
	struct timespec born;

	if ((st->st_mode & S_IFMT) != (rec->mode & S_IFMT) || st->st_uid != rec->uid)
		return false;
	if (atomic_load(&rec->phase) == LEDGER_DONE)
		return st->st_ino == rec->object_ino;
	if (is_before(&st->st_ctim, &rec->began))
		return false;
	return tree_btime(fd, &born) < 0 || !is_before(&born, &rec->began);
}

static bool makes_a_name(const struct ledger_record *rec)
{
	return rec->opcode == FUSE_CREATE || rec->opcode == FUSE_MKDIR ||
	       rec->opcode == FUSE_MKNOD || rec->opcode == FUSE_SYMLINK;
}

/*
 * What was made is the user's, settled, also when the request never comes again because the caller was
 * killed: the walker and everybody else must know before they meet it.
 */
static void settle_made(struct overlay *ov, struct ledger_record *rec)
{
	AUTO_FD int dir_fd = -1;
	AUTO_FD int fd = -1;
	struct node_info dir;
	struct stat st;
	int r;

	if (!makes_a_name(rec) || atomic_load(&rec->phase) == LEDGER_BEGUN ||
	    !tree_name_is_valid(rec->name))
		return;
	r = node_open(ov->nodes, rec->object, &dir_fd, &dir);
	if (r == 0)
		r = tree_pin(dir_fd, rec->name, &fd, &st);
	if (r < 0 || !recovery_was_made(rec, fd, &st))
		return;
	if (atomic_load(&rec->phase) != LEDGER_DONE) {
		rec->object_ino = st.st_ino;
		rec->mode = st.st_mode;
		atomic_store(&rec->phase, LEDGER_DONE);
	}
	r = run_settle_created(&ov->run, fd, &st);
	if (r < 0)
		log_line(LOG_WARNING, "recover", "a new file is not noted as settled: %s",
			 strerror(-r));
}

/* A file that was made without a name is known to the kernel only when the request is answered. */
static bool is_being_made(struct overlay *ov, uint64_t node_id)
{
	for (size_t i = 0; i < LEDGER_LEFT_MAX; i++) {
		const struct ledger_record *rec = ledger_left(&ov->shared, i);

		if (rec && rec->opcode == OPCODE_TMPFILE && rec->lookup_count > 0 &&
		    rec->lookups[0] == (uint32_t)node_id)
			return true;
	}
	return false;
}

static bool is_known(void *context, uint64_t node_id)
{
	struct overlay *ov = context;

	return session_knows(ov, node_id) || is_being_made(ov, node_id);
}

static void invalidate(void *context, uint64_t node_id)
{
	overlay_invalidate(context, node_id);
}

void recovery_run(struct overlay *ov)
{
	ledger_attach(&ov->shared);
	for (size_t i = 0; i < LEDGER_LEFT_MAX; i++) {
		struct ledger_record *rec = ledger_left(&ov->shared, i);

		if (rec)
			settle_made(ov, rec);
	}
	backing_recover(ov);
	node_drop_unknown(ov->nodes, is_known, ov);
	halfway_recover(&ov->shared, &ov->tree, &ov->options->rule, invalidate, ov);
}
