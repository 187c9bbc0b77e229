#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Needs root, /dev/fuse and loop devices.
# timeout: 20000
#
# The server is killed at random moments, COUNT times (default 50) on each of FILE_SYSTEMS (default ext4), while
# several users work on the tree (tests/helpers/churn.c) and the converger walks it: no call fails or
# happens twice, nothing is lost or torn, nobody waits two seconds; and neither keeper nor server grow.
# shellcheck disable=SC2317 # functions are called through check
# shellcheck source=tests/integ/lib.sh
. "$(dirname "$0")/lib.sh"
own_mounts "$0" "$@"
need_root
need_fuse
start_test

COUNT=${COUNT:-50}
read -ra file_systems <<<"${FILE_SYSTEMS:-ext4}"
gid=4242
target=$scratch/target
mkdir "$target"

count_fds() {
	find "/proc/$1/fd" -type l | wc -l
}

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

kill_many() {
	local i pid last

	for ((i = 1; i <= COUNT; i++)); do
		pid=$(keeper main get server_pid) || return
		kill -9 "$pid" || return
		keeper main wait "restarts>=$i" || return
		kill -0 "$churn" 2>/dev/null || return
		# At random moments is the point.
		printf -v last '0.%03d' $((RANDOM % 120))
		sleep "$last"
	done
}

for fs in "${file_systems[@]}"; do
	need_tools "mkfs.$fs" losetup
	make_volume "$fs" "$fs"
	lower=$scratch/$fs/lower
	mkdir -m 0777 "$lower"
	for ((d = 0; d < 20; d++)); do
		mkdir "$lower/d$d"
		(cd "$lower/d$d" && touch {1..100})
	done
	seed=${SEED:-$RANDOM}
	echo "# $fs, seed $seed"
	overlay main "$lower" "$target" "gid=$gid" converge_rate=300 max_deaths=0 handoff=no
	keeper_pid=$(keeper main get keeper_pid)
	"$helpers/churn" "$target" 4 "$gid" "$seed" &
	churn=$!
	fds_before=$(count_fds "$keeper_pid")
	shared_before=$(shared_of "$keeper_pid")
	check "$fs: $COUNT servers are killed" kill_many
	fds_after=$(count_fds "$keeper_pid")
	printf "# shared memory: %s kB, then %s kB\n" "$shared_before" "$(shared_of "$keeper_pid")"
	printf "# keeper: %s descriptors, then %s; Pss %s kB\n" "$fds_before" "$fds_after" "$(pss_of "$keeper_pid")"; [ -z "${SMAPS:-}" ] || cp /proc/$keeper_pid/smaps "$SMAPS"
	# What has no name yet, or no more, of each user at this moment, is held by a descriptor.
	check "$fs: the keeper does not gather descriptors" test "$fds_after" -le $((fds_before + 12))
	kill -TERM "$churn"
	check "$fs: whatever was asked for happened once" wait "$churn"
	keeper main send rate rate=0 >"$scratch/answer"
	check "$fs: and all is converged" keeper main wait state=converged
	check_same "$fs: which is true" '' "$(find "$lower" ! -gid "$gid" | head -n 3)"
	umount "$target"
	no_process_stays || failed=$((failed + 1))
	umount "$scratch/$fs"
done
end_test
