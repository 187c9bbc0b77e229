// SPDX-License-Identifier: Apache-2.0
#include "mountd/mount8/umount.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "fs/base/log.h"
#include "mountd/client/call.h"
#include "mountd/client/place.h"
#include "mountd/path.h"
#include "mountd/proto.h"

static const char umount_help[] =
	"usage: umount.fuse.fsgroupfs DIR [-flnrv] [-N NAMESPACE]\n"
	"called by umount(8)\n"
	"  -f  what is no volume's is unmounted by force; a volume's server that hangs is replaced anyway\n"
	"  -l  lazily: who uses it keeps it until he is done\n"
	"  -r  made read-only where it cannot be unmounted\n"
	"  -v  says what was done\n";

struct call {
	const char *program, *dir, *root, *space;
	bool lazy, force, or_read_only, verbose;
};

/* What the daemon says of it. */
enum outcome { OUTCOME_DONE, OUTCOME_NOT_A_VOLUME, OUTCOME_FAILED };

static void __attribute__((format(printf, 2, 3)))
complain(const struct call *c, const char *format, ...)
{
	char text[2048], quoted[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fprintf(stderr, "%s: %s: %s\n", c->program, log_quote(c->dir, quoted, sizeof(quoted)),
		text);
}

bool mount8_has_records(const char *root)
{
	AUTO(layout) *layout = NULL;

	return layout_open(root, false, &layout) == 0 && layout->state_fd >= 0 &&
	       faccessat(layout->state_fd, PATH_STORE, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* @request is stolen. *ret_reply may be NULL: nothing can be said; *ret_error says why. */
static json_t *ask(const struct call *c, json_t *request, char *ret_error, size_t size)
{
	AUTO_FREE char *absolute = NULL;
	json_t *reply = NULL;

	snprintf(ret_error, size, "no memory");
	if (path_absolute(c->dir, &absolute) == 0 && request &&
	    json_object_set_new(request, "volume", json_string(absolute)) == 0)
		(void)client_call_in(c->root, c->space, request, NULL, NULL, &reply, ret_error,
				     size);
	json_decref(request);
	return reply;
}

static enum outcome unmount_volume(const struct call *c)
{
	json_t *request =
		json_pack("{s:s, s:b, s:b}", "command", "unmount", "lazy", c->lazy, "byHand", 1);
	char why[1024];
	json_t *reply = ask(c, request, why, sizeof(why));
	enum outcome outcome = OUTCOME_FAILED;
	const char *error;

	/* Without its daemon a volume can be unmounted as well: the next one finishes it. */
	if (!reply)
		return OUTCOME_NOT_A_VOLUME;
	error = client_reply_text(reply, "error");
	if (client_reply_exit(reply) != EXIT_OK)
		complain(c, "%s", error ? error : "failed");
	else if (json_is_string(json_object_get(json_object_get(reply, "result"), "volume")))
		outcome = OUTCOME_DONE;
	else
		outcome = OUTCOME_NOT_A_VOLUME;
	json_decref(reply);
	return outcome;
}

static int unmount_plainly(const struct call *c)
{
	int flags = UMOUNT_NOFOLLOW | (c->lazy ? MNT_DETACH : 0) | (c->force ? MNT_FORCE : 0);

	int r = c->space ? client_place_enter(c->space) : 0;

	if (r < 0)
		return r;
	return umount2(c->dir, flags) < 0 ? -errno : 0;
}

/* What umount -r is for: nobody writes to it any more. */
static bool make_read_only(const struct call *c)
{
	char why[1024];
	json_t *reply = ask(c, json_pack("{s:s, s:s}", "command", "remount", "mountOptions", "ro"),
			    why, sizeof(why));
	bool done = reply && client_reply_exit(reply) == EXIT_OK;

	json_decref(reply);
	return done;
}

static int unmount(const struct call *c)
{
	enum outcome outcome =
		mount8_has_records(c->root) ? unmount_volume(c) : OUTCOME_NOT_A_VOLUME;
	int r;

	if (outcome == OUTCOME_NOT_A_VOLUME) {
		r = unmount_plainly(c);
		if (r == 0)
			outcome = OUTCOME_DONE;
		else
			complain(c, "%s", strerror(-r));
	}
	if (outcome != OUTCOME_DONE && c->or_read_only && make_read_only(c)) {
		complain(c, "is read-only now");
		return MOUNT8_OK;
	}
	if (outcome != OUTCOME_DONE)
		return MOUNT8_FAILED;
	if (c->verbose)
		printf("%s: %s unmounted\n", c->program, c->dir);
	return MOUNT8_OK;
}

/* -1: go on; else the exit status. */
static int parse_arguments(struct call *c, int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "flnrvt:N:hV")) != -1) {
		switch (option) {
		case 'f':
			c->force = true;
			break;
		case 'l':
			c->lazy = true;
			break;
		case 'r':
			c->or_read_only = true;
			break;
		case 'v':
			c->verbose = true;
			break;
		case 'N':
			c->space = optarg;
			break;
		case 'n': /* there is no mtab of ours */
		case 't': /* we are it */
			break;
		case 'h':
			fputs(umount_help, stdout);
			return MOUNT8_OK;
		case 'V':
			printf("%s of fsgroupfs %s\n", c->program, FSGROUPFS_VERSION);
			return MOUNT8_OK;
		default:
			return MOUNT8_USAGE; /* getopt has said why */
		}
	}
	if (argc - optind != 1) {
		fprintf(stderr, "%s: DIR is needed (-h says more)\n", c->program);
		return MOUNT8_USAGE;
	}
	c->dir = argv[optind];
	return -1;
}

int umount_main(const char *program, int argc, char **argv)
{
	const char *root = getenv("FSGROUPFS_ROOT");
	struct call call = { .program = program, .root = root && *root ? root : "/" };
	int exit = parse_arguments(&call, argc, argv);

	return exit >= 0 ? exit : unmount(&call);
}
