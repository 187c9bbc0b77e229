// SPDX-License-Identifier: Apache-2.0
/*
 * What a ring can be used for, by whoever has got hold of its process: commands for /dev/fuse, and nothing else.
 * Needs /dev/fuse and a kernel with io_uring(7), which it may forbid.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/io_uring.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "fs/ring.h"

enum { EXIT_SKIPPED = 77, ENTRY_BYTES = 128, COMPLETIONS = 4 };

static int failed;

static void check(const char *text, bool holds)
{
	printf("%s - %s\n", holds ? "ok" : "not ok", text);
	failed += !holds;
}

static int find_ring(void)
{
	for (int fd = 3; fd < 64; fd++) {
		char link[32], what[64];
		ssize_t n;

		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		n = readlink(link, what, sizeof(what) - 1);
		if (n > 0) {
			what[n] = '\0';
			if (strcmp(what, "anon_inode:[io_uring]") == 0)
				return fd;
		}
	}
	return -1;
}

/* Another way into the same ring: the places of its parts are those of any ring of its size. */
struct intruder {
	int fd;
	struct io_uring_params p;
	unsigned char *rings, *entries;
};

static bool get_in(struct intruder *i)
{
	int model;

	i->fd = find_ring();
	i->p.flags = IORING_SETUP_SQE128 | IORING_SETUP_R_DISABLED | IORING_SETUP_SUBMIT_ALL |
		     IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
	model = (int)syscall(SYS_io_uring_setup, 1, &i->p);
	if (i->fd < 0 || model < 0)
		return false;
	close(model);
	i->rings = mmap(NULL, i->p.cq_off.cqes + COMPLETIONS * sizeof(struct io_uring_cqe),
			PROT_READ | PROT_WRITE, MAP_SHARED, i->fd, IORING_OFF_SQ_RING);
	i->entries =
		mmap(NULL, ENTRY_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, i->fd, IORING_OFF_SQES);
	return i->rings != MAP_FAILED && i->entries != MAP_FAILED;
}

/* What the kernel says to @entry; INT_MIN: nothing. */
static int attempt(const struct intruder *i, const struct io_uring_sqe *entry)
{
	unsigned *tail = (unsigned *)(i->rings + i->p.sq_off.tail);
	unsigned *head = (unsigned *)(i->rings + i->p.cq_off.head);
	const unsigned *end = (const unsigned *)(i->rings + i->p.cq_off.tail);
	const struct io_uring_cqe *cqes =
		(const struct io_uring_cqe *)(i->rings + i->p.cq_off.cqes);
	unsigned mask = *(const unsigned *)(i->rings + i->p.cq_off.ring_mask);
	unsigned at;

	memset(i->entries, 0, ENTRY_BYTES);
	memcpy(i->entries, entry, sizeof(*entry));
	((unsigned *)(i->rings + i->p.sq_off.array))[0] = 0;
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, i->fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0)
		return -errno;
	at = *head;
	if (at == __atomic_load_n(end, __ATOMIC_ACQUIRE))
		return INT_MIN;
	__atomic_store_n(head, at + 1, __ATOMIC_RELEASE);
	return cqes[at & mask].res;
}

static void check_refused(const char *text, const struct intruder *i,
			  const struct io_uring_sqe *entry)
{
	int r = attempt(i, entry);

	if (r != -EACCES)
		printf("#  result %d\n", r);
	check(text, r == -EACCES);
}

int main(void)
{
	AUTO_FD int device_fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	static const char path[] = "/etc/passwd";
	struct intruder i = { 0 };
	struct ring *ring = NULL;
	int r = device_fd < 0 ? -errno : ring_open(device_fd, 0, 1, 1, &ring);
	int answer_fd, other[1] = { 0 };

	if (r < 0) {
		printf("skipped: needs /dev/fuse and io_uring(7): %s\n", strerror(-r));
		return EXIT_SKIPPED;
	}
	answer_fd = ring_answer_fd(ring);
	check("another way into the ring", get_in(&i));
	if (failed)
		return EXIT_FAILURE;
	check_refused("no work at all", &i, &(struct io_uring_sqe){ .opcode = IORING_OP_NOP });
	check_refused("no file is opened", &i,
		      &(struct io_uring_sqe){ .opcode = IORING_OP_OPENAT,
					      .fd = AT_FDCWD,
					      .addr = (uint64_t)(uintptr_t)path });
	check_refused("no file is read", &i,
		      &(struct io_uring_sqe){ .opcode = IORING_OP_READ,
					      .fd = device_fd,
					      .addr = (uint64_t)(uintptr_t)&i });
	check_refused("no command for another descriptor", &i,
		      &(struct io_uring_sqe){ .opcode = IORING_OP_URING_CMD, .fd = device_fd });
	check_refused("nothing that goes on by itself", &i,
		      &(struct io_uring_sqe){ .opcode = IORING_OP_URING_CMD,
					      .flags = IOSQE_FIXED_FILE | IOSQE_ASYNC });
	check("no other file takes the place of the device",
	      syscall(SYS_io_uring_register, i.fd, IORING_REGISTER_FILES_UPDATE,
		      &(struct io_uring_files_update){ .fds = (uint64_t)(uintptr_t)other },
		      1) < 0 &&
		      errno == EACCES);
	r = attempt(&i, &(struct io_uring_sqe){ .opcode = IORING_OP_URING_CMD,
						.flags = IOSQE_FIXED_FILE });
	check("a command for the device is one", r != -EACCES && r < 0);
	ring_close(ring);
	close(answer_fd);
	/* Of a device without a mount nothing can come. */
	check("a second ring", ring_open(device_fd, 0, 1, 1, &ring) == 0);
	answer_fd = ring_answer_fd(ring);
	check("cannot be registered where nothing is mounted", ring_register(ring, 1 << 20) < 0);
	ring_close(ring);
	close(answer_fd);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
