#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Needs root, /dev/fuse, jq, loop devices.
# What a hostile author of pods may write about objects and devices: each a Failure after which the node is as before.
# shellcheck source=tests/integ/lib_flex.sh
. "$(dirname "$0")/lib_flex.sh"
need_root
need_fuse
need_tools jq losetup mkfs.ext4
own_mounts "$0" "$@"
start_flex_test --attachable

mkdir -p "$FSGROUPFS_ROOT/etc/fsgroupfs"
rules() { printf '%s\n' '[flexvolume]' "$@" >"$FSGROUPFS_ROOT/etc/fsgroupfs/mountd.conf"; }

# ---- objects: beneath their own prefix, by no link, of the pod's namespace ----
mkdir -p "$scratch/objects/all" "$scratch/srv/data" "$scratch/secret"
secret() {
	jq -n --arg ns "$1" --arg value "$2" \
		'{kind: "Secret", metadata: {name: "db", namespace: $ns}, stringData: {key: $value}}'
}
secret default fine >"$scratch/objects/all/default.json"
secret other alien >"$scratch/objects/all/other.json"
cp "$scratch/objects/all/default.json" "$scratch/srv/objects.json"
cp "$scratch/objects/all/default.json" "$scratch/secret/objects.json"
ln -s "$scratch/secret/objects.json" "$scratch/objects/link.json"
mkfifo "$scratch/objects/pipe"
db='volume={"name":"v","secret":{"secretName":"db"}}'
make_target e
all=$(options e "$db" "objects=$scratch/objects/all")

rules 'plugins = emptyDir secret'
check 'no prefix for objects' refused 'beneath no prefix' e "$db" "objects=$scratch/objects/all"
rules 'plugins = emptyDir local secret projected' "sources = $scratch/srv" "objects = $scratch/objects"
check 'a secret' succeeds mount "$(target e)" "$all"
check_same 'is that of the pod' 'fine 644 4242' "$(cat "$(target e)/key") $(stat -Lc '%a %g' "$(target e)/key")"
secret default newer >"$scratch/objects/all/default.json"
check 'kubelet was restarted: mount again' succeeds mount "$(target e)" "$all"
check_same 'is a refresh' newer "$(cat "$(target e)/key")"
check 'a repeat without the file' says Failure 'No such file' mount "$(target e)" \
	"$(options e "$db" "objects=$scratch/objects/gone")"
check_same 'leaves what is there' newer "$(cat "$(target e)/key")"
# What is stored as base64 is looked for as well.
check_fails 'its value is nowhere' grep -rqE "newer|$(printf newer | base64)" "$FSGROUPFS_ROOT/var/lib/fsgroupfs" \
	--exclude-dir=volumes
succeeds unmount "$(target e)"
check 'without objects' refused 'db' e "$db"
check 'a secret of another namespace' refused 'db' e "$db" "objects=$scratch/objects/all/other.json"
check 'a host file as objects' refused 'beneath no prefix' e "$db" objects=/etc/shadow
check 'objects where only sources may be' refused 'beneath no prefix' e "$db" "objects=$scratch/srv/objects.json"
check 'a source where only objects may be' refused 'beneath no prefix' e plugin=local "source=$scratch/objects"
check 'a link to objects' refused 'symbolic link' e "$db" "objects=$scratch/objects/link.json"
check 'dots' refused '' e "$db" "objects=$scratch/objects/../secret/objects.json"
check 'a pipe' refused 'neither a file nor a directory' e "$db" "objects=$scratch/objects/pipe"
check 'a directory with a link in it' refused 'symbolic link' e "$db" "objects=$scratch/objects"
check 'a relative path' refused 'is not an absolute path' e "$db" objects=objects
printf 'CANARY' >"$scratch/objects/all/bad.json"
check 'no JSON' refused 'bad.json: invalid JSON at line 1' e "$db" "objects=$scratch/objects/all"
check_fails 'and is not quoted' grep -q CANARY "$scratch/answer"
rm "$scratch/objects/all/bad.json"
check 'a projected volume' succeeds mount "$(target e)" "$(options e "objects=$scratch/objects/all" \
	'volume={"name":"v","projected":{"sources":[{"secret":{"name":"db"}}]}}')"
check_same 'has its files' newer "$(cat "$(target e)/key")"
succeeds unmount "$(target e)"

# ---- the driver of devices: no daemon where none is needed ----
check_same 'it is installed beside the other' 'fsgroupfs~device/device fsgroupfs~volume/volume' \
	"$(cd "$plugins" && find . -type l | sed 's/^..//' | sort | paste -sd ' ')"
kill_daemon TERM
use_driver device
disk=(plugin=gcePersistentDisk 'source={"pdName":"x"}' device=/dev/loop9999)
fine=$(options e "${disk[@]}")
check 'attach' succeeds attach "$fine" node
check 'isattached' succeeds isattached "$fine" node
check 'isattached, the other way round' succeeds isattached node "$fine"
check 'detach' succeeds detach v node
check 'getvolumename' succeeds getvolumename "$fine"
check 'attach with a bad option' says Failure 'reserved' attach "$(options e "${disk[@]}" kubernetes.io/evil=1)" node
check 'attach of nothing' says Failure 'option device is missing' attach "$(options e plugin=fc)" node
check 'isattached without options' says Failure 'not JSON' isattached node x
check 'waitforattach where nothing can come' says Failure 'no block device is there' waitforattach "$scratch/none/x" "$fine"
for command in expandvolume nonsense; do
	check "$command is not supported" says 'Not supported' "$command" "$command" "$fine" /dev/x /mnt 2 1
done
for command in getvolumename waitforattach mountdevice unmountdevice detach; do
	check "$command without arguments" says Failure 'are needed' "$command"
done
check 'expandfs with a bad option' says Failure 'reserved' expandfs "$(options e "${disk[@]}" kubernetes.io/evil=1)" \
	/dev/x /mnt 2 1
check 'expandfs of no path' says Failure 'not an absolute path' expandfs "$fine" /dev/x mnt 2 1
check 'expandfs without arguments' says Failure '5 arguments are needed' expandfs "$fine" /dev/x /mnt 2
check 'no daemon was started for any of these' [ -z "$(daemon_pid)" ]

# ---- his devices ----
staging=$kubelet/staged
mkdir "$staging"
truncate -s 32M "$scratch/disk.img"
loop=$(losetup --find --show "$scratch/disk.img")
loops+=("$loop")
disk=(plugin=gcePersistentDisk 'source={"pdName":"x"}' "device=$loop")
# not_staged WORDS DEVICE [OPTION=VALUE]...
not_staged() {
	says Failure "$1" mountdevice "$staging" "$2" "$(options e "${disk[@]}" "${@:3}")" &&
		same '[]' "$(ctl list --json | jq -c .)" && same '' "$(mounts_below "$kubelet")"
}
rules 'plugins = emptyDir' 'sources = /dev'
check 'a device without a rule' not_staged 'plugin gcePersistentDisk is not allowed' "$loop"
rules 'plugins = gcePersistentDisk iscsi local' "sources = $scratch/srv"
check 'one beneath no prefix' not_staged 'beneath no prefix' "$loop"
ln -s "$loop" "$scratch/srv/disk"
check 'one by a link beneath a prefix' not_staged 'symbolic link' "$scratch/srv/disk"
check 'a directory' not_staged 'not a block device' "$scratch/srv/data"
rules 'plugins = gcePersistentDisk iscsi local' "sources = $loop"
check 'another than the one that is allowed' not_staged 'beneath no prefix' "${loop}0"
check 'formatting without a rule' not_staged 'formatting is not allowed' "$loop" format=true kubernetes.io/fsType=ext4
check 'a blank one, and no formatting' not_staged 'no file system' "$loop"
check 'a plugin that has no devices' not_staged 'no devices to stage' "$loop" plugin=local 'source={"path":"/srv"}'
check 'a type that is a path' not_staged '' "$loop" kubernetes.io/fsType=../../evil
check 'a relative device' says Failure 'not an absolute path' mountdevice "$staging" loop0 "$(options e "${disk[@]}")"
check 'a place that is none' says Failure 'not an absolute path' mountdevice staged "$loop" "$(options e "${disk[@]}")"
disk=('volume={"kind":"PersistentVolume","spec":{"iscsi":{"targetPortal":"a","iqn":"b","lun":0},"mountOptions":["errors=panic"]}}'
	"device=$loop")
check 'options for mount(2)' not_staged 'mountOptions are not taken' "$loop"
check_same 'nothing was written to it' 0 "$(tr -d '\0' <"$scratch/disk.img" | wc -c)"

# ---- one document, whatever happens ----
kill_daemon TERM
mkdir "$scratch/empty"
LIBEXEC=$scratch/empty check 'no daemon for mountdevice' says Failure 'cannot be started' mountdevice "$staging" "$loop" "$fine"
LIBEXEC=$scratch/empty check 'nor for unmountdevice' says Failure 'cannot be started' unmountdevice "$staging"
check 'unmountdevice of what was never mounted' succeeds unmountdevice "$staging"
mkdir "$scratch/dev"
waits_until_it_is_there() {
	run_driver "$scratch/waited" waitforattach "$scratch/dev/later" "$fine" &
	ln -s "$loop" "$scratch/dev/later"
	wait $!
	same "{\"status\":\"Success\",\"device\":\"$loop\"}" "$(cat "$scratch/waited")"
}
check 'waitforattach waits' waits_until_it_is_there
ended_while_it_waits() {
	local pid child

	"$driver" waitforattach "$scratch/dev/never" "$fine" >"$scratch/answer" 2>&1 &
	pid=$!
	until child=$(pgrep -x -P "$pid" device) && [ "$(awk '{ print $3 }' "/proc/$child/stat")" = S ]; do
		kill -0 "$pid" || return 1
	done
	kill -TERM "$pid"
	wait "$pid" || true
	jq -e '.status == "Failure" and (.message | contains("ended by signal 15"))' "$scratch/answer" >/dev/null
}
check 'or until it is ended' ended_while_it_waits

# ---- the same with no free byte on the disk of the records ----
kill_daemon TERM
usual=$FSGROUPFS_ROOT
export FSGROUPFS_ROOT=$scratch/full
mkdir "$FSGROUPFS_ROOT"
mount -t tmpfs -o size=64M,mode=755 full "$FSGROUPFS_ROOT"
mkfs.ext4 -q -F "$loop"
mkdir -p "$FSGROUPFS_ROOT/etc/fsgroupfs"
rules 'plugins = gcePersistentDisk' "sources = $loop"
check 'the drivers are installed for another root' ctl install-flexvolume --attachable "$plugins"
disk=(plugin=gcePersistentDisk 'source={"pdName":"x"}' "device=$loop")
all=$(options e "${disk[@]}")
make_target e
make_target f
check 'mountdevice' succeeds mountdevice "$staging" "$loop" "$all"
check 'mount' succeeds mount "$(target e)" "$all"
check 'the disk is filled to the last byte' fill_up "$FSGROUPFS_ROOT/fill"
# What the log of the database has room for may still succeed.
says_what_it_did() {
	call mount "$(target f)" "$(options f "${disk[@]}")" || return 1
	case $(jq -r .status "$scratch/answer") in
	Success) is_mounted "$(target f)" ;;
	*) ! is_mounted "$(target f)" ;;
	esac
}
check 'a further mount is there, or a Failure' says_what_it_did
check 'a further mountdevice' says Failure '' mountdevice "$kubelet/other" "$loop" "$(options e "${disk[@]}")"
check 'unmountdevice of a device in use' says Failure 'in use' unmountdevice "$staging"
kill_daemon KILL
check 'unmount works, with a daemon that starts there' succeeds unmount "$(target e)"
check 'of the other too' succeeds unmount "$(target f)"
check 'and unmountdevice' succeeds unmountdevice "$staging"
check 'twice' succeeds unmountdevice "$staging"
check_same 'nothing is mounted' '' "$(mounts_below "$kubelet")"
kill_daemon TERM
umount "$FSGROUPFS_ROOT"
export FSGROUPFS_ROOT=$usual
ctl install-flexvolume --attachable "$plugins" >/dev/null
check 'nothing is left' nothing_mounted
end_volume_test
