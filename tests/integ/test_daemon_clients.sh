#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Clients of the daemon: many, slow, huge, malformed, deaf, killed, and those who may only look (daemon_clients.py
# plays them). Needs root and /dev/fuse.
set -euo pipefail
# shellcheck source=tests/integ/lib_volume.sh
. "$(dirname "$0")/lib_volume.sh"
need_root
need_fuse
need_tools jq python3
own_mounts "$0" "$@"
start_volume_test

readonly LOOKERS=54321
run=$FSGROUPFS_ROOT/run/fsgroupfs
config=$FSGROUPFS_ROOT/etc/fsgroupfs/mountd.conf
mkdir -p "$FSGROUPFS_ROOT/run" "$FSGROUPFS_ROOT/etc/fsgroupfs" "$scratch/pod" "$scratch/elsewhere"
ln -s "$scratch" "$scratch/elsewhere/alias"
chmod 755 "$FSGROUPFS_ROOT" "$FSGROUPFS_ROOT/run"

# ---- without a group ----

printf '[daemon]\nstatus-group = no-such-group\n' >"$config"
check 'a group that is not there keeps nobody from being served' ctl list
check 'the log says so' grep -q 'status-group = no-such-group: no such group' "$FSGROUPFS_ROOT/var/lib/fsgroupfs/mountd.log"
check_same 'the socket and its directory are root'\''s alone' '0:0:600 0:0:700' \
	"$(attributes "$run/mountd.sock" "$run" | paste -sd ' ')"
check_fails 'others are refused' as 4711 100 "$LOOKERS" "$BIN/fsgroupctl" list
kill_daemon TERM

# ---- with one ----

printf '[daemon]\nstatus-group = %d\ncpu-latency = 1000\n' "$LOOKERS" >"$config"
check_same 'config check tells people how fast processors are to wake' '1000 us' \
	"$(ctl config check | sed -n 's/^ *cpu-latency  *//p')"
check_same 'and programs' 1000 "$(ctl config check --json | jq .daemon.cpuLatencyUs)"
make_files "$scratch/canary-source" 300
# a source that takes more than a socket holds: whoever does not read lists keeps the daemon from writing them
jq -n --arg path "$scratch/canary-source" --arg junk "$(head -c 120000 /dev/zero | tr '\0' x)" \
	'{local: {path: $path, junk: $junk, more: ($junk + $junk + $junk)}}' >"$scratch/spec.json"
check 'a volume that takes its time' ctl mount --spec "$scratch/spec.json" --target "$scratch/pod" \
	--fsgroup "$GROUP" --converge-rate 1 --volume-id slow
# Which takes its arguments apart in place.
check_same 'its overlay is asked for it' 'cpu_latency 1000' \
	"$(tr '=\0' '  ' <"/proc/$(ctl status slow --json | jq .server.pid)/cmdline" | grep -o 'cpu_latency [0-9]*')"
mkdir "$scratch/full"
check 'a volume with something to delete' ctl mount --plugin emptyDir --target "$scratch/full" --volume-id full
make_files "$scratch/full" 3000
check_same 'the group may come as far as the socket' "0:$LOOKERS:660 0:$LOOKERS:710" \
	"$(attributes "$run/mountd.sock" "$run" | paste -sd ' ')"
check_same 'not to what is beside it' 700 "$(stat -c %a "$run/keepers")"
export TARGET=$scratch/pod ALIAS=$scratch/elsewhere/alias/pod
check 'all kinds of clients' python3 -B "$(dirname "$0")/daemon_clients.py" "$run/mountd.sock" "$(daemon_pid)" "$LOOKERS" \
	canary-source
as 4711 100 "$LOOKERS" "$BIN/fsgroupctl" status slow >"$scratch/seen" 2>&1 || true
check 'fsgroupctl shows the group a volume' grep -q converging "$scratch/seen"
as 4711 100 "$LOOKERS" "$BIN/fsgroupctl" unmount slow >"$scratch/seen" 2>&1 || true
check_same 'and says what it may not' 'fsgroupctl: unmount slow: only root may ask this' "$(cat "$scratch/seen")"

# ---- the next daemon, without the group ----

rm "$config"
kill_daemon TERM
check_same 'config check: as it is' 'as it is' "$(ctl config check | sed -n 's/^ *cpu-latency  *//p')"
check 'started again' ctl list
check_same 'the group is out' '0:0:600 0:0:700' "$(attributes "$run/mountd.sock" "$run" | paste -sd ' ')"
end_volume_test
