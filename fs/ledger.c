// SPDX-License-Identifier: Apache-2.0
#include "fs/ledger.h"

#include <errno.h>
#include <linux/fuse.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "fs/request.h"
#include "fs/shared.h"

/* What this thread serves. */
static __thread struct shared *joined;
static __thread struct ledger_record *own, *current;
static __thread enum ledger_phase found_phase;
static __thread bool is_repeat;
static __thread uint32_t own_tid;

static void fence(void)
{
	atomic_signal_fence(memory_order_seq_cst);
}

static struct ledger *ledger_of(struct shared *shared)
{
	return &shared->header->ledger;
}

/* Copies a record so that at every moment one of the two is whole: the copy is valid last. */
static void copy(struct ledger_record *to, const struct ledger_record *from)
{
	uint64_t unique = atomic_load(&from->unique);

	atomic_store(&to->unique, 0);
	fence();
	to->opcode = from->opcode;
	atomic_store(&to->phase, atomic_load(&from->phase));
	memcpy((char *)to + offsetof(struct ledger_record, lookup_count),
	       (const char *)from + offsetof(struct ledger_record, lookup_count),
	       sizeof(*to) - offsetof(struct ledger_record, lookup_count));
	fence();
	atomic_store(&to->unique, unique);
}

static struct ledger_record *find_left(struct ledger *l, uint64_t unique)
{
	for (size_t i = 0; i < LEDGER_LEFT_MAX; i++) {
		if (atomic_load(&l->left[i].unique) == unique)
			return &l->left[i];
	}
	return NULL;
}

/* A place for one more: the record's own from before, a free one, or the one left longest ago. */
static struct ledger_record *place_for(struct ledger *l, uint64_t unique)
{
	struct ledger_record *place = find_left(l, unique);

	if (place)
		return place;
	place = &l->left[0];
	for (size_t i = 0; i < LEDGER_LEFT_MAX; i++) {
		if (atomic_load(&l->left[i].unique) == 0)
			return &l->left[i];
		if (l->left[i].server < place->server)
			place = &l->left[i];
	}
	return place;
}

void ledger_attach(struct shared *shared)
{
	struct ledger *l = ledger_of(shared);
	uint32_t servers = shared_servers(shared);

	for (size_t i = 0; i < LEDGER_THREADS_MAX; i++) {
		struct ledger_record *active = &l->active[i];

		atomic_store(&l->busy[i].since_ms, 0);
		if (atomic_load(&active->unique) == 0)
			continue;
		if (active->lookup_count > LEDGER_LOOKUPS_MAX)
			active->lookup_count = 0;
		active->name[LEDGER_NAME_MAX - 1] = '\0';
		active->server = servers;
		copy(place_for(l, atomic_load(&active->unique)), active);
		fence();
		atomic_store(&active->unique, 0);
	}
}

struct ledger_record *ledger_left(struct shared *shared, size_t i)
{
	struct ledger_record *rec = &ledger_of(shared)->left[i];

	return atomic_load(&rec->unique) != 0 ? rec : NULL;
}

void ledger_join(struct shared *shared, unsigned index)
{
	joined = shared;
	own = &ledger_of(shared)->active[index];
	own_tid = (uint32_t)syscall(SYS_gettid);
}

static int64_t monotonic_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static struct ledger_busy *busy(void)
{
	struct ledger *l = ledger_of(joined);

	return &l->busy[own - l->active];
}

void ledger_begin(uint64_t unique, uint32_t opcode, bool is_resent)
{
	struct ledger_record *left = NULL;

	current = NULL;
	is_repeat = false;
	found_phase = LEDGER_BEGUN;
	if (!own || unique == 0)
		return;
	/* No other thread looks for the same request, and only servers that are dead add to these. */
	if (is_resent)
		left = find_left(ledger_of(joined), unique);
	if (left) {
		copy(own, left);
		fence();
		atomic_store(&left->unique, 0);
		is_repeat = true;
		found_phase = atomic_load(&own->phase);
	} else {
		own->opcode = opcode;
		atomic_store_explicit(&own->phase, LEDGER_BEGUN, memory_order_relaxed);
		own->lookup_count = 0;
		own->opened = 0;
		own->closing_id = 0;
		clock_gettime(CLOCK_REALTIME_COARSE, &own->began);
	}
	fence();
	atomic_store_explicit(&own->unique, unique, memory_order_release);
	current = own;
	busy()->tid = own_tid;
	atomic_store_explicit(&busy()->since_ms, monotonic_ms(), memory_order_release);
	ledger_pass(POINT_BEGUN);
}

void ledger_end(void)
{
	if (!current)
		return;
	ledger_pass(POINT_REPLIED);
	atomic_store_explicit(&current->unique, 0, memory_order_release);
	atomic_store_explicit(&busy()->since_ms, 0, memory_order_relaxed);
	atomic_fetch_add_explicit(&ledger_of(joined)->answered, 1, memory_order_relaxed);
	current = NULL;
	is_repeat = false;
	found_phase = LEDGER_BEGUN;
}

struct ledger_record *ledger_current(void)
{
	return current;
}

bool ledger_is_repeat(void)
{
	return is_repeat;
}

enum ledger_phase ledger_phase(void)
{
	return found_phase;
}

void ledger_start(uint64_t object, uint64_t object_ino, uint64_t victim, uint64_t victim_ino)
{
	if (!current)
		return;
	current->object = object;
	current->object_ino = object_ino;
	current->victim = victim;
	current->victim_ino = victim_ino;
	fence();
	atomic_store_explicit(&current->phase, LEDGER_STARTED, memory_order_release);
	ledger_pass(POINT_STARTED);
}

void ledger_start_creation(uint64_t dir, const char *name, mode_t mode, uid_t uid)
{
	if (!current)
		return;
	snprintf(current->name, sizeof(current->name), "%s", name);
	current->mode = mode;
	current->uid = uid;
	ledger_start(dir, 0, 0, 0);
}

void ledger_start_change(uint64_t object, uint64_t object_ino, struct stat *io_shown)
{
	if (!current)
		return;
	if (found_phase == LEDGER_BEGUN) {
		current->uid = io_shown->st_uid;
		current->gid = io_shown->st_gid;
		current->mode = io_shown->st_mode;
	} else {
		io_shown->st_uid = current->uid;
		io_shown->st_gid = current->gid;
		io_shown->st_mode = current->mode;
	}
	ledger_start(object, object_ino, 0, 0);
}

void ledger_done(void)
{
	if (!current)
		return;
	ledger_pass(POINT_CHANGED);
	atomic_store_explicit(&current->phase, LEDGER_DONE, memory_order_release);
	ledger_pass(POINT_DONE);
}

void ledger_made(const struct stat *st)
{
	if (!current)
		return;
	ledger_pass(POINT_CHANGED);
	current->object_ino = st->st_ino;
	current->mode = st->st_mode;
	fence();
	atomic_store_explicit(&current->phase, LEDGER_DONE, memory_order_release);
	ledger_pass(POINT_DONE);
}

void ledger_failed(void)
{
	if (current)
		atomic_store_explicit(&current->phase, LEDGER_BEGUN, memory_order_release);
}

bool ledger_has_room(void)
{
	return !current || current->lookup_count < LEDGER_LOOKUPS_MAX;
}

/* ---- killing, for tests ---- */

static const struct {
	const char *name;
	uint32_t opcode;
} operations[] = {
	{ "lookup", FUSE_LOOKUP },	 { "getattr", FUSE_GETATTR },
	{ "setattr", FUSE_SETATTR },	 { "symlink", FUSE_SYMLINK },
	{ "mknod", FUSE_MKNOD },	 { "mkdir", FUSE_MKDIR },
	{ "unlink", FUSE_UNLINK },	 { "rmdir", FUSE_RMDIR },
	{ "rename", FUSE_RENAME },	 { "rename2", FUSE_RENAME2 },
	{ "link", FUSE_LINK },		 { "open", FUSE_OPEN },
	{ "write", FUSE_WRITE },	 { "release", FUSE_RELEASE },
	{ "setxattr", FUSE_SETXATTR },	 { "removexattr", FUSE_REMOVEXATTR },
	{ "create", FUSE_CREATE },	 { "readdirplus", FUSE_READDIRPLUS },
	{ "fallocate", FUSE_FALLOCATE }, { "tmpfile", OPCODE_TMPFILE },
};

int ledger_parse_kill(const char *text, uint32_t *ret_opcode, uint32_t *ret_point)
{
	static const char *const points[] = { "",     "begun",	  "started", "changing", "changed",
					      "done", "counting", "counted", "replied" };
	const char *dot = strchr(text, '.');

	for (size_t i = 0; dot && i < ARRAY_SIZE(operations); i++) {
		if (strlen(operations[i].name) != (size_t)(dot - text) ||
		    strncmp(operations[i].name, text, (size_t)(dot - text)) != 0)
			continue;
		for (uint32_t k = POINT_BEGUN; k < ARRAY_SIZE(points); k++) {
			if (strcmp(points[k], dot + 1) == 0) {
				*ret_opcode = operations[i].opcode;
				*ret_point = k;
				return 0;
			}
		}
	}
	return -EINVAL;
}

void ledger_pass(enum ledger_point point)
{
	struct shared_header *h;

	if (!current)
		return;
	h = joined->header;
	if (__builtin_expect(h->kill_point == point && h->kill_opcode == current->opcode, 0) &&
	    atomic_exchange(&h->kill_done, 1) == 0)
		raise(SIGKILL);
}
