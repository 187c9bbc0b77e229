#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Needs root, /dev/fuse, jq, mkfs.ext4, loop devices.
# What kubelet was seen to call, again (tests/fixtures/flexvolume_calls.txt): each answer and all mounts after it.
#   SEQUENCES=TEXT   only sequences with TEXT in their name
# shellcheck source=tests/integ/lib_flex.sh
. "$(dirname "$0")/lib_flex.sh"
need_root
need_fuse
need_tools jq mkfs.ext4 mkfs.xfs mkfs.btrfs resize2fs tune2fs losetup
own_mounts "$0" "$@"
start_flex_test --attachable

calls=$repository/tests/fixtures/flexvolume_calls.txt
SEQUENCES=${SEQUENCES:-}
declare -A paths=()
declare -A live=() # the words of the mount that a pod is live by
declare -A running=()
defaults=()
sequence=
held=

make_world() {
	make_files "$scratch/data" 5
	loop blank 64M
	paths[@blank]=$loop
	loop one 64M
	mkdir "$scratch/seed"
	touch "$scratch/seed/kept"
	mkfs.ext4 -q -F -O metadata_csum_seed -U 11111111-2222-3333-4444-555555555555 -d "$scratch/seed" "$loop"
	paths[@loop]=$loop
	ln -s "$loop" "$scratch/by-id"
	paths[@link]=$scratch/by-id
	loop xfs 320M
	mkfs.xfs -q "$loop"
	paths[@xfs]=$loop
	loop btrfs 128M
	mkfs.btrfs -q "$loop"
	paths[@btrfs]=$loop
	# ext4 grows while it is mounted for who has CAP_SYS_RESOURCE (24); it must be said when that is missing.
	paths[@ext4-grown]='{"status":"Failure","message":"~to resize filesystem; it needs CAP_SYS_RESOURCE"}'
	[ $((0x$(awk '$1 == "CapEff:" { print $2 }' /proc/self/status) >> 24 & 1)) = 0 ] ||
		paths[@ext4-grown]='{"status":"Success"}'
	paths[@data]=$scratch/data
	paths[@objects]=$scratch/objects
	jq -n '{kind: "List", items: [{kind: "Secret", metadata: {name: "db", namespace: "default"},
		stringData: {key: "value"}}]}' >"$scratch/objects"
	mkdir -p "$FSGROUPFS_ROOT/etc/fsgroupfs"
	cat >"$FSGROUPFS_ROOT/etc/fsgroupfs/mountd.conf" <<-CONF
		[flexvolume]
		plugins = emptyDir local secret gcePersistentDisk
		sources = $scratch/data /dev
		objects = $scratch
		format = yes
	CONF
}

# Placeholders are words of their own, but in an option's value and in an answer.
substitute() {
	local text=$1 key

	for key in "${!paths[@]}"; do
		text=${text//$key/${paths[$key]}}
	done
	printf '%s' "$text"
}

staging() { printf '%s/plugins/kubernetes.io/flexvolume/fsgroupfs/device/mounts/%s' "$kubelet" "$1"; }

# POD or POD/VOLUME
pod_target() {
	case $1 in
	*/*) target "${1%/*}" "${1#*/}" ;;
	*) target "$1" ;;
	esac
}

# Later words win, as in kubelet's JSON.
all_options() { options "${1%/*}" "${defaults[@]}" "${@:2}"; }

# Into $arguments: what kubelet gives to the driver for the words of a line; its directories are made.
prepare() {
	local command=$1 word

	shift
	arguments=("$command")
	case $command in
	mount)
		mkdir -p "$(pod_target "$1")"
		arguments+=("$(pod_target "$1")" "$(all_options "$@")")
		;;
	unmount) arguments+=("$(pod_target "$1")") ;;
	mountdevice)
		mkdir -p "$(staging "$1")"
		arguments+=("$(staging "$1")" "$2" "$(all_options node "${@:3}")")
		;;
	unmountdevice) arguments+=("$(staging "$1")") ;;
	expandfs)
		case $1 in
		staged:*) word=$(staging "${1#staged:}") ;;
		*) word=$(pod_target "$1") ;;
		esac
		arguments+=("$(all_options node)" "$2" "$word" "${@:3}")
		;;
	*)
		for word; do
			[ "$word" = @o ] && word=$(all_options node)
			arguments+=("$word")
		done
		;;
	esac
}

# What kubelet does after an answer.
follow_up() {
	local command=$1 subject=${2:-} status=$3

	case $command:$status in
	mount:Success) live[$subject]="${*:4}" ;;
	mount:Failure) rmdir "$(pod_target "$subject")" ;;
	unmount:Success)
		unset "live[$subject]"
		[ ! -e "$(pod_target "$subject")" ] || rmdir "$(pod_target "$subject")"
		;;
	unmountdevice:Success) [ ! -e "$(staging "$subject")" ] || rmdir "$(staging "$subject")" ;;
	mountdevice:Failure) [ "$(mount_count "$(staging "$subject")")" != 0 ] || rmdir "$(staging "$subject")" ;;
	esac
}

mounts_now() {
	mounts_below "$kubelet" | awk -v kubelet="$kubelet/" '
	{
		path = substr($0, length(kubelet) + 1)
		n = split(path, part, "/")
		name = part[1] == "pods" ? part[2] (part[5] == "v" ? "" : "/" part[5]) : "staged:" part[n]
		count[name]++
	}
	END { for (name in count) print name (count[name] > 1 ? "*" count[name] : "") }' | sort | paste -sd ' '
}

same_answer() {
	jq -e -n --argjson wanted "$1" --slurpfile got "$2" '
		($got | length) == 1 and ($got[0] | keys) == ($wanted | keys) and
		($wanted | to_entries | all(. as $entry | $got[0][$entry.key] |
			. == $entry.value or (($entry.value | strings | startswith("~")) and contains($entry.value[1:]))))' \
		>/dev/null && return
	printf '#  wanted: %s\n#  got:    %s\n' "$1" "$(cat "$2")"
	return 1
}

# Of an answer that is as wanted.
status_of() { grep -o -m 1 -e Success -e Failure "$1"; }

# answered WORDS ANSWER FILE: the answer of a call, and what kubelet does about it.
answered() {
	local words

	same_answer "$2" "$3" || return 1
	read -ra words <<<"$1"
	case ${words[0]} in
	mount | unmount | mountdevice | unmountdevice)
		follow_up "${words[0]}" "${words[1]}" "$(status_of "$3")" "${words[@]:2}"
		;;
	esac
}

# has_mounts EXPECTED: where a line has none, nothing is compared
has_mounts() { [ "$1" = - ] || same "$1" "$(mounts_now)"; }

replay_call() {
	local words status=0

	read -ra words <<<"$1"
	prepare "${words[@]}"
	run_driver "$scratch/answer" "${arguments[@]}" || status=1
	answered "$1" "$2" "$scratch/answer" && has_mounts "$3" || return 1
	# kubelet takes a Success with another exit status for a fault of the driver.
	[[ $status = 0 || $2 != *'"Success"'* ]]
}

start_call() {
	local words number=${#running[@]}

	read -ra words <<<"$1"
	prepare "${words[@]}"
	run_driver "$scratch/parallel.$number" "${arguments[@]}" &
	running[$number]="$! $1 => $2"
}

end_calls() {
	local number line status=0

	for number in "${!running[@]}"; do
		wait "${running[$number]%% *}" || true
	done
	for number in "${!running[@]}"; do
		line=${running[$number]#* }
		answered "${line%% => *}" "${line#* => }" "$scratch/parallel.$number" || status=1
	done
	running=()
	return "$status"
}

# ---- events ----

# IsLikelyNotMountPoint: a bind of the parent's file system is not seen by kubelet.
event_restart() {
	local pod at called=()

	while IFS= read -r pod; do
		[ -n "$pod" ] || continue
		at=$(pod_target "$pod")
		[ "$(stat -c %d "$at")" = "$(stat -c %d "$at/..")" ] || continue
		called+=("$pod")
		replay_call "mount $pod ${live[$pod]}" '{"status":"Success"}' "$(mounts_now)" || return 1
	done < <(printf '%s\n' "${!live[@]}" | sort)
	same "$*" "${called[*]}"
}

boots=0
event_reboot() {
	local pids

	kill_daemon KILL
	pids=$(overlay_pids)
	# shellcheck disable=SC2086
	[ -z "$pids" ] || kill -9 $pids
	unmount_below "$kubelet"
	unmount_below "$FSGROUPFS_ROOT"
	rm -rf "$FSGROUPFS_ROOT/run"
	boots=$((boots + 1))
	FSGROUPFS_BOOT_ID=$(printf '%08d-2222-3333-4444-555555555555' "$boots")
	export FSGROUPFS_BOOT_ID
	live=()
}

event_kill() { kill_daemon KILL; }

event_rename() {
	local old=${paths[@loop]}

	loop=$(losetup --find --show "$scratch/one.img")
	loops+=("$loop")
	losetup -d "$old"
	paths[@loop]=$loop
}

event_grow() { truncate -s "$2" "$(losetup -n -O BACK-FILE "$1")" && losetup -c "$1"; }

# Of all kinds, what they keep to themselves is less.
fills() {
	local blocks bytes

	read -r blocks bytes < <(stat -f -c '%b %S' "$(staging "$1")")
	((blocks * bytes > $(blockdev --getsize64 "$2") * 8 / 10))
}
event_fills() { fills "$@"; }
event_lacks() { fails fills "$@"; }
event_grown() { [[ ${paths[@ext4-grown]} = *Failure* ]] || fills "$@"; }

# The daemon does not come up as long as somebody has its start lock.
event_cut() {
	local pid child lock

	kill_daemon KILL
	prepare "$@"
	mkdir -p "$FSGROUPFS_ROOT/run/fsgroupfs"
	exec {lock}<>"$FSGROUPFS_ROOT/run/fsgroupfs/start.lock"
	flock "$lock"
	env -i PATH="$PATH" FSGROUPFS_TEST="$FSGROUPFS_TEST" FSGROUPFS_BOOT_ID="$FSGROUPFS_BOOT_ID" "$driver" \
		"${arguments[@]}" >"$scratch/answer" 2>&1 </dev/null {lock}>&- &
	pid=$!
	until child=$(pgrep -x -P "$pid" "${driver##*/}") && grep -q start.lock <(ls -l "/proc/$child/fd" 2>/dev/null); do
		kill -0 "$pid" || return 1
	done
	kill -TERM "$pid"
	wait "$pid" || true
	exec {lock}>&-
	same_answer '{"status":"Failure","message":"~ended by signal 15"}' "$scratch/answer" && same '' "$(mounts_now)"
}

event_hold() { exec {held}>"$(pod_target "$1")/held"; }
event_release() { exec {held}>&-; }
event_keep() { touch "$(pod_target "$1")/kept"; }
event_has() { [ -e "$(pod_target "$1")/${2:-kept}" ]; }
event_refuses() { fails touch "$(pod_target "$1")/new"; }
event_group() { same "${2:-$GROUP} 27" "$(stat -c '%g %a' "$(pod_target "$1")" | cut -c 1-7)"; }
event_uuid() { tune2fs -U "$2" "$1" >"$scratch/tune2fs" 2>&1; }
event_cover() { mount -t tmpfs none "$(staging "$1")"; }
event_uncover() { umount "$(staging "$1")"; }
event_bind() { mkdir -p "$(pod_target "$2")" && mount --bind "$(staging "$1")" "$(pod_target "$2")"; }
event_unbind() { umount "$(pod_target "$1")" && rmdir "$(pod_target "$1")"; }
event_lists() { same "$1" "$(ctl list --json | jq length)"; }

end_sequence() {
	[ -z "$sequence" ] || check "$sequence: nothing is left" same '0 ' "$(ctl list --json | jq length) $(mounts_now)"
}

replay() {
	local line words left answer mounts parallel

	while IFS= read -r line <&3; do
		case $line in
		'' | '#'*) continue ;;
		'== '*)
			end_sequence
			sequence=${line#== }
			live=()
			continue
			;;
		esac
		[[ $sequence == *"$SEQUENCES"* || $line == driver* || $line == options* ]] || {
			sequence=
			continue
		}
		read -ra words <<<"$(substitute "$line")"
		case ${words[0]} in
		driver) use_driver "${words[1]}" ;;
		options) defaults=("${words[@]:1}") ;;
		-) check "$sequence: ${line#- }" "event_${words[1]}" "${words[@]:2}" ;;
		*)
			parallel=
			left=${line#& }
			[ "$left" = "$line" ] || parallel=yes
			answer=${left#* => }
			left=${left%% => *}
			mounts=-
			case $answer in
			*' ;'*)
				mounts=${answer##* ;}
				mounts=${mounts# }
				answer=${answer% ;*}
				;;
			esac
			left=$(substitute "$left")
			answer=$(substitute "$answer")
			if [ -n "$parallel" ]; then
				start_call "$left" "$answer"
				[ "$mounts" = - ] && continue
				check "$sequence: the calls at once" end_calls
				check_same "$sequence: and what is mounted then" "$mounts" "$(mounts_now)"
			else
				check "$sequence: $left" replay_call "$left" "$answer" "$mounts"
			fi
			;;
		esac
	done 3<"$calls"
	end_sequence
}

export FSGROUPFS_BOOT_ID=00000000-2222-3333-4444-555555555555
make_world
replay
end_volume_test
