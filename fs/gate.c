// SPDX-License-Identifier: Apache-2.0
#include "fs/gate.h"

#include <stdlib.h>
#include <string.h>

void gate_init(struct gate *g, struct gate_retries *retries)
{
	memset(g, 0, sizeof(*g));
	g->retries = retries;
	pthread_mutex_init(&g->lock, NULL);
	pthread_cond_init(&g->changed, NULL);
	g->parked_tail = &g->parked;
}

/* Notes that this thread is told ESTALE for this node. Lock held. */
static void remember(struct gate *g, uint64_t node, uint32_t pid)
{
	struct gate_retries *r = g->retries;
	uint32_t at = r->next % GATE_RETRIES;

	r->ring[at].node = node;
	r->ring[at].pid = pid;
	r->next = (at + 1) % GATE_RETRIES;
}

/* After the swap: true when this thread was already told ESTALE for this node. Lock held. */
static bool is_retry(struct gate *g, uint64_t node, uint32_t pid)
{
	for (unsigned i = 0; i < GATE_RETRIES; i++) {
		if (g->retries->ring[i].node == node && g->retries->ring[i].pid == pid) {
			g->retries->ring[i].node = 0;
			return true;
		}
	}
	remember(g, node, pid);
	return false;
}

static bool park(struct gate *g, uint64_t node, uint32_t pid, const void *bytes, size_t len)
{
	struct gate_request *request = malloc(sizeof(*request) + len);

	if (!request)
		return false;
	request->next = NULL;
	request->node = node;
	request->pid = pid;
	request->len = len;
	memcpy(request->bytes, bytes, len);
	*g->parked_tail = request;
	g->parked_tail = &request->next;
	return true;
}

/* Nothing is held. Lock held. */
static enum gate_verdict pass(struct gate *g, uint64_t node, uint32_t pid)
{
	if (g->state == GATE_SWAPPED && !is_retry(g, node, pid))
		return GATE_ANSWER_ESTALE;
	g->in_flight++;
	g->steps++;
	return GATE_SERVE;
}

enum gate_verdict gate_enter(struct gate *g, uint64_t node, uint32_t pid, const void *bytes,
			     size_t len)
{
	enum gate_verdict verdict;

	pthread_mutex_lock(&g->lock);
	if (g->state == GATE_HELD)
		/* Without memory to park it, the kernel is told to come again. */
		verdict = park(g, node, pid, bytes, len) ? GATE_PARKED : GATE_ANSWER_ESTALE;
	else
		verdict = pass(g, node, pid);
	pthread_mutex_unlock(&g->lock);
	return verdict;
}

enum gate_verdict gate_wait(struct gate *g, uint64_t node, uint32_t pid)
{
	enum gate_verdict verdict;

	pthread_mutex_lock(&g->lock);
	while (g->state == GATE_HELD)
		pthread_cond_wait(&g->changed, &g->lock);
	verdict = pass(g, node, pid);
	pthread_mutex_unlock(&g->lock);
	return verdict;
}

void gate_leave(struct gate *g)
{
	pthread_mutex_lock(&g->lock);
	g->steps++;
	if (--g->in_flight == 0)
		pthread_cond_broadcast(&g->changed);
	pthread_mutex_unlock(&g->lock);
}

void gate_hold(struct gate *g)
{
	pthread_mutex_lock(&g->lock);
	g->state = GATE_HELD;
	while (g->in_flight > 0)
		pthread_cond_wait(&g->changed, &g->lock);
	pthread_mutex_unlock(&g->lock);
}

uint64_t gate_steps(struct gate *g)
{
	uint64_t steps;

	pthread_mutex_lock(&g->lock);
	steps = g->steps;
	pthread_mutex_unlock(&g->lock);
	return steps;
}

struct gate_request *gate_finish(struct gate *g, bool swapped)
{
	struct gate_request *parked;

	pthread_mutex_lock(&g->lock);
	parked = g->parked;
	g->parked = NULL;
	g->parked_tail = &g->parked;
	g->state = swapped ? GATE_SWAPPED : GATE_OPEN;
	/* Who came by a descriptor on the old overlay comes again, and must not be told ESTALE twice. */
	for (const struct gate_request *r = parked; swapped && r; r = r->next)
		remember(g, r->node, r->pid);
	pthread_cond_broadcast(&g->changed);
	pthread_mutex_unlock(&g->lock);
	return parked;
}
