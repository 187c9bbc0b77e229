// SPDX-License-Identifier: Apache-2.0
#include "mountd/volume_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sha2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/base/io.h"
#include "fs/base/log.h"
#include "fs/base/parse.h"
#include "store/dump.h"

#define NEW_FILE VOLUME_FILE ".new"
#define STRIPES 16

/* The whole form: a flipped bit anywhere in the file shows. */
static const char BEFORE[] = "{\"sha256\":\"", BETWEEN[] = "\",\"record\":", AFTER[] = "}\n";

enum {
	HEX = SHA256_DIGEST_STRING_LENGTH - 1,
	HEAD = sizeof(BEFORE) - 1 + HEX + sizeof(BETWEEN) - 1,
	TAIL = sizeof(AFTER) - 1,
};

struct volume_files {
	int volumes_fd;
	struct store *store;
	pthread_mutex_t locks[STRIPES]; /* by volume id; the store's lock comes after them */
};

static pthread_mutex_t *lock_of(struct volume_files *files, const char *id)
{
	unsigned hash = 0;

	for (; *id; id++)
		hash = hash * 31 + (unsigned char)*id;
	return &files->locks[hash % STRIPES];
}

static void digest(const char *text, size_t len, char ret_hex[SHA256_DIGEST_STRING_LENGTH])
{
	SHA256Data((const uint8_t *)text, len, ret_hex);
}

static int open_dir(struct volume_files *files, const char *name, bool make, int *ret_fd)
{
	int fd;

	if (make && mkdirat(files->volumes_fd, name, 0700) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(files->volumes_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	return 0;
}

static int write_new(int dir_fd, const char *content, size_t len)
{
	AUTO_FD int fd = openat(dir_fd, NEW_FILE,
				O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	size_t done = 0;

	if (fd < 0)
		return -errno;
	while (done < len) {
		ssize_t n = write(fd, content + done, len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		done += (size_t)n;
	}
	return fsync(fd) < 0 ? -errno : 0;
}

static int write_file(int dir_fd, const char *text)
{
	char hex[SHA256_DIGEST_STRING_LENGTH];
	AUTO_FREE char *content = NULL;
	bool is_first = faccessat(dir_fd, VOLUME_FILE, F_OK, AT_SYMLINK_NOFOLLOW) < 0;
	int len, r;

	digest(text, strlen(text), hex);
	len = asprintf(&content, "%s%s%s%s%s", BEFORE, hex, BETWEEN, text, AFTER);
	if (len < 0) {
		content = NULL;
		return -ENOMEM;
	}
	r = write_new(dir_fd, content, (size_t)len);
	if (r == 0 && renameat(dir_fd, NEW_FILE, dir_fd, VOLUME_FILE) < 0)
		r = -errno;
	if (r < 0) {
		unlinkat(dir_fd, NEW_FILE, 0);
		return r;
	}
	/* A power cut may leave the old text of two: nothing of either is mounted then. But never none. */
	return is_first && fsync(dir_fd) < 0 ? -errno : 0;
}

/* The directory of a volume whose tear-down has come to its end is not made again. */
static bool may_make_dir(struct volume_files *files, const char *id)
{
	AUTO(volume_record) *vol = NULL;

	return store_volume_by_id(files->store, id, &vol) == 0 && vol->state != VOLUME_TEARING_DOWN;
}

static int mirror(struct volume_files *files, const char *id)
{
	AUTO_FREE char *text = NULL;
	AUTO_FD int dir_fd = -1;
	int r = store_volume_dump(files->store, id, &text);

	if (r == 0)
		r = open_dir(files, id, false, &dir_fd);
	else if (r == -ENOENT)
		return 0; /* its record is gone, and the directory before it */
	if (r == -ENOENT && may_make_dir(files, id))
		r = open_dir(files, id, true, &dir_fd);
	else if (r == -ENOENT)
		return 0;
	return r < 0 ? r : write_file(dir_fd, text);
}

static void changed(void *arg, const char *volume_id)
{
	struct volume_files *files = arg;
	pthread_mutex_t *lock = lock_of(files, volume_id);
	int r;

	/* Looked up under the lock: whoever comes last writes what is newest. */
	pthread_mutex_lock(lock);
	r = mirror(files, volume_id);
	pthread_mutex_unlock(lock);
	if (r < 0)
		log_line(LOG_WARNING, "record", "vol=%s ignoring that %s could not be written: %s",
			 volume_id, VOLUME_FILE, strerror(-r));
}

int volume_files_new(int volumes_fd, struct store *store, struct volume_files **ret_files)
{
	struct volume_files *files = calloc(1, sizeof(*files));

	if (!files)
		return -ENOMEM;
	files->volumes_fd = volumes_fd;
	files->store = store;
	for (size_t i = 0; i < STRIPES; i++)
		pthread_mutex_init(&files->locks[i], NULL);
	store_watch(store, changed, files);
	*ret_files = files;
	return 0;
}

void volume_files_free(struct volume_files *files)
{
	if (!files)
		return;
	store_watch(files->store, NULL, NULL);
	for (size_t i = 0; i < STRIPES; i++)
		pthread_mutex_destroy(&files->locks[i]);
	free(files);
}

int volume_file_remove(struct volume_files *files, const char *volume_id)
{
	pthread_mutex_t *lock = lock_of(files, volume_id);
	AUTO_FD int dir_fd = -1;
	int r;

	pthread_mutex_lock(lock);
	r = open_dir(files, volume_id, false, &dir_fd);
	if (r == 0 && ((unlinkat(dir_fd, NEW_FILE, 0) < 0 && errno != ENOENT) ||
		       (unlinkat(dir_fd, VOLUME_FILE, 0) < 0 && errno != ENOENT)))
		r = -errno;
	pthread_mutex_unlock(lock);
	return r == -ENOENT ? 0 : r;
}

int volume_file_parse(const char *content, size_t len, char **ret_text)
{
	char hex[SHA256_DIGEST_STRING_LENGTH];
	const char *text = content + HEAD;
	size_t text_len;
	char *copy;

	if (len < HEAD + TAIL || memchr(content, '\0', len))
		return -EUCLEAN;
	text_len = len - HEAD - TAIL;
	digest(text, text_len, hex);
	if (memcmp(content, BEFORE, sizeof(BEFORE) - 1) != 0 ||
	    memcmp(content + sizeof(BEFORE) - 1, hex, HEX) != 0 ||
	    memcmp(text - (sizeof(BETWEEN) - 1), BETWEEN, sizeof(BETWEEN) - 1) != 0 ||
	    memcmp(text + text_len, AFTER, TAIL) != 0)
		return -EUCLEAN;
	copy = strndup(text, text_len);
	if (!copy)
		return -ENOMEM;
	*ret_text = copy;
	return 0;
}

int volume_file_read(struct volume_files *files, const char *name, char **ret_text)
{
	AUTO_FREE char *content = NULL;
	AUTO_FD int dir_fd = -1;
	AUTO_FD int fd = -1;
	struct stat st;
	ssize_t n;
	int r = open_dir(files, name, false, &dir_fd);

	if (r < 0)
		return r;
	fd = openat(dir_fd, VOLUME_FILE, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if (st.st_size > VOLUME_FILE_MAX)
		return -EFBIG;
	content = malloc((size_t)st.st_size + 1);
	if (!content)
		return -ENOMEM;
	n = io_read_all(fd, content, (size_t)st.st_size);
	return n < 0 ? (int)n : volume_file_parse(content, (size_t)n, ret_text);
}

int volume_files_each(struct volume_files *files, void (*fn)(void *arg, const char *name),
		      void *arg)
{
	AUTO_FD int fd = openat(files->volumes_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	if (!dir)
		return -errno;
	take_fd(&fd);
	while ((entry = readdir(dir)) != NULL) {
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			fn(arg, entry->d_name);
	}
	closedir(dir);
	return 0;
}
