/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_CPU_LATENCY_H
#define FS_CPU_LATENCY_H

/*
 * cpu_latency: keeps idle processors from sleeping deeply while requests come one after the other, where the option
 * cpu_latency= asks for it.
 *
 * A request wakes a thread of ours, and its answer wakes who asked, each mostly on a processor that has gone to sleep
 * meanwhile. To get that out of a deep sleep, or back from the host of a virtual machine, takes longer than most requests
 * take. The kernel lets root say how long it may take at most, as long as a descriptor of CPU_LATENCY_PATH is open
 * (its documentation: power/pm_qos_interface.rst). That is said of the whole machine, whose power it costs, and what
 * a sibling thread or other guests could do meanwhile: so it is said only while requests come close, and the server's end,
 * whatever it is, takes it back.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define CPU_LATENCY_PATH "/dev/cpu_dma_latency"

enum {
	/* Requests no farther apart come close. */
	CPU_LATENCY_CLOSE_NS = 500000,
	/* After so many more that do, the limit holds; each that does not counts against it like CPU_LATENCY_FAR that do ... */
	CPU_LATENCY_REQUESTS = 32,
	CPU_LATENCY_FAR = 4,
	/* ... until none has come for so long. */
	CPU_LATENCY_REST_NS = 10000000,
};

struct cpu_latency {
	int fd;	      /* of the kernel's limit; -1: it is left alone */
	int timer_fd; /* readable when the limit may not be needed any more; -1: with @fd */
	int32_t limit_us;
	_Atomic uint64_t last_ns; /* of CLOCK_MONOTONIC, when the last request came */
	atomic_int close;	  /* so many more than others, 0 at the least */
	atomic_bool holds;
};

/* cpu_latency_init: the limit is left alone. */
void cpu_latency_init(struct cpu_latency *c);

/*
 * cpu_latency_open: from now on requests that come close limit the time in which a processor wakes to @limit_us microseconds.
 * Opens @path, which is CPU_LATENCY_PATH but in tests. Returns 0 or -errno: then the limit is left alone.
 */
int cpu_latency_open(struct cpu_latency *c, const char *path, uint32_t limit_us);
void cpu_latency_close(struct cpu_latency *c);

/* cpu_latency_note: a request came that somebody waits for. Any thread. */
void cpu_latency_note(struct cpu_latency *c, uint64_t now_ns);

/* cpu_latency_rest: when timer_fd is readable: the limit ends, unless requests still come. One thread. */
void cpu_latency_rest(struct cpu_latency *c, uint64_t now_ns);

#endif
