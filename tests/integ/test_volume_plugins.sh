#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# emptyDir, hostPath and specs through fsgroupctl; bad input, which must leave nothing. Needs root and /dev/fuse.
set -euo pipefail
# shellcheck source=tests/integ/lib_volume.sh
. "$(dirname "$0")/lib_volume.sh"
need_root
need_fuse
need_tools jq mkfs.ext4 python3
own_mounts "$0" "$@"
start_volume_test

pod=$scratch/pod data=$scratch/data
mkdir "$pod"
make_files "$data" 20

# ---- emptyDir ----

check 'emptyDir' ctl mount --plugin emptyDir --target "$pod" --fsgroup "$GROUP" --volume-id e
check_same 'belongs to the group' "0:$GROUP:2777" "$(attributes "$pod")"
check_same 'is native at once: it was empty' native "$(state_of e)"
echo kept >"$pod/file"
check 'set-up of a live volume is harmless' ctl mount --plugin emptyDir --target "$pod" --fsgroup "$GROUP" --volume-id e
check_same 'its data stays' kept "$(cat "$pod/file")"
check 'unmount' ctl unmount e
check_same 'its data is gone' '' "$(find "$FSGROUPFS_ROOT" -name file)"

echo '{"name": "scratch", "emptyDir": {"medium": "Memory", "sizeLimit": "8Mi"}}' >"$scratch/memory.json"
check 'emptyDir in memory' ctl mount --spec "$scratch/memory.json" --target "$pod" --fsgroup "$GROUP" --volume-id m
check_same 'is a tmpfs' tmpfs "$(stat -fc %T "$pod")"
mkdir "$scratch/probe"
if mount -t tmpfs -o noswap probe "$scratch/probe" 2>/dev/null; then
	umount "$scratch/probe"
	check_same 'that is never swapped out' 1 "$(awk -v at="$pod" '$5 == at' /proc/self/mountinfo | grep -c noswap)"
fi
check_same 'of that size' $((8 << 20)) "$(stat -fc '%b %S' "$pod" | awk '{ print $1 * $2 }')"
check_same 'and the group'\''s' "0:$GROUP:2777" "$(attributes "$pod")"
check 'unmount' ctl unmount m
check 'without fsGroup' ctl mount --plugin emptyDir --target "$pod" --volume-id n
check_same 'ownership is left alone' '0:0:777' "$(attributes "$pod")"
check_same 'fsGroup is null' null "$(field_of n .fsGroup)"
check 'unmount' ctl unmount n

echo '{"name": "scratch", "emptyDir": {"sizeLimit": "1Mi"}}' >"$scratch/limited.json"
check 'with a limit on disk' ctl mount --spec "$scratch/limited.json" --target "$pod" --volume-id l
# Nobody who asks waits for a count: the next who asks gets it.
counts() {
	local i

	for ((i = 0; i < 400; i++)); do
		[ "$(field_of l ".usage | $1")" = true ] && return
		sleep 0.05
	done
	return 1
}
check 'is counted' counts '.limitBytes == 1048576 and .bytes < 65536 and .complete'
head -c 3000000 /dev/urandom >"$pod/large"
check 'and counted again' counts '.bytes >= 3000000 and .entries == 1'
over() {
	ctl events --json | grep -c "size-limit-$1"
}
is_over() { [ "$(over "$1")" = 1 ]; }
check 'going over the limit is an event' within 20 is_over exceeded
check_same 'and stops nobody' 3000000 "$(stat -c %s "$pod/large")"
rm "$pod/large"
check 'coming back is counted' counts '.bytes < 65536'
check 'and is an event' within 20 is_over kept
check 'unmount' ctl unmount l

# ---- hostPath ----

check 'hostPath' ctl mount --plugin hostPath --source "$data" --target "$pod" --fsgroup "$GROUP" --volume-id h
check_same 'does not take the group' '0:0:750' "$(attributes "$pod")"
check_same 'is native' native "$(state_of h)"
check 'unmount' ctl unmount h
check 'hostPath, virtual' ctl mount --plugin hostPath --source "$data" --target "$pod" --fsgroup "$GROUP" \
	--ownership virtual --volume-id v
check_same 'shows the group' "0:$GROUP:660" "$(attributes "$pod/d0/f1")"
check_same 'is virtual' virtual "$(state_of v)"
check 'native can never be reached' refuses 1 v wait v --for native --timeout 20
check_same 'nothing was written' '' "$(find "$data" -gid "$GROUP")"
check 'unmount' ctl unmount v
echo file >"$scratch/one"
touch "$scratch/at"
check 'hostPath of a file' ctl mount --plugin hostPath --source "$scratch/one" --target "$scratch/at" --volume-id f
check_same 'is bound' file "$(cat "$scratch/at")"
check 'unmount' ctl unmount f

# host_path TYPE PATH: what is set up has that type, and is found there; it is taken down again.
host_path() {
	printf '{"hostPath": {"path": "%s", "type": "%s"}}' "$2" "$1" >"$scratch/host.json"
	ctl mount --spec "$scratch/host.json" --target "${3:-$pod}" --fsgroup "$GROUP" --volume-id t || return
	ctl mount --spec "$scratch/host.json" --target "${3:-$pod}" --fsgroup "$GROUP" --volume-id t || return
	found=$(stat -c '%F %u:%g:%a' "${3:-$pod}")
	ctl unmount t && ctl unmount "${3:-$pod}"
}

at=$scratch/at
check 'DirectoryOrCreate' host_path DirectoryOrCreate "$scratch/made/below"
check_same 'makes it, with root'\''s mode' 'directory 0:0:755' "$found"
check_same 'and it stays' 'directory 755' "$(stat -c '%F %a' "$scratch/made/below")"
check 'Directory' host_path Directory "$scratch/made"
check 'FileOrCreate' host_path FileOrCreate "$scratch/made/file" "$at"
check_same 'makes it' 'regular empty file 0:0:644' "$found"
check 'File' host_path File "$scratch/one" "$at"
mknod "$scratch/null" c 1 3
check 'CharDevice' host_path CharDevice "$scratch/null" "$at"
check_same 'is one' 'character special file' "${found% *}"
mknod "$scratch/block" b 7 200
check 'BlockDevice' host_path BlockDevice "$scratch/block" "$at"
check_same 'is one' 'block special file' "${found% *}"
python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' "$scratch/socket"
check 'Socket' host_path Socket "$scratch/socket" "$at"
check_same 'is one' socket "${found% *}"
check 'nothing in particular' host_path '' "$scratch/socket" "$at"
check_same 'what it was bound at is as it was' 'regular empty file' "$(stat -c %F "$at")"
for wrong in Directory:one File:made Socket:one CharDevice:block BlockDevice:null DirectoryOrCreate:one FileOrCreate:made; do
	printf '{"hostPath": {"path": "%s", "type": "%s"}}' "$scratch/${wrong#*:}" "${wrong%:*}" >"$scratch/host.json"
	check "refused: ${wrong%:*} of what is none" refuses 1 'not a ' mount --spec "$scratch/host.json" --target "$pod" \
		--volume-id t
done
for absent in Directory File Socket CharDevice BlockDevice; do
	printf '{"hostPath": {"path": "%s/absent", "type": "%s"}}' "$scratch" "$absent" >"$scratch/host.json"
	check "refused: $absent that is absent" refuses 1 "$scratch/absent" mount --spec "$scratch/host.json" \
		--target "$pod" --volume-id t
done
check 'none of them was made' test ! -e "$scratch/absent"

# ---- read-only ----

check 'read-only' ctl mount --plugin local --source "$data" --target "$pod" --fsgroup "$GROUP" --read-only --volume-id r
check_same 'shows the read-only mask' "0:$GROUP:640 0:$GROUP:2750" \
	"$(attributes "$pod/d0/f1" "$pod/d0" | paste -sd ' ')"
check_fails 'cannot be written' touch "$pod/new"
check_same 'nothing was written' '' "$(find "$data" -gid "$GROUP")"
check 'unmount' ctl unmount r

# ---- a persistent volume ----

jq -n --arg path "$data" '{apiVersion: "v1", kind: "PersistentVolume", metadata: {name: "pv"},
	spec: {capacity: {storage: "1Gi"}, unknownField: 1, local: {path: $path}}}' >"$scratch/pv.json"
check 'PersistentVolume on standard input' ctl mount --spec - --target "$pod" --fsgroup "$GROUP" --volume-id pv \
	<"$scratch/pv.json"
check_same 'is stored whole' 1 "$(field_of pv '.source.object.spec.unknownField // .source.object.unknownField')"
check 'native' ctl wait pv --for native --timeout 20
check 'unmount' ctl unmount pv

# ---- bad input ----

bad() {
	local text=$1 words=$2

	shift 2
	check "refused: $text" refuses 1 "$words" mount --target "$pod" --volume-id bad "$@"
}

bad 'absent source' "$scratch/absent" --plugin local --source "$scratch/absent" --fsgroup "$GROUP"
bad 'source is a file' "$scratch/one" --plugin local --source "$scratch/one" --fsgroup "$GROUP"
bad 'unknown plugin' nonsense --plugin nonsense --source "$data" --fsgroup "$GROUP"
check 'refused: gid out of range' refuses 2 4294967295 mount --target "$pod" --plugin local --source "$data" \
	--fsgroup 4294967295
check 'refused: gid is no number' refuses 2 wheel mount --target "$pod" --plugin local --source "$data" --fsgroup wheel
check 'refused: target is a file' refuses 1 "$scratch/at" mount --plugin local --source "$data" --fsgroup "$GROUP" \
	--target "$scratch/at"
check 'refused: target is absent' refuses 1 "$scratch/nowhere" mount --plugin local --source "$data" \
	--fsgroup "$GROUP" --target "$scratch/nowhere"
ln -s "$scratch/pod" "$scratch/link"
check 'refused: target is a symbolic link' refuses 1 "$scratch/link" mount --plugin local --source "$data" \
	--fsgroup "$GROUP" --target "$scratch/link"
printf '{"emptyDir": {\n  "medium": secret-text}}' >"$scratch/bad.json"
bad 'invalid JSON, by line and column' 'line 2' --spec "$scratch/bad.json"
check_fails 'without its text' grep -q secret-text "$scratch/stderr"
printf '{"name": "x", "emptyDir": {}, "hostPath": {"path": "/"}}' >"$scratch/bad.json"
bad 'two sources' hostPath --spec "$scratch/bad.json"
printf '{"name": "x", "floppyDisk": {}}' >"$scratch/bad.json"
bad 'unknown source' floppyDisk --spec "$scratch/bad.json"
printf '{"name": "x", "emptyDir": {"medium": "HugePages"}}' >"$scratch/bad.json"
bad 'HugePages' HugePages --spec "$scratch/bad.json"
check 'refused: an unknown command' refuses 2 frobnicate frobnicate
check 'nothing is left of all these' nothing_mounted
check 'each has left an event' test "$(ctl events --json | grep -c mount-failed)" -ge 5

end_volume_test
