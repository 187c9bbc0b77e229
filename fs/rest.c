// SPDX-License-Identifier: Apache-2.0
#include "fs/rest.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "fs/base/clock.h"
#include "fs/base/log.h"
#include "fs/overlay.h"
#include "fs/request.h"

/* Longer than anybody has a name in use who only looks; shorter than anybody waits for a second look to be fast. */
enum { TOGETHER_MS = 10 };

void rest_init(struct rest *rest)
{
	pthread_mutex_init(&rest->lock, NULL);
	clock_cond_init(&rest->changed);
}

/* Waits until there are files, and a little for those who ask. Returns how many; 0: it is to end. */
static unsigned collect(struct rest *rest, uint64_t ret_ids[REST_MAX])
{
	struct timespec until;
	unsigned count;
	int r = 0;

	pthread_mutex_lock(&rest->lock);
	while (rest->count == 0 && !rest->is_stopping)
		pthread_cond_wait(&rest->changed, &rest->lock);
	/* That somebody lets go of a name has no event. */
	until = clock_until(TOGETHER_MS);
	while (r == 0 && !rest->is_stopping)
		r = pthread_cond_timedwait(&rest->changed, &rest->lock, &until);
	count = rest->is_stopping ? 0 : rest->count;
	memcpy(ret_ids, rest->ids, count * sizeof(ret_ids[0]));
	rest->count = 0;
	pthread_mutex_unlock(&rest->lock);
	return count;
}

/* Those that may be asked for, one each. */
static uint32_t choose(struct overlay *ov, uint64_t *io_ids, unsigned count)
{
	uint32_t chosen = 0;

	for (unsigned i = 0; i < count; i++) {
		if (node_prepare_prune(ov->nodes, io_ids[i]))
			io_ids[chosen++] = io_ids[i];
	}
	return chosen;
}

static void *ask_kernel(void *argument)
{
	struct overlay *ov = argument;
	uint64_t ids[REST_MAX];
	char bytes[REQUEST_PRUNE_BYTES(REST_MAX)];
	unsigned count;

	while ((count = collect(&ov->rest, ids)) > 0) {
		uint32_t chosen = choose(ov, ids, count);
		size_t len = request_prune(ids, chosen, bytes);

		/* The connection may have ended. */
		if (chosen > 0 && write(ov->device_fd, bytes, len) < 0 && errno != ENODEV &&
		    errno != ENOTCONN)
			log_line(LOG_WARNING, "rest", "asking the kernel to forget files: %m");
	}
	return NULL;
}

int rest_start(struct overlay *ov)
{
	const struct shared_header *h = ov->shared.header;
	struct rest *rest = &ov->rest;
	int r;

	if (ov->is_exclusive || !request_can_prune(h->init_request, h->init_request_len))
		return 0;
	pthread_mutex_lock(&rest->lock);
	rest->is_stopping = false;
	rest->count = 0;
	r = pthread_create(&rest->thread, NULL, ask_kernel, ov);
	rest->is_running = r == 0;
	pthread_mutex_unlock(&rest->lock);
	return -r;
}

void rest_ask(struct rest *rest, uint64_t id)
{
	bool is_first = false;

	pthread_mutex_lock(&rest->lock);
	/* Whoever looks again and again looks at the same. */
	if (rest->is_running && rest->count < REST_MAX &&
	    (rest->count == 0 || rest->ids[rest->count - 1] != id)) {
		is_first = rest->count == 0;
		rest->ids[rest->count++] = id;
	}
	if (is_first)
		pthread_cond_signal(&rest->changed);
	pthread_mutex_unlock(&rest->lock);
}

void rest_stop(struct rest *rest)
{
	bool was_running;

	pthread_mutex_lock(&rest->lock);
	was_running = rest->is_running;
	rest->is_running = false;
	rest->is_stopping = true;
	pthread_cond_signal(&rest->changed);
	pthread_mutex_unlock(&rest->lock);
	if (was_running)
		pthread_join(rest->thread, NULL);
}
