// SPDX-License-Identifier: Apache-2.0

/* Operations on open files: opening them, data, space, locks, mappings. */

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "tests/differential/op.h"

enum { BLOCK = 4096, DATA_MAX = 16 * BLOCK };

static const mode_t create_modes[] = { 0644,  0600,  0666,  0777,  0755,  0000,
				       02755, 02644, 04755, 06777, 02775, 0440 };

static void generate_open(struct generator *g, struct step *s)
{
	static const struct {
		int flag;
		uint32_t percent;
	} flags[] = {
		{ O_CREAT, 30 },   { O_EXCL, 8 },      { O_TRUNC, 12 },	 { O_APPEND, 15 },
		{ O_DIRECT, 6 },   { O_SYNC, 2 },      { O_DSYNC, 2 },	 { O_PATH, 5 },
		{ O_NOFOLLOW, 8 }, { O_DIRECTORY, 7 }, { O_NOATIME, 5 },
	};

	s->flags = random_pick(&g->random, ((int[]){ O_RDONLY, O_WRONLY, O_RDWR, O_RDWR, 3 }));
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
		s->flags |= random_percent(&g->random, flags[i].percent) ? flags[i].flag : 0;
	s->mode = random_pick(&g->random, create_modes);
	s->slot = (uint8_t)random_below(&g->random, SLOTS);
	if (s->flags & O_CREAT && random_percent(&g->random, 50))
		pick_new(g, s->path);
	else if (random_percent(&g->random, 60))
		pick_type(g, S_IFREG, s->path);
	else
		pick_existing(g, s->path);
}

/* FIFOs would block us; for all else O_NONBLOCK means nothing. */
enum { ALWAYS = O_NONBLOCK | O_CLOEXEC | O_NOCTTY };

static int64_t keep_open(struct hands *h, const struct step *s, struct result *r, int fd)
{
	struct stat st;

	if (fd >= 0 && fstat(fd, &st) == 0) {
		result_add(r, "flags %#x ", (unsigned)fcntl(fd, F_GETFL));
		result_add_stat(r, &st);
	}
	return slot_set(h, s->slot, fd);
}

static int64_t run_open(struct hands *h, const struct step *s, struct result *r)
{
	return keep_open(h, s, r, open(s->path, s->flags | ALWAYS, s->mode));
}

static void generate_openat2(struct generator *g, struct step *s)
{
	generate_open(g, s);
	s->flags &= ~(O_NOATIME | O_DIRECT);
	s->flags2 = random_pick(&g->random,
				((int[]){ RESOLVE_NO_SYMLINKS, RESOLVE_BENEATH, RESOLVE_IN_ROOT,
					  RESOLVE_NO_XDEV, RESOLVE_NO_MAGICLINKS }));
}

static int64_t run_openat2(struct hands *h, const struct step *s, struct result *r)
{
	struct open_how how = { .flags = (uint64_t)(s->flags | ALWAYS),
				.mode = s->flags & O_CREAT ? s->mode : 0,
				.resolve = (uint64_t)s->flags2 };
	int fd = -1;

	/* EAGAIN: something was renamed or mounted somewhere meanwhile (openat2(2)). */
	for (int tries = 0; tries < 100 && fd < 0; tries++) {
		fd = (int)syscall(SYS_openat2, AT_FDCWD, s->path, &how, sizeof(how));
		if (fd < 0 && errno != EAGAIN)
			break;
	}
	return keep_open(h, s, r, fd);
}

static void generate_tmpfile(struct generator *g, struct step *s)
{
	pick_type(g, S_IFDIR, s->path);
	s->flags =
		O_TMPFILE | random_pick(&g->random, ((int[]){ O_RDWR, O_WRONLY, O_RDWR | O_EXCL }));
	s->mode = random_pick(&g->random, create_modes);
	s->slot = (uint8_t)random_below(&g->random, SLOTS);
}

static void generate_link_slot(struct generator *g, struct step *s)
{
	pick_slot(g, s, &s->slot);
	pick_new(g, s->path);
	s->flags = random_percent(&g->random, 50) ? AT_EMPTY_PATH : AT_SYMLINK_FOLLOW;
}

static int64_t run_link_slot(struct hands *h, const struct step *s, struct result *r)
{
	char path[64];

	(void)r;
	if (s->flags == AT_EMPTY_PATH)
		return linkat(slot_fd(h, s->slot), "", AT_FDCWD, s->path, AT_EMPTY_PATH);
	if (slot_fd(h, s->slot) < 0) {
		errno = EBADF;
		return -1;
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", slot_fd(h, s->slot));
	return linkat(AT_FDCWD, path, AT_FDCWD, s->path, AT_SYMLINK_FOLLOW);
}

static void generate_slot(struct generator *g, struct step *s)
{
	pick_slot(g, s, &s->slot);
}

static int64_t run_close(struct hands *h, const struct step *s, struct result *r)
{
	int fd = slot_fd(h, s->slot);

	(void)r;
	h->slots[s->slot % SLOTS] = -1;
	return close(fd);
}

static void generate_data(struct generator *g, struct step *s)
{
	pick_slot(g, s, &s->slot);
	s->flags2 = g->is_cached;
	s->a = (int64_t)random_below(&g->random, 1 << 30);
	if (random_percent(&g->random, 30)) {
		s->offset = BLOCK * (int64_t)random_below(&g->random, 10);
		s->length = BLOCK * (int64_t)(1 + random_below(&g->random, 3));
	} else {
		s->offset =
			random_below(&g->random, random_percent(&g->random, 80) ? 4000 : 300000);
		s->length =
			1 + random_below(&g->random, random_percent(&g->random, 80) ? 200 : 9000);
	}
}

/* Of page alignment, for O_DIRECT. */
static unsigned char *data_buffer(void)
{
	static unsigned char data[DATA_MAX] __attribute__((aligned(BLOCK)));

	return data;
}

static unsigned char *random_data(const struct step *s)
{
	struct random random = { .state = (uint64_t)s->a };
	unsigned char *data = data_buffer();

	for (int64_t i = 0; i < s->length; i++)
		data[i] = (unsigned char)random_next(&random);
	return data;
}

/*
 * The buffer for what is read, in memory of its own by now: on btrfs, direct I/O into a page that has none, or shares it
 * with a child, goes through the page cache, and changes the access time, which it does not else.
 */
static unsigned char *fresh_data(const struct step *s)
{
	return memset(data_buffer(), 0, (size_t)s->length);
}

static int64_t report_data(struct result *r, ssize_t n)
{
	if (n > 0)
		result_add_bytes(r, data_buffer(), (size_t)n);
	return n;
}

static bool is_direct(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && flags & O_DIRECT;
}

/* Direct I/O that must be aligned, where the overlay's need not be: compare.h. */
static bool is_unaligned(int fd, const struct step *s, off_t offset, bool writes)
{
	struct stat st;

	if (!s->flags2 || !is_direct(fd) || fstat(fd, &st) < 0)
		return false;
	/* Where it appends; xfs looks at the position before it knows that it does. */
	if (writes && fcntl(fd, F_GETFL) & O_APPEND)
		offset |= st.st_size;
	return (offset | s->length) % BLOCK != 0;
}

static int64_t run_read(struct hands *h, const struct step *s, struct result *r)
{
	int fd = slot_fd(h, s->slot);
	struct stat st;

	/* Which error reading a directory gives depends on its position, a cookie. */
	if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode) && lseek(fd, 0, SEEK_SET) < 0)
		return -1;
	if (is_unaligned(fd, s, lseek(fd, 0, SEEK_CUR), false))
		return 0;
	r->is_direct = is_direct(fd);
	return report_data(r, read(fd, fresh_data(s), (size_t)s->length));
}

static int64_t run_pread(struct hands *h, const struct step *s, struct result *r)
{
	int fd = slot_fd(h, s->slot);

	if (is_unaligned(fd, s, s->offset, false))
		return 0;
	r->is_direct = is_direct(fd);
	return report_data(r, pread(fd, fresh_data(s), (size_t)s->length, s->offset));
}

/*
 * Set-ID bits and capabilities together: whether a write takes the first a FUSE server cannot know; and
 * either of them and direct I/O (compare.h).
 */
static bool has_both_privileges(int fd)
{
	struct stat st;
	bool has_set_id;

	if (fstat(fd, &st) < 0)
		return false;
	has_set_id = st.st_mode & (S_ISUID | S_ISGID);
	return is_direct(fd) ? has_set_id || has_capability(fd) : has_set_id && has_capability(fd);
}

static int64_t run_write(struct hands *h, const struct step *s, struct result *r)
{
	int fd = slot_fd(h, s->slot);
	int64_t n;

	if (has_both_privileges(fd) || is_unaligned(fd, s, lseek(fd, 0, SEEK_CUR), true))
		return 0;
	n = write(fd, random_data(s), (size_t)s->length);
	if (n >= 0)
		result_add(r, "at %lld ", (long long)lseek(fd, 0, SEEK_CUR));
	return n;
}

static int64_t run_pwrite(struct hands *h, const struct step *s, struct result *r)
{
	(void)r;
	if (has_both_privileges(slot_fd(h, s->slot)) ||
	    is_unaligned(slot_fd(h, s->slot), s, s->offset, true))
		return 0;
	return pwrite(slot_fd(h, s->slot), random_data(s), (size_t)s->length, s->offset);
}

static void generate_lseek(struct generator *g, struct step *s)
{
	pick_slot(g, s, &s->slot);
	s->flags = random_pick(&g->random, ((int[]){ SEEK_SET, SEEK_CUR, SEEK_END, SEEK_DATA,
						     SEEK_HOLE, SEEK_DATA, SEEK_HOLE, 9 }));
	s->offset = (int64_t)random_below(&g->random, 70000) -
		    (random_percent(&g->random, 10) ? 500 : 0);
}

static int64_t run_lseek(struct hands *h, const struct step *s, struct result *r)
{
	int fd = slot_fd(h, s->slot);
	struct stat st;

	(void)r;
	/* A directory's positions are cookies: they mean nothing outside of getdents. */
	if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode) && s->offset != 0)
		return 0;
	/* Where the data of a file that is not written yet begins depends on when it is written. */
	if (s->flags == SEEK_DATA || s->flags == SEEK_HOLE)
		fsync(fd);
	return lseek(fd, s->offset, s->flags);
}

static void generate_ftruncate(struct generator *g, struct step *s)
{
	pick_slot(g, s, &s->slot);
	s->length = random_below(&g->random, random_percent(&g->random, 80) ? 9000 : 300000);
}

static int64_t run_ftruncate(struct hands *h, const struct step *s, struct result *r)
{
	int fd = slot_fd(h, s->slot), flags = file_flags(fd);

	(void)r;
	/* In passthrough the server has no descriptor from before; capabilities go before it is refused: compare.h. */
	if (flags & FS_IMMUTABLE_FL || (flags & FS_APPEND_FL && has_capability(fd)))
		return 0;
	return ftruncate(fd, s->length);
}

static void generate_truncate(struct generator *g, struct step *s)
{
	if (random_percent(&g->random, 70))
		pick_type(g, S_IFREG, s->path);
	else
		pick_existing(g, s->path);
	s->length = (int64_t)random_below(&g->random, 9000) -
		    (random_percent(&g->random, 3) ? 9000 : 0);
}

static int64_t run_truncate(struct hands *h, const struct step *s, struct result *r)
{
	(void)h, (void)r;
	return truncate(s->path, s->length);
}

static void generate_fallocate(struct generator *g, struct step *s)
{
	generate_data(g, s);
	s->flags = random_pick(
		&g->random,
		((int[]){ 0, FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			  FALLOC_FL_ZERO_RANGE, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE }));
	if (!g->has_zero_range)
		s->flags &= ~FALLOC_FL_ZERO_RANGE;
}

/* What an operation that changes a file takes from it before the lower file system may refuse it. */
static bool has_privileges(int fd, off_t *ret_size)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return false;
	*ret_size = st.st_size;
	return S_ISREG(st.st_mode) && (st.st_mode & (S_ISUID | S_ISGID) || has_capability(fd));
}

static bool has_no_data(int fd, off_t from, off_t end)
{
	off_t at = lseek(fd, 0, SEEK_CUR), data = lseek(fd, from, SEEK_DATA);

	lseek(fd, at, SEEK_SET);
	return data < 0 || data >= end;
}

/* Whether a hole is to be where none can be made: behind the end, or in a hole (btrfs). */
static bool is_hole(int fd, const struct step *s, off_t size)
{
	return s->offset >= size || has_no_data(fd, s->offset, s->offset + s->length);
}

static int64_t run_fallocate(struct hands *h, const struct step *s, struct result *r)
{
	int fd = slot_fd(h, s->slot);
	off_t size = 0;

	(void)r;
	if (has_both_privileges(fd))
		return 0;
	if (has_privileges(fd, &size)) {
		if (s->flags & FALLOC_FL_PUNCH_HOLE && is_hole(fd, s, size))
			return 0;
		if (file_flags(fd) & (FS_APPEND_FL | FS_IMMUTABLE_FL))
			return 0;
	}
	return fallocate(slot_fd(h, s->slot), s->flags, s->offset, s->length);
}

static void generate_copy_range(struct generator *g, struct step *s)
{
	generate_data(g, s);
	pick_slot(g, s, &s->slot2);
	s->b = random_below(&g->random, 9000);
}

/* The kernel asks for no more than there is: generic_copy_file_checks(). */
static struct step clipped(const struct step *s, int in_fd)
{
	struct step asked = *s;
	struct stat st;

	if (fstat(in_fd, &st) == 0 && s->offset < st.st_size && s->length > st.st_size - s->offset)
		asked.length = st.st_size - s->offset;
	return asked;
}

static int64_t run_copy_range(struct hands *h, const struct step *s, struct result *r)
{
	const struct step asked = clipped(s, slot_fd(h, s->slot));
	off_t in = s->offset, out = s->b, size = 0;
	int64_t n;

	if (file_flags(slot_fd(h, s->slot2)) & (FS_APPEND_FL | FS_IMMUTABLE_FL))
		return 0;
	if (has_both_privileges(slot_fd(h, s->slot2)) ||
	    is_unaligned(slot_fd(h, s->slot), &asked, s->offset, false) ||
	    is_unaligned(slot_fd(h, s->slot2), &asked, s->b, true))
		return 0;
	if (is_direct(slot_fd(h, s->slot)) && has_privileges(slot_fd(h, s->slot2), &size))
		return 0;
	n = copy_file_range(slot_fd(h, s->slot), &in, slot_fd(h, s->slot2), &out, (size_t)s->length,
			    0);

	if (n >= 0)
		result_add(r, "in %lld out %lld ", (long long)in, (long long)out);
	return n;
}

static void generate_fsync(struct generator *g, struct step *s)
{
	pick_slot(g, s, &s->slot);
	s->flags = (int)random_below(&g->random, 3);
}

static int64_t run_fsync(struct hands *h, const struct step *s, struct result *r)
{
	int fd = slot_fd(h, s->slot);

	(void)r;
	return s->flags == 0 ? fsync(fd) : s->flags == 1 ? fdatasync(fd) : syncfs(fd);
}

/* ---- mappings ---- */

static sigjmp_buf bus_error;

static void on_bus_error(int number)
{
	siglongjmp(bus_error, number);
}

/* What a file is not mapped with: compare.h. */
enum { MMAP_NO_PRIVILEGES = 1, MMAP_NO_HOLE = 2 };

static void generate_mmap(struct generator *g, struct step *s)
{
	pick_slot(g, s, &s->slot);
	s->flags = random_pick(&g->random, ((int[]){ MAP_SHARED, MAP_SHARED, MAP_PRIVATE }));
	s->mode = (uint32_t)random_pick(&g->random,
					((int[]){ PROT_READ, PROT_READ | PROT_WRITE,
						  PROT_READ | PROT_WRITE, PROT_READ | PROT_EXEC }));
	s->offset = random_below(&g->random, 9000);
	s->a = random_below(&g->random, 256);
	s->flags2 = g->is_cached ? MMAP_NO_PRIVILEGES : 0;
	/* tmpfs */
	if (g->is_cached && !g->has_mapped_times) {
		s->flags2 |= MMAP_NO_HOLE;
		if (s->mode & PROT_WRITE)
			s->flags = MAP_PRIVATE;
	}
}

static int64_t run_mmap(struct hands *h, const struct step *s, struct result *r)
{
	const size_t len = 3 * BLOCK;
	volatile unsigned char *at;
	struct sigaction old, action = { .sa_handler = on_bus_error };
	unsigned char *memory;
	off_t size = 0, page = s->offset % (int64_t)len / BLOCK * BLOCK;
	struct stat st;

	if (file_flags(slot_fd(h, s->slot)) & FS_APPEND_FL)
		return 0;
	if (s->flags2 & MMAP_NO_PRIVILEGES && has_privileges(slot_fd(h, s->slot), &size))
		return 0;
	if (s->flags2 & MMAP_NO_HOLE && fstat(slot_fd(h, s->slot), &st) == 0 &&
	    S_ISREG(st.st_mode) && page < st.st_size &&
	    has_no_data(slot_fd(h, s->slot), page, page + BLOCK))
		return 0;
	memory = mmap(NULL, len, (int)s->mode, s->flags, slot_fd(h, s->slot), 0);
	if (memory == MAP_FAILED)
		return -1;
	at = memory + s->offset % (int64_t)len;
	sigaction(SIGBUS, &action, &old);
	if (sigsetjmp(bus_error, 1) == 0) {
		result_add(r, "reads %02x ", *at);
		if (s->mode & PROT_WRITE) {
			*at = (unsigned char)s->a;
			result_add(r, "then %02x ", *at);
		}
	} else {
		result_add(r, "SIGBUS ");
	}
	sigaction(SIGBUS, &old, NULL);
	if (s->flags == MAP_SHARED)
		result_add(r, "msync %d ", msync(memory, len, MS_SYNC));
	munmap(memory, len);
	return 0;
}

/* ---- locks ---- */

static void generate_lock(struct generator *g, struct step *s)
{
	pick_slot(g, s, &s->slot);
	s->flags = random_pick(&g->random,
			       ((int[]){ F_SETLK, F_SETLK, F_GETLK, F_OFD_SETLK, F_OFD_GETLK }));
	s->flags2 = random_pick(&g->random, ((int[]){ F_RDLCK, F_WRLCK, F_UNLCK }));
	s->offset = random_below(&g->random, 100);
	s->length = random_below(&g->random, 60);
}

static int64_t run_lock(struct hands *h, const struct step *s, struct result *r)
{
	struct flock lock = { .l_type = (short)s->flags2,
			      .l_whence = SEEK_SET,
			      .l_start = s->offset,
			      .l_len = s->length };
	int n = fcntl(slot_fd(h, s->slot), s->flags, &lock);

	if (n == 0 && (s->flags == F_GETLK || s->flags == F_OFD_GETLK))
		result_add(r, "type %d start %lld len %lld pid %d ", lock.l_type,
			   (long long)lock.l_start, (long long)lock.l_len, (int)lock.l_pid);
	return n;
}

static void generate_flock(struct generator *g, struct step *s)
{
	pick_slot(g, s, &s->slot);
	s->flags = random_pick(&g->random, ((int[]){ LOCK_SH, LOCK_EX, LOCK_UN }));
}

static int64_t run_flock(struct hands *h, const struct step *s, struct result *r)
{
	(void)r;
	return flock(slot_fd(h, s->slot), s->flags | LOCK_NB);
}

const struct op op_file_rows[] = {
	{ "open", "pFms", 120, generate_open, run_open },
	{ "openat2", "pFmGs", 15, generate_openat2, run_openat2 },
	{ "tmpfile", "pFms", 12, generate_tmpfile, run_open },
	{ "link-open-file", "spf", 14, generate_link_slot, run_link_slot },
	{ "close", "s", 30, generate_slot, run_close },
	{ "read", "sl", 25, generate_data, run_read },
	{ "pread", "slo", 20, generate_data, run_pread },
	{ "write", "sla", 40, generate_data, run_write },
	{ "pwrite", "sloa", 25, generate_data, run_pwrite },
	{ "lseek", "sfo", 14, generate_lseek, run_lseek },
	{ "ftruncate", "sl", 16, generate_ftruncate, run_ftruncate },
	{ "truncate", "pl", 22, generate_truncate, run_truncate },
	{ "fallocate", "sfol", 14, generate_fallocate, run_fallocate },
	{ "copy_file_range", "stolb", 12, generate_copy_range, run_copy_range },
	{ "fsync", "sf", 6, generate_fsync, run_fsync },
	{ "mmap", "sfGmoa", 20, generate_mmap, run_mmap },
	{ "lock", "sfGol", 12, generate_lock, run_lock },
	{ "flock", "sf", 6, generate_flock, run_flock },
};
const unsigned op_file_count = ARRAY_SIZE(op_file_rows);
