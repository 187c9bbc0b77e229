#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# make install and make uninstall. Needs root and /dev/fuse.
set -euo pipefail
# shellcheck source=tests/integ/lib_volume.sh
. "$(dirname "$0")/lib_volume.sh"
need_root
need_fuse
need_tools make
own_mounts "$0" "$@"
start_volume_test

dest=$scratch/dest
prefix=/opt/fs
unset MAKEFLAGS MFLAGS MAKEOVERRIDES

makes() {
	make -s -C "$repository" "$1" BIN="$BIN" OBJ="$scratch/obj" DESTDIR="$dest" PREFIX="$prefix" >"$scratch/make" 2>&1 ||
		{ sed 's/^/#  /' "$scratch/make" && false; }
}
files() { (cd "$dest" && find . -mindepth 1 ! -type d | sort); }

# ---- what others have there ----

mkdir -p "$dest$prefix/bin" "$dest$prefix/share/doc/fsgroupfs"
touch "$dest$prefix/bin/fsgroup" "$dest$prefix/bin/fsgroupctl-of-mine" "$dest$prefix/share/doc/fsgroupfs/notes"
files >"$scratch/before"

check 'install' makes install-files
files | grep -vxFf "$scratch/before" >"$scratch/installed"
check 'every program is there' test -x "$dest$prefix/bin/fsgroupfs" -a -x "$dest$prefix/bin/fsgroupctl" -a \
	-x "$dest$prefix/bin/fsgroup-flexvolume" -a -x "$dest$prefix/sbin/fsgroup-mountd"
check 'and what completes their commands' bash -n "$dest$prefix/share/bash-completion/completions/fsgroupctl"
check_same 'for everybody to read' '' "$(find "$dest" ! -type l ! -perm -444)"
check_same 'and for nobody else to write' '' "$(find "$dest" ! -type l -perm /022)"
check_same 'nothing is left half installed' '' "$(find "$dest" -name '*.new')"

# ---- it works from there ----

mkdir -p "$FSGROUPFS_ROOT/etc/fsgroupfs" "$scratch/data" "$scratch/pod"
touch "$scratch/data/file"
cp "$dest$prefix/share/doc/fsgroupfs/examples/mountd.conf" "$FSGROUPFS_ROOT/etc/fsgroupfs/mountd.conf"
installed() { "$dest$prefix/bin/fsgroupctl" "$@"; }
check 'a volume is mounted, with the example of a configuration' installed mount --plugin local --source "$scratch/data" \
	--target "$scratch/pod" --fsgroup "$GROUP" --handoff no
check_same 'by the daemon that was installed' "$dest$prefix/sbin/fsgroup-mountd" "$(readlink "/proc/$(daemon_pid)/exe")"
check_same 'and shown' "$GROUP" "$(stat -c %g "$scratch/pod/file")"
check 'installing again, with programs that run' makes install-files
check_same 'it is shown still' "$GROUP" "$(stat -c %g "$scratch/pod/file")"
check 'the new program and the running daemon' installed unmount "$scratch/pod"
kill_daemon TERM

# ---- and is gone ----

check 'uninstall' makes uninstall
files >"$scratch/after"
check 'what others have stays, and nothing else' same_files "$scratch/before" "$scratch/after"
rm "$dest$prefix/share/doc/fsgroupfs/notes"
check 'once more, with nothing there' makes uninstall
check_same 'no directory of its own name is left' '' "$(find "$dest" -type d -name '*fsgroup*')"
dest="$scratch/a place"
check 'a place with a space in its name' makes install-files
check_same 'has as much' "$(wc -l <"$scratch/installed")" "$(files | wc -l)"
check 'and loses it' makes uninstall
check_same 'all of it' '' "$(files)"
end_volume_test
