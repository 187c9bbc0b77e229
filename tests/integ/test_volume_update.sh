#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# fsgroupctl update: what may change while a volume is mounted, what begins a new run, what is refused, and that
# a failed or interrupted update leaves a volume that can be used. Needs root and /dev/fuse.
set -euo pipefail
# shellcheck source=tests/integ/lib_volume.sh
. "$(dirname "$0")/lib_volume.sh"
need_root
need_fuse
need_tools jq
own_mounts "$0" "$@"
start_volume_test

pod=$scratch/pod other=$scratch/other data=$scratch/data
readonly SECOND=4343
mkdir "$pod" "$other"
make_files "$data" 200

of_group() {
	same '' "$(find "$1" ! -gid "$2" | head -n 3)"
}

updates() {
	local wanted=$1

	shift
	same "$wanted" "$(ctl update "$@")"
}

# ---- a new fsGroup is a new run ----

check 'local' ctl mount --plugin local --source "$data" --target "$pod" --fsgroup "$GROUP" --volume-id v
check 'native' ctl wait v --for native --timeout 30
check 'nothing new is nothing to do' updates unchanged v --fsgroup "$GROUP" --policy Always
check 'another fsGroup' updates 'changed: fsGroup' "$pod" --fsgroup "$SECOND"
check 'all files are shown with it at once' of_group "$pod" "$SECOND"
check_same 'status says so' "$SECOND" "$(field_of v .fsGroup)"
check 'native again' ctl wait v --for native --timeout 30
check 'all files have it' of_group "$data" "$SECOND"
check 'back to the first' updates 'changed: fsGroup' v --fsgroup "$GROUP"
check 'native again' ctl wait v --for native --timeout 30
check 'all files have it again, though a run of the same was finished before' is_right "$data"
check 'the mount as it is now is repeated' ctl mount --plugin local --source "$data" --target "$pod" \
	--fsgroup "$GROUP" --volume-id v
check 'the mount as it was is another' refuses 1 fsgroup mount --plugin local --source "$data" --target "$pod" \
	--fsgroup "$SECOND" --volume-id v

# ---- in use ----

exec 9<"$pod/d0/f1"
check 'another fsGroup is refused while a file is open' refuses 1 'in use' update v --fsgroup "$SECOND"
check_same 'the volume is what it was' "$GROUP native" "$(field_of v '"\(.fsGroup) \(.state)"')"
check 'a rate is not' updates 'changed: convergeRate' v --converge-rate 100
check 'nor a policy of the same extent' updates 'changed: policy' v --policy OnRootMismatch
exec 9<&-
check_same 'the policy is on record' OnRootMismatch "$(field_of v .policy)"

# ---- excludes; a root that is right already ----

check 'excludes' updates 'changed: excludes' v --exclude 'd0/f5' --converge-rate 100
check_same 'status: an overlay is there, or was' "$GROUP" "$(field_of v .fsGroup)"
check 'none' updates 'changed: excludes' v --exclude ''
chgrp 0 "$data/d1/f150"
check 'RootOnly' updates 'changed: policy' v --policy RootOnly
check 'native' ctl wait v --for native --timeout 30
check_same 'leaves the files alone' 0 "$(stat -c %g "$data/d1/f150")"
check 'the whole tree, though the root is right' updates 'changed: policy convergeRate' v \
	--policy OnRootMismatch --converge-rate 0
check 'native' ctl wait v --for native --timeout 30
check 'all files have it' is_right "$data"

# ---- a rate while it walks ----

check 'unmount' ctl unmount v
chgrp -R 0 "$data"
check 'a slow walk' ctl mount --plugin local --source "$data" --target "$pod" --fsgroup "$GROUP" \
	--converge-rate 10 --volume-id v
check 'is made fast' updates 'changed: convergeRate' v --converge-rate 0
check 'native' ctl wait v --for native --timeout 15

# ---- the spec ----

pv() {
	jq -n --arg path "$1" --arg size "$2" '{apiVersion: "v1", kind: "PersistentVolume", metadata: {name: "pv"},
		spec: {capacity: {storage: $size}, local: {path: $path}}}' >"$scratch/pv.json"
}
pv "$data" 2Gi
check 'a spec of the same source' updates 'changed: spec' v --spec "$scratch/pv.json"
check_same 'is on record' 2Gi "$(field_of v .source.object.spec.capacity.storage)"
check_same 'and disturbs nothing' native "$(state_of v)"
pv "$other" 2Gi
check 'a spec of another is refused' refuses 1 'another source' update v --spec "$scratch/pv.json"
echo '{"emptyDir": {}}' >"$scratch/empty.json"
check 'a spec of another plugin is refused' refuses 1 'two conflicting sources' update v --spec "$scratch/empty.json"

# ---- what cannot change ----

for option in '--ownership virtual' --read-only --keep-private '--coherence shared' '--handoff no' --persist \
	'--context none' '--staged d'; do
	# shellcheck disable=SC2086
	check "refused: $option" refuses 1 'cannot change while the volume is mounted' update v $option
done
check 'refused: --target' refuses 1 'target cannot change' update v --target "$other"
check 'refused: a policy that is none' refuses 1 'unknown policy' update v --policy Sometimes
check 'refused: a gid that is none' refuses 2 'not a decimal gid' update v --fsgroup wheel
check 'no such volume' refuses 4 'no such volume' update nothing --fsgroup 1
check 'usage' refuses 2 'missing' update --fsgroup 1

# ---- cut off, and a failure in the middle ----

pv "$data" 2Gi
gid=$SECOND
for step in unmount.detached unmount.ended update.recorded mount.recorded mount.set-up mount.done mount.overlay-started \
	mount.presented; do
	kill_daemon KILL
	FSGROUPFS_CRASH_AT=$step ctl update v --fsgroup "$gid" >"$scratch/stdout" || true
	kill_daemon KILL
	check "status after a crash at $step" ctl status v
	check 'the update again' ctl update v --fsgroup "$gid"
	check 'a mount finishes it' ctl mount --spec "$scratch/pv.json" --target "$pod" --fsgroup "$gid" --volume-id v
	check 'native' ctl wait v --for native --timeout 30
	check 'all files have it' of_group "$data" "$gid"
	gid=$((GROUP + SECOND - gid))
done
check 'the last' ctl update v --fsgroup "$SECOND"
check 'native' ctl wait v --for native --timeout 30
check 'a second volume of the same tree' ctl mount --plugin local --source "$data" --target "$other" \
	--fsgroup "$SECOND" --handoff no --volume-id w
check 'a conflict between the two is refused' refuses 1 'as it was' update v --fsgroup "$GROUP"
check_same 'and the volume is what it was' "$SECOND" "$(field_of v .fsGroup)"
check 'its files are there' of_group "$pod" "$SECOND"
check 'unmount' ctl unmount w
check 'unmount' ctl unmount v

# ---- other kinds ----

check 'emptyDir, without fsGroup' ctl mount --plugin emptyDir --target "$pod" --volume-id e
echo kept >"$pod/file"
check 'gets one' updates 'changed: fsGroup' e --fsgroup "$GROUP"
check_same 'its file is there, and the group'\''s' "kept 0:$GROUP:664" "$(cat "$pod/file") $(attributes "$pod/file")"
check 'unmount' ctl unmount e
check 'hostPath, virtual' ctl mount --plugin hostPath --source "$data" --target "$pod" --fsgroup "$GROUP" \
	--ownership virtual --volume-id h
check 'shows another group' updates 'changed: fsGroup' h --fsgroup 5555
check 'to all' of_group "$pod" 5555
check_same 'is virtual' virtual "$(state_of h)"
check 'nothing was written' of_group "$data" "$SECOND"
check 'unmount' ctl unmount h
check 'nothing is left' nothing_mounted

echo '{"kind": "Secret", "metadata": {"name": "s"}, "stringData": {"key": "one", "more": "two"}}' >"$scratch/objects.json"
secret() {
	echo '{"secret": {"secretName": "s", "items": [{"key": "'"$1"'", "path": "file"}]}}' >"$scratch/secret.json"
}
secret key
check 'secret' ctl mount --spec "$scratch/secret.json" --objects "$scratch/objects.json" --target "$pod" \
	--fsgroup "$GROUP" --volume-id s
check_same 'shows its item' one "$(cat "$pod/file")"
secret more
check 'other items' updates 'changed: spec' s --spec "$scratch/secret.json"
check_same 'come with the next refresh' 'changed two' \
	"$(ctl refresh s --objects "$scratch/objects.json") $(cat "$pod/file")"
check 'a mount of them is the same volume' ctl mount --spec "$scratch/secret.json" --objects "$scratch/objects.json" \
	--target "$pod" --fsgroup "$GROUP" --volume-id s
check 'unmount' ctl unmount s

# ---- a volume that is not there ----

check 'local' ctl mount --plugin local --source "$data" --target "$pod" --fsgroup "$GROUP" --volume-id n --persist
check 'native' ctl wait n --for native --timeout 20
umount "$pod"
check 'is absent' until_list 'any(.[]; .id == "n" and .state == "absent")'
check 'is changed for its next mount' updates 'changed: fsGroup' n --fsgroup "$SECOND"
check_same 'and stays absent' "absent $SECOND" "$(field_of n '"\(.state) \(.fsGroup)"')"
check 'which it is' ctl mount --plugin local --source "$data" --target "$pod" --fsgroup "$SECOND" --volume-id n
check 'native' ctl wait n --for native --timeout 20
check 'all files have it' of_group "$data" "$SECOND"
check 'unmount' ctl unmount n

# ---- what becomes of the fsGroup is in the answer ----

# outcome_of PLUGIN SOURCE MORE: "ownership note", of a mount that is made twice.
outcome_of() {
	local request

	request=$(jq -nc --arg plugin "$1" --arg source "$2" --arg target "$pod" --argjson gid "$GROUP" --argjson more "$3" \
		'{command: "mount", plugin: $plugin, target: $target, fsGroup: $gid, volumeId: "o"} + $more +
		if $source == "" then {} else {source: $source} end')
	"$helpers/call" "$request" >/dev/null
	"$helpers/call" "$request" | jq -r '"\(.result.ownership) \(.note)"'
	ctl unmount o
}

check_same 'done: an emptyDir has it from birth' 'done null' "$(outcome_of emptyDir '' '{}')"
check_same 'present: it is shown, and applied' 'present null' "$(outcome_of local "$data" '{}')"
check_same 'present: it is only shown' 'present null' "$(outcome_of hostPath "$data" '{"ownership": "virtual"}')"
check_same 'ignored, with a note, each time' 'ignored fsGroup ignored: the plugin does not manage ownership' \
	"$(outcome_of hostPath "$data" '{}')"
check_same 'ignored, as asked' 'ignored null' "$(outcome_of local "$data" '{"ownership": "none"}')"
check 'nothing is left' nothing_mounted

end_volume_test
