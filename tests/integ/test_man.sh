#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The manual pages: written well, telling of every option and of none that is not there, with examples that work. Needs
# root and /dev/fuse.
set -euo pipefail
# shellcheck source=tests/integ/lib_volume.sh
. "$(dirname "$0")/lib_volume.sh"
# shellcheck source=tests/integ/lib_document.sh
. "$(dirname "$0")/lib_document.sh"
need_root
need_fuse
need_tools mandoc col jq make
own_mounts "$0" "$@"
start_volume_test
show_mount_helpers
cd "$repository"
pages=(fs/man/* mountd/man/*)

# ---- there, and well written ----

unset MAKEFLAGS MFLAGS MAKEOVERRIDES
make -s install-files BIN="$BIN" OBJ="$scratch/obj" DESTDIR="$scratch/dest" PREFIX=/usr
for program in "$scratch"/dest/usr/{bin,sbin}/*; do
	check_fails "${program##*/} has a page" same "$scratch/dest/usr/share/man/man[18]/${program##*/}.[18]" \
		"$(printf '%s\n' "$scratch"/dest/usr/share/man/man[18]/"${program##*/}".[18])"
done
for page in "${pages[@]}"; do
	check_same "$page is well written" '' "$(mandoc -Tlint -W warning "$page" 2>&1)"
	check "$page is installed" test -f "$scratch/dest/usr/share/man/man${page##*.}/${page##*/}"
done

# ---- options ----

# What a page says before its examples.
words_of() { mandoc -Tascii -O width=200 "$1" | col -bx | sed '/^EXAMPLES/,$d'; }
long_options() { grep -oE -- '--[a-z][a-z-]*[a-z]' | sort -u; }
mount_options() {
	sed -n -e 's/.*-o \([a-z_]*\)=.*/\1/p' -e 's/.*-o \([a-z_]*\)  .*/\1/p' -e 's/^ *-o \([a-z_, ]*\)$/\1/p' \
		-e 's/.*and the mount options //p' | tr ', ' '\n\n' |
		sed -e '/^$/d' -e 's/^\[no\]\(.*\)/\1\nno\1/' | sort -u
}
# said_of PROGRAM PAGE FILTER: help and page name the same.
said_of() {
	"$BIN/$1" --help | "$3" >"$scratch/help"
	words_of "$2" | "$3" | grep -vxE -- "${4:-}" >"$scratch/said" || true
	check "$1 has options" test -s "$scratch/help"
	check "$2 tells of the options that --help tells of" same_files "$scratch/help" "$scratch/said"
}
said_of fsgroupctl mountd/man/fsgroupctl.1 long_options '--help'
said_of fsgroup-mountd mountd/man/fsgroup-mountd.8 long_options '--help|--persist'
said_of fsgroupfs fs/man/fsgroupfs.1 mount_options

commands_listed() { sed -n 's/^  \([a-z][a-z-]*\).*/\1/p' | sort -u; }
"$BIN/fsgroupctl" --help | commands_listed >"$scratch/help"
words_of mountd/man/fsgroupctl.1 | sed -n '/^COMMANDS/,/^STATES/s/^     \([a-z][a-z-]*\)\( .*\)\{0,1\}$/\1/p' |
	grep -vx '[a-z-]*,' | sort -u >"$scratch/said"
check 'of every command' same_files "$scratch/help" "$scratch/said"

# The keys stand in tables, a row each; a section of one key has none.
grep -oE '\{ "[a-z-]+",[[:space:]]+set_|strcmp\(key, "[a-z-]+"' mountd/rules.c |
	cut -d '"' -f 2 | sort -u >"$scratch/keys"
sed -n 's/^\.It Cm //p' mountd/man/mountd.conf.5 | tr -d '\\' | sort -u >"$scratch/said"
check 'of every key of mountd.conf' same_files "$scratch/keys" "$scratch/said"

# Those that begin with kubernetes.io are kubelet's own.
sed -n 's/^\t{ "\([a-zA-Z]*\)", .*/\1/p' mountd/flex/options.c | sort -u >"$scratch/keys"
sed -n 's/^\.It Va //p' mountd/man/fsgroup-flexvolume.8 | tr -d ' ' | tr ',' '\n' | grep -v '^kubernetes' |
	sort -u >"$scratch/said"
check 'of every option of the FlexVolume drivers' same_files "$scratch/keys" "$scratch/said"
sed -n 's/^\t{ "\([a-z]*\)", [0-9],.*/\1/p' mountd/flex/call.c | sort -u >"$scratch/keys"
sed -n '/^\.Sh SYNOPSIS/,/^\.Sh DESCRIPTION/s/^\.Cm //p' mountd/man/fsgroup-flexvolume.8 | tr -d ' ' | tr '|' '\n' |
	sort -u >"$scratch/said"
check 'and of every call' same_files "$scratch/keys" "$scratch/said"

# ---- examples ----

run_examples() {
	examples_of "$1" >"$scratch/examples"
	check "$1 has examples" test -s "$scratch/examples"
	mount -t tmpfs -o mode=755 tmpfs /srv
	mount -t tmpfs -o mode=755 tmpfs /mnt
	check "the examples of $1 work" run_commands "$scratch/examples"
	ctl unmount --all
	kill_daemon TERM
	check "$1: nothing serves what they showed" no_process_stays
	umount /srv /mnt
}
for page in "${pages[@]}"; do
	run_examples "$page"
done
end_volume_test
