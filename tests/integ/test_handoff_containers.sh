#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Needs root, /dev/fuse, crun and a static busybox.
#
# handoff=namespaces with real containers: the copies that they hold in their own mount namespaces are replaced together
# with the target, or none is; each keeps its part of the tree and its flags.
# shellcheck disable=SC2317 # functions are called through check
# shellcheck source=tests/integ/lib.sh
. "$(dirname "$0")/lib.sh"
need_root
need_fuse
need_tools crun busybox jq mkfs.ext4 unshare
own_mounts "$0" "$@"
start_test

gid=4242
containers=()

# crun 1.8 knows cgroup v2 alone or v1 alone, and is to use neither: in this namespace there is v2 alone.
umount -R /sys/fs/cgroup 2>/dev/null || true
mount -t cgroup2 cgroup2 /sys/fs/cgroup 2>/dev/null || skip 'needs cgroup v2'

crun_it() {
	crun --root "$scratch/crun" --cgroup-manager=disabled "$@"
}

stop_containers() {
	local name

	for name in "${containers[@]}"; do
		crun_it delete -f "$name" 2>/dev/null
	done
	containers=()
}

clean_up_containers() {
	local status=$?

	set +e
	stop_containers
	(exit "$status")
	clean_up
}
trap clean_up_containers EXIT

make_rootfs() {
	rootfs=$scratch/rootfs
	mkdir -p "$rootfs"/{bin,proc,sys,dev,tmp,all,part,ro,file-dir}
	cp "$(command -v busybox)" "$rootfs/bin/busybox"
	ln -s busybox "$rootfs/bin/sh"
	: >"$rootfs/file"
}

# container NAME: with the volume at /all, a directory of it at /part, all read-only and nosuid at /ro, a file at /file.
container() {
	local bundle=$scratch/bundle-$1

	rm -rf "$bundle"
	mkdir "$bundle"
	(cd "$bundle" && crun spec) || return 1
	jq --arg rootfs "$rootfs" --arg target "$target" '
		.root.path = $rootfs | .root.readonly = true
		| .process.terminal = false
		| .process.args = ["/bin/busybox", "sleep", "1000"]
		| .linux.namespaces |= map(select(.type != "cgroup" and .type != "network"))
		| .mounts |= map(select(.type != "cgroup" and .type != "sysfs"))
		| del(.linux.resources, .linux.maskedPaths, .linux.readonlyPaths)
		| .mounts += [
			{destination: "/all", type: "none", source: $target, options: ["bind", "rw"]},
			{destination: "/part", type: "none", source: ($target + "/dir/sub"), options: ["bind", "noexec"]},
			{destination: "/ro", type: "none", source: $target, options: ["bind", "ro", "nosuid"]},
			{destination: "/file", type: "none", source: ($target + "/file"), options: ["bind"]}
		]' "$bundle/config.json" >"$bundle/new" || return 1
	mv "$bundle/new" "$bundle/config.json"
	crun_it run --detach --bundle "$bundle" "$1" </dev/null >"$scratch/crun-$1.log" 2>&1 || {
		sed 's/^/#  /' "$scratch/crun-$1.log"
		return 1
	}
	containers+=("$1")
}

inside() {
	local name=$1

	shift
	crun_it exec "$name" /bin/busybox "$@" </dev/null
}

# The type, flags and root of what a container has at a path.
mount_inside() {
	inside "$1" cat /proc/self/mountinfo |
		awk -v at="$2" '$5 == at { for (i = 7; $i != "-"; i++); print $(i + 1), $6, $4 }'
}

type_inside() {
	mount_inside "$@" | awk '{ print $1 }'
}

# A process in a user namespace of its own: its copies of mounts are locked.
unshare_locked() {
	coproc LOCKED { unshare -Urm sh -c 'echo ready; cat'; }
	locked_in=${LOCKED[1]} locked_pid=$LOCKED_PID
	read -r -u "${LOCKED[0]}" answer
	[ "$answer" = ready ]
}

# Waits until some process has the file open: until the log of who started it says so.
opens() {
	timeout 20 bash -c 'until grep -q ready "$1"; do read -r -t 0.05 _ <>"$2" || :; done' _ "$scratch/holder.log" "$scratch/never" ||
		{ cat "$scratch/holder.log"; return 1; }
	[ -n "$(fuser "$1" 2>/dev/null)" ]
}
mkfifo "$scratch/never"

make_volume ext4 volume
lower=$scratch/volume/lower
target=$scratch/target
mkdir "$target"
make_rootfs

begin() {
	rm -rf "$lower"
	mkdir -p "$lower/dir/sub"
	printf 'content\n' >"$lower/file"
	printf 'deep\n' >"$lower/dir/sub/file"
	overlay main "$lower" "$target" "gid=$gid" paused "$@"
}

finish() {
	stop_containers
	check "$1: unmounts" umount "$target"
	check "$1: no process stays" no_process_stays
}

# ---- all of them ----

begin handoff=namespaces
check 'containers: the first starts' container one
check 'containers: the second starts' container two
check_same 'containers: see the overlay' fuse.fsgroupfs "$(type_inside one /all)"
before=$(mount_inside two /ro | awk '{ print $2 }')
before_part=$(mount_inside two /part | awk '{ print $2 }')
keeper main send resume >/dev/null
check 'containers: handed off' turns_native main
check_same 'containers: at the target' ext4 "$(type_at "$target")"
for name in one two; do
	for at in /all /part /ro /file; do
		check_same "containers: $name at $at" ext4 "$(type_inside "$name" "$at")"
	done
	check_same "containers: $name has its part" deep "$(inside "$name" cat /part/file)"
	check_same "containers: $name has its file" content "$(inside "$name" cat /file)"
	check_same "containers: $name has the group" "$gid" "$(inside "$name" stat -c %g /all/dir/sub)"
	check "containers: $name writes" inside "$name" sh -c "echo $name >/all/from-$name"
	check_fails "containers: $name does not where it is read-only" inside "$name" touch /ro/no
done
check_same 'containers: the flags stay' "$before" "$(mount_inside two /ro | awk '{ print $2 }')"
check_same 'containers: of each copy' "$before_part" "$(mount_inside two /part | awk '{ print $2 }')"
check_same 'containers: the root is that part of the tree' /lower/dir/sub "$(mount_inside two /part | awk '{ print $3 }')"
check_same 'containers: one sees what the other writes' two "$(inside one cat /all/from-two)"
check 'containers: nothing serves the overlay any more' no_process_stays
finish containers

# ---- a file that is open in one of them holds all of them back ----

begin handoff=namespaces
container one
container two
crun_it exec two /bin/busybox sh -c 'exec 3</all/file; echo ready; exec sleep 1000' </dev/null >"$scratch/holder.log" 2>&1 &
holder=$!
check 'held: the file is open' opens "$target/file"
keeper main send resume >/dev/null
check 'held: converged, not handed off' keeper main wait 'reason^=1 open file'
check_same 'held: one has the overlay still' fuse.fsgroupfs "$(type_inside one /all)"
kill "$(fuser "$target/file" 2>/dev/null | awk '{ print $1 }')"
wait "$holder" 2>/dev/null || true
check 'held: native when it is closed' turns_native main
check_same 'held: the other too' ext4 "$(type_inside one /all)"
finish held

# ---- one that cannot be replaced keeps all of them ----

begin handoff=namespaces
container one
check 'one refuses: a mount that the container may not change' unshare_locked
keeper main send resume >/dev/null
check 'one refuses: says so' keeper main wait 'reason^=the copy cannot be replaced'
check_same 'one refuses: the target is an overlay still' fuse.fsgroupfs "$(type_at "$target")"
check_same 'one refuses: and so is what the other sees' 65735546 "$(inside one stat -f -c %t /all)" # FUSE_SUPER_MAGIC
exec {locked_in}>&-
wait "$locked_pid"
check 'one refuses: native when it is gone' turns_native main
check_same 'one refuses: the other too' ext4 "$(type_inside one /all)"
check_same 'one refuses: once only' 1 "$(mount_inside one /all | wc -l)"
finish 'one refuses'

# ---- by default containers are left alone ----

begin
container one
keeper main send resume >/dev/null
check 'default: says who holds it' keeper main wait 'reason^=it is mounted in the mount namespace of process'
stop_containers
check 'default: native when it is gone' turns_native main
finish default
end_test
