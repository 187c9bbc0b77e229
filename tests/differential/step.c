// SPDX-License-Identifier: Apache-2.0
#include "tests/differential/step.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "fs/base/cleanup.h"
#include "tests/differential/op.h"
#include "tests/differential/worker.h"

static const struct {
	int flag;
	const char *name;
} open_flags[] = {
	{ O_CREAT, "CREAT" },	       { O_EXCL, "EXCL" },	     { O_TRUNC, "TRUNC" },
	{ O_APPEND, "APPEND" },	       { O_DIRECT, "DIRECT" },	     { O_PATH, "PATH" },
	{ O_NOFOLLOW, "NOFOLLOW" },    { O_DIRECTORY, "DIRECTORY" }, { O_DSYNC, "DSYNC" },
	{ O_SYNC & ~O_DSYNC, "SYNC" }, { O_NOATIME, "NOATIME" },
};

static void print_open_flags(FILE *out, int flags)
{
	static const char *const modes[] = { "RDONLY", "WRONLY", "RDWR", "3" };

	fputs(modes[flags & O_ACCMODE], out);
	for (size_t i = 0; i < ARRAY_SIZE(open_flags); i++) {
		if (flags & open_flags[i].flag)
			fprintf(out, "|%s", open_flags[i].name);
	}
	if ((flags & O_TMPFILE) == O_TMPFILE)
		fputs("|TMPFILE", out);
}

/* Very long names are cut. */
static void print_path(FILE *out, const char *path)
{
	size_t len = strlen(path);

	if (len <= 100)
		fprintf(out, "\"%s\"", path);
	else
		fprintf(out, "\"%.40s...%s\" (%zu bytes)", path, path + len - 8, len);
}

static void print_argument(FILE *out, const struct step *s, char letter)
{
	switch (letter) {
	case 'p':
		print_path(out, s->path);
		break;
	case 'q':
		print_path(out, s->path2);
		break;
	case 's':
		fprintf(out, "slot %u", s->slot);
		break;
	case 't':
		fprintf(out, "slot2 %u", s->slot2);
		break;
	case 'F':
		print_open_flags(out, s->flags);
		break;
	case 'f':
		fprintf(out, "flags=%#x", (unsigned)s->flags);
		break;
	case 'G':
		fprintf(out, "flags2=%#x", (unsigned)s->flags2);
		break;
	case 'm':
		fprintf(out, "mode=0%o", s->mode);
		break;
	case 'o':
		fprintf(out, "offset=%lld", (long long)s->offset);
		break;
	case 'l':
		fprintf(out, "length=%lld", (long long)s->length);
		break;
	case 'a':
		fprintf(out, "a=%lld", (long long)s->a);
		break;
	case 'b':
		fprintf(out, "b=%lld", (long long)s->b);
		break;
	case 'n':
		fprintf(out, "\"%s\"", s->name);
		break;
	case 'v':
		for (uint32_t i = 0; i < s->value_len; i++)
			fprintf(out, "%02x", s->value[i]);
		break;
	default:
		fputc('?', out);
	}
}

void step_print(FILE *out, const struct step *step)
{
	const struct op *op = op_get(step->op);

	fprintf(out, "%-26s %s(", worker_name(step->worker), op->name);
	for (const char *letter = op->arguments; *letter; letter++) {
		print_argument(out, step, *letter);
		if (letter[1])
			fputs(", ", out);
	}
	fprintf(out, ")%s\n", step->relative ? " in its working directory" : "");
}

static struct timespec time_of(const struct statx_timestamp *t)
{
	return (struct timespec){ .tv_sec = t->tv_sec, .tv_nsec = t->tv_nsec };
}

void observe(int fd, const char *path, struct observation *ret)
{
	struct statx st;

	memset(ret, 0, sizeof(*ret));
	if (statx(fd, path, AT_SYMLINK_NOFOLLOW | (*path ? 0 : AT_EMPTY_PATH), STATX_BASIC_STATS,
		  &st) < 0) {
		ret->error = errno;
		return;
	}
	ret->mode = st.stx_mode;
	ret->uid = st.stx_uid;
	ret->gid = st.stx_gid;
	ret->nlink = st.stx_nlink;
	ret->blksize = st.stx_blksize;
	ret->rdev = makedev(st.stx_rdev_major, st.stx_rdev_minor);
	ret->size = st.stx_size;
	ret->ino = st.stx_ino;
	ret->atime = time_of(&st.stx_atime);
	ret->mtime = time_of(&st.stx_mtime);
	ret->ctime = time_of(&st.stx_ctime);
	ret->has_flags = st.stx_attributes & (STATX_ATTR_APPEND | STATX_ATTR_IMMUTABLE);
}

void result_add(struct result *r, const char *format, ...)
{
	size_t room = sizeof(r->text) - r->text_len;
	va_list arguments;
	int n;

	va_start(arguments, format);
	n = vsnprintf(r->text + r->text_len, room, format, arguments);
	va_end(arguments);
	if (n > 0)
		r->text_len += (uint32_t)((size_t)n < room ? (size_t)n : room - 1);
}

void result_add_bytes(struct result *r, const void *bytes, size_t len)
{
	const unsigned char *at = bytes;
	uint64_t digest = 0xcbf29ce484222325ULL;

	for (size_t i = 0; i < len; i++)
		digest = (digest ^ at[i]) * 0x100000001b3ULL;
	result_add(r, "%zu bytes %016llx ", len, (unsigned long long)digest);
	for (size_t i = 0; i < len && i < 24; i++)
		result_add(r, "%02x", at[i]);
	result_add(r, " ");
}

void result_add_stat(struct result *r, const struct stat *st)
{
	result_add(r, "%06o %u:%u links %u rdev %llx ", st->st_mode, st->st_uid, st->st_gid,
		   (unsigned)st->st_nlink, (unsigned long long)st->st_rdev);
	/* A directory's depends on the file system, too: compare_observed(). */
	if (!S_ISDIR(st->st_mode))
		result_add(r, "size %lld ", (long long)st->st_size);
}
