// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "fs/base/cleanup.h"
#include "fs/base/keyval.h"
#include "mountd/overlay_control.h"
#include "mountd/overlays.h"

/* A keeper of our own, and what the follower has heard. */
struct fixture {
	char path[64];
	int dir_fd, listen_fd;
	struct overlays *overlays;
	pthread_t keeper;
	pthread_mutex_t lock;
	pthread_cond_t heard;
	enum volume_state state; /* the last one told; guarded by lock */
};

static bool on_status(void *arg, const char *volume_id, const struct overlay_status *status,
		      const char *message)
{
	struct fixture *f = arg;

	(void)volume_id, (void)message;
	pthread_mutex_lock(&f->lock);
	f->state = status->state;
	pthread_cond_broadcast(&f->heard);
	pthread_mutex_unlock(&f->lock);
	return false;
}

static void on_gone(void *arg, const char *volume_id, const struct overlay_status *last)
{
	(void)arg, (void)volume_id, (void)last;
}

static void on_event(void *arg)
{
	(void)arg;
}

static void await_state(struct fixture *f, enum volume_state state)
{
	pthread_mutex_lock(&f->lock);
	while (f->state != state)
		pthread_cond_wait(&f->heard, &f->lock);
	pthread_mutex_unlock(&f->lock);
}

static void say(int fd, const char *state, int number)
{
	char text[128];
	int n = snprintf(text, sizeof(text), "status\nstate=%s\nkeeper_pid=1\nnumber=%d\n", state,
			 number);

	assert_int_equal(send(fd, text, (size_t)n, MSG_NOSIGNAL), n);
}

static void expect(int fd, const char *verb)
{
	char text[KEYVAL_MAX + 1];
	ssize_t n = recv(fd, text, KEYVAL_MAX, 0);

	assert_true(n > 0);
	text[n] = '\0';
	assert_true(keyval_verb_is(text, verb));
}

/* What it is asked on one connection is answered when what came after it has been heard on the other. */
static void *keeper_main(void *arg)
{
	struct fixture *f = arg;
	AUTO_FD int watch = accept(f->listen_fd, NULL, NULL);
	AUTO_FD int asked = -1;

	expect(watch, "watch");
	say(watch, "converging", 1);
	asked = accept(f->listen_fd, NULL, NULL);
	expect(asked, "status");
	say(watch, "native", 3);
	await_state(f, VOLUME_NATIVE);
	say(asked, "converging", 2);
	/* Until the other side has closed both. */
	(void)!recv(watch, &(char){ 0 }, 1, 0);
	return NULL;
}

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	const struct overlay_follower follower = { on_status, on_gone, on_event, on_event, f };
	struct control_dir dir;

	*state = f;
	if (!f)
		return -1;
	pthread_mutex_init(&f->lock, NULL);
	pthread_cond_init(&f->heard, NULL);
	strcpy(f->path, "/tmp/test_overlays.XXXXXX");
	if (!mkdtemp(f->path))
		return -1;
	f->dir_fd = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	dir = (struct control_dir){ .fd = f->dir_fd, .path = f->path };
	if (control_listen(&dir, "v", &f->listen_fd) < 0 ||
	    overlays_new(f->dir_fd, f->path, &follower, &f->overlays) < 0)
		return -1;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	unlinkat(f->dir_fd, "v.sock", 0);
	rmdir(f->path);
	close(f->listen_fd);
	close(f->dir_fd);
	free(f);
	return 0;
}

static void overlay_refresh_an_overtaken_answer_is_no_news(void **state)
{
	struct fixture *f = *state;
	struct overlay_status status = { .state = VOLUME_FAILED };
	struct overlay *o = NULL;

	assert_int_equal(pthread_create(&f->keeper, NULL, keeper_main, f), 0);
	assert_int_equal(overlay_adopt(f->overlays, "v", &o), 0);
	assert_int_equal(overlay_attach(o, "v", false), 0);
	assert_int_equal(f->state, VOLUME_CONVERGING);
	assert_int_equal(overlay_refresh(o, &status), 0);
	assert_int_equal(status.state, VOLUME_NATIVE);
	assert_int_equal(f->state, VOLUME_NATIVE);
	overlay_unref(o);
	overlays_free(f->overlays);
	pthread_join(f->keeper, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(overlay_refresh_an_overtaken_answer_is_no_news,
						set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
