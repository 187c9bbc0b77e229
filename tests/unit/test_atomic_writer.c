// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "fs/base/cleanup.h"
#include "fs/base/parse.h"
#include "plugins/atomic_writer.h"
#include "plugins/tree_remove.h"

struct volume {
	char dir[64];
	int fd;
	char error[256];
	unsigned steps;	 /* of the last write */
	unsigned die_at; /* 0: never */
};

static int volume_set_up(void **state)
{
	struct volume *v = calloc(1, sizeof(*v));

	assert_non_null(v);
	strcpy(v->dir, "/dev/shm/test_atomic_writer.XXXXXX");
	assert_non_null(mkdtemp(v->dir));
	v->fd = open(v->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_true(v->fd >= 0);
	*state = v;
	return 0;
}

static int volume_tear_down(void **state)
{
	struct volume *v = *state;
	AUTO_FD int tmp = open("/dev/shm", O_PATH | O_DIRECTORY | O_CLOEXEC);

	close(v->fd);
	assert_int_equal(tree_remove(tmp, v->dir + strlen("/dev/shm/"), v->error, sizeof(v->error)),
			 0);
	free(v);
	return 0;
}

/* A payload as "path=content" texts, ended by NULL; mode 0644. */
static struct payload *payload_of(const char *const *files)
{
	struct payload *p = payload_new();
	char error[256], path[256];

	assert_non_null(p);
	for (; *files; files++) {
		const char *content = strchr(*files, '=') + 1;

		snprintf(path, sizeof(path), "%.*s", (int)(content - 1 - *files), *files);
		assert_int_equal(payload_add(p, path, content, strlen(content), 0644, "test", error,
					     sizeof(error)),
				 0);
	}
	assert_int_equal(payload_seal(p, error, sizeof(error)), 0);
	return p;
}

static void count_step(void *arg)
{
	struct volume *v = arg;

	v->steps++;
	if (v->steps == v->die_at)
		_exit(99);
}

static int write_with(struct volume *v, const char *const *files, const struct ownership_rule *rule,
		      bool *ret_changed)
{
	AUTO(payload) *p = payload_of(files);
	const struct atomic_write w = {
		.dir_fd = v->fd,
		.payload = p,
		.rule = rule ? *rule : (struct ownership_rule){ .gid = GID_UNSET },
		.on_step = count_step,
		.arg = v,
	};

	v->steps = 0;
	return atomic_write(&w, ret_changed, v->error, sizeof(v->error));
}

/* Whether it changed anything; it must succeed. */
static bool written(struct volume *v, const char *const *files)
{
	bool changed = false;

	assert_int_equal(write_with(v, files, NULL, &changed), 0);
	assert_int_equal(changed, v->steps > 0);
	return changed;
}

/* What is read at @path below @dir_fd, or "-" when nothing can be opened. */
static const char *content_at(int dir_fd, const char *path, char *ret_text, size_t size)
{
	AUTO_FD int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, ret_text, size - 1);

	if (n < 0)
		return "-";
	ret_text[n] = '\0';
	return ret_text;
}

static void assert_content(struct volume *v, const char *path, const char *content)
{
	char text[256];

	assert_string_equal(content_at(v->fd, path, text, sizeof(text)), content);
}

/* The names in the root directory that a glob-less listing shows, sorted. */
static size_t count_names(struct volume *v)
{
	struct dirent **names;
	int n = scandir(v->dir, &names, NULL, alphasort);

	assert_true(n >= 2);
	for (int i = 0; i < n; i++)
		free(names[i]);
	free(names);
	return (size_t)n - 2;
}

static void stamp_of(struct volume *v, char ret_stamp[PATH_MAX])
{
	ssize_t n = readlinkat(v->fd, "..data", ret_stamp, PATH_MAX - 1);

	assert_true(n > 0);
	ret_stamp[n] = '\0';
}

static const char *const OLD[] = { "both=old",	   "gone=old",	     "dir/both=old",
				   "dir/gone=old", "gone_dir/f=old", NULL };
static const char *const NEW[] = { "both=new",	   "come=new",	       "dir/both=new",
				   "dir/come=new", "come_dir/a/f=new", NULL };
static const char *const NONE[] = { NULL };

static void assert_shows_new(struct volume *v)
{
	assert_content(v, "both", "new");
	assert_content(v, "come", "new");
	assert_content(v, "dir/both", "new");
	assert_content(v, "dir/come", "new");
	assert_content(v, "come_dir/a/f", "new");
	assert_content(v, "gone", "-");
	assert_content(v, "dir/gone", "-");
	assert_content(v, "gone_dir/f", "-");
}

static void assert_shows_old(struct volume *v)
{
	assert_content(v, "both", "old");
	assert_content(v, "gone", "old");
	assert_content(v, "dir/both", "old");
	assert_content(v, "dir/gone", "old");
	assert_content(v, "gone_dir/f", "old");
	assert_content(v, "come", "-");
	assert_content(v, "dir/come", "-");
	assert_content(v, "come_dir/a/f", "-");
}

static void assert_shows_nothing(struct volume *v)
{
	for (size_t i = 0; NEW[i]; i++) {
		char path[64];

		snprintf(path, sizeof(path), "%.*s", (int)strcspn(NEW[i], "="), NEW[i]);
		assert_content(v, path, "-");
	}
}

static void atomic_write_first_shows_the_payload(void **state)
{
	struct volume *v = *state;
	char stamp[PATH_MAX];
	struct stat st;

	assert_false(atomic_write_is_done(v->fd));
	assert_true(written(v, OLD));
	assert_shows_old(v);
	assert_true(atomic_write_is_done(v->fd));
	stamp_of(v, stamp);
	assert_true(strncmp(stamp, "..2", 3) == 0);
	assert_int_equal(count_names(v), 6); /* both gone dir gone_dir ..data ..2026 */
	assert_int_equal(fstatat(v->fd, "both", &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_true(S_ISLNK(st.st_mode));
	assert_int_equal(fstatat(v->fd, "both", &st, 0), 0);
	assert_int_equal(st.st_mode, S_IFREG | 0644);
	assert_int_equal(fstatat(v->fd, "dir", &st, 0), 0);
	assert_int_equal(st.st_mode, S_IFDIR | 0755);
	assert_int_equal(fstatat(v->fd, stamp, &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_int_equal(st.st_mode, S_IFDIR | 0755);
}

static void atomic_write_unchanged_writes_nothing(void **state)
{
	struct volume *v = *state;
	struct stat before[3], after[3];
	static const char *const seen[] = { ".", "..data", "both" };

	assert_true(written(v, OLD));
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(fstatat(v->fd, seen[i], &before[i], AT_SYMLINK_NOFOLLOW), 0);
	assert_false(written(v, OLD));
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(fstatat(v->fd, seen[i], &after[i], AT_SYMLINK_NOFOLLOW), 0);
		assert_int_equal(before[i].st_ino, after[i].st_ino);
		assert_memory_equal(&before[i].st_ctim, &after[i].st_ctim,
				    sizeof(after[i].st_ctim));
		assert_memory_equal(&before[i].st_mtim, &after[i].st_mtim,
				    sizeof(after[i].st_mtim));
	}
}

static void atomic_write_changed_shows_the_new_alone(void **state)
{
	struct volume *v = *state;

	assert_true(written(v, OLD));
	assert_true(written(v, NEW));
	assert_shows_new(v);
	assert_int_equal(count_names(v), 6); /* both come dir come_dir ..data ..2026 */
	assert_true(written(v, NONE));
	assert_int_equal(count_names(v), 2);
	assert_false(written(v, NONE));
	assert_true(atomic_write_is_done(v->fd));
}

static void atomic_write_modes_and_group_are_right_before_they_are_seen(void **state)
{
	struct volume *v = *state;
	const struct ownership_rule rule = { .gid = getegid(), .read_only = true };
	AUTO(payload) *p = payload_new();
	const struct atomic_write w = { .dir_fd = v->fd, .payload = p, .rule = rule };
	bool changed = false;
	struct stat st;

	assert_int_equal(payload_add(p, "private", "x", 1, 0400, "t", v->error, 256), 0);
	assert_int_equal(payload_add(p, "d/script", "x", 1, 0555, "t", v->error, 256), 0);
	assert_int_equal(payload_seal(p, v->error, 256), 0);
	assert_int_equal(atomic_write(&w, &changed, v->error, 256), 0);
	assert_int_equal(fstatat(v->fd, "private", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0440);
	assert_int_equal(st.st_gid, getegid());
	assert_int_equal(fstatat(v->fd, "d/script", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0555);
	assert_int_equal(fstatat(v->fd, "d", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 02755);
	assert_int_equal(fstatat(v->fd, ".", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 02750);
}

static void atomic_write_keep_private_keeps_0400(void **state)
{
	struct volume *v = *state;
	const struct ownership_rule rule = { .gid = getegid(),
					     .read_only = true,
					     .keep_private = true };
	AUTO(payload) *p = payload_new();
	const struct atomic_write w = { .dir_fd = v->fd, .payload = p, .rule = rule };
	bool changed = false;
	struct stat st;

	assert_int_equal(payload_add(p, "private", "x", 1, 0400, "t", v->error, 256), 0);
	assert_int_equal(payload_seal(p, v->error, 256), 0);
	assert_int_equal(atomic_write(&w, &changed, v->error, 256), 0);
	assert_int_equal(fstatat(v->fd, "private", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0400);
	assert_int_equal(atomic_write(&w, &changed, v->error, 256), 0);
	assert_false(changed);
}

static void atomic_write_another_mode_is_a_change(void **state)
{
	struct volume *v = *state;
	AUTO(payload) *p = payload_of(OLD);
	const struct atomic_write w = { .dir_fd = v->fd,
					.payload = p,
					.rule = { .gid = GID_UNSET } };
	bool changed = false;
	struct stat st;

	assert_true(written(v, OLD));
	p->entries[0].mode = 0600;
	assert_int_equal(atomic_write(&w, &changed, v->error, 256), 0);
	assert_true(changed);
	assert_int_equal(fstatat(v->fd, p->entries[0].path, &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
}

static void atomic_write_drift_is_repaired(void **state)
{
	struct volume *v = *state;
	char stamp[PATH_MAX], path[PATH_MAX + 64];
	int fd;

	assert_true(written(v, OLD));
	assert_int_equal(fchmodat(v->fd, "both", 0666, 0), 0);
	assert_true(written(v, OLD));
	fd = openat(v->fd, "dir/both", O_WRONLY | O_CLOEXEC);
	assert_int_equal(pwrite(fd, "OLD", 3, 0), 3);
	close(fd);
	assert_true(written(v, OLD));
	stamp_of(v, stamp);
	snprintf(path, sizeof(path), "%s/dir/extra", stamp);
	fd = openat(v->fd, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	close(fd);
	assert_true(written(v, OLD));
	assert_content(v, "dir/extra", "-");
	assert_int_equal(unlinkat(v->fd, "gone", 0), 0);
	assert_true(written(v, OLD));
	assert_int_equal(unlinkat(v->fd, "gone", 0), 0);
	assert_int_equal(symlinkat("/etc/passwd", v->fd, "gone"), 0);
	assert_true(written(v, OLD));
	assert_int_equal(unlinkat(v->fd, "..data", 0), 0);
	assert_int_equal(symlinkat("/etc", v->fd, "..data"), 0);
	assert_true(written(v, OLD));
	assert_shows_old(v);
	assert_false(written(v, OLD));
	assert_int_equal(count_names(v), 6);
}

/* A file that is a link to outside is replaced, and what it leads to is neither read nor written. */
static void atomic_write_never_follows_a_link(void **state)
{
	struct volume *v = *state;
	char stamp[PATH_MAX], path[PATH_MAX + 64], outside[80];
	struct stat st;
	int fd;

	snprintf(outside, sizeof(outside), "%s/outside", v->dir);
	fd = open(outside, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	assert_int_equal(write(fd, "old", 3), 3);
	close(fd);
	assert_true(written(v, OLD));
	stamp_of(v, stamp);
	snprintf(path, sizeof(path), "%s/both", stamp);
	assert_int_equal(unlinkat(v->fd, path, 0), 0);
	assert_int_equal(symlinkat(outside, v->fd, path), 0);
	assert_true(written(v, OLD));
	stamp_of(v, stamp);
	snprintf(path, sizeof(path), "%s/both", stamp);
	assert_int_equal(fstatat(v->fd, path, &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_true(S_ISREG(st.st_mode));
	assert_content(v, "outside", "old"); /* a name of others stays */
}

static void atomic_write_a_directory_in_the_way_is_refused(void **state)
{
	struct volume *v = *state;
	bool changed = false;

	assert_true(written(v, OLD));
	assert_int_equal(mkdirat(v->fd, "come", 0755), 0);
	assert_int_equal(write_with(v, NEW, NULL, &changed), -EEXIST);
	assert_non_null(strstr(v->error, "come"));
	assert_int_equal(unlinkat(v->fd, "come", AT_REMOVEDIR), 0);
	assert_shows_old(v);
	assert_int_equal(count_names(v), 6);
	assert_true(written(v, NEW));
	assert_shows_new(v);
}

/* Writes @files in a child that dies before step @die_at; false: it was finished before that. */
static bool dies_at(struct volume *v, const char *const *files, unsigned die_at)
{
	pid_t pid = fork();
	bool changed;
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		v->die_at = die_at;
		_exit(write_with(v, files, NULL, &changed) == 0 ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_true(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 99);
	return WEXITSTATUS(status) == 99;
}

static void atomic_write_crash_at_every_step_leaves_old_or_new(void **state)
{
	struct volume *v = *state;
	bool was_new = false;
	unsigned crashes = 0;

	for (unsigned n = 1;; n++) {
		char text[16];
		bool is_new;

		written(v, OLD);
		assert_shows_old(v);
		if (!dies_at(v, NEW, n))
			break;
		crashes++;
		is_new = strcmp(content_at(v->fd, "both", text, sizeof(text)), "new") == 0;
		assert_true(is_new || !was_new);
		was_new = is_new;
		if (is_new)
			assert_shows_new(v);
		else
			assert_shows_old(v);
		/* Half of the crashes are followed by the new payload, half by the old one again. */
		if (n % 2) {
			written(v, NEW);
			assert_shows_new(v);
			assert_int_equal(count_names(v), 6);
		}
	}
	assert_true(was_new);
	assert_true(crashes > 20);
	assert_shows_new(v);
	assert_int_equal(count_names(v), 6);
}

static void atomic_write_crash_in_the_first_shows_nothing_or_all(void **state)
{
	struct volume *v = *state;
	unsigned crashes = 0;

	for (unsigned n = 1;; n++) {
		char text[16];

		if (!dies_at(v, NEW, n))
			break;
		crashes++;
		if (strcmp(content_at(v->fd, "both", text, sizeof(text)), "new") == 0)
			assert_shows_new(v);
		else
			assert_shows_nothing(v);
		written(v, NEW);
		assert_shows_new(v);
		assert_int_equal(count_names(v), 6);
		written(v, NONE);
		assert_int_equal(unlinkat(v->fd, "..data", 0), 0);
	}
	assert_true(crashes > 15);
	assert_shows_new(v);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, volume_set_up, volume_tear_down)
	const struct CMUnitTest tests[] = {
		TEST(atomic_write_first_shows_the_payload),
		TEST(atomic_write_unchanged_writes_nothing),
		TEST(atomic_write_changed_shows_the_new_alone),
		TEST(atomic_write_modes_and_group_are_right_before_they_are_seen),
		TEST(atomic_write_keep_private_keeps_0400),
		TEST(atomic_write_another_mode_is_a_change),
		TEST(atomic_write_drift_is_repaired),
		TEST(atomic_write_never_follows_a_link),
		TEST(atomic_write_a_directory_in_the_way_is_refused),
		TEST(atomic_write_crash_at_every_step_leaves_old_or_new),
		TEST(atomic_write_crash_in_the_first_shows_nothing_or_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
