#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# bench_restart.sh: how long the daemon of many volumes is away when it is killed: from the first call to its answer,
# which comes after the reconstruction. Needs root and /dev/fuse.
#
#   VOLUMES=500    of six kinds in turn: emptyDir on disk and in memory, hostPath, local, secret, configMap
#   OVERLAYS=20    of these, local ones whose walk has not ended: each has a keeper and a server
#   ROUNDS=5       each figure is the median
#   OUTPUT=build/bench/restart.json
#
#   restart_ms        after kill -9: `fsgroupctl wait` for one volume, the daemon started for it
#   reconstruct_ms    `fsgroupctl reconstruct` with nothing to do
#   lost_ms           as restart_ms, but the store is gone and is made again from the volumes' volume.json
#   reboot_ms         as restart_ms, after everything was unmounted and under another boot id
# shellcheck source=tests/integ/lib_volume.sh
. "$(dirname "$0")/../integ/lib_volume.sh"
need_root
need_fuse
need_tools jq
own_mounts "$0" "$@"
start_volume_test

VOLUMES=${VOLUMES:-500}
OVERLAYS=${OVERLAYS:-20}
ROUNDS=${ROUNDS:-5}
OUTPUT=${OUTPUT:-$repository/build/bench/restart.json}
state=$FSGROUPFS_ROOT/var/lib/fsgroupfs
mkdir -p "$(dirname "$OUTPUT")" "$scratch/source" "$scratch/pods"

printf '{"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}' >"$scratch/memory"
printf '{"name": "v", "secret": {"secretName": "s"}}' >"$scratch/secret"
printf '{"name": "v", "configMap": {"name": "c"}}' >"$scratch/config"
jq -n '{kind: "List", items: [
	{kind: "Secret", metadata: {name: "s"}, stringData: {key: "value"}},
	{kind: "ConfigMap", metadata: {name: "c"}, data: {key: "value"}}]}' >"$scratch/objects"

mount_one() {
	local number=$1 target=$scratch/pods/$1 source=$scratch/source/$1 arguments

	mkdir "$target" "$source"
	if ((number < OVERLAYS)); then
		touch "$source"/{1..9}
		arguments=(--plugin local --source "$source" --converge-rate 1)
	else
		case $((number % 6)) in
		0) arguments=(--plugin emptyDir) ;;
		1) arguments=(--spec "$scratch/memory") ;;
		2) arguments=(--plugin hostPath --source "$source") ;;
		3) arguments=(--plugin local --source "$source") ;;
		4) arguments=(--spec "$scratch/secret" --objects "$scratch/objects") ;;
		5) arguments=(--spec "$scratch/config" --objects "$scratch/objects") ;;
		esac
	fi
	"$BIN/fsgroupctl" mount "${arguments[@]}" --target "$target" --fsgroup "$GROUP" --volume-id "v$number" 2>&1 |
		grep -v 'note:' || true
}

# milliseconds COMMAND...
milliseconds() {
	local began=${EPOCHREALTIME/./}

	"$@" >"$scratch/stdout"
	printf '%d\n' $(((${EPOCHREALTIME/./} - began) / 1000))
}

median() { sort -n | sed -n "$(((ROUNDS + 1) / 2))p"; }

first_answer() { "$BIN/fsgroupctl" wait "v$((VOLUMES - 1))" --for presented --timeout 60; }

# The walks of the overlays would come to their end.
pause_all() {
	local i

	for ((i = 0; i < OVERLAYS; i++)); do
		ctl pause "v$i"
	done
}

# rounds FUNCTION: what it prints, ROUNDS times; its median.
rounds() {
	local i

	for ((i = 0; i < ROUNDS; i++)); do
		"$1"
	done | median
}

restart() { kill_daemon KILL && milliseconds first_answer; }
reconstruct() { milliseconds ctl reconstruct; }
lost() {
	kill_daemon KILL
	rm "$state"/store.db*
	milliseconds first_answer
}
absent_answer() { "$BIN/fsgroupctl" status "v$((VOLUMES - 1))"; }
reboot() {
	kill_daemon KILL
	unmount_below "$scratch"
	export FSGROUPFS_BOOT_ID=11111111-2222-3333-4444-555555555555
	milliseconds absent_answer
}

for ((i = 0; i < VOLUMES; i++)); do
	mount_one "$i"
done
pause_all
is_complete() { same "$VOLUMES" "$(ctl list --json | jq length)"; }
check "$VOLUMES volumes" is_complete
restart_ms=$(rounds restart)
reconstruct_ms=$(rounds reconstruct)
check 'a restart has lost none' is_complete
lost_ms=$(rounds lost)
check 'nor has a lost store' is_complete
check_same 'nothing is left to reconstruct' '[]' "$(ctl reconstruct --json | jq -c .)"
reboot_ms=$(reboot)
jq -n --argjson volumes "$VOLUMES" --argjson overlays "$OVERLAYS" --argjson rounds "$ROUNDS" \
	--argjson restart "$restart_ms" --argjson reconstruct "$reconstruct_ms" --argjson lost "$lost_ms" \
	--argjson reboot "$reboot_ms" '{benchmark: "restart", $volumes, $overlays, $rounds, restart_ms: $restart,
	reconstruct_ms: $reconstruct, lost_ms: $lost, reboot_ms: $reboot}' | tee "$OUTPUT"
check 'a restart takes less than a second' test "$restart_ms" -lt 1000
export FSGROUPFS_BOOT_ID=11111111-2222-3333-4444-555555555555
end_volume_test
