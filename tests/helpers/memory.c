// SPDX-License-Identifier: Apache-2.0
/*
 * memory PID FILE: looks for each line of FILE in the memory of a process. Prints the mapping of each find;
 * exits with 1 when there was one, 2 when it could not look. Mappings of more than 1 GiB (a sanitizer's own) are
 * left out.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK = 1 << 20, PATTERNS_MAX = 16, LINE_MAX_BYTES = 256 };

struct patterns {
	char text[PATTERNS_MAX][LINE_MAX_BYTES];
	size_t count;
};

static void __attribute__((noreturn)) die(const char *what)
{
	fprintf(stderr, "memory: %s: %s\n", what, strerror(errno));
	exit(2);
}

static void read_patterns(const char *path, struct patterns *p)
{
	FILE *file = fopen(path, "re");

	if (!file)
		die(path);
	while (p->count < PATTERNS_MAX && fgets(p->text[p->count], LINE_MAX_BYTES, file)) {
		p->text[p->count][strcspn(p->text[p->count], "\n")] = '\0';
		p->count += p->text[p->count][0] != '\0';
	}
	fclose(file);
}

static int has_pattern(const struct patterns *p, const char *bytes, size_t len)
{
	for (size_t i = 0; i < p->count; i++) {
		if (memmem(bytes, len, p->text[i], strlen(p->text[i])))
			return 1;
	}
	return 0;
}

/* What cannot be read (a device, a page that is gone) holds nothing of the process's. */
static int search(int fd, uint64_t start, uint64_t end, const struct patterns *p, size_t *io_bytes)
{
	static char buffer[CHUNK + LINE_MAX_BYTES];
	size_t kept = 0;

	for (uint64_t at = start; at < end;) {
		size_t want = end - at < CHUNK ? (size_t)(end - at) : CHUNK;
		ssize_t n = pread(fd, buffer + kept, want, (off_t)at);

		if (n <= 0)
			return 0;
		*io_bytes += (size_t)n;
		if (has_pattern(p, buffer, kept + (size_t)n))
			return 1;
		at += (uint64_t)n;
		kept += (size_t)n;
		if (kept > LINE_MAX_BYTES) {
			memmove(buffer, buffer + kept - LINE_MAX_BYTES, LINE_MAX_BYTES);
			kept = LINE_MAX_BYTES;
		}
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct patterns *p = calloc(1, sizeof(*p));
	char path[64], line[1024];
	size_t bytes = 0;
	int found = 0, fd;
	FILE *maps;

	if (argc != 3 || !p) {
		fprintf(stderr, "usage: memory PID FILE\n");
		return 2;
	}
	read_patterns(argv[2], p);
	snprintf(path, sizeof(path), "/proc/%s/mem", argv[1]);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		die(path);
	snprintf(path, sizeof(path), "/proc/%s/maps", argv[1]);
	maps = fopen(path, "re");
	if (!maps)
		die(path);
	while (fgets(line, sizeof(line), maps)) {
		uint64_t start, end;
		char readable;

		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %c", &start, &end, &readable) != 3 ||
		    readable != 'r' || end - start > 1U << 30)
			continue;
		if (search(fd, start, end, p, &bytes)) {
			printf("found in %s", line);
			found = 1;
		}
	}
	fclose(maps);
	close(fd);
	free(p);
	if (bytes == 0) {
		fprintf(stderr, "memory: nothing could be read\n");
		return 2;
	}
	return found;
}
