// SPDX-License-Identifier: Apache-2.0
#include "mountd/ctl/help.h"

#include <stdio.h>
#include <string.h>

#include "fs/base/cleanup.h"

#define MOUNT_OWNERSHIP                                                                                          \
	"  --fsgroup GID        the group that is to own the volume, decimal; without it nothing is changed\n"   \
	"  --policy P           Always: every set-up begins a run; OnRootMismatch: only where the root is not\n" \
	"                       right already; RootOnly: the root directory and nothing below\n"                 \
	"  --exclude PATTERN    leaves out what matches, as in gitignore: 'pgdata/**', '*.key', '.ssh/';\n"      \
	"                       may be repeated\n"

#define OBJECTS                                                                                             \
	"  --objects FILE|DIR   Secrets, ConfigMaps, Pods and the like as JSON: one object, a List, or a\n" \
	"                       directory of such files; \"-\" is standard input\n"                         \
	"  --pod NS/NAME        which of several Pods among them\n"

#define DRY_RUN                                                                                    \
	"  --dry-run            checks everything and says what would be done; writes nothing\n"
#define JSON "  --json               the answer as one JSON value (mountd/SCHEMA.md)\n"

static const struct command_help commands[] = {
	/* clang-format off */
	{ "mount",
	  "--plugin NAME [--source S] | --spec FILE | --staged ID\n"
	  "[--objects FILE|DIR] [--pod NS/NAME] --target DIR [--fsgroup GID]\n"
	  "[--policy Always|OnRootMismatch|RootOnly] [--ownership converge|virtual|none]\n"
	  "[--exclude PATTERN]... [--keep-private] [--read-only] [--converge-rate N]\n"
	  "[--handoff yes|no|namespaces] [--settle MS] [--conflict refuse|virtual]\n"
	  "[--coherence exclusive|shared] [--transport dev|io_uring] [--context LABEL]\n"
	  "[--idmap yes|no] [--persist] [--volume-id ID] [--dry-run] [--json]",
	  "sets a volume up and mounts it; it is usable with its fsGroup at once",
	  "  --plugin NAME        emptyDir, hostPath, local, secret, configMap, downwardAPI, projected, gitRepo,\n"
	  "                       persistentVolumeClaim, nfs, flexVolume, gcePersistentDisk ...\n"
	  "  --source S           the path of local and hostPath, or the JSON of the plugin's volume source\n"
	  "  --spec FILE          a PersistentVolume, a Volume or a volume source as JSON; \"-\" is standard input\n"
	  "  --staged ID          a device that was staged; the source it was staged for will do as well\n"
	  OBJECTS
	  "  --target DIR         where; it must exist\n"
	  MOUNT_OWNERSHIP
	  "  --ownership MODE     converge: shown at once, then made true; virtual: shown for ever, never\n"
	  "                       written; none: as it is\n"
	  "  --keep-private       files 0600 and 0400 and directories 0700 keep their bits\n"
	  "  --read-only          nothing is ever written; shown with the read-only bits\n"
	  "  --converge-rate N    at most N files a second; 0: no limit\n"
	  "  --handoff WHEN       no: never becomes native; namespaces: copies in containers are replaced too\n"
	  "  --settle MS          waits so long for a small volume to become native\n"
	  "  --conflict WHAT      where another volume has another ownership on the tree: refuse, or be virtual\n"
	  "  --coherence C        exclusive: nobody else writes below; shared: looked at again within a second\n"
	  "  --transport T        dev, or io_uring: fewer switches, but a server that dies ends the mount\n"
	  "  --context LABEL      of SELinux, for all files of the overlay (default: that of the source);\n"
	  "                       none: that of any FUSE mount\n"
	  "  --idmap yes|no       whether its mount may be idmapped, for pods in user namespaces (Linux 6.12)\n"
	  "  --persist            mounted again after a restart of the machine\n"
	  "  --volume-id ID       else made from the target\n"
	  DRY_RUN JSON
	  "Repeating a mount with equal arguments is a success, and of a refreshable volume a refresh.\n",
	  "fsgroupctl mount --plugin local --source /srv/data --target /mnt/data --fsgroup 4242\n"
	  "fsgroupctl mount --plugin emptyDir --source '{\"medium\": \"Memory\"}' --target /mnt/scratch\n"
	  "fsgroupctl mount --spec volume.json --objects objects/ --target /mnt/secret --fsgroup 4242\n"
	  "fsgroupctl mount --plugin local --source /srv/db --target /mnt/db --fsgroup 4242 --exclude 'pgdata/**'" },
	{ "unmount",
	  "TARGET|ID [--lazy] [--dry-run] [--json] | --all",
	  "unmounts a volume and tears it down; what is neither mounted nor known is a success",
	  "  --lazy               also where it is in use: it goes when its last user does\n"
	  "  --all                every volume of the node; goes on after a failure; exit 1 names each that stayed,\n"
	  "                       and who holds it. Staged devices stay\n"
	  DRY_RUN JSON,
	  "fsgroupctl unmount /mnt/data\n"
	  "fsgroupctl unmount --all             # before a node goes down" },
	{ "stage",
	  "--spec FILE --device PATH [--format] [--fs-type T] [--mount-options O]\n"
	  "[--staging DIR] [--volume-id ID] [--dry-run] [--json]",
	  "checks a block device and mounts it once, for all volumes that use it; prints its id",
	  "  --spec FILE          a PersistentVolume or volume source of an attachable plugin\n"
	  "  --device PATH        the block device\n"
	  "  --format             makes a file system, but only on a device that is provably empty\n"
	  "  --fs-type T          the file system's type; default ext4\n"
	  "  --mount-options O    separated by commas\n"
	  "  --staging DIR        where; else in the state directory\n"
	  "  --volume-id ID       else made from the staging directory\n"
	  DRY_RUN JSON,
	  "fsgroupctl stage --spec disk.json --device /dev/sdb --volume-id disk-1\n"
	  "fsgroupctl mount --staged disk-1 --target /mnt/disk --fsgroup 4242" },
	{ "unstage",
	  "ID|DIR [--dry-run] [--json]",
	  "unmounts a staged device that no volume uses any more",
	  DRY_RUN JSON,
	  "fsgroupctl unstage disk-1" },
	{ "refresh",
	  "TARGET|ID [--objects FILE|DIR] [--pod NS/NAME] [--dry-run] [--json]",
	  "writes a secret, configMap, downwardAPI or projected volume anew; prints changed or unchanged",
	  OBJECTS DRY_RUN JSON,
	  "fsgroupctl refresh /mnt/secret --objects objects/" },
	{ "update",
	  "TARGET|ID [--fsgroup GID] [--policy Always|OnRootMismatch|RootOnly]\n"
	  "[--exclude PATTERN]... [--converge-rate N] [--spec FILE] [--dry-run] [--json]",
	  "changes what is wanted of a mounted volume; prints what changed",
	  MOUNT_OWNERSHIP
	  "                       --exclude '' takes all patterns away\n"
	  "  --converge-rate N    files a second, from now on; 0: no limit\n"
	  "  --spec FILE          of the same source\n"
	  DRY_RUN JSON,
	  "fsgroupctl update /mnt/data --converge-rate 1000\n"
	  "fsgroupctl update /mnt/data --fsgroup 4243   # only while nobody uses it" },
	{ "status",
	  "[TARGET|ID] [--watch] [--json]",
	  "one volume in full, or a table of all",
	  "  --watch              again at each change; on a terminal in its place, else a line more\n"
	  JSON,
	  "fsgroupctl status /mnt/data\n"
	  "fsgroupctl status --watch\n"
	  "fsgroupctl status /mnt/data --json | jq -r .reason" },
	{ "list",
	  "[--json]",
	  "a table of all volumes",
	  JSON,
	  "fsgroupctl list" },
	{ "wait",
	  "TARGET|ID --for presented|converged|native [--timeout SECONDS] [--json]",
	  "until the volume is so far; 1: it can never be, 3: the time is over",
	  "  --for STATE          reached or passed\n"
	  "  --timeout SECONDS    or a time with its unit: 500ms, 2m\n"
	  JSON,
	  "fsgroupctl wait /mnt/data --for native --timeout 60" },
	{ "pause",
	  "TARGET|ID [--json]",
	  "holds the walk; the volume stays usable",
	  JSON,
	  "fsgroupctl pause /mnt/data" },
	{ "resume",
	  "TARGET|ID [--json]",
	  "lets the walk go on",
	  JSON,
	  "fsgroupctl resume /mnt/data" },
	{ "converge",
	  "TARGET|ID [--rate N|max] [--json]",
	  "starts the walk now, or makes it faster; tries what failed again",
	  "  --rate N|max         files a second\n"
	  JSON,
	  "fsgroupctl converge /mnt/data --rate max" },
	{ "recover",
	  "TARGET|ID [--json]",
	  "tries again to serve a volume whose servers, or whose overlay, kept dying",
	  JSON,
	  "fsgroupctl recover /mnt/data" },
	{ "events",
	  "[-f | --follow] [--json]",
	  "what happened to the volumes of this node",
	  "  -f, --follow         goes on with what happens from now on\n"
	  "  --json               an object a line\n",
	  "fsgroupctl events -f" },
	{ "explain",
	  "PATH [--json]",
	  "why a file is shown as it is; of a target: why the volume is not native",
	  "PATH is not opened: the volume's server is asked, and answers within two seconds or not at all.\n"
	  "Symbolic links below the target are not followed.\n"
	  JSON,
	  "fsgroupctl explain /mnt/data\n"
	  "fsgroupctl explain /mnt/data/deep/down/file" },
	{ "doctor",
	  "[--json]",
	  "looks at everything that fsgroupfs needs on this machine; 1: something fails",
	  "A line for each: ok, warn or fail, and how it is mended. Starts no daemon and changes nothing; what\n"
	  "an ordinary user may not look at it says.\n"
	  JSON,
	  "fsgroupctl doctor" },
	{ "config",
	  "check [FILE] [--json]",
	  "reads mountd.conf, or FILE, strictly, and shows what it allows to each front end",
	  "1: what is wrong is named with line, column and key; and so is a file that others may write.\n"
	  JSON,
	  "fsgroupctl config check\n"
	  "fsgroupctl config check ./mountd.conf" },
	{ "metrics",
	  "[--json]",
	  "the daemon's figures in Prometheus' text form",
	  "  --json               the text as one JSON string\n",
	  "fsgroupctl metrics >/var/lib/node-exporter/fsgroupfs.prom.new" },
	{ "install-flexvolume",
	  "DIR [--attachable] [--json]",
	  "installs the driver that kubelet calls into its plugin directory",
	  "  --attachable         the driver for block devices as well\n"
	  JSON,
	  "fsgroupctl install-flexvolume /usr/libexec/kubernetes/kubelet-plugins/volume/exec" },
	{ "reconstruct",
	  "[--dry-run] [--json]",
	  "compares the records with what there is, and mends each difference",
	  "  --dry-run            only says what it would do\n"
	  JSON,
	  "fsgroupctl reconstruct --dry-run" },
	{ "store",
	  "check | dump | restore FILE [--json]",
	  "the records: checks them, writes them out, adds those of a dump",
	  JSON,
	  "fsgroupctl store check\n"
	  "fsgroupctl store dump >volumes.json" },
	{ "upgrade",
	  "--volume ID | --all [--json]",
	  "has what serves volumes followed by the programs that are installed now; nobody is unmounted",
	  "  --volume ID          only what serves this volume\n"
	  "  --all                all of them, then the daemon\n"
	  JSON
	  "A program that cannot take over is refused while the old one serves on.\n",
	  "fsgroupctl upgrade --all" },
	{ "completion",
	  "bash | zsh",
	  "prints what makes a shell complete commands, options and volumes",
	  "Volumes are those of a daemon that runs; none is started.\n",
	  "fsgroupctl completion bash >/usr/share/bash-completion/completions/fsgroupctl\n"
	  "source <(fsgroupctl completion bash)" },
	{ "help",
	  "[COMMAND]",
	  "this, or all about one command",
	  NULL,
	  "fsgroupctl help mount" },
	/* clang-format on */
};

const struct command_help *help_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	}
	return NULL;
}

const struct command_help *help_at(unsigned index)
{
	return index < ARRAY_SIZE(commands) ? &commands[index] : NULL;
}

/* Lines, each but the first after @indent spaces. */
static void print_lines(const char *text, int indent)
{
	for (; *text; text++) {
		putchar(*text);
		if (*text == '\n' && text[1])
			printf("%*s", indent, "");
	}
}

void help_all(void)
{
	puts("usage: fsgroupctl [--root DIR] COMMAND");
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		size_t len = strlen(commands[i].name);

		/* A long name has its line to itself. */
		printf("  %-11s", commands[i].name);
		if (len > 10)
			printf("\n%*s", 13, "");
		print_lines(commands[i].usage, 13);
		putchar('\n');
	}
	puts("A TARGET has a '/' in it; what has none is an ID. fsgroupctl help COMMAND says more.\n"
	     "--root DIR, or FSGROUPFS_ROOT: where state, run-time files and configuration are found (default /).\n"
	     "Exit status: 0; 1 failed; 2 usage; 3 timed out; 4 no such volume.");
}

void help_command(const struct command_help *help)
{
	printf("usage: fsgroupctl [--root DIR] %s ", help->name);
	print_lines(help->usage, 9);
	printf("\n%s %s.\n", help->name, help->about);
	if (help->details)
		printf("\n%s", help->details);
	printf("\nExamples:\n  ");
	print_lines(help->examples, 2);
	putchar('\n');
}
