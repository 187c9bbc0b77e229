#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Many volumes at once: PODS pods of five volumes each (default 110; 20 under sanitizers), set up by 20 callers
# in parallel without an error, seen by a daemon that is started anew, taken away by 20 callers; then many
# callers for one volume. Needs root and /dev/fuse.
# timeout: 300
set -euo pipefail
# shellcheck source=tests/integ/lib_volume.sh
. "$(dirname "$0")/lib_volume.sh"
need_root
need_fuse
need_tools jq xargs
own_mounts "$0" "$@"
start_volume_test

case $BIN in
*/bin) PODS=${PODS:-110} ;;
*) PODS=${PODS:-20} ;;
esac
readonly CALLERS=20
pods=$scratch/pods data=$scratch/data one=$scratch/one
mkdir "$pods" "$data" "$one"
echo '{"emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}' >"$scratch/memory.json"
echo '{"secret": {"secretName": "s"}}' >"$scratch/secret.json"
echo '{"kind": "Secret", "metadata": {"name": "s", "namespace": "default"}, "data": {"key": "b25l"}}' \
	>"$scratch/objects.json"
: >"$scratch/calls"
for ((i = 0; i < PODS; i++)); do
	mkdir -p "$pods/$i"/{a,b,c,d,e} "$data/$i/sub"
	echo text >"$data/$i/sub/file"
	for call in "a --plugin emptyDir" "b --spec $scratch/memory.json" "c --plugin local --source $data/$i" \
		"d --plugin hostPath --source $data/$i" \
		"e --spec $scratch/secret.json --objects $scratch/objects.json"; do
		printf 'mount --target %s/%s/%s --fsgroup %s --volume-id p%s%s\n' "$pods" "$i" "$call" "$GROUP" \
			"$i" "${call%% *}"
	done
done | shuf --random-source=<(yes) >"$scratch/calls"

# Each line of a file is a call; what goes wrong is kept.
in_parallel() {
	xargs -a "$1" -P "$CALLERS" -L 1 "$BIN/fsgroupctl" >"$scratch/stdout" 2>"$scratch/parallel" || true
	same '' "$(grep -v ' note: ' "$scratch/parallel" | head -n 3)"
}

volumes() {
	ctl list --json | jq "[.[] | select($1)] | length"
}

check 'the first is there' ctl mount --plugin emptyDir --target "$one" --volume-id one
check "$((PODS * 5)) volumes set up by $CALLERS callers" in_parallel "$scratch/calls"
check_same 'all are on record' $((PODS * 5 + 1)) "$(volumes true)"
check_same 'none has failed' 0 "$(volumes '.state == "failed" or .state == "absent" or .state == "setting-up"')"
for i in 0 $((PODS / 2)) $((PODS - 1)); do
	check 'emptyDir has the group' same "0:$GROUP:2777" "$(attributes "$pods/$i/a")"
	check 'memory is a tmpfs' same "tmpfs 0:$GROUP:2777" "$(stat -fc %T "$pods/$i/b") $(attributes "$pods/$i/b")"
	check 'local shows the group' is_right "$pods/$i/c"
	check 'secret has its payload' same one "$(cat "$pods/$i/e/key")"
done
kill_daemon KILL
start=$(date +%s%N)
check_same 'a daemon that is started anew finds all' $((PODS * 5 + 1)) "$(volumes true)"
printf '# in %d ms\n' $((($(date +%s%N) - start) / 1000000))
check_same 'and none that has failed' 0 "$(volumes '.state == "failed" or .state == "absent"')"
check 'all are repeated without an error' in_parallel "$scratch/calls"
check_same 'and are still as many' $((PODS * 5 + 1)) "$(volumes true)"
sed 's/.*--volume-id /unmount /' "$scratch/calls" >"$scratch/ends"
check "all unmounted by $CALLERS callers" in_parallel "$scratch/ends"
check_same 'one is left' 1 "$(volumes true)"
check 'unmount' ctl unmount one

# ---- one volume, many callers ----

for ((i = 0; i < 40; i++)); do
	echo "mount --plugin local --source $data/0 --target $one --fsgroup $GROUP --volume-id v"
done >"$scratch/same"
check '40 callers mount one volume' in_parallel "$scratch/same"
check_same 'it is there once' 1 "$(mounts_below "$scratch" | grep -cxF "$one")"
check 'and right' is_right "$one"
for ((i = 0; i < 40; i++)); do
	echo 'unmount v'
done >"$scratch/same"
check '40 callers unmount it' in_parallel "$scratch/same"
check 'nothing is left' nothing_mounted

# Mounts and unmounts in any order: whatever is last, no call fails, and nothing is left half-way.
for ((i = 0; i < 20; i++)); do
	echo "mount --plugin emptyDir --target $one --fsgroup $GROUP --volume-id v"
	echo 'unmount v'
done >"$scratch/same"
check 'mounts and unmounts at once' in_parallel "$scratch/same"
check 'unmount' ctl unmount v
check 'nothing is left' nothing_mounted

end_volume_test
