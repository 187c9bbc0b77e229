#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# bench_call.sh: what one call of the FlexVolume driver costs when nothing is to be done: kubelet makes it after each of
# its restarts. From the start of the driver's process to its end. Needs root and /dev/fuse.
#
#   COUNT=500     calls of each kind
#   VOLUMES=100   further volumes on record
#   OUTPUT=build/bench/call.json
#
#   init          no daemon: the processes alone
#   native        mount of a volume that is native
#   converging    mount of one whose walk is paused by a rate of 1 file a second
#   secret        mount of a secret, its objects read and compared
#   unmount       of what is not mounted
# shellcheck source=tests/integ/lib_flex.sh
. "$(dirname "$0")/../integ/lib_flex.sh"
need_root
need_fuse
need_tools jq
own_mounts "$0" "$@"
start_flex_test

COUNT=${COUNT:-500}
VOLUMES=${VOLUMES:-100}
OUTPUT=${OUTPUT:-$repository/build/bench/call.json}
mkdir -p "$(dirname "$OUTPUT")" "$FSGROUPFS_ROOT/etc/fsgroupfs" "$scratch/srv" "$scratch/objects"
cat >"$FSGROUPFS_ROOT/etc/fsgroupfs/mountd.conf" <<CONF
[flexvolume]
plugins = emptyDir local secret
sources = $scratch/srv
objects = $scratch/objects
CONF
make_files "$scratch/srv/data" 300
jq -n '{kind: "Secret", metadata: {name: "db", namespace: "default"}, stringData: {key: "value"}}' \
	>"$scratch/objects/secret.json"

for ((i = 0; i < VOLUMES; i++)); do
	mkdir -p "$scratch/others/$i"
	ctl mount --plugin emptyDir --target "$scratch/others/$i" --fsgroup "$GROUP"
done

results='{}'
# measure NAME ARGUMENT...
measure() {
	local times

	times=$("$TESTBIN/bench/calls" "$COUNT" "$driver" "${@:2}")
	read -ra times <<<"$times"
	results=$(jq -c --arg name "$1" --argjson median "${times[0]}" --argjson p99 "${times[1]}" \
		--argjson longest "${times[2]}" '.[$name] = {medianUs: $median, p99Us: $p99, longestUs: $longest}' <<<"$results")
}
# measure_mount NAME [OPTION=VALUE]...
measure_mount() {
	local all

	make_target "$1"
	all=$(options "$1" "${@:2}")
	check "$1" succeeds mount "$(target "$1")" "$all"
	measure "$1" mount "$(target "$1")" "$all"
	check_same "$1: mounted once" 1 "$(mount_count "$(target "$1")")"
}

measure init init
measure_mount native plugin=emptyDir
measure_mount converging plugin=local "source=$scratch/srv/data" convergeRate=1
measure_mount secret 'volume={"name":"v","secret":{"secretName":"db"}}' "objects=$scratch/objects"
measure unmount unmount "$(target none)"
jq -n --argjson count "$COUNT" --argjson volumes "$VOLUMES" --argjson calls "$results" \
	'{benchmark: "call", $count, $volumes, calls: $calls}' | tee "$OUTPUT"
check 'a mount of a live volume takes less than 20 ms' test "$(jq .calls.native.medianUs "$OUTPUT")" -lt 20000
for pod in native converging secret; do
	succeeds unmount "$(target "$pod")"
done
end_volume_test
