#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Servers that die under volumes of the daemon: status counts them, the daemon may be dead meanwhile; one that keeps
# dying is said in status and events, and recover tries again. No command waits for a server that is stopped.
# Needs root and /dev/fuse.
set -euo pipefail
# shellcheck source=tests/integ/lib_volume.sh
. "$(dirname "$0")/lib_volume.sh"
own_mounts "$0" "$@"
need_root
need_fuse
need_tools jq
start_volume_test

data=$scratch/data pod=$scratch/pod
mkdir "$pod"
make_files "$data" 300
server() { field_of vol .server.pid; }
restarts_of() { field_of vol .server.restarts; }

# Waits for the next server: for that there is a request that only it can answer.
kill_server() {
	kill -9 "$(server)"
	stat "$pod/d0/f1" >"$scratch/stat"
}

echo 500 >/proc/self/oom_score_adj
check 'mount' ctl mount --plugin local --source "$data" --target "$pod" --fsgroup "$GROUP" --volume-id vol --handoff no \
	--converge-rate 20
first=$(server)
exec 7<"$pod/d1/f100"
check 'its server is killed' kill_server
check_same 'an open file stays open' 100 "$(cat <&7)"
exec 7<&-
counts() { [ "$(restarts_of)" = "$1" ]; }
check 'status counts it' within 20 counts 1
check_same 'and what the dead one was asked' 1 "$(field_of vol .server.requests.OPEN)"
check 'and names another' test "$(server)" != "$first"
check 'the daemon is killed' kill_daemon KILL
check 'and after it the server' kill -9 "$(server)"
check_same 'the view goes on without' "0:$GROUP:660" "$(attributes "$pod/d2/f299")"
check 'and a new daemon knows of both' within 20 counts 2

# ---- its processes are nobody else's ----

server_pid=$(server)
keeper_pid=$(ps -o ppid= -p "$server_pid" | tr -d ' ')
if sh -c 'echo -999 >/proc/self/oom_score_adj' 2>"$scratch/null"; then
	wanted='-999 -998'
else
	wanted='0 0' # of what they were given, 500, as far as they may
fi
check_same 'memory is taken from others first' "$wanted" \
	"$(cat "/proc/$keeper_pid/oom_score_adj" "/proc/$server_pid/oom_score_adj" | paste -sd ' ')"
hierarchies=()
for hierarchy in /sys/fs/cgroup/systemd /sys/fs/cgroup/unified /sys/fs/cgroup; do
	[ ! -w "$hierarchy/cgroup.procs" ] || hierarchies+=("$hierarchy")
done
members() { cat "$1/cgroup.procs"; }
groups_end() {
	local end=$((SECONDS + 10))

	while [ -n "$(keeper_groups "$1")" ] && ((SECONDS < end)); do
		sleep 0.02
	done
	same '' "$(keeper_groups "$1")"
}
if [ "${#hierarchies[@]}" = 0 ]; then
	echo 'ok - a control group of its own # SKIP no hierarchy of control groups can be written'
else
	check_same 'it has a control group of its own' "${#hierarchies[@]}" "$(keeper_groups vol | wc -l)"
	for group in $(keeper_groups vol); do
		check_same 'with keeper and server in it' "$(printf '%s\n' "$keeper_pid" "$server_pid" | sort)" "$(members "$group" | sort)"
	done
	# Whoever restarts a service ends all that is in its group.
	caller=${hierarchies[0]}/fsgroupfs-test-$$
	mkdir "$caller" "$scratch/other" "$scratch/other-data"
	touch "$scratch/other-data/file"
	kill_daemon KILL
	check 'a caller in a group of his own' sh -c 'echo $$ >"$1/cgroup.procs" && shift && exec "$@"' - "$caller" \
		"$BIN/fsgroupctl" mount --plugin local --source "$scratch/other-data" --target "$scratch/other" \
		--fsgroup "$GROUP" --volume-id other --handoff no
	check_same 'leaves nothing in it' '' "$(members "$caller")"
	rmdir "$caller"
	check_same 'the daemon that he started is in another than its keepers' '' \
		"$(comm -12 <(cat $(keeper_groups other | sed 's|$|/cgroup.procs|') $(keeper_groups vol | sed 's|$|/cgroup.procs|') | sort -u) \
			<(daemon_pid | sort))"
	check 'unmount' ctl unmount other
	check 'its group goes with it' groups_end other
	check 'mount again' ctl mount --plugin local --source "$scratch/other-data" --target "$scratch/other" \
		--fsgroup "$GROUP" --volume-id other --handoff no
	kill_daemon KILL
	readarray -t pids < <(members "$(keeper_groups other | head -n 1)")
	umount "$scratch/other"
	"$helpers/keeper_ctl" gone "${pids[@]}"
	check_same 'one that ends while nobody listens leaves it' "${#hierarchies[@]}" "$(keeper_groups other | wc -l)"
	check 'the next daemon' ctl unmount other
	check 'takes it away' groups_end other
fi

# ---- nothing waits for a server that is stopped ----

stop_process "$(server)"
in_time() { timeout 4 "$BIN/fsgroupctl" "$@" >"$scratch/stdout"; }
check 'status of a stopped server' in_time status vol
check 'list' in_time list
check 'events' in_time events
check 'pause' in_time pause vol
check 'resume' in_time resume vol
kill -CONT "$(server)"

# ---- a server that keeps dying ----

check 'a server that keeps dying is given up' kill_until_failed vol
check_same 'status says why' 'server keeps dying' "$(field_of vol .reason)"
is_event() {
	[ "$(ctl events --json | jq -rs '[.[] | if type == "array" then .[] else . end | select(.kind == "failed")][0].message' |
		sed 's/.*: //')" = 'server keeps dying' ]
}
check 'events too' within 20 is_event
check 'wait does not wait' refuses 1 'server keeps dying' wait vol --for native --timeout 30
check 'requests fail at once' fails timeout 2 ls "$pod/d1"
check 'recover' ctl recover vol
check_same 'and it serves' 100 "$(cat "$pod/d1/f100")"
check 'converges' ctl converge vol --rate max
check 'to the end' ctl wait vol --for converged --timeout 30
check 'the lower tree is right' is_right "$data"
check 'recover of what needs none is a success' ctl recover vol
check 'recover of an unknown volume' refuses 4 nope recover nope
check 'given up once more' kill_until_failed vol
check 'it can be unmounted' ctl unmount vol
check 'nothing is left' nothing_mounted
# ---- keeper and server both die ----

readonly DEATHS=${DEATHS:-7}
both=$scratch/both
mkdir "$both"
make_files "$scratch/both-data" 300
check 'a volume whose walk takes long' ctl mount --plugin local --source "$scratch/both-data" --target "$both" \
	--fsgroup "$GROUP" --volume-id both --converge-rate 1
# Users who come back: what they have open is lost each time.
for user in 1 2; do
	while :; do
		cat "$both"/d*/f* >"$scratch/read.$user" 2>&1 || true
	done &
done
is_back() {
	local end=$((SECONDS + 20))

	until [ "$(cat "$both/d1/f100" 2>/dev/null)" = 100 ]; do
		((SECONDS < end)) || return 1
		sleep 0.02
	done
}
both_die() {
	local i pid began worst=0

	for ((i = 0; i < DEATHS; i++)); do
		pid=$(field_of both .server.pid) || return
		exec 8<"$both/d2/f200"
		began=${EPOCHREALTIME/./}
		kill -9 "$(ps -o ppid= -p "$pid" | tr -d ' ')" "$pid" || return
		is_back || return
		began=$(((${EPOCHREALTIME/./} - began) / 1000))
		((began <= worst)) || worst=$began
		exec 8<&-
		# That often in a minute it would be left for people.
		ctl recover both || return
	done
	printf '# %d deaths, at most %d ms\n' "$DEATHS" "$worst"
}
check "$DEATHS times it is mounted again at once" both_die
# shellcheck disable=SC2046
kill $(jobs -p)
wait
check_same 'shown as before' "0:$GROUP:660" "$(attributes "$both/d2/f299")"
check 'events name who lost what' test "$(ctl events --json | jq -rs '[.[] | if type == "array" then .[] else . end |
	select(.kind == "lost") | select(.message | contains("held by process"))] | length')" -ge "$DEATHS"
check 'unmount' ctl unmount both
check 'nothing is left' nothing_mounted
end_volume_test
