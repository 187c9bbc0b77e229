#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The daemon under a service manager, which daemon_service.py plays: socket, notifications, watchdog, idle exit; the
# unit files; the log of a daemon that was started on demand. Needs root and /dev/fuse; no systemd that runs.
set -euo pipefail
# shellcheck source=tests/integ/lib_volume.sh
. "$(dirname "$0")/lib_volume.sh"
need_root
need_fuse
need_tools jq python3 setpriv strace systemd-analyze
own_mounts "$0" "$@"
start_volume_test

units=$scratch/units pod=$scratch/pod data=$scratch/data
log=$FSGROUPFS_ROOT/var/lib/fsgroupfs/mountd.log
mkdir "$units" "$pod" "$FSGROUPFS_ROOT/second"
make_files "$data" 100
make_files "$FSGROUPFS_ROOT/source" 100

# ---- the unit files ----

cp "$repository/mountd/systemd/fsgroup-mountd.socket" "$units"
sed "s|@sbindir@|$BIN|" "$repository/mountd/systemd/fsgroup-mountd.service.in" >"$units/fsgroup-mountd.service"
unit_errors() {
	systemd-analyze verify --man=no "$units"/* 2>&1 | grep -F fsgroup || true
}
check_same 'systemd finds nothing to complain of' '' "$(unit_errors)"
check_same 'the socket is where clients look' 'ListenStream=/run/fsgroupfs/mountd.sock' \
	"$(grep ^ListenStream= "$units/fsgroup-mountd.socket")"

# What gives a service a mount namespace of its own, or mounts of its own (systemd.exec(5)): its mounts would be seen
# by nobody else, or vanish with it. And what ends or changes what is a volume's.
readonly FORBIDDEN='
	RootDirectory RootImage RootImageOptions RootHash RootHashSignature RootVerity RootEphemeral RootMStack MountAPIVFS
	MountFlags MountImages ExtensionImages ExtensionDirectories BindPaths BindReadOnlyPaths BindLogSockets
	TemporaryFileSystem ReadWritePaths ReadOnlyPaths InaccessiblePaths ExecPaths NoExecPaths
	ReadWriteDirectories ReadOnlyDirectories InaccessibleDirectories
	PrivateTmp PrivateDevices PrivateMounts PrivateIPC PrivateNetwork PrivateUsers PrivatePIDs PrivateBPF
	IPCNamespacePath NetworkNamespacePath UserNamespacePath JoinsNamespaceOf DelegateNamespaces
	ProtectSystem ProtectHome ProtectProc ProcSubset ProtectControlGroups ProtectKernelTunables ProtectKernelModules
	ProtectKernelLogs ProtectHostname ProtectClock DynamicUser LogNamespace
	LoadCredential LoadCredentialEncrypted SetCredential SetCredentialEncrypted ImportCredential
	StateDirectory RuntimeDirectory CacheDirectory LogsDirectory ConfigurationDirectory
	NoNewPrivileges RestrictNamespaces RestrictSUIDSGID RestrictFileSystems DevicePolicy DeviceAllow
	User Group SecureBits MemoryDenyWriteExecute SystemCallArchitectures KillSignal SendSIGHUP'
forbidden_in_units() {
	# shellcheck disable=SC2086
	grep -hE "^[[:space:]]*($(printf '%s|' $FORBIDDEN)-)[[:space:]]*=" "$units"/* || true
}
check_same 'nothing in them takes volumes away from others' '' "$(forbidden_in_units)"
check_same 'a stop ends the daemon only' KillMode=process "$(grep ^KillMode= "$units/fsgroup-mountd.service")"

# What they take away, nobody needs: the daemon and its children without these capabilities and address families, and
# no call that the filter refuses.
words_of() {
	sed -n "s/^$1=~\?//p" "$units/fsgroup-mountd.service"
}
# shellcheck disable=SC2046
denied_calls() {
	systemd-analyze syscall-filter $(words_of SystemCallFilter) | grep -o '^    [a-z_0-9]*$' | tr -d ' ' | sort -u
}
dropped=$(words_of CapabilityBoundingSet | tr ' ' '\n' | sed 's/^CAP_/-/' | tr '[:upper:]\n' '[:lower:],')
traced=$(denied_calls | while read -r call; do
	# those that this machine has
	strace -qq -e trace="$call" true 2>/dev/null && printf '%s,' "$call"
done)
check 'the filter refuses something' test "$(printf '%s' "$traced" | tr -cd , | wc -c)" -ge 8
printf '{"gitRepo": {"repository": "%s", "directory": "."}}\n' "$scratch/nowhere" >"$scratch/git.json"
under_the_unit() {
	(
		ctl mount --plugin local --source "$data" --target "$pod" --fsgroup "$GROUP" --volume-id kept &&
			ctl wait kept --for native --timeout 30 && refuses 1 git mount --spec "$scratch/git.json" --target "$pod/d0"
	)
}
setpriv --bounding-set "${dropped%,}" strace -D -f -qq --seccomp-bpf -e trace="${traced%,}" -o "$scratch/denied" \
	"$BIN/fsgroup-mountd" --root "$FSGROUPFS_ROOT"
check 'what the unit drops is not needed' under_the_unit
# calls that are younger than strace come as numbers, whatever is traced
check_same 'nor is a call that it refuses' '' "$(grep -v -e syscall_0x -e '---' -e '+++' "$scratch/denied" | head -n 3)"
check_same 'the capabilities were dropped' 0 \
	"$((0x$(sed -n 's/^CapBnd:\t//p' "/proc/$(daemon_pid)/status") >> 25 & 1))"

# ---- the log ----

check_same 'the log is 0600' 600 "$(stat -c %a "$log")"
check 'a volume with a keeper' ctl mount --plugin local --source "$FSGROUPFS_ROOT/source" --target "$FSGROUPFS_ROOT/second" \
	--fsgroup 4243 --handoff no --volume-id logged
keeper_pid=$(awk '/^PPid/ { print $2 }' "/proc/$(field_of logged .server.pid)/status")
kill_daemon TERM
head -c 1200000 /dev/zero | tr '\0' 'x' >>"$log"
"$BIN/fsgroup-mountd" --root "$FSGROUPFS_ROOT" --idle-exit 1
set_aside() {
	[ -e "$log.1" ] && [ "$(stat -c %s "$log")" -lt 100000 ]
}
check 'a log that has grown too much is set aside' within 10 set_aside
check_same 'as private as it was' '600 600' "$(stat -c %a "$log" "$log.1" | paste -sd ' ')"
check_same 'nothing of it is lost' 1200000 "$(tr -cd x <"$log.1" | head -c 1200000 | wc -c)"
check_same 'keepers write to the new one' "$(stat -c %i "$log")" "$(stat -Lc %i "/proc/$keeper_pid/fd/2")"
check 'unmount' ctl unmount logged

# ---- a service manager ----

# Its journal is in a /run of this test's own.
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/systemd/journal

check 'all that it does' python3 -B "$(dirname "$0")/daemon_service.py" "$BIN/fsgroup-mountd" "$FSGROUPFS_ROOT" \
	"$BIN/fsgroupctl"
end_volume_test
