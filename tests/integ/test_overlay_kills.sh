#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Needs root, /dev/fuse and loop devices.
# timeout: 20000
#
# The server is killed at random moments, COUNT times (default 50) in each of MODES on each of FILE_SYSTEMS (default
# ext4), while several users work on the tree (tests/helpers/churn.c): no call fails or happens twice, nothing is lost or
# torn, nobody waits two seconds; and neither keeper nor server grow. MODES (default converging):
#   plain        nothing else goes on
#   converging   the tree is walked all the time
#   daemon       the same as a volume of the daemon, which is killed, too, and started anew by the next call
# shellcheck disable=SC2317 # functions are called through check
# shellcheck source=tests/integ/lib_volume.sh
. "$(dirname "$0")/lib_volume.sh"
own_mounts "$0" "$@"
need_root
need_fuse
start_volume_test

COUNT=${COUNT:-50}
read -ra file_systems <<<"${FILE_SYSTEMS:-ext4}"
MODES=${MODES:-converging}
read -ra modes <<<"${MODES//,/ }"
gid=$GROUP
target=$scratch/target
mkdir "$target"
readonly FILES=2000
# As slow as the kills, which take a fifth of a second and more, so that the walk outlasts them.
rate=$((FILES * 3 / COUNT))
((rate >= 3)) || rate=3

pss_of() {
	awk '$1 == "Pss:" { print $2 }' "/proc/$1/smaps_rollup"
}

# The memory that keeper and server share, as far as it is there: its file has no name but in their descriptors.
shared_of() {
	local fd

	for fd in /proc/"$1"/fd/*; do
		case $(readlink "$fd") in
		/memfd:*) echo $(($(stat -Lc %b "$fd") / 2)) ;;
		esac
	done
}

# Its death at any moment must go unnoticed; also of the one that has just been started.
kill_daemon_too() {
	local pid

	for pid in $(daemon_pid); do
		kill -9 "$pid" 2>/dev/null || true
	done
}

kill_many() {
	local mode=$1 i pid pause

	for ((i = 1; i <= COUNT; i++)); do
		pid=$(keeper main get server_pid) || return
		[ "$mode" != daemon ] || ((i % 3)) || kill_daemon_too
		kill -9 "$pid" || return
		keeper main wait "restarts>=$i" || return
		kill -0 "$churn" 2>/dev/null || return
		if [ "$mode" = daemon ]; then
			keeper main send recover >"$scratch/answer" || return
			((i % 3 != 1)) || ctl status main >"$scratch/stdout" || return
		fi
		# At random moments is the point.
		printf -v pause '0.%03d' $((RANDOM % 120))
		sleep "$pause"
	done
}

begin() {
	case $1 in
	plain) overlay main "$lower" "$target" "gid=$gid" paused max_deaths=0 handoff=no ;;
	converging) overlay main "$lower" "$target" "gid=$gid" "converge_rate=$rate" max_deaths=0 handoff=no ;;
	daemon)
		ln -sf "$FSGROUPFS_ROOT/run/fsgroupfs/keepers/main.sock" "$scratch/run/main"
		ctl mount --plugin local --source "$lower" --target "$target" --fsgroup "$gid" --volume-id main \
			--converge-rate "$rate" --handoff no
		;;
	esac
}

finish() {
	case $1 in
	daemon)
		ctl unmount main
		kill_daemon TERM
		;;
	*) umount "$target" ;;
	esac
	no_process_stays
}

try_mode() {
	local fs=$1 mode=$2 d seed=${SEED:-$RANDOM} keeper_pid fds_before fds_after shared_before

	lower=$scratch/$fs/$mode
	mkdir -m 0777 "$lower"
	for ((d = 0; d < 20; d++)); do
		mkdir "$lower/d$d"
		(cd "$lower/d$d" && touch {1..100})
	done
	echo "# $fs, $mode, seed $seed"
	check "$fs, $mode: mounted" begin "$mode"
	keeper_pid=$(keeper main get keeper_pid)
	"$helpers/churn" "$target" 4 "$gid" "$seed" &
	churn=$!
	fds_before=$(descriptors_of "$keeper_pid")
	shared_before=$(shared_of "$keeper_pid")
	check "$fs, $mode: $COUNT servers are killed" kill_many "$mode"
	gathers_none() { fds_after=$(descriptors_of "$keeper_pid") && [ "$fds_after" -le $((fds_before + 12)) ]; }
	within 20 gathers_none || true
	printf '# shared memory: %s kB, then %s kB\n' "$shared_before" "$(shared_of "$keeper_pid")"
	printf '# keeper: %s descriptors, then %s; Pss %s kB\n' "$fds_before" "$fds_after" "$(pss_of "$keeper_pid")"
	printf '# walked: %s of %s\n' "$(keeper main get seen)" "$(keeper main get total)"
	# What has no name yet, or no more, of each user at this moment, is held by a descriptor.
	check "$fs, $mode: the keeper does not gather descriptors" test "$fds_after" -le $((fds_before + 12))
	kill -TERM "$churn"
	check "$fs, $mode: whatever was asked for happened once" wait "$churn"
	keeper main send resume >"$scratch/answer"
	keeper main send rate rate=0 >"$scratch/answer"
	check "$fs, $mode: and all is converged" keeper main wait state=converged
	check_same "$fs, $mode: which is true" '' "$(find "$lower" ! -gid "$gid" | head -n 3)"
	check "$fs, $mode: and ends" finish "$mode"
}

for fs in "${file_systems[@]}"; do
	need_tools "mkfs.$fs" losetup
	make_volume "$fs" "$fs"
	for mode in "${modes[@]}"; do
		try_mode "$fs" "$mode"
	done
	umount "$scratch/$fs"
done
end_test
