#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A local volume through fsgroupctl and the daemon: presented at once, converged, native; repeated, interrupted, resumed.
# Needs root and /dev/fuse.
set -euo pipefail
# shellcheck source=tests/integ/lib_volume.sh
. "$(dirname "$0")/lib_volume.sh"
need_root
need_fuse
need_tools jq setpriv losetup
own_mounts "$0" "$@"
start_volume_test

data=$scratch/data pod=$scratch/pod
mkdir "$pod"

# ---- from mount to unmount ----

make_files "$data" 300
check 'mount' ctl mount --plugin local --source "$data" --target "$pod" --fsgroup "$GROUP" --volume-id vol
check_same 'a deep file is shown to the group at once' "0:$GROUP:660" "$(attributes "$pod/d2/f299")"
check 'the same mount again is a success' \
	ctl mount --plugin local --source "$data" --target "$pod" --fsgroup "$GROUP" --volume-id vol
check 'another group is refused by name' refuses 1 fsgroup \
	mount --plugin local --source "$data" --target "$pod" --fsgroup 4243 --volume-id vol
check 'another policy is refused by name' refuses 1 policy \
	mount --plugin local --source "$data" --target "$pod" --fsgroup "$GROUP" --policy RootOnly --volume-id vol
check 'it becomes native' ctl wait vol --for native --timeout 20
check_same 'nothing of ours is in the data path' "$(stat -fc %T "$data")" "$(stat -fc %T "$pod")"
check 'the lower tree is right' is_right "$data"
check_same 'status counts what it did' '304 304 0 0 0' \
	"$(field_of vol '.entries | "\(.seen) \(.changed) \(.correct) \(.excluded) \(.failed)"')"
check 'unmount by path alone' ctl unmount "$pod"
check 'unmount of what is not there is a success' ctl unmount "$pod"
check 'nothing is left' nothing_mounted
check 'status of an unknown volume exits with 4' refuses 4 vol status vol
check_same 'events tell the story' 'converged,mount-failed,mounted,native,unmounted' \
	"$(ctl events --json | jq -rs '[.[] | if type == "array" then .[] else . end | .kind] | unique | join(",")')"

# ---- a finished run: OnRootMismatch does not walk again ----

check 'mount with OnRootMismatch' \
	ctl mount --plugin local --source "$data" --target "$pod" --fsgroup "$GROUP" --policy OnRootMismatch
check_same 'is native at once' native "$(state_of "$pod")"
check 'unmount' ctl unmount "$pod"

# ---- interrupted and resumed; what users did meanwhile stays ----

data=$scratch/big
make_files "$data" 2000
check 'mount, slowly' \
	ctl mount --plugin local --source "$data" --target "$pod" --fsgroup "$GROUP" --converge-rate 100
as 1000 1000 "$GROUP" bash -c 'umask 077; echo mine >"$1/d19/private"' _ "$pod"
check 'a user sets pending files to 0600' chmod 0600 "$pod/d1/f100" "$pod/d19/f1999"
check_same 'they are shown so' "0:$GROUP:600" "$(attributes "$pod/d19/f1999")"
check_same 'it is still converging' converging "$(state_of "$pod")"
check 'unmount during convergence' ctl unmount "$pod"
check_same 'no mount is left' '' "$(mounts_below "$scratch")"
check 'no process' no_process_stays
check 'not everything was converged' test -n "$(wrong_entries "$data" | sed -n 5p)"
right=$(find "$data" -type f -gid "$GROUP" -perm -0660 | sort | sed -n 1p)
ctime=$([ -z "$right" ] || stat -c %z "$right")
check 'a later mount resumes' ctl mount --plugin local --source "$data" --target "$pod" --fsgroup "$GROUP"
check_same 'what a user set to 0600 is shown so' "0:$GROUP:600 0:$GROUP:600" \
	"$(attributes "$pod/d1/f100" "$pod/d19/f1999" | paste -sd ' ')"
check_same 'what a user made with 0600 is shown so' "1000:$GROUP:600" "$(attributes "$pod/d19/private")"
check 'it becomes native' ctl wait "$pod" --for native --timeout 30
check_same 'what a user set to 0600 is so for real' "0:$GROUP:600 0:$GROUP:600" \
	"$(attributes "$data/d1/f100" "$data/d19/f1999" | paste -sd ' ')"
check_same 'what a user made with 0600 is so for real' "1000:$GROUP:600" "$(attributes "$data/d19/private")"
check_same 'only these three are not as the eager change makes them' 3 "$(wrong_entries "$data" | wc -l)"
check_same 'what was right was not touched' "$ctime" "$([ -z "$right" ] || stat -c %z "$right")"
check_same 'no mark is left on a file' '' "$(getfattr -R -h -m 'trusted.fsgroupfs.settled' "$data" 2>/dev/null)"
check 'unmount' ctl unmount "$pod"

# ---- pause, resume, reasons, waiting ----

data=$scratch/third
make_files "$data" 1000
check 'mount, slowly' ctl mount --plugin local --source "$data" --target "$pod" --fsgroup "$GROUP" --converge-rate 20
check 'pause' ctl pause "$pod"
check 'paused is presented' ctl wait "$pod" --for presented --timeout 10
check_same 'its state says so' presented "$(state_of "$pod")"
check 'waiting for native runs into its time' refuses 3 "$pod" wait "$pod" --for native --timeout 1
exec 9<"$pod/d0/f0"
check 'resume' ctl resume "$pod"
check 'converge without limit' ctl converge "$pod" --rate max
check 'converged' ctl wait "$pod" --for converged --timeout 20
check_same 'an open file keeps it from being native' '1 open file' "$(field_of "$pod" .reason)"
exec 9<&-
check 'its end lets it become native' ctl wait "$pod" --for native --timeout 20
check 'unmount' ctl unmount "$pod"

data=$scratch/fourth
make_files "$data" 50
touch "$data/immutable"
chattr +i "$data/immutable" || skip 'needs a file system with chattr +i below the scratch directory'
check 'mount with an immutable and an excluded file' ctl mount --plugin local --source "$data" --target "$pod" \
	--fsgroup "$GROUP" --exclude 'd0/f1*' --volume-id stuck
check 'converged' ctl wait stuck --for converged --timeout 20
check_same 'the reason counts it' '1 immutable file' "$(field_of stuck .reason)"
check_same 'the failure has path and errno' 'immutable 1' "$(field_of stuck '.failures[] | "\(.path) \(.errno)"')"
check_same 'it is shown as wanted all the same' "$GROUP" "$(stat -c %g "$pod/immutable")"
check_same 'what is excluded keeps owner and mode' '0:0:640' "$(attributes "$pod/d0/f10")"
chattr -i "$data/immutable"
check 'converge again' ctl converge stuck
check 'mends it' ctl wait stuck --for converged --timeout 20
check 'native can never be reached: said at once' refuses 1 'excluded paths' wait stuck --for native --timeout 20
check 'unmount' ctl unmount stuck

# ---- busy ----

check 'mount' ctl mount --plugin local --source "$data" --target "$pod" --fsgroup "$GROUP" --volume-id busy
cd "$pod"
check 'a busy target is an error' refuses 1 busy unmount busy
cd /
check 'and goes away when it is not' ctl unmount busy

# A loop device holds its file, and is no process. One that goes within a second is waited for.
check 'held by nobody: mount' ctl mount --plugin local --source "$data" --target "$pod" --fsgroup "$GROUP" --volume-id busy
check 'held by nobody: native' ctl wait busy --for native --timeout 20
truncate -s 1M "$pod/image"
loop=$(losetup --find --show "$pod/image")
loops+=("$loop")
check 'held by nobody: is an error at last' refuses 1 'held by something that cannot be seen' unmount busy
{ sleep 0.3 && losetup --detach "$loop"; } &
check 'held by nobody: but not when it is over meanwhile' ctl unmount busy
wait $!
end_volume_test
