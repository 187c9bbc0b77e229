#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What a run could not change: kept with path and errno, told by events, forgotten when mended; and how a mount spends
# its settle budget. Needs root, /dev/fuse and a file system with chattr +i.
set -euo pipefail
# shellcheck source=tests/integ/lib_volume.sh
. "$(dirname "$0")/lib_volume.sh"
need_root
need_fuse
need_tools jq unshare mkfs.ext4 chattr
own_mounts "$0" "$@"
start_volume_test

pod=$scratch/pod
mkdir "$pod"
make_volume ext4 disk
data=$scratch/disk/data

last_event() {
	ctl events --json | jq -rs --arg kind "$1" \
		'[.[] | if type == "array" then .[] else . end | select(.kind == $kind)][-1].message'
}

# ---- failures ----

make_files "$data" 20
touch "$data/fixed" "$data/d0/fixed"
chattr +i "$data/fixed" "$data/d0/fixed"
check 'mount with two immutable files' ctl mount --plugin local --source "$data" --target "$pod" \
	--fsgroup "$GROUP" --volume-id stuck
check 'converged' ctl wait stuck --for converged --timeout 20
check_same 'the reason counts them' '2 immutable files' "$(field_of stuck .reason)"
check_same 'both are listed' 'd0/fixed 1,fixed 1' \
	"$(field_of stuck '[.failures[] | "\(.path) \(.errno)"] | sort | join(",")')"
check_same 'the total' 2 "$(field_of stuck .failuresTotal)"
# The event comes a moment after the state.
grep -qm1 '"failures"' < <(timeout 30 "$BIN/fsgroupctl" events --follow --json) || true
check 'an event has the first' grep -q '^2 could not be changed; the first: .*fixed: Operation not permitted$' \
	<(last_event failures)
chattr -i "$data/fixed"
check 'converge' ctl converge stuck
check 'converged' ctl wait stuck --for converged --timeout 20
kill_daemon KILL
check_same 'another daemon knows what is left' 'd0/fixed 1' \
	"$(field_of stuck '[.failures[] | "\(.path) \(.errno)"] | join(",")')"
chattr -i "$data/d0/fixed"
check 'converge' ctl converge stuck
check 'native when nothing is left' ctl wait stuck --for native --timeout 20
check_same 'nothing is listed any more' 0 "$(field_of stuck .failuresTotal)"
check 'unmount' ctl unmount stuck

# ---- who sits on an overlay that has been handed off ----

check 'holders: mount' ctl mount --plugin local --source "$data" --target "$pod" --fsgroup 4343 --volume-id held \
	--converge-rate 10
# shellcheck disable=SC2016
coproc SITTER { cd "$pod/d0" && echo ready && cat; }
# Kept: bash forgets SITTER_PID when it has ended.
sitter_pid=$SITTER_PID
read -r -u "${SITTER[0]}" _
check 'holders: converge' ctl converge held --rate max
check 'holders: native' ctl wait held --for native --timeout 20
check_same 'holders: by namespace and process' "$(readlink /proc/self/ns/mnt) $sitter_pid" \
	"$(field_of held '.overlayHolders[] | "\(.mntns) \(.pids | min)"')"
exec {SITTER[1]}>&-
wait "$sitter_pid" || true
check_same 'holders: none when they are gone' '[]' "$(field_of held '.overlayHolders | tostring')"
check 'holders: unmount' ctl unmount held

# ---- RootOnly ----

rm -rf "$data"
make_files "$data" 10
check 'RootOnly: mount' ctl mount --plugin local --source "$data" --target "$pod" --fsgroup "$GROUP" --policy RootOnly \
	--volume-id root
check 'RootOnly: native' ctl wait root --for native --timeout 20
check_same 'RootOnly: the root' "0:$GROUP:2770" "$(attributes "$data")"
check_same 'RootOnly: nothing else' '0:0:750 0:0:640' "$(attributes "$data/d0" "$data/d0/f1" | paste -sd' ')"
check 'RootOnly: unmount' ctl unmount root

# ---- OnRootMismatch, as the kubelet has it ----

# root MODE GROUP WANTED: what a root like that leads to.
root_case() {
	local mode=$1 group=$2 wanted=$3 got

	rm -rf "$data"
	make_files "$data" 3
	chown "0:$group" "$data"
	chmod "$mode" "$data"
	ctl mount --plugin local --source "$data" --target "$pod" --fsgroup "$GROUP" --policy OnRootMismatch \
		--volume-id "r$mode-$group" || return 1
	ctl wait "r$mode-$group" --for native --timeout 20 || return 1
	ctl unmount "r$mode-$group" || return 1
	got=walked
	[ "$(stat -c %g "$data/d0/f1")" = "$GROUP" ] || got=skipped
	same "$wanted" "$got"
}
check 'OnRootMismatch: 2770 is skipped' root_case 2770 "$GROUP" skipped
check 'OnRootMismatch: 2775 is skipped' root_case 2775 "$GROUP" skipped
check 'OnRootMismatch: 3770 is skipped' root_case 3770 "$GROUP" skipped
check 'OnRootMismatch: without setgid is walked' root_case 0770 "$GROUP" walked
check 'OnRootMismatch: 2750 is walked' root_case 2750 "$GROUP" walked
check 'OnRootMismatch: 2760 is walked' root_case 2760 "$GROUP" walked
check 'OnRootMismatch: 2370 is walked' root_case 2370 "$GROUP" walked
check 'OnRootMismatch: another group is walked' root_case 2770 4343 walked

# ---- the settle budget ----

rm -rf "$data"
make_files "$data" 50
check 'settle: mount' ctl mount --plugin local --source "$data" --target "$pod" --fsgroup "$GROUP" --settle 60s --volume-id small
check_same 'settle: a small one is native already' native "$(state_of small)"
check 'settle: unmount' ctl unmount small
rm -rf "$data"
make_files "$data" 200
took_ms() {
	local before=${EPOCHREALTIME/./}

	"$@" || return 1
	took=$(((${EPOCHREALTIME/./} - before) / 1000))
}
check 'settle: mount, slowly' took_ms ctl mount --plugin local --source "$data" --target "$pod" --fsgroup "$GROUP" \
	--settle 3s --converge-rate 1 --volume-id slow
check "settle: it is spent ($took ms), not as long as it would take" eval '((took >= 3000 && took < 60000))'
check_same 'settle: presented all the same' converging "$(state_of slow)"
check 'settle: unmount' ctl unmount slow

# A file system of its own has a known total: what cannot fit is not waited for.
make_volume tmpfs many
"$helpers/many" files "$scratch/many" 160000 100
check 'settle: mount many files' took_ms ctl mount --plugin local --source "$scratch/many" --target "$pod" \
	--fsgroup "$GROUP" --settle 3s --converge-rate 1 --volume-id many
check "settle: what cannot fit is not waited for ($took ms)" test "$took" -lt 2800
check 'settle: unmount' ctl unmount many
umount "$scratch/many" "$scratch/disk"
check 'nothing is left' nothing_mounted
end_volume_test
