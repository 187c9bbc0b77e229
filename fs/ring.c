// SPDX-License-Identifier: Apache-2.0
#include "fs/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "fs/base/io.h"
#include "fs/base/parse.h"

/* Newer than some distributions' linux/fuse.h; values and layouts of the kernel's uapi. */
enum { COMMAND_REGISTER = 1, COMMAND_COMMIT_AND_FETCH = 2 };
enum { HEADER_BYTES = 128, IN_HEADER_BYTES = 40, PAYLOAD_MIN = 8192 };

struct out_header { /* fuse_out_header */
	uint32_t len;
	int32_t error;
	uint64_t unique;
};

struct header { /* fuse_uring_req_header */
	unsigned char in_out[HEADER_BYTES];
	unsigned char operation[HEADER_BYTES];
	struct {
		uint64_t flags, commit_id;
		uint32_t payload_bytes, padding;
		uint64_t reserved;
	} entry;
};

struct command { /* fuse_uring_cmd_req */
	uint64_t flags, commit_id;
	uint16_t queue;
	uint8_t padding[6];
};

/*
 * A buffer, in the file that answers are written to:
 *
 *   page 0    struct header
 *   page 1    at its end the head of a request, as the device would have put it before what follows; and of its answer
 *   page 2..  what follows the head of a request, and of its answer
 */
enum { PAGE = 4096, PAYLOAD_AT = 2 * PAGE };

struct buffer {
	unsigned char *memory;
	off_t offset; /* of memory in the file */
	struct iovec parts[2];
	uint64_t commit_id; /* of the request that is being served; 0: before the first */
	uint16_t queue;
};

/* What is shared with the kernel; an io_uring has more, which is not needed here. */
struct ring {
	int fd, answer_fd;
	void *rings, *entries;
	size_t rings_bytes, entries_bytes;
	unsigned *sq_tail, *sq_array, sq_mask;
	unsigned *cq_head, *cq_tail, cq_mask;
	const struct io_uring_cqe *completions;
	unsigned to_submit;
	struct buffer *buffers;
	unsigned buffer_count;
	unsigned char *memory;
	size_t memory_bytes, payload_bytes;
	struct buffer *served; /* its request is with the caller */
};

/* With IORING_SETUP_SQE128 an entry has room for a command in its second half. */
struct wide_entry {
	struct io_uring_sqe entry;
	unsigned char more[64];
};
_Static_assert(sizeof(struct wide_entry) == 128, "as the kernel has them");
_Static_assert(sizeof(struct header) == 288, "as the kernel has them");
_Static_assert(sizeof(struct command) <= 80, "the room of a command");

/* One thread, which waits for what it has asked for: the kernel may leave all work to that. */
enum {
	SETUP_FLAGS = IORING_SETUP_SQE128 | IORING_SETUP_R_DISABLED | IORING_SETUP_SUBMIT_ALL |
		      IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN
};

/* ---- what the kernel has ---- */

int ring_check(char ret_reason[RING_REASON_MAX])
{
	static const char parameter[] = "/sys/module/fuse/parameters/enable_uring";
	struct io_uring_params params = { .flags = SETUP_FLAGS };
	AUTO_FD int fd = -1;
	char text[16] = "";
	int r = io_read_line(AT_FDCWD, parameter, text, sizeof(text));

	if (r < 0) {
		snprintf(ret_reason, RING_REASON_MAX,
			 "transport=io_uring: this kernel has no FUSE over io_uring (%s: %s)",
			 parameter, strerror(-r));
		return -EOPNOTSUPP;
	}
	if (text[0] != 'Y') {
		snprintf(ret_reason, RING_REASON_MAX,
			 "transport=io_uring: FUSE over io_uring is off: %s is not Y", parameter);
		return -EOPNOTSUPP;
	}
	fd = (int)syscall(SYS_io_uring_setup, 1, &params);
	if (fd < 0) {
		snprintf(ret_reason, RING_REASON_MAX,
			 "transport=io_uring: io_uring_setup: %s (see kernel.io_uring_disabled)",
			 strerror(errno));
		return -EOPNOTSUPP;
	}
	return 0;
}

/* "0-3" or "0,2-5", as the kernel lists processors. */
static int count_listed(char *list, unsigned *ret_count)
{
	char *rest = list, *range;
	unsigned count = 0;

	while ((range = strsep(&rest, ","))) {
		char *last = strchr(range, '-');
		uint32_t from = 0, to = 0;
		int r;

		if (last)
			*last++ = '\0';
		r = parse_u32(range, &from);
		if (r == 0)
			r = parse_u32(last ? last : range, &to);
		if (r < 0 || to < from || to > UINT16_MAX)
			return -EINVAL;
		count += to - from + 1;
	}
	*ret_count = count;
	return 0;
}

int ring_queues(unsigned *ret_count)
{
	char list[256];
	int r = io_read_line(AT_FDCWD, "/sys/devices/system/cpu/possible", list, sizeof(list));

	return r < 0 ? r : count_listed(list, ret_count);
}

unsigned ring_threads(unsigned queues, unsigned most)
{
	if (2 * queues <= most)
		return 2 * queues;
	return queues < most ? queues : most;
}

bool ring_serves(unsigned thread, unsigned threads, unsigned queue, unsigned queues)
{
	return threads < queues ? queue % threads == thread : thread % queues == queue;
}

/* ---- the io_uring ---- */

static int enter(const struct ring *ring, unsigned submit, unsigned wait)
{
	int n = (int)syscall(SYS_io_uring_enter, ring->fd, submit, wait,
			     wait > 0 ? IORING_ENTER_GETEVENTS : 0, NULL, 0);

	return n < 0 ? -errno : n;
}

static int map(struct ring *ring, const struct io_uring_params *p)
{
	size_t sq_bytes = p->sq_off.array + p->sq_entries * sizeof(unsigned);
	size_t cq_bytes = p->cq_off.cqes + p->cq_entries * sizeof(struct io_uring_cqe);
	unsigned char *rings;

	ring->rings_bytes = sq_bytes > cq_bytes ? sq_bytes : cq_bytes;
	ring->rings = mmap(NULL, ring->rings_bytes, PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_POPULATE, ring->fd, IORING_OFF_SQ_RING);
	if (ring->rings == MAP_FAILED)
		return -errno;
	ring->entries_bytes = p->sq_entries * sizeof(struct wide_entry);
	ring->entries = mmap(NULL, ring->entries_bytes, PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_POPULATE, ring->fd, IORING_OFF_SQES);
	if (ring->entries == MAP_FAILED)
		return -errno;
	rings = ring->rings;
	ring->sq_tail = (unsigned *)(rings + p->sq_off.tail);
	ring->sq_array = (unsigned *)(rings + p->sq_off.array);
	ring->sq_mask = *(const unsigned *)(rings + p->sq_off.ring_mask);
	ring->cq_head = (unsigned *)(rings + p->cq_off.head);
	ring->cq_tail = (unsigned *)(rings + p->cq_off.tail);
	ring->cq_mask = *(const unsigned *)(rings + p->cq_off.ring_mask);
	ring->completions = (const struct io_uring_cqe *)(rings + p->cq_off.cqes);
	return 0;
}

/*
 * A filter of system calls does not see what is asked for through a ring. So this one takes commands for the device and nothing
 * else, for whoever has got hold of the process, too.
 */
static int restrict_to_commands(const struct ring *ring, int device_fd)
{
	struct io_uring_restriction only[] = {
		{ .opcode = IORING_RESTRICTION_SQE_OP, .sqe_op = IORING_OP_URING_CMD },
		{ .opcode = IORING_RESTRICTION_SQE_FLAGS_ALLOWED, .sqe_flags = IOSQE_FIXED_FILE },
		{ .opcode = IORING_RESTRICTION_SQE_FLAGS_REQUIRED, .sqe_flags = IOSQE_FIXED_FILE },
	};

	if (syscall(SYS_io_uring_register, ring->fd, IORING_REGISTER_FILES, &device_fd, 1) < 0 ||
	    syscall(SYS_io_uring_register, ring->fd, IORING_REGISTER_RESTRICTIONS, only,
		    ARRAY_SIZE(only)) < 0 ||
	    syscall(SYS_io_uring_register, ring->fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0) < 0)
		return -errno;
	return 0;
}

/* One command a buffer at a time. */
static int open_parts(struct ring *ring, int device_fd)
{
	struct io_uring_params p = {
		.flags = SETUP_FLAGS,
	};
	int r;

	ring->fd = (int)syscall(SYS_io_uring_setup, ring->buffer_count, &p);
	if (ring->fd < 0)
		return -errno;
	r = map(ring, &p);
	if (r == 0)
		r = restrict_to_commands(ring, device_fd);
	if (r < 0)
		return r;
	ring->answer_fd = memfd_create("fsgroupfs-ring", MFD_CLOEXEC);
	return ring->answer_fd < 0 ? -errno : 0;
}

int ring_open(int device_fd, unsigned thread, unsigned threads, unsigned queues,
	      struct ring **ret_ring)
{
	struct ring *ring = calloc(1, sizeof(*ring));
	int r;

	if (!ring)
		return -ENOMEM;
	ring->fd = ring->answer_fd = -1;
	ring->rings = ring->entries = MAP_FAILED;
	ring->memory = MAP_FAILED;
	ring->buffers = calloc(queues, sizeof(*ring->buffers));
	for (unsigned queue = 0; ring->buffers && queue < queues; queue++) {
		if (ring_serves(thread, threads, queue, queues))
			ring->buffers[ring->buffer_count++].queue = (uint16_t)queue;
	}
	r = ring->buffers ? open_parts(ring, device_fd) : -ENOMEM;
	if (r < 0) {
		cleanup_fd(&ring->answer_fd);
		ring_close(ring);
		return r;
	}
	*ret_ring = ring;
	return 0;
}

void ring_close(struct ring *ring)
{
	if (!ring)
		return;
	cleanup_fd(&ring->fd);
	if (ring->rings != MAP_FAILED)
		munmap(ring->rings, ring->rings_bytes);
	if (ring->entries != MAP_FAILED)
		munmap(ring->entries, ring->entries_bytes);
	if (ring->memory != MAP_FAILED)
		munmap(ring->memory, ring->memory_bytes);
	free(ring->buffers);
	free(ring);
}

int ring_answer_fd(const struct ring *ring)
{
	return ring->answer_fd;
}

/* ---- buffers ---- */

/* Only this thread submits, so there is room: never more than one command a buffer. */
static void prepare(struct ring *ring, struct buffer *buffer)
{
	unsigned tail = *ring->sq_tail, at = tail & ring->sq_mask;
	struct wide_entry *wide = (struct wide_entry *)ring->entries + at;
	bool is_first = buffer->commit_id == 0;
	const struct command command = { .commit_id = buffer->commit_id, .queue = buffer->queue };

	memset(wide, 0, sizeof(*wide));
	wide->entry.opcode = IORING_OP_URING_CMD;
	wide->entry.flags = IOSQE_FIXED_FILE; /* fd 0 of those registered */
	wide->entry.cmd_op = is_first ? COMMAND_REGISTER : COMMAND_COMMIT_AND_FETCH;
	wide->entry.user_data = (uint64_t)(buffer - ring->buffers);
	if (is_first) {
		wide->entry.addr = (uint64_t)(uintptr_t)buffer->parts;
		wide->entry.len = ARRAY_SIZE(buffer->parts);
	}
	memcpy((unsigned char *)wide + offsetof(struct io_uring_sqe, addr3), &command,
	       sizeof(command));
	ring->sq_array[at] = at;
	__atomic_store_n(ring->sq_tail, tail + 1, __ATOMIC_RELEASE);
	ring->to_submit++;
}

static int submit(struct ring *ring, unsigned wait)
{
	int n = enter(ring, ring->to_submit, wait);

	if (n < 0)
		return n;
	ring->to_submit -= (unsigned)n;
	return 0;
}

static int make_buffers(struct ring *ring, size_t payload_bytes)
{
	size_t each;

	ring->payload_bytes = payload_bytes < PAYLOAD_MIN ? PAYLOAD_MIN : payload_bytes;
	each = PAYLOAD_AT + (ring->payload_bytes + PAGE - 1) / PAGE * PAGE;
	ring->memory_bytes = ring->buffer_count * each;
	if (ftruncate(ring->answer_fd, (off_t)ring->memory_bytes) < 0)
		return -errno;
	ring->memory = mmap(NULL, ring->memory_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
			    ring->answer_fd, 0);
	if (ring->memory == MAP_FAILED)
		return -errno;
	for (unsigned i = 0; i < ring->buffer_count; i++) {
		struct buffer *b = &ring->buffers[i];

		b->offset = (off_t)(i * each);
		b->memory = ring->memory + b->offset;
		b->parts[0] = (struct iovec){ b->memory, sizeof(struct header) };
		b->parts[1] = (struct iovec){ b->memory + PAYLOAD_AT, each - PAYLOAD_AT };
	}
	return 0;
}

/* Those that were refused have an answer already; the others have none before a request comes. */
static int registered(const struct ring *ring)
{
	unsigned tail = __atomic_load_n(ring->cq_tail, __ATOMIC_ACQUIRE);

	for (unsigned at = *ring->cq_head; at != tail; at++) {
		int r = ring->completions[at & ring->cq_mask].res;

		if (r < 0)
			return r;
	}
	return 0;
}

int ring_register(struct ring *ring, size_t payload_bytes)
{
	int r = make_buffers(ring, payload_bytes);

	if (r < 0)
		return r;
	for (unsigned i = 0; i < ring->buffer_count; i++)
		prepare(ring, &ring->buffers[i]);
	while (ring->to_submit > 0) {
		r = submit(ring, 0);
		if (r < 0 && r != -EINTR)
			return r;
	}
	return registered(ring);
}

/* ---- requests ---- */

/* Puts the head before what follows it. The length, or -EPROTO. */
static ssize_t assemble(const struct ring *ring, struct buffer *b, void **ret_bytes)
{
	const struct header *header = (const struct header *)b->memory;
	size_t follows = header->entry.payload_bytes, head;
	unsigned char *bytes;
	uint32_t len;

	memcpy(&len, header->in_out, sizeof(len));
	if (follows > ring->payload_bytes || len < IN_HEADER_BYTES + follows)
		return -EPROTO;
	head = len - follows;
	if (head > IN_HEADER_BYTES + HEADER_BYTES || header->entry.commit_id == 0)
		return -EPROTO;
	b->commit_id = header->entry.commit_id;
	bytes = b->memory + PAYLOAD_AT - head;
	memcpy(bytes, header->in_out, IN_HEADER_BYTES);
	memcpy(bytes + IN_HEADER_BYTES, header->operation, head - IN_HEADER_BYTES);
	*ret_bytes = bytes;
	return len;
}

/* Where the head of an answer goes, so that what follows it is where the kernel looks. */
static off_t answer_at(const struct buffer *b)
{
	return b->offset + PAYLOAD_AT - (off_t)sizeof(struct out_header);
}

/* Between the writing of an answer and its place. What was not answered, by an error of ours, is answered EIO. */
static void take_answer(struct ring *ring, struct buffer *b)
{
	struct header *header = (struct header *)b->memory;
	off_t len = lseek(ring->answer_fd, 0, SEEK_CUR) - answer_at(b);
	struct out_header out;

	memcpy(&out, b->memory + PAYLOAD_AT - sizeof(out), sizeof(out));
	if (len < (off_t)sizeof(out) || (off_t)out.len != len || out.unique != b->commit_id)
		out = (struct out_header){ sizeof(out), -EIO, b->commit_id };
	memcpy(header->in_out, &out, sizeof(out));
	header->entry.payload_bytes = out.len - (uint32_t)sizeof(out);
}

static void prepare_answer(struct ring *ring)
{
	struct buffer *b = ring->served;

	if (!b)
		return;
	ring->served = NULL;
	take_answer(ring, b);
	prepare(ring, b);
}

static bool take_completion(struct ring *ring, struct io_uring_cqe *ret_completion)
{
	unsigned head = *ring->cq_head;

	if (head == __atomic_load_n(ring->cq_tail, __ATOMIC_ACQUIRE))
		return false;
	*ret_completion = ring->completions[head & ring->cq_mask];
	__atomic_store_n(ring->cq_head, head + 1, __ATOMIC_RELEASE);
	return true;
}

ssize_t ring_next(struct ring *ring, void **ret_bytes)
{
	struct io_uring_cqe completion;
	struct buffer *b;
	ssize_t n;
	int r = 0;

	prepare_answer(ring);
	if (*ring->cq_head != __atomic_load_n(ring->cq_tail, __ATOMIC_ACQUIRE))
		r = ring->to_submit > 0 ? submit(ring, 0) : 0;
	else
		r = submit(ring, 1);
	if (r < 0)
		return r;
	if (!take_completion(ring, &completion))
		return -EAGAIN;
	if (completion.user_data >= ring->buffer_count)
		return -EPROTO;
	b = &ring->buffers[completion.user_data];
	if (completion.res == -EAGAIN || completion.res == -EINTR) {
		prepare(ring, b);
		return completion.res;
	}
	if (completion.res == -ENOTCONN || completion.res == -ECONNABORTED)
		return -ENODEV;
	if (completion.res < 0)
		return completion.res;
	n = assemble(ring, b, ret_bytes);
	if (n >= 0 && lseek(ring->answer_fd, answer_at(b), SEEK_SET) < 0)
		return -errno;
	if (n >= 0)
		ring->served = b;
	return n;
}
