// SPDX-License-Identifier: Apache-2.0
/*
 * mount.fsgroupfs, and by the names mount.fuse.fsgroupfs and umount.fuse.fsgroupfs the same program: what mount(8) and
 * umount(8) call for volumes (mount(8), External helpers). One request to the daemon; exit statuses are those of
 * mount(8).
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "fs/base/cleanup.h"
#include "fs/base/log.h"
#include "mountd/client/call.h"
#include "mountd/client/place.h"
#include "mountd/mount8/options.h"
#include "mountd/mount8/umount.h"
#include "mountd/object_file.h"
#include "mountd/path.h"
#include "mountd/proto.h"

static const char mount_help[] =
	"usage: mount.fsgroupfs SOURCE DIR [-sfnvrw] [-N NAMESPACE] [-o OPTION[,OPTION...]]\n"
	"called by mount(8): mount -t fsgroupfs -o gid=4242 /srv/data /mnt\n"
	"  SOURCE            a directory or a block device; with plugin= what that plugin mounts, or none\n"
	"  -o gid=N          the group (fsGroup) that the volume is to belong to\n"
	"  -o plugin=NAME    another plugin than local; source=TEXT if SOURCE cannot say it\n"
	"  -o spec=FILE      a PersistentVolume, Volume or volume source as JSON; SOURCE is none then\n"
	"  -o objects=PATH   Kubernetes objects for it, pod=NS/NAME: which of the pods in them\n"
	"  -o staged=ID      a device that fsgroupctl has staged; SOURCE is none then\n"
	"  -o ro             a read-only volume: nothing is ever written to it\n"
	"  -o policy= ownership= exclude= keep_private converge_rate= handoff= settle= conflict= coherence= transport=\n"
	"     idmap= persist volume_id= as the options of fsgroupctl mount; exclude may be repeated, and quoted: exclude=\"a,b\"\n"
	"  -o context=LABEL  of SELinux, for all files of the overlay (default: that of the source); none: that of FUSE\n"
	"  -o root=DIR       the root directory of the daemon (default $FSGROUPFS_ROOT, else /)\n"
	"  -o nosuid nodev noexec noatime nodiratime relatime strictatime, and their opposites\n"
	"  -o remount,...    changes these and ro, rw of a volume that is mounted\n"
	"  -f nothing is done; -s unknown options are left out; -v says what was done\n";

struct call {
	const char *program;
	const char *source, *dir, *space;
	char *list; /* of all -o, one after the other */
	bool fake, sloppy, verbose;
	struct mount8_options options;
	const char *root;
};

static int __attribute__((format(printf, 3, 4)))
complain(const struct call *c, int exit, const char *format, ...)
{
	char text[2048], quoted[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fprintf(stderr, "%s: %s%s%s\n", c->program,
		c->dir ? log_quote(c->dir, quoted, sizeof(quoted)) : "", c->dir ? ": " : "", text);
	return exit;
}

/* ---- arguments ---- */

static int append(struct call *c, const char *list)
{
	char *longer = NULL;

	if (asprintf(&longer, "%s%s%s", c->list ? c->list : "", c->list ? "," : "", list) < 0)
		return -ENOMEM;
	free(c->list);
	c->list = longer;
	return 0;
}

/* -1: go on; else the exit status. */
static int parse_arguments(struct call *c, int argc, char **argv)
{
	int option, r = 0;

	while ((option = getopt(argc, argv, "sfnvrwo:t:N:hV")) != -1) {
		switch (option) {
		case 's':
			c->sloppy = true;
			break;
		case 'f':
			c->fake = true;
			break;
		case 'v':
			c->verbose = true;
			break;
		case 'r':
			r = append(c, "ro");
			break;
		case 'w':
			r = append(c, "rw");
			break;
		case 'o':
			r = append(c, optarg);
			break;
		case 'N':
			c->space = optarg;
			break;
		case 'n': /* there is no mtab of ours */
		case 't': /* we are it */
			break;
		case 'h':
			fputs(mount_help, stdout);
			return MOUNT8_OK;
		case 'V':
			printf("%s of fsgroupfs %s\n", c->program, FSGROUPFS_VERSION);
			return MOUNT8_OK;
		default:
			return MOUNT8_USAGE; /* getopt has said why */
		}
		if (r < 0)
			return complain(c, MOUNT8_SYSTEM, "%s", strerror(-r));
	}
	if (argc - optind != 2)
		return complain(c, MOUNT8_USAGE, "SOURCE and DIR are needed (-h says more)");
	c->source = argv[optind];
	c->dir = argv[optind + 1];
	return -1;
}

static int mount8_exit(int exit)
{
	return exit == EXIT_OK ? MOUNT8_OK : exit == EXIT_USAGE ? MOUNT8_USAGE : MOUNT8_FAILED;
}

/* ---- what is mounted ---- */

static int set_spec(struct call *c, json_t *request, char *why)
{
	AUTO_FD int fd = -1;
	AUTO_FREE char *text = NULL;
	char quoted[256];
	int r = proto_keep_secret();

	if (r == 0)
		fd = open(c->options.spec, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (r == 0)
		r = fd < 0 ? -errno : object_text_read(fd, &text);
	if (r == 0)
		return words_set_text(request, "spec", text, why);
	snprintf(why, WORDS_ERROR_MAX, "spec %s: %s",
		 log_quote(c->options.spec, quoted, sizeof(quoted)), strerror(-r));
	return EXIT_FAILED;
}

/* The words that fstab has in its first column where there is no source. */
static bool names_a_source(const struct call *c)
{
	return strcmp(c->source, "none") != 0 && strcmp(c->source, "fsgroupfs") != 0 &&
	       (!c->options.plugin || strcmp(c->source, c->options.plugin) != 0);
}

static int set_source(struct call *c, json_t *request, char *why)
{
	const char *plugin = c->options.plugin ? c->options.plugin : "local";
	const char *source = c->options.source ? c->options.source :
			     names_a_source(c) ? c->source :
						 NULL;
	int exit = EXIT_OK;

	if (c->options.spec || json_object_get(request, "staged")) {
		if (!c->options.source && !c->options.plugin && !names_a_source(c))
			return c->options.spec ? set_spec(c, request, why) : EXIT_OK;
		snprintf(why, WORDS_ERROR_MAX,
			 "two conflicting sources: with spec= or staged= the source is none");
		return EXIT_USAGE;
	}
	if (!c->options.plugin)
		exit = words_set_text(request, "plugin", plugin, why);
	if (exit == EXIT_OK && source)
		exit = words_set_source(request, plugin, source, why);
	return exit;
}

/* What is asked for, but for the place. */
static int fill_mount(struct call *c, json_t *request, char *why)
{
	struct mount_flags flags = c->options.flags;
	AUTO_FREE char *text = NULL;
	int exit = set_source(c, request, why);

	if (exit == EXIT_OK && c->options.objects)
		exit = words_set_path(request, "objectsPath", c->options.objects, why);
	if (exit != EXIT_OK)
		return exit;
	/* Of a mount that begins so it is the volume that is read-only. */
	if (flags.set & MOUNT_ATTR_RDONLY)
		json_object_set_new(request, "readOnly", json_true());
	flags.set &= ~(uint64_t)MOUNT_ATTR_RDONLY;
	flags.clear &= ~(uint64_t)MOUNT_ATTR_RDONLY;
	if (mount_flags_text(&flags, &text) < 0)
		return EXIT_FAILED;
	return text ? words_set_text(request, "mountOptions", text, why) : EXIT_OK;
}

/* All of the list counts, and what it does not have is off; access times stay: mount(2), MS_REMOUNT. */
static struct mount_flags remount_flags(const struct call *c)
{
	static const char *const off[] = { "rw", "suid", "dev", "exec" };
	struct mount_flags flags = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(off); i++)
		(void)mount_flags_add(&flags, off[i]);
	return mount_flags_over(&flags, &c->options.flags);
}

static int fill_remount(struct call *c, json_t *request, char *why)
{
	const struct mount_flags flags = remount_flags(c);
	AUTO_FREE char *text = NULL;

	if (c->options.spec || c->options.objects || c->options.source) {
		snprintf(why, WORDS_ERROR_MAX, "%s cannot change by a remount",
			 c->options.spec    ? "spec" :
			 c->options.objects ? "objects" :
					      "source");
		return EXIT_FAILED;
	}
	if (mount_flags_text(&flags, &text) < 0)
		return EXIT_FAILED;
	return text ? words_set_text(request, "mountOptions", text, why) : EXIT_OK;
}

static int fill(struct call *c, json_t *request, char *why)
{
	bool remount = c->options.remount;
	int exit = remount ? fill_remount(c, request, why) : fill_mount(c, request, why);

	if (exit == EXIT_OK)
		exit = words_set_path(request, remount ? "volume" : "target", c->dir, why);
	json_object_set_new(request, "command", json_string(remount ? "remount" : "mount"));
	if (!remount)
		json_object_set_new(request, "frontEnd", json_string("mount"));
	return exit;
}

/* ---- asking ---- */

static int finish(const struct call *c, const json_t *reply)
{
	const char *error = client_reply_text(reply, "error");
	const char *note = client_reply_text(reply, "note");
	const char *state =
		json_string_value(json_object_get(json_object_get(reply, "result"), "state"));
	int exit = client_reply_exit(reply);

	if (exit != EXIT_OK)
		return complain(c, mount8_exit(exit), "%s", error ? error : "failed");
	if (note)
		complain(c, 0, "note: %s", note);
	if (c->options.without_effect)
		complain(c, 0,
			 "note: %s is of the source's own file system, and has no effect here",
			 c->options.without_effect);
	if (c->verbose)
		printf("%s: %s %s on %s (%s)\n", c->program, c->source,
		       c->options.remount ? "remounted" : "mounted", c->dir,
		       state ? state : "done");
	return MOUNT8_OK;
}

/* What is no volume's mount is none of the daemon's business: a bind mount of one, an overlay without a daemon. */
static int remount_plainly(struct call *c)
{
	struct mount_flags flags = remount_flags(c);
	struct mount_attr attr = { .attr_set = flags.set, .attr_clr = flags.clear };
	int r = c->space ? client_place_enter(c->space) : 0;

	if (r == 0 && mount_setattr(AT_FDCWD, c->dir, AT_SYMLINK_NOFOLLOW, &attr, sizeof(attr)) < 0)
		r = -errno;
	return r < 0 ? complain(c, MOUNT8_FAILED, "%s", strerror(-r)) : MOUNT8_OK;
}

static int ask(struct call *c, json_t *request)
{
	char why[1024] = "no memory";
	json_t *reply = NULL;
	int exit;

	if (c->options.remount && !mount8_has_records(c->root))
		return remount_plainly(c);
	if (client_call_in(c->root, c->space, request, NULL, NULL, &reply, why, sizeof(why)) < 0)
		return complain(c, MOUNT8_SYSTEM, "%s", why);
	if (c->options.remount && client_reply_exit(reply) == EXIT_NO_VOLUME)
		exit = remount_plainly(c);
	else
		exit = finish(c, reply);
	json_decref(reply);
	return exit;
}

static int mount_main(struct call *c, int argc, char **argv)
{
	char why[WORDS_ERROR_MAX] = "no memory";
	int exit = parse_arguments(c, argc, argv);

	if (exit >= 0)
		return exit;
	if (geteuid() != 0)
		return complain(c, MOUNT8_USAGE, "only root mounts volumes");
	c->options.request = json_object();
	exit = c->options.request ? EXIT_OK : EXIT_FAILED;
	if (exit == EXIT_OK && c->list)
		exit = mount8_options_parse(c->list, c->sloppy, &c->options, why);
	if (exit == EXIT_OK && c->options.root)
		c->root = c->options.root;
	if (exit == EXIT_OK)
		exit = fill(c, c->options.request, why);
	if (exit != EXIT_OK)
		exit = complain(c, mount8_exit(exit), "%s", why);
	else if (!c->fake)
		exit = ask(c, c->options.request);
	json_decref(c->options.request);
	return exit;
}

int main(int argc, char **argv)
{
	const char *name = strrchr(argv[0], '/'), *root = getenv("FSGROUPFS_ROOT");
	struct call call = {
		.program = name ? name + 1 : argv[0],
		.root = root && *root ? root : "/",
	};
	int exit;

	/* Else we would be named among those who hold what our caller has open. */
	close_range(3, ~0U, 0);
	signal(SIGPIPE, SIG_IGN);
	/* A spec may hold secrets. */
	proto_wipe_json();
	if (strncmp(call.program, "umount", strlen("umount")) == 0)
		return umount_main(call.program, argc, argv);
	exit = mount_main(&call, argc, argv);
	free(call.list);
	return exit;
}
