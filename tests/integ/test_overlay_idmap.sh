#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Needs root, /dev/fuse, loop devices, Linux 6.15, and the first pid and user namespaces (fs/mount_spaces.h).
# timeout: 300
#
# idmap=yes: idmapped mounts of the overlay, as pods in user namespaces get them. What they show, and all that depends on
# who calls, is compared with idmapped mounts of an eagerly changed tree by tests/differential; here stands what is
# not the same as natively, and what is to be refused.
# shellcheck disable=SC2317 # functions are called through check
# shellcheck source=tests/integ/lib.sh
. "$(dirname "$0")/lib.sh"
need_root
need_fuse
need_tools mkfs.ext4 mkfs.xfs mkfs.btrfs setpriv unshare
[ "$(readlink /proc/self/ns/pid)" = 'pid:[4026531836]' ] || skip 'needs the first pid namespace'
[ "$(readlink /proc/self/ns/user)" = 'user:[4026531837]' ] || skip 'needs the first user namespace'
own_mounts "$0" "$@"
start_test

idmap=$helpers/idmap
map=0:100000:65536
gid=4242

mkdir "$scratch"/{lower,view,pod}
make_tree() {
	rm -rf "$scratch/lower"
	mkdir -p "$scratch/lower/dir" "$scratch/lower/open"
	echo content >"$scratch/lower/file"
	echo content >"$scratch/lower/setid"
	chown 1000:1000 "$scratch/lower/file" "$scratch/lower/setid"
	chmod 4755 "$scratch/lower/setid"
	chmod 777 "$scratch/lower/open"
}

# in_pod COMMAND...: as root of the user namespace, with the idmapped mount and not the other.
in_pod() {
	# shellcheck disable=SC2016 # its arguments
	unshare -m --propagation private sh -c 'cd / && umount -l "$1" && shift && exec "$@"' - "$scratch/view" \
		"$idmap" enter "$map" "$@"
}

as_in_pod() {
	local uid=$1 groups=$2

	shift 2
	if [ -n "$groups" ]; then
		in_pod setpriv --reuid "$uid" --regid "$uid" --groups "$groups" -- "$@"
	else
		in_pod setpriv --reuid "$uid" --regid "$uid" --clear-groups -- "$@"
	fi
}

shows() {
	stat -c '%u %g %a' "$1"
}

# ---- without the option ----

make_tree
overlay plain "$scratch/lower" "$scratch/view" "gid=$gid,handoff=no,paused"
refusal=$("$idmap" mount "$map" "$scratch/view" "$scratch/pod" 2>&1 || true)
check_same 'without idmap=yes the kernel refuses an idmapped mount' "idmap: $scratch/view: Invalid argument" "$refusal"
umount "$scratch/view"
check_fails 'a value that is none is refused' "$fsgroupfs" -o "gid=$gid,idmap=maybe" "$scratch/lower" "$scratch/view"

# ---- what is shown, made and changed ----

overlay pod "$scratch/lower" "$scratch/view" "gid=$gid,handoff=no,paused,idmap=yes"
check 'with it there is one' "$idmap" mount "$map" "$scratch/view" "$scratch/pod"
check_same 'the overlay shows what it did' "1000 $gid 664" "$(shows "$scratch/view/file")"
check_same 'the idmapped mount the mapped ids' "101000 $((gid + 100000)) 664" "$(shows "$scratch/pod/file")"
check_same 'and the pod its own' "1000 $gid 664" "$(in_pod stat -c '%u %g %a' "$scratch/pod/file")"
check 'root of the pod makes a file' in_pod touch "$scratch/pod/dir/root"
check_same 'it is root'\''s on disk' "0 $gid 644" "$(shows "$scratch/lower/dir/root")"
check 'a user in the group, where only it may write' as_in_pod 1001 "$gid" mkdir "$scratch/pod/dir/user"
check_same 'his is his' "1001 $gid 2755" "$(shows "$scratch/lower/dir/user")"
check_fails 'a user outside it may not' as_in_pod 1002 '' touch "$scratch/pod/dir/stranger"
check_fails 'nor somebody who has the number of the group outside the namespace' \
	as 1002 1002 "$gid" touch "$scratch/pod/dir/outside"
check_fails 'who has no id in the mount makes nothing' touch "$scratch/pod/open/host"
check_same 'and the kernel says why' "touch: cannot touch '$scratch/pod/open/host': Value too large for defined data type" \
	"$(touch "$scratch/pod/open/host" 2>&1 || true)"
check 'root of the pod gives a file away' in_pod chown 7:8 "$scratch/pod/file"
check_same 'to those on disk' '7 8 664' "$(shows "$scratch/lower/file")"
check_same 'chown(-1, -1) takes set-user-ID, by its owner' 'ok 775' \
	"$(as_in_pod 1000 '' "$helpers/setid" chown-none "$scratch/pod/setid" && echo "ok $(stat -c %a "$scratch/view/setid")")"

# ---- a user namespace that somebody made for himself ----

in_pod chmod 4755 "$scratch/pod/setid"
in_pod chown 1000:1000 "$scratch/pod/setid"
in_pod chmod 6745 "$scratch/pod/setid"
check 'a capability in it is none over files of others' fails as_in_pod 1001 '' unshare -Ur "$helpers/setid" chown-none "$scratch/pod/setid"
check_same 'they keep their bits' 6745 "$(stat -c %a "$scratch/view/setid")"
check 'it is one over his own' as_in_pod 1000 '' unshare -Ur "$helpers/setid" chown-group "$scratch/pod/setid"

# ---- where the mounts do not agree on who somebody is ----

in_pod chown "1000:$gid" "$scratch/pod/setid"
in_pod chmod 2664 "$scratch/pod/setid"
check 'chown by a member of the group' as_in_pod 1000 "$gid" chgrp "$gid" "$scratch/pod/setid"
check_same 'takes no set-group-ID where one mount tells who he is' 2664 "$(stat -c %a "$scratch/view/setid")"
both_mounts() {
	"$idmap" enter "$map" setpriv --reuid 1000 --regid 1000 --groups "$gid" "$@"
}
in_pod chmod 6664 "$scratch/pod/setid"
check_fails 'who is another through each is refused a chown to nobody' \
	both_mounts "$helpers/setid" chown-none "$scratch/pod/setid"
check_same 'that would take bits' 6664 "$(stat -c %a "$scratch/view/setid")"
check 'any other chown is the kernel'\''s matter' both_mounts chgrp "$gid" "$scratch/pod/setid"
check_same 'and takes them' 664 "$(stat -c %a "$scratch/view/setid")"

# ---- who else has the volume ----

umount "$scratch/pod"
umount "$scratch/view"
make_tree
overlay handed "$scratch/lower" "$scratch/view" "gid=$gid,idmap=yes,paused"
"$idmap" mount "$map" "$scratch/view" "$scratch/pod"
keeper handed send resume >/dev/null
keeper handed wait state=converged
check 'an idmapped copy keeps the overlay from being handed off' \
	keeper handed wait 'reason=it is mounted at another place too'
umount "$scratch/pod"
check 'without it it is' turns_native handed
umount "$scratch/view"

# handoff=namespaces: a container's idmapped copy is replaced by an idmapped mount of the lower tree.
make_volume ext4 disk
mkdir -p "$scratch/disk/tree/part"
echo content >"$scratch/disk/tree/part/file"
chown 1000:1000 "$scratch/disk/tree/part/file"
overlay contained "$scratch/disk/tree" "$scratch/view" "gid=$gid,idmap=yes,paused,handoff=namespaces"
"$idmap" mount "$map" "$scratch/view/part" "$scratch/pod"
mkfifo "$scratch/started"
# shellcheck disable=SC2016 # its arguments
unshare -m --propagation private sh -c 'umount -l "$1" && echo >"$2" && exec sleep infinity' - \
	"$scratch/view" "$scratch/started" &
holder=$!
read -r _ <"$scratch/started"
umount "$scratch/pod"
in_container() {
	nsenter -t "$holder" -m "$@"
}
pod_sees() {
	in_container "$idmap" enter "$map" "$@"
}
check_same 'a container with an idmapped copy' "1000 $gid 664" "$(pod_sees stat -c '%u %g %a' "$scratch/pod/file")"
keeper contained send resume >/dev/null
check 'the volume is handed off with it' turns_native contained
check_same 'what the container has is the file system itself' ext4 \
	"$(in_container findmnt -no FSTYPE "$scratch/pod")"
check_same 'with the same map' "1000 $gid 664" "$(pod_sees stat -c '%u %g %a' "$scratch/pod/file")"
check 'it can be written by whom it belongs to' pod_sees setpriv --reuid 1000 --regid 1000 --clear-groups \
	sh -c "echo more >>'$scratch/pod/file'"
check_same 'and shows mapped ids outside' "101000 $((gid + 100000)) 664" \
	"$(in_container stat -c '%u %g %a' "$scratch/pod/file")"
check_same 'the target has none' "1000 $gid 664" "$(shows "$scratch/view/part/file")"
kill "$holder"
wait "$holder" 2>/dev/null || true
umount "$scratch/view"

# ---- all of it, in lockstep with an eagerly changed tree ----

lockstep() {
	BIN=$BIN TMPDIR=$scratch ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0 \
		"$TESTBIN/differential" --idmap yes --atime noatime --seed "${DIFFERENTIAL_SEED:-1}" \
		--steps "${DIFFERENTIAL_STEPS:-1800}" --shrink 20 "$@"
}
for type in tmpfs ext4 xfs btrfs; do
	check "$type, paused" lockstep --fs "$type" --mode paused
	check "$type, converging" lockstep --fs "$type" --mode converging --coherence exclusive
done
check 'ext4, killed' lockstep --fs ext4 --mode converging --coherence exclusive --durable yes --kill 60

end_test
