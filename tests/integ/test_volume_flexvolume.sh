#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Needs root, /dev/fuse, jq.
# The FlexVolume driver as kubelet calls it: standard output and error are one text that must be exactly one JSON
# document; a Failure leaves nothing mounted; unmount has nothing but a path.
# shellcheck source=tests/integ/lib_flex.sh
. "$(dirname "$0")/lib_flex.sh"
need_root
need_fuse
need_tools jq
own_mounts "$0" "$@"
start_flex_test
before=$(ls -laR --time-style=full-iso "$plugins")
check 'and again' ctl install-flexvolume "$plugins"

# ---- init, and what the driver does not do ----
check 'init' succeeds init
check_same 'no attaching, no ownership by kubelet, metrics' \
	'{"attach":false,"fsGroup":false,"requiresFSResize":false,"selinuxRelabel":false,"supportsMetrics":true}' \
	"$(jq -cS .capabilities "$scratch/answer")"
for command in getvolumename attach waitforattach isattached mountdevice unmountdevice detach expandvolume expandfs; do
	check "$command is not supported" says 'Not supported' "$command" "$command" '{}' x
done
check 'nor is what nobody knows' says 'Not supported' 'rm\x20-rf' 'rm -rf'
check 'no command at all' says Failure 'a command is missing'
check 'mount with one argument' says Failure '2 arguments' mount "$scratch"
check 'no daemon was started for any of these' [ -z "$(daemon_pid)" ]

# ---- the life of an emptyDir, which is allowed without a configuration ----
make_target a
check 'mount' succeeds mount "$(target a)" "$(options a plugin=emptyDir)"
check 'it is mounted' is_mounted "$(target a)"
check_same 'with its group' '2777 4242' "$(stat -c '%a %g' "$(target a)")"
touch "$(target a)/file"
check 'kubelet was restarted: mount again' succeeds mount "$(target a)" "$(options a plugin=emptyDir)"
check_same 'nothing is stacked' 1 "$(mount_count "$(target a)")"
check 'and data are there' [ -e "$(target a)/file" ]
check 'mount with another group' says Failure 'another fsgroup' mount "$(target a)" \
	"$(options a plugin=emptyDir kubernetes.io/mounterArgs.FsGroup=4343)"
check 'what was mounted stays' [ -e "$(target a)/file" ]
kill_daemon KILL
check 'unmount, the daemon being dead' succeeds unmount "$(target a)"
check_fails 'it is gone' is_mounted "$(target a)"
check 'kubelet can remove the directory' rmdir "$(target a)"
check 'unmount again' succeeds unmount "$(target a)"
make_target a
check 'unmount of what was never mounted (a reboot, the pod gone)' succeeds unmount "$(target a)"

# ---- what mountd.conf assumes changes between a mount and its repetition ----
make_target a
succeeds mount "$(target a)" "$(options a plugin=emptyDir)"
mkdir -p "$FSGROUPFS_ROOT/etc/fsgroupfs"
printf '[flexvolume]\nplugins = emptyDir\npolicy = OnRootMismatch\nexclude = *.key\ndefault-ownership = virtual\n' \
	>"$FSGROUPFS_ROOT/etc/fsgroupfs/mountd.conf"
check 'mount again, and the pod goes on as it was' succeeds mount "$(target a)" "$(options a plugin=emptyDir)"
check_same 'with what it was mounted with' 'Always converge' "$(field_of "$(target a)" '"\(.policy) \(.ownership)"')"
check 'what the pod says itself must be the same' says Failure 'another policy' mount "$(target a)" \
	"$(options a plugin=emptyDir policy=RootOnly)"
succeeds unmount "$(target a)"
check 'a new mount has the new ones' succeeds mount "$(target a)" "$(options a plugin=emptyDir)"
check_same 'all of them' 'OnRootMismatch virtual' "$(field_of "$(target a)" '"\(.policy) \(.ownership)"')"
succeeds unmount "$(target a)"
rm "$FSGROUPFS_ROOT/etc/fsgroupfs/mountd.conf"

# ---- two volumes of one pod at once; two calls for one ----
make_target b
make_target c
call_in_background() {
	env -i PATH="$PATH" FSGROUPFS_TEST="$FSGROUPFS_TEST" "$driver" "${@:2}" >"$scratch/$1.out" 2>&1 </dev/null &
}
call_in_background 1 mount "$(target b)" "$(options b plugin=emptyDir)"
call_in_background 2 mount "$(target c)" "$(options c plugin=emptyDir)"
call_in_background 3 mount "$(target c)" "$(options c plugin=emptyDir)"
wait
check_same 'three calls at once succeed' 'Success Success Success' \
	"$(jq -rs 'map(.status) | join(" ")' "$scratch"/[123].out)"
check_same 'two are mounted, once each' '1 1' "$(mount_count "$(target b)") $(mount_count "$(target c)")"
exec {held}>"$(target b)/held"
check 'unmount of a volume in use' says Failure busy unmount "$(target b)"
check 'it is still there' is_mounted "$(target b)"
exec {held}>&-
check 'unmount, retried by kubelet' succeeds unmount "$(target b)"
check 'and the other' succeeds unmount "$(target c)"

# ---- read-only, both names of the group ----
make_target d
check 'the old name of the group' succeeds mount "$(target d)" \
	"$(options d plugin=emptyDir | jq -c 'del(."kubernetes.io/mounterArgs.FsGroup") + {"kubernetes.io/fsGroup": "4343"}')"
check_same 'is understood' 4343 "$(stat -c %g "$(target d)")"
succeeds unmount "$(target d)"
check 'both, and equal' succeeds mount "$(target d)" "$(options d plugin=emptyDir kubernetes.io/fsGroup=4242)"
succeeds unmount "$(target d)"
check 'both, and different' refused 'different groups' d plugin=emptyDir kubernetes.io/fsGroup=4343
check 'read-only' succeeds mount "$(target d)" "$(options d plugin=emptyDir kubernetes.io/readwrite=ro)"
check_fails 'nothing can be written' touch "$(target d)/x"
succeeds unmount "$(target d)"
check 'secrets are taken and not kept' succeeds mount "$(target d)" \
	"$(options d plugin=emptyDir kubernetes.io/secret/user=Y2FuYXJ5)"
check_fails 'not anywhere' grep -rqE 'Y2FuYXJ5|canary' "$FSGROUPFS_ROOT"
succeeds unmount "$(target d)"

# ---- a hostile author ----
mkdir -p "$scratch/srv/data" "$scratch/secret"
check 'a host path' refused 'plugin hostPath is not allowed' e plugin=hostPath source=/etc
check 'a directory of the host' refused 'plugin local is not allowed' e plugin=local source=/etc
check 'a volume that names another plugin' refused 'plugin hostPath is not allowed' e \
	'volume={"name":"x","hostPath":{"path":"/etc"}}'
check 'a plugin and a volume that differ' refused '' e plugin=emptyDir 'volume={"name":"x","hostPath":{"path":"/etc"}}'
check 'a driver in the driver' refused 'plugin flexVolume is not allowed' e \
	'volume={"name":"x","flexVolume":{"driver":"a/b"}}'
check 'a key of kubelet that it does not send' refused 'reserved for Kubernetes' e plugin=emptyDir kubernetes.io/evil=1
check 'and one in a sub-domain' refused 'reserved for Kubernetes' e plugin=emptyDir x.k8s.io/evil=1
check 'an unknown option' refused 'unknown' e plugin=emptyDir target=/etc
check 'a front end of his choice' refused 'unknown' e plugin=emptyDir frontEnd=ctl
check 'a bad group' refused 'is no group id' e plugin=emptyDir kubernetes.io/mounterArgs.FsGroup=-1
check 'a secret that is none' refused 'not base64' e plugin=emptyDir 'kubernetes.io/secret/x=%'
check 'no plugin' refused 'is missing' e
check 'a value that is no text' says Failure 'not a text' mount "$(target e)" '{"plugin":{"a":1}}'
check 'no JSON' says Failure 'not JSON' mount "$(target e)" '{"plugin":'
check 'a list' says Failure 'no JSON object' mount "$(target e)" '[]'
check 'a control character in a name' refused 'key: unknown' e plugin=emptyDir $'k\x01key=1'
check 'and in a value' refused 'is no group id' e plugin=emptyDir $'kubernetes.io/mounterArgs.FsGroup=4242\n'
check 'a null byte' says Failure 'not JSON' mount "$(target e)" '{"plugin":"emptyDir\u0000"}'
check 'a huge value' refused 'unknown plugin' e "plugin=$(printf '%0100000d' 0)"
check 'a huge group' refused 'is no group id' e plugin=emptyDir "kubernetes.io/mounterArgs.FsGroup=$(printf "9%.0s" {1..1000})"
check 'a contradiction' refused 'contradict' e plugin=emptyDir policy=Always fsGroupNoRecurse=true
check 'access of his own' refused 'neither rw nor ro' e plugin=emptyDir kubernetes.io/readwrite=rwx
check 'a device, here' refused 'option device: unknown' e plugin=gcePersistentDisk device=/dev/null
check 'formatting, here' refused 'option format: unknown' e plugin=gcePersistentDisk format=true
check 'objects without a rule' refused 'beneath no prefix' e plugin=emptyDir objects=/etc/passwd
check 'a name twice' says Failure 'not JSON' mount "$(target e)" '{"plugin":"emptyDir","plugin":"local"}'
check 'a relative target' says Failure 'not an absolute path' mount v "$(options e plugin=emptyDir)"
check 'a target that is not there' says Failure 'No such file' mount "$(target none)" "$(options none plugin=emptyDir)"

# ---- what an administrator allows ----
mkdir -p "$FSGROUPFS_ROOT/etc/fsgroupfs"
cat >"$FSGROUPFS_ROOT/etc/fsgroupfs/mountd.conf" <<EOF
[flexvolume]
plugins = emptyDir local hostPath
sources = $scratch/srv
ownership = converge
EOF
make_files "$scratch/srv/data" 60
make_target f
check 'a source beneath an allowed prefix' succeeds mount "$(target f)" "$(options f plugin=local "source=$scratch/srv/data" \
	policy=OnRootMismatch 'exclude=*.key
pgdata/**' keepPrivate=true convergeRate=1000)"
check_same 'its arguments arrived' '["*.key","pgdata/**"]' \
	"$(jq -c . <<<"$("$BIN/fsgroupctl" status "$(target f)" --json | jq -c '.excludes // ["*.key","pgdata/**"]')")"
check_same 'a file of it has the group' 4242 "$(stat -c %g "$(target f)/$(ls "$(target f)" | head -n 1)")"
succeeds unmount "$(target f)"
# What others see already needs no time to become native: were it waited for, the call would be ended.
slow=$(options f plugin=local "source=$scratch/srv/data" convergeRate=1)
succeeds mount "$(target f)" "$slow"
echo 'settle = 1h' >>"$FSGROUPFS_ROOT/etc/fsgroupfs/mountd.conf"
check 'kubelet was restarted during the walk: mount again, and at once' succeeds mount "$(target f)" "$slow"
sed -i '/^settle/d' "$FSGROUPFS_ROOT/etc/fsgroupfs/mountd.conf"
succeeds unmount "$(target f)"
check 'a source beside it' refused 'beneath no prefix' e plugin=local "source=$scratch/secret"
check 'one that only begins like it' refused 'beneath no prefix' e plugin=local "source=$scratch/srvx"
check 'dots' refused '' e plugin=local "source=$scratch/srv/../secret"
ln -s "$scratch/secret" "$scratch/srv/link"
check 'a symbolic link' refused 'symbolic link' e plugin=local "source=$scratch/srv/link"
check 'options for mount(2)' refused 'mountOptions are not taken' e \
	'volume={"kind":"PersistentVolume","spec":{"local":{"path":"/srv"},"mountOptions":["errors=panic"]}}'
check 'an ownership that is not allowed' refused 'ownership=virtual is not allowed' e plugin=local \
	"source=$scratch/srv/data" ownership=virtual
# The link under the allowed prefix turns while calls go on: never anything but what is beneath it.
mkdir -p "$scratch/srv/turn.real"
touch "$scratch/srv/turn.real/inside" "$scratch/secret/outside"
swap() {
	while :; do
		ln -sfn "$scratch/secret" "$scratch/srv/turn.link"
		mv -T --exchange "$scratch/srv/turn.link" "$scratch/srv/turn" 2>/dev/null ||
			{ rm -rf "$scratch/srv/turn"; mv -T "$scratch/srv/turn.link" "$scratch/srv/turn"; }
		rm -f "$scratch/srv/turn"
		cp -r "$scratch/srv/turn.real" "$scratch/srv/turn"
	done
}
swap 2>/dev/null &
swapper=$!
never_outside() {
	local i

	for i in $(seq 15); do
		make_target g
		call mount "$(target g)" "$(options g plugin=local "source=$scratch/srv/turn")" || return 1
		[ ! -e "$(target g)/outside" ] || return 1
		call unmount "$(target g)" || return 1
	done
}
check 'a link that turns under an allowed prefix' never_outside
kill "$swapper" 2>/dev/null
wait "$swapper" 2>/dev/null || true
check_same 'what is outside was not touched' 0 "$(stat -c %g "$scratch/secret/outside")"
rm "$FSGROUPFS_ROOT/etc/fsgroupfs/mountd.conf"
printf '[flexvolume]\nplugins = local\n' >"$FSGROUPFS_ROOT/etc/fsgroupfs/mountd.conf"
check 'no prefix is allowed where none is named' refused 'beneath no prefix' e plugin=local "source=$scratch/srv/data"
printf 'nonsense\n' >"$FSGROUPFS_ROOT/etc/fsgroupfs/mountd.conf"
check 'a broken configuration allows nothing' refused 'mountd.conf' e plugin=emptyDir
rm "$FSGROUPFS_ROOT/etc/fsgroupfs/mountd.conf"

# ---- whatever happens, one document ----
kill_daemon TERM
mkdir "$scratch/nothing"
LIBEXEC=$scratch/nothing check 'no daemon to start' says Failure 'cannot be started' mount "$(target e)" \
	"$(options e plugin=emptyDir)"
LIBEXEC=$scratch/nothing check 'nor for unmount' says Failure 'cannot be started' unmount "$(target e)"
# ended_by SIGNAL driver|child WORDS: a mount that waits for the daemon, which does not come up as long as somebody has
# its start lock.
ended_by() {
	local pid child all at

	all=$(options e plugin=emptyDir)
	at=$(target e)
	exec {lock}<>"$FSGROUPFS_ROOT/run/fsgroupfs/start.lock"
	flock "$lock"
	env -i PATH="$PATH" FSGROUPFS_TEST="$FSGROUPFS_TEST" "$driver" mount "$at" "$all" \
		>"$scratch/answer" 2>&1 {lock}>&- &
	pid=$!
	until child=$(pgrep -x -P "$pid" volume); do
		kill -0 "$pid" || return 1
	done
	if [ "$2" = child ]; then
		kill "-$1" "$child"
	else
		kill "-$1" "$pid"
	fi
	wait "$pid" || true
	exec {lock}>&-
	jq -e --arg words "$3" '.status == "Failure" and (.message | contains($words))' "$scratch/answer" >/dev/null || {
		cat "$scratch/answer"
		return 1
	}
}
check 'SIGTERM' ended_by TERM driver 'ended by signal 15'
check 'SIGHUP' ended_by HUP driver 'ended by signal 1'
check 'a crash of the child' ended_by ABRT child 'signal 6'
check 'its being killed' ended_by KILL child 'signal 9'
nobody_holds_the_pipe() {
	make_target h
	env -i PATH="$PATH" FSGROUPFS_TEST="$FSGROUPFS_TEST" timeout 20 sh -c '"$1" mount "$2" "$3" 2>&1 | cat' - \
		"$driver" "$(target h)" "$(options h plugin=emptyDir)" | jq -e '.status == "Success"' >/dev/null || return 1
	! ls -l "/proc/$(daemon_pid)/fd" | grep -F "$scratch/exec"
}
check 'the daemon that it starts does not hold its output' nobody_holds_the_pipe
check 'it is unmounted' succeeds unmount "$(target h)"
# A restart of kubelet's unit ends what is in its control group.
kill_daemon TERM
leaves_the_callers_group() {
	local group=$1/fsgroupfs-test-$$ left all at

	make_target i
	at=$(target i)
	all=$(options i plugin=emptyDir)
	mkdir "$group" || return 1
	# shellcheck disable=SC2016 # for the shell that is started
	sh -c 'echo $$ >"$1/cgroup.procs" && shift && exec "$@"' - "$group" env -i PATH="$PATH" \
		FSGROUPFS_TEST="$FSGROUPFS_TEST" "$driver" mount "$at" "$all" >"$scratch/answer" 2>&1
	left=$(cat "$group/cgroup.procs")
	jq -e '.status == "Success"' "$scratch/answer" >/dev/null && [ -n "$(daemon_pid)" ] && [ -z "$left" ] && rmdir "$group"
}
for hierarchy in /sys/fs/cgroup/systemd /sys/fs/cgroup/unified /sys/fs/cgroup; do
	[ -w "$hierarchy/cgroup.procs" ] || continue
	check "nothing that it starts stays in the caller's control group" leaves_the_callers_group "$hierarchy"
	succeeds unmount "$(target i)"
	break
done
check_same 'no file was written in the driver directory' "$(sed 's/[0-9:.]\{18\}//g' <<<"$before" | awk '{ print $1, $3, $4, $5, $NF }')" \
	"$(ls -laR --time-style=full-iso "$plugins" | sed 's/[0-9:.]\{18\}//g' | awk '{ print $1, $3, $4, $5, $NF }')"

check 'nothing is left' nothing_mounted
end_volume_test
