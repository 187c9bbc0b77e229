// SPDX-License-Identifier: Apache-2.0
#include "mountd/overlay_status.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/base/keyval.h"
#include "fs/base/log.h"
#include "fs/base/parse.h"

static int get_u64(const char *message, const char *key, uint64_t *io_value)
{
	char text[32];
	int r = keyval_get(message, key, text, sizeof(text));

	if (r == -ENOENT)
		return 0;
	if (r < 0 || parse_u64(text, io_value) < 0)
		return -EBADMSG;
	return 0;
}

static int get_pid(const char *message, const char *key, pid_t *io_pid)
{
	uint64_t value = 0;

	if (get_u64(message, key, &value) < 0 || value > INT_MAX)
		return -EBADMSG;
	*io_pid = (pid_t)value;
	return 0;
}

static int get_flag(const char *message, const char *key, bool *io_flag)
{
	uint64_t value = 0;

	if (get_u64(message, key, &value) < 0 || value > 1)
		return -EBADMSG;
	*io_flag = value == 1;
	return 0;
}

/* Spaces are fine in a reason; what could forge a line or a terminal sequence is not. */
static void make_printable(char *text)
{
	for (; *text; text++) {
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			*text = '?';
	}
}

static int get_text(const char *message, const char *key, char *ret_text, size_t size)
{
	int r = keyval_get(message, key, ret_text, size);

	if (r == -ENOENT)
		ret_text[0] = '\0';
	else if (r < 0)
		return -EBADMSG;
	make_printable(ret_text);
	return 0;
}

static int get_state(const char *message, enum volume_state *ret_state)
{
	char text[32];
	enum volume_state state = VOLUME_FAILED;

	if (keyval_get(message, "state", text, sizeof(text)) < 0 ||
	    volume_state_from_name(text, &state) < 0)
		return -EBADMSG;
	/* "failed": its servers keep dying, or one cannot be ended. */
	if ((state < VOLUME_PRESENTED || state > VOLUME_NATIVE) && state != VOLUME_VIRTUAL &&
	    state != VOLUME_FAILED)
		return -EBADMSG;
	*ret_state = state;
	return 0;
}

/* "yes", or "no: " and why. Keepers from before have not said it. */
static int get_failover(const char *message, char ret_reason[OVERLAY_TEXT_MAX])
{
	char text[OVERLAY_TEXT_MAX];
	int r = get_text(message, "failover", text, sizeof(text));

	if (r == 0 && strncmp(text, "no", strlen("no")) == 0)
		snprintf(ret_reason, OVERLAY_TEXT_MAX, "%s",
			 strncmp(text, "no: ", strlen("no: ")) == 0 ? text + strlen("no: ") : text);
	return r;
}

int overlay_status_parse(const char *message, struct overlay_status *ret_status)
{
	struct overlay_status s = { 0 };
	char data_path[32] = "", transport[32] = "";
	unsigned char run[16];
	int bad = 0;

	if (!keyval_verb_is(message, "status"))
		return -EBADMSG;
	bad |= get_state(message, &s.state);
	if (get_text(message, "reason", s.reason, sizeof(s.reason)) < 0)
		snprintf(s.reason, sizeof(s.reason), "a reason too long to show");
	bad |= get_text(message, "run", s.run, sizeof(s.run));
	bad |= get_text(message, "epoch", s.epoch, sizeof(s.epoch));
	bad |= get_text(message, "keeper_version", s.keeper_version, sizeof(s.keeper_version));
	bad |= get_text(message, "server_version", s.server_version, sizeof(s.server_version));
	bad |= get_failover(message, s.no_failover);
	bad |= get_text(message, "data_path", data_path, sizeof(data_path));
	bad |= get_text(message, "transport", transport, sizeof(transport));
	bad |= get_text(message, "requests", s.requests, sizeof(s.requests));
	bad |= get_u64(message, "seen", &s.counters.seen);
	bad |= get_u64(message, "changed", &s.counters.changed);
	bad |= get_u64(message, "correct", &s.counters.correct);
	bad |= get_u64(message, "excluded", &s.counters.excluded);
	bad |= get_u64(message, "failed", &s.counters.failed);
	bad |= get_u64(message, "total", &s.total);
	bad |= get_u64(message, "rate", &s.rate);
	bad |= get_u64(message, "converge_rate", &s.converge_rate);
	bad |= get_u64(message, "restarts", &s.restarts);
	bad |= get_u64(message, "upgrades", &s.upgrades);
	bad |= get_u64(message, "number", &s.number);
	bad |= get_u64(message, "protocol", &s.protocol);
	bad |= get_u64(message, "mount_id", &s.mount_id);
	bad |= get_u64(message, "failures_total", &s.failures_total);
	bad |= get_flag(message, "paused", &s.paused);
	bad |= get_flag(message, "holders", &s.held);
	bad |= get_flag(message, "stuck", &s.is_stuck);
	bad |= get_pid(message, "keeper_pid", &s.keeper_pid);
	bad |= get_pid(message, "server_pid", &s.server_pid);
	if (s.run[0] && parse_hex(s.run, run, sizeof(run)) < 0)
		bad = -EBADMSG;
	if (bad)
		return -EBADMSG;
	s.passthrough = strcmp(data_path, "passthrough") == 0;
	s.over_ring = strcmp(transport, "io_uring") == 0;
	if (s.failures_total < s.counters.failed)
		s.failures_total = s.counters.failed;
	*ret_status = s;
	return 0;
}

void overlay_failures_free(struct failure_record *list, size_t count)
{
	for (size_t i = 0; list && i < count; i++)
		free(list[i].path);
	free(list);
}

/* "ERRNO quoted-path" */
static int parse_failure(char *text, struct failure_record *ret_failure)
{
	char *space = strchr(text, ' ');
	uint32_t error = 0;

	if (!space)
		return -EBADMSG;
	*space = '\0';
	if (parse_u32(text, &error) < 0 || error > 4095)
		return -EBADMSG;
	make_printable(space + 1);
	ret_failure->error = (int)error;
	ret_failure->path = strdup(space + 1);
	return ret_failure->path ? 0 : -ENOMEM;
}

int overlay_status_failures(const char *message, struct failure_record **ret_list)
{
	uint64_t count = 0;
	struct failure_record *list;
	int r = 0;

	if (get_u64(message, "failures", &count) < 0)
		return -EBADMSG;
	if (count > STORE_FAILURES_MAX)
		count = STORE_FAILURES_MAX;
	list = calloc(count + 1, sizeof(*list));
	if (!list)
		return -ENOMEM;
	for (uint64_t i = 0; r == 0 && i < count; i++) {
		char key[32], text[4096];

		snprintf(key, sizeof(key), "failure.%u", (unsigned)i);
		r = keyval_get(message, key, text, sizeof(text));
		if (r < 0 &&
		    r != -ENOBUFS) { /* fewer than announced: what did not fit was left out */
			count = i;
			r = 0;
			break;
		}
		if (r == -ENOBUFS)
			snprintf(text, sizeof(text),
				 "36 a path too long to show"); /* ENAMETOOLONG */
		r = parse_failure(text, &list[i]);
	}
	if (r < 0) {
		overlay_failures_free(list, count);
		return r;
	}
	*ret_list = list;
	return (int)count;
}

bool overlay_status_request(char **io_requests, const char **ret_name, uint64_t *ret_count)
{
	char *name = strsep(io_requests, " ");
	char *count = name ? strchr(name, ':') : NULL;

	if (!count || count == name ||
	    name + strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") != count)
		return false;
	*count++ = '\0';
	if (parse_u64(count, ret_count) < 0)
		return false;
	*ret_name = name;
	return true;
}
