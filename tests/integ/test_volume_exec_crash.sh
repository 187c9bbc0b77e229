#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Volumes that run programs, cut off at the steps (mountd/steps.h) that matter to them: the next mount must finish what
# was begun, the next unmount undo it, and no device, mount or process may be left. Also a program that runs when the
# daemon is killed. Needs root, /dev/fuse and git.
# timeout: 300
set -euo pipefail
# shellcheck source=tests/integ/lib_volume.sh
. "$(dirname "$0")/lib_volume.sh"
need_root
need_fuse
need_tools jq git mkfs.ext4 losetup
own_mounts "$0" "$@"
start_volume_test

pod=$scratch/pod
drivers=$FSGROUPFS_ROOT/usr/libexec/kubernetes/kubelet-plugins/volume/exec
mkdir "$pod" "$scratch/images"
export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null
git init -q -b trunk "$scratch/origin"
echo content >"$scratch/origin/file"
git -C "$scratch/origin" add -A
git -c user.name=n -c user.email=e@example.org -C "$scratch/origin" commit -qm one
chmod -R a+rX "$scratch/origin"
truncate -s 16M "$scratch/images/disk"
mkfs.ext4 -q -F "$scratch/images/disk"

# A driver that attaches a loop device and remembers it by the volume; it leaves mount and unmount to us.
mkdir -p "$drivers/example.org~stub"
cat >"$drivers/example.org~stub/stub" <<'END'
#!/bin/bash
state=${0%/*}/../../attached
case $1 in
init) echo '{"status": "Success", "capabilities": {"attach": true}}' ;;
attach)
	[ -s "$state" ] || losetup --find --show "$(jq -r .image <<<"$2")" >"$state"
	echo "{\"status\": \"Success\", \"device\": \"$(cat "$state")\"}" ;;
waitforattach) echo "{\"status\": \"Success\", \"device\": \"$2\"}" ;;
mountdevice) mountpoint -q "$2" || mount "$3" "$2"; echo '{"status": "Success"}' ;;
unmountdevice) ! mountpoint -q "$2" || umount "$2"; echo '{"status": "Success"}' ;;
detach)
	[ ! -s "$state" ] || losetup -d "$(cat "$state")"
	rm -f "$state"
	echo '{"status": "Success"}' ;;
*) echo '{"status": "Not supported"}' ;;
esac
END
chmod 755 "$drivers/example.org~stub/stub"

jq -n --arg url "file://$scratch/origin" '{gitRepo: {repository: $url, directory: "."}}' >"$scratch/git.json"
jq -n --arg image "$scratch/images/disk" '{flexVolume: {driver: "example.org/stub", options: {image: $image}}}' \
	>"$scratch/flex.json"
mount_kind() {
	ctl mount --spec "$scratch/$1.json" --target "$pod" --fsgroup "$GROUP" \
		--volume-id v
}

is_usable() {
	ctl wait v --for converged --timeout 20
	case $1 in
	git) same "content 0:$GROUP:664" "$(cat "$pod/file") $(attributes "$pod/file")" ;;
	flex) same "0:$GROUP" "$(stat -c %u:%g "$pod/lost+found")" ;;
	esac
}

is_gone() {
	same '[]' "$(ctl list --json | jq -c .)" && same '' "$(mounts_below "$scratch")" &&
		same '' "$(ls "$FSGROUPFS_ROOT/var/lib/fsgroupfs/volumes")" &&
		same '' "$(losetup -j "$scratch/images/disk")"
}

# The steps that differ for each kind; test_volume_flow has those that do not.
declare -A mount_steps=(
	[git]='recorded wrapped-recorded wrapped-set-up wrapped-done set-up done'
	[flex]='recorded plugin-bound set-up done overlay-started presented'
)
mapfile -t unmount_steps < <("$helpers/steps" | grep '^unmount\.')
i=0
tried=()
for kind in git flex; do
	for step in ${mount_steps[$kind]}; do
		step=mount.$step
		tried+=("$step")
		undo=${unmount_steps[$((i++ % ${#unmount_steps[@]}))]}
		crash_at "$step" mount_kind "$kind"
		check "$kind: the next mount finishes after a crash at $step" mount_kind "$kind"
		check "$kind: it is usable" is_usable "$kind"
		crash_at "$undo" ctl unmount v
		check "$kind: the next unmount finishes after a crash at $undo" ctl unmount v
		check "$kind: nothing is left" is_gone
	done
	crash_at mount.set-up mount_kind "$kind"
	check "$kind: unmount undoes a set-up that was cut off" ctl unmount v
	check "$kind: nothing is left of it" is_gone
done

check_same 'each of these steps was reached' '' "$(unreached "${tried[@]}")"

# ---- the daemon is killed while a program runs ----

fifo=$scratch/fifo
mkfifo "$fifo"
sed -i "s|^attach)|attach)\n\techo \$\$ >'$fifo'; read -r _ <'$fifo'|" "$drivers/example.org~stub/stub"
mount_kind flex &
waiting=$!
read -r driver <"$fifo"
# bash goes on with the file that it has open; the next call-out does not wait.
sed -i "s|^\techo \$\$ >.*||" "$drivers/example.org~stub/stub"
kill_daemon KILL
check 'a program does not outlive the daemon' timeout 20 tail --pid="$driver" -f /dev/null
wait "$waiting" || true
check 'a mount that was cut off in a program is finished' mount_kind flex
check 'and usable' is_usable flex
check 'and unmounted' ctl unmount v
check 'nothing is left of that' is_gone

end_volume_test
