#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Plugins that run foreign programs: gitRepo, flexVolume; and those that lead to others: persistentVolumeClaim, nfs.
# Each with fsGroup and without, set up twice, torn down twice. Needs root, /dev/fuse and git.
set -euo pipefail
# shellcheck source=tests/integ/lib_volume.sh
. "$(dirname "$0")/lib_volume.sh"
need_root
need_fuse
need_tools jq git mkfs.ext4 losetup setpriv sqlite3
own_mounts "$0" "$@"
start_volume_test

pod=$scratch/pod
mkdir -p "$pod" "$FSGROUPFS_ROOT/etc/fsgroupfs"
printf '[log]\nlevel = debug\n' >"$FSGROUPFS_ROOT/etc/fsgroupfs/mountd.conf"

# round ID ARGUMENT...: mounted twice, with the group and without; $wanted holds what the root must be in both cases.
round() {
	local id=$1

	shift
	check "$id: set-up" ctl mount "$@" --target "$pod" --fsgroup "$GROUP" --volume-id "$id"
	check "$id: set-up again" ctl mount "$@" --target "$pod" --fsgroup "$GROUP" --volume-id "$id"
}

gone() {
	local id=$1

	check "$id: tear-down" ctl unmount "$id"
	check "$id: tear-down again" ctl unmount "$pod"
	check "$id: nothing is left" nothing_mounted
	check_same "$id: its directory is gone" '' "$(ls "$FSGROUPFS_ROOT/var/lib/fsgroupfs/volumes")"
}

spec() {
	printf '%s\n' "$1" >"$scratch/spec.json"
}

# ---- gitRepo ----

export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null
git_in() {
	git -c user.name=n -c user.email=e@example.org -C "$scratch/origin" "$@"
}

git init -q -b trunk "$scratch/origin"
mkdir "$scratch/origin/sub"
echo one >"$scratch/origin/sub/file"
git_in add -A
git_in commit -qm one
git_in tag v1
echo two >"$scratch/origin/sub/file"
git_in commit -qam two
chmod -R a+rX "$scratch/origin"

spec "{\"name\": \"g\", \"gitRepo\": {\"repository\": \"file://$scratch/origin\"}}"
round git --spec "$scratch/spec.json"
check_same 'git: the clone' two "$(cat "$pod/origin/sub/file")"
check_same 'git: belongs to root and the group' "0:$GROUP:664 0:$GROUP:2775" \
	"$(attributes "$pod/origin/sub/file" "$pod/origin/sub" | paste -sd ' ')"
check_same 'git: the volume too' "0:$GROUP:2777" "$(attributes "$pod")"
check_same 'git: is native at once' native "$(state_of git)"
check_same 'git: no hook came with it' '' "$(find "$pod" -path '*hooks*')"
echo mine >"$pod/origin/mine"
check 'git: set-up of a live volume is harmless' ctl mount --spec "$scratch/spec.json" --target "$pod" \
	--fsgroup "$GROUP" --volume-id git
check_same 'git: what users wrote stays' mine "$(cat "$pod/origin/mine")"
umount "$pod"
check 'git: mounted again after its target was unmounted' ctl mount --spec "$scratch/spec.json" --target "$pod" \
	--fsgroup "$GROUP" --volume-id git
check_same 'git: what users wrote stays then too' mine "$(cat "$pod/origin/mine")"
gone git
spec "{\"gitRepo\": {\"repository\": \"file://$scratch/origin\", \"revision\": \"v1\", \"directory\": \".\"}}"
check 'git: a tag into the root, without fsGroup' ctl mount --spec "$scratch/spec.json" --target "$pod" --volume-id git
check_same 'git: that tag' one "$(cat "$pod/sub/file")"
check_same 'git: all is root'\''s' '0:0:644 0:0:777' "$(attributes "$pod/sub/file" "$pod" | paste -sd ' ')"
gone git

# The git protocol, from a server on this machine.
touch "$scratch/origin/.git/git-daemon-export-ok"
port=
serve_git() {
	for port in 29418 39418 49418; do
		git -c safe.directory='*' daemon --listen=127.0.0.1 --port="$port" --base-path="$scratch" \
			--reuseaddr "$scratch" 2>"$scratch/daemon.log" &
		git_daemon=$!
		for _ in {1..100}; do
			git ls-remote "git://127.0.0.1:$port/origin" >/dev/null 2>&1 && return
			kill -0 "$git_daemon" 2>/dev/null || break
		done
		kill "$git_daemon" 2>/dev/null || true
	done
	return 1
}
check 'git: a server answers' serve_git
spec "{\"gitRepo\": {\"repository\": \"git://127.0.0.1:$port/origin\", \"directory\": \"a/b\"}}"
round git --spec "$scratch/spec.json"
check_same 'git: over the network' "two 0:$GROUP:664" "$(cat "$pod/a/b/sub/file") $(attributes "$pod/a/b/sub/file")"
gone git
kill "$git_daemon"
wait "$git_daemon" || true

bad_git() {
	spec "{\"gitRepo\": $3}"
	check "git: refused: $1" refuses 1 "$2" mount --spec "$scratch/spec.json" --target "$pod" --volume-id bad
}

bad_git 'an absent repository' 'git clone' "{\"repository\": \"file://$scratch/absent\"}"
bad_git 'an absent revision' nowhere "{\"repository\": \"file://$scratch/origin\", \"revision\": \"nowhere\"}"
bad_git 'a revision that is an option' 'begins with' "{\"repository\": \"file:///x\", \"revision\": \"--help\"}"
bad_git 'a directory that leaves the volume' 'leaves' "{\"repository\": \"file:///x\", \"directory\": \"../x\"}"
bad_git 'a transport helper' 'transport' '{"repository": "ext::sh -c id"}'
printf '[plugins]\ngit-size = 1k\n' >"$FSGROUPFS_ROOT/etc/fsgroupfs/mountd.conf"
bad_git 'one that is too large' 'git-size' "{\"repository\": \"file://$scratch/origin\"}"
printf '[log]\nlevel = debug\n' >"$FSGROUPFS_ROOT/etc/fsgroupfs/mountd.conf"
check 'git: nothing is left of all these' nothing_mounted

# ---- flexVolume ----

drivers=$FSGROUPFS_ROOT/usr/libexec/kubernetes/kubelet-plugins/volume/exec
install -D -m 755 plugins/examples/loop "$drivers/fsgroupfs.example~loop/loop"
mkdir "$scratch/images"
echo "$scratch/images" >"$drivers/fsgroupfs.example~loop/loop.dir"
truncate -s 16M "$scratch/images/disk"
mkfs.ext4 -q -F "$scratch/images/disk"
spec '{"name": "l", "flexVolume": {"driver": "fsgroupfs.example/loop", "fsType": "ext4", "options": {"image": "disk"}}}'
round flex --spec "$scratch/spec.json"
check_same 'flex: the example mounts its image' ext2/ext3 "$(stat -fc %T "$pod" | sed s/fuseblk/ext2\\/ext3/)"
echo mine >"$pod/file"
check 'flex: becomes native' ctl wait flex --for native --timeout 20
check_same 'flex: belongs to the group' "0:$GROUP:2775 0:$GROUP" \
	"$(attributes "$pod") $(stat -c %u:%g "$pod/lost+found")"
gone flex
check_same 'flex: its loop device is gone' '' "$(losetup -j "$scratch/images/disk")"
check 'flex: read-only, without fsGroup' ctl mount --spec "$scratch/spec.json" --target "$pod" --read-only --volume-id flex
check_same 'flex: its data stayed' mine "$(cat "$pod/file")"
check_fails 'flex: cannot be written' touch "$pod/new"
gone flex

# A stub of a driver for logical volumes: attach, mountdevice, and the rest left to us; its log shows the calls.
mkdir -p "$drivers/kubernetes.io~lvm"
cat >"$drivers/kubernetes.io~lvm/lvm" <<'END'
#!/bin/bash
log() { printf '[%s]' "$@" >>"${0%/*}/../../log"; echo >>"${0%/*}/../../log"; }
log "$@"
case $1 in
init) echo '{"status": "Success", "capabilities": {"attach": true, "fsGroup": false}}' ;;
attach)
	device=$(losetup --find --show "$(jq -r .volumegroup <<<"$2")/disk") || { echo '{"status": "Failure"}'; exit 1; }
	echo "$device" >"${0%/*}/../../device"
	echo "{\"status\": \"Success\", \"device\": \"$device\"}" ;;
waitforattach) echo "{\"status\": \"Success\", \"device\": \"$2\"}" ;;
mountdevice) mount "$3" "$2" && echo '{"status": "Success"}' ;;
unmountdevice) umount "$2" && echo '{"status": "Success"}' ;;
detach) losetup -d "$(cat "${0%/*}/../../device")" && echo '{"status": "Success"}' ;;
*) echo '{"status": "Not supported"}'; exit 1 ;;
esac
END
chmod 755 "$drivers/kubernetes.io~lvm/lvm"
mkfs.ext4 -q -F "$scratch/images/disk"
node=$(uname -n)
log=${drivers%/*}/log
spec "{\"name\": \"v\", \"flexVolume\": {\"driver\": \"kubernetes.io/lvm\", \"options\": {\"volumegroup\": \"$scratch/images\"}}}"
round lvm --spec "$scratch/spec.json"
check_same 'lvm: its fsGroup capability is false' native "$(state_of lvm)"
check_same 'lvm: so nothing was changed' "0:0" "$(stat -c %u:%g "$pod/lost+found")"
kill_daemon KILL
umount "$pod"
sqlite3 "$FSGROUPFS_ROOT/var/lib/fsgroupfs/store.db" "UPDATE volume SET state = 'setting-up', mount_id = 0, updated_at_ms = updated_at_ms + 1 WHERE id = 'lvm'" >"$scratch/null"
check 'lvm: mounted again, after a crash' until_list 'any(.[]; .id == "lvm" and .state == "native")'
check_same 'lvm: still native, and no call-out was made' 'native 5' "$(state_of lvm) $(wc -l <"${drivers%/*}/log")"
volume=$FSGROUPFS_ROOT/var/lib/fsgroupfs/volumes/lvm
device=$(cat "${drivers%/*}/device")
common="\"kubernetes.io/fsType\":\"\",%s\"kubernetes.io/pvOrVolumeName\":\"lvm\",\"kubernetes.io/readwrite\":\"rw\",\"volumegroup\":\"$scratch/images\"}"
# shellcheck disable=SC2059
options=$(printf "{$common" '')
# shellcheck disable=SC2059
mount_options=$(printf "{$common" "\"kubernetes.io/mounterArgs.FsGroup\":\"$GROUP\",")
gone lvm
check_same 'lvm: the call-outs, with kubelet'\''s arguments' "[init]
[attach][$options][$node]
[waitforattach][$device][$options]
[mountdevice][$volume/device][$device][$options]
[mount][$volume/lower][$mount_options]
[unmount][$volume/lower]
[unmountdevice][$volume/device]
[detach][lvm][$node]" "$(cat "$log")"

bad_flex() {
	spec "{\"flexVolume\": $3}"
	check "flex: refused: $1" refuses 1 "$2" mount --spec "$scratch/spec.json" --target "$pod" --fsgroup "$GROUP" \
		--volume-id bad
}

bad_flex 'an absent driver' 'nobody.example~none/none' '{"driver": "nobody.example/none"}'
bad_flex 'an absent image' 'there is no file absent' \
	'{"driver": "fsgroupfs.example/loop", "options": {"image": "absent"}}'
bad_flex 'a reserved option' reserved '{"driver": "fsgroupfs.example/loop", "options": {"kubernetes.io/fsType": "x"}}'
bad_flex 'a secret' secretRef '{"driver": "fsgroupfs.example/loop", "secretRef": {"name": "s"}}'
chmod o+w "$drivers/fsgroupfs.example~loop/loop"
bad_flex 'a driver that others may write' 'writable by nobody else' '{"driver": "fsgroupfs.example/loop"}'
chmod o-w "$drivers/fsgroupfs.example~loop/loop"
check 'flex: nothing is left of all these' nothing_mounted

# ---- persistentVolumeClaim ----

make_files "$scratch/data" 20
claim='{name: "c", namespace: "ns", uid: "u1"}'
# objects FILTER: a claim, its volume and a pod, changed by a jq filter.
objects() {
	jq -n --arg path "$scratch/data" "{kind: \"List\", items: [
		{kind: \"PersistentVolumeClaim\", metadata: $claim, spec: {volumeName: \"pv\"}, status: {phase: \"Bound\"}},
		{kind: \"PersistentVolume\", metadata: {name: \"pv\"}, spec: {claimRef: $claim, local: {path: \$path}}},
		{kind: \"Pod\", metadata: {name: \"p\", namespace: \"ns\", uid: \"u2\"}, spec: {containers: []}}]}
		| ${1:-.}" >"$scratch/objects.json"
}

spec '{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}'
objects
round pvc --spec "$scratch/spec.json" --objects "$scratch/objects.json"
check_same 'pvc: shows the group' "0:$GROUP:660" "$(attributes "$pod/d0/f1")"
check_same 'pvc: coherence is that of local' shared "$(field_of pvc .coherence)"
check 'pvc: becomes native' ctl wait pvc --for native --timeout 20
check 'pvc: belongs to the group' is_right "$scratch/data"
check 'pvc: a live one is mounted again without its objects' ctl mount --spec "$scratch/spec.json" --target "$pod" \
	--fsgroup "$GROUP" --volume-id pvc
umount "$pod"
check 'pvc: and with them one whose target was unmounted' ctl mount --spec "$scratch/spec.json" \
	--objects "$scratch/objects.json" --target "$pod" --fsgroup "$GROUP" --volume-id pvc
check_same 'pvc: it is there' 1 "$(cat "$pod/d0/f1")"
gone pvc
check_same 'pvc: its data stays' 1 "$(cat "$scratch/data/d0/f1")"
objects '.items[1].spec.hostPath = .items[1].spec.local | del(.items[1].spec.local)'
check 'pvc: of a hostPath' ctl mount --spec "$scratch/spec.json" --objects "$scratch/objects.json" --target "$pod" \
	--fsgroup 77 --volume-id pvc
check_same 'pvc: hostPath does not take the group' "native 0:$GROUP:660" "$(state_of pvc) $(attributes "$pod/d0/f1")"
gone pvc
objects '.items[1].spec.local.readOnly = true'
check 'pvc: read-only as its volume is, without fsGroup' ctl mount --spec "$scratch/spec.json" \
	--objects "$scratch/objects.json" --target "$pod" --volume-id pvc
check_same 'pvc: says so' true "$(field_of pvc .readOnly)"
check_fails 'pvc: cannot be written' touch "$pod/new"
gone pvc

bad_claim() {
	objects "$3"
	check "pvc: refused: $1" refuses 1 "$2" mount --spec "$scratch/spec.json" --objects "$scratch/objects.json" \
		--target "$pod" --volume-id bad
}

bad_claim 'one that is not bound' 'its phase is Pending' '.items[0].status.phase = "Pending"'
bad_claim 'another'\''s volume' 'uid in claimRef' '.items[1].spec.claimRef.uid = "u9"'
bad_claim 'a raw device' 'volumeMode Block' '.items[1].spec.volumeMode = "Block"'
bad_claim 'no such claim' 'PersistentVolumeClaim ns/c' '.items[0].metadata.name = "d"'
bad_claim 'a claim that leads to a claim that leads to it' 'persistentVolumeClaim' \
	'.items[1].spec.persistentVolumeClaim = {claimName: "c"} | del(.items[1].spec.local)'
check 'pvc: refused: no objects' refuses 1 'the call brought no objects' mount --spec "$scratch/spec.json" \
	--target "$pod" --volume-id bad
check 'pvc: nothing is left of all these' nothing_mounted

# ---- nfs: what can be said without a server ----

nfs_error='mount.nfs is not installed'
if command -v mount.nfs >/dev/null; then
	nfs_error='127.0.0.1:/nowhere'
fi
check 'nfs: a clear error' refuses 1 "$nfs_error" mount --plugin nfs --target "$pod" --fsgroup "$GROUP" --volume-id bad \
	--source '{"server": "127.0.0.1", "path": "/nowhere"}'
check 'nfs: no server' refuses 1 'server: missing' mount --plugin nfs --target "$pod" --source '{"path": "/nowhere"}'
check 'nfs: nothing is left' nothing_mounted
for line in 'plugin=gitRepo call=set_up result=ok' 'plugin=emptyDir call=set_up result=ok' \
	'plugin=flexVolume call=is_set_up result=yes' 'plugin=flexVolume call=set_up result=EIO' \
	'plugin=nfs call=set_up result=E'; do
	check "the log has $line" grep -q "$line" "$FSGROUPFS_ROOT/var/lib/fsgroupfs/mountd.log"
done
check_same 'no directory of a volume is left' '' "$(ls "$FSGROUPFS_ROOT/var/lib/fsgroupfs/volumes")"

end_volume_test
