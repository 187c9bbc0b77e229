#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Needs root and /dev/fuse.
#
# The walk: what is moved under it, hard links, excludes, policies, pace, and its interruption.
# shellcheck disable=SC2317 # functions are called through check
# shellcheck source=tests/integ/lib.sh
. "$(dirname "$0")/lib.sh"
need_root
need_fuse
need_tools bindfs mkfs.ext4 setpriv ionice setcap getcap
own_mounts "$0" "$@"
start_test

gid=4242
make_volume ext4 volume
lower=$scratch/volume/lower
target=$scratch/target
mkdir "$target"

# COUNT directories with 10 files each.
make_lower() {
	local i

	rm -rf "$lower"
	mkdir "$lower"
	for ((i = 0; i < $1; i++)); do
		mkdir "$lower/dir$i" "$lower/dir$i/sub"
		touch "$lower/dir$i"/file{0..4} "$lower/dir$i/sub"/file{0..4}
	done
	chown -R 1000:1000 "$lower"
}

# Everything below DIRECTORY has group and bits.
all_converged() {
	local left

	left=$(find "$@" \( -not -gid "$gid" -o -type f -not -perm -0660 -o -type d -not -perm -2770 \) \
		-printf '%P %u:%g %m\n')
	[ -z "$left" ] && return
	printf '%s\n' "$left" | head -n 10 | sed 's/^/#  left: /'
	return 1
}

untouched() {
	local touched

	touched=$(find "$@" \( -gid "$gid" -o -perm -2000 \))
	[ -z "$touched" ] && return
	printf '%s\n' "$touched" | head -n 10 | sed 's/^/#  touched: /'
	return 1
}

finish() {
	check "$1: unmounts" umount "$target"
	check "$1: no process stays" no_process_stays
}

echo '# moves under the walk'
for round in 1 2 3; do
	make_lower 40
	# In the order of the walk: what comes last goes into what comes first, while that is done already.
	mapfile -t order < <(cd "$lower" && ls -U)
	overlay main "$lower" "$target" "gid=$gid" converge_rate=100
	keeper main wait 'seen>=13'
	keeper main send rate rate=20 >/dev/null
	for ((i = 0; i < 12; i++)); do
		mv "$target/${order[$((39 - i))]}" "$target/${order[0]}/moved$i"
		mv "$target/${order[$((20 - i))]}/sub" "$target/${order[0]}/sub/moved$i"
		mv "$target/${order[$((20 - i))]}/file0" "$target/${order[0]}/file-moved$i"
		ln "$target/${order[$((20 - i))]}/file1" "$target/${order[0]}/file-linked$i"
	done
	# And there and back again.
	mv "$target/${order[25]}" "$target/${order[0]}/there"
	mv "$target/${order[0]}/there" "$target/${order[25]}"
	check_same "moves, round $round: the walk was still running" converging "$(keeper main get state)"
	keeper main send rate rate=0 >/dev/null
	check "moves, round $round: converges to native" turns_native main
	check "moves, round $round: nothing is left" all_converged "$lower"
	umount "$target"
done

echo '# hard links'
make_lower 5
for ((i = 0; i < 5; i++)); do
	for ((k = 0; k < 10; k++)); do
		ln "$lower/dir0/file0" "$lower/dir$i/link$k"
	done
done
inodes=$(find "$lower" -printf '%i\n' | sort -u | wc -l)
names=$(find "$lower" | wc -l)
overlay main "$lower" "$target" "gid=$gid" handoff=no
check 'hard links: converges' keeper main wait state=converged
check_same 'hard links: every inode is changed once' "$inodes" "$(keeper main get changed)"
check_same 'hard links: every name is seen' "$names" "$(keeper main get seen)"
check 'hard links: nothing is left' all_converged "$lower"
finish 'hard links'

echo '# what is right is not touched'
before=$(find "$lower" -printf '%P %C@\n' | sort)
overlay main "$lower" "$target" "gid=$gid" handoff=no
check 'a right tree: converges' keeper main wait state=converged
check_same 'a right tree: nothing is changed' 0 "$(keeper main get changed)"
check_same 'a right tree: all is right' "$names" "$(keeper main get correct)"
check 'a right tree: no ctime moves' same "$before" "$(find "$lower" -printf '%P %C@\n' | sort)"
finish 'a right tree'

echo '# excludes'
make_lower 3
mkdir -p "$lower/pgdata/base/1" "$lower/dir1/.ssh" "$lower/dir2/cache" "$lower/dir2/deep/cache"
touch "$lower/pgdata/base/1/table" "$lower/dir1/.ssh/id" "$lower/dir0/server.key" \
	"$lower/dir0/sub/client.key" "$lower/dir0/key" "$lower/dir2/cache/x" "$lower/dir2/deep/cache/x" \
	"$lower/cache"
chown -R 1000:1000 "$lower"
chmod 700 "$lower/pgdata" "$lower/pgdata/base" "$lower/dir1/.ssh"
chmod 600 "$lower/pgdata/base/1/table" "$lower/dir1/.ssh/id" "$lower/dir0/server.key"
overlay main "$lower" "$target" "gid=$gid" paused 'exclude=pgdata/**' 'exclude=*.key' 'exclude=.ssh/' \
	'exclude=/dir2/cache'
excluded=(pgdata/base pgdata/base/1/table dir0/server.key dir0/sub/client.key dir1/.ssh dir1/.ssh/id
	dir2/cache dir2/cache/x)
included=(pgdata dir0/key dir1 dir2/deep/cache dir2/deep/cache/x cache)
for name in "${excluded[@]}"; do
	check_same "excluded: $name is shown as it is" "$(attributes "$lower/$name")" \
		"$(attributes "$target/$name")"
done
for name in "${included[@]}"; do
	check_same "not excluded: $name" "$gid" "$(stat -c %g "$target/$name")"
done
# A name decides where a file belongs: moved out of an excluded place it is not excluded any more.
mv "$target/dir0/sub/client.key" "$target/dir0/sub/client"
check_same 'renamed out of the patterns: is shown with the group' "$gid" \
	"$(stat -c %g "$target/dir0/sub/client")"
check 'excludes: converges' keeper main wait state=converged resume
check_same 'excludes: the reason' 'excluded paths' "$(keeper main get reason)"
check_same 'excludes: stays an overlay' fuse.fsgroupfs "$(type_at "$target")"
for name in pgdata/base/1/table dir0/server.key dir1/.ssh/id; do
	check_same "excluded: $name is untouched" 1000:1000:600 "$(attributes "$lower/$name")"
done
for name in "${included[@]}" dir0/sub/client; do
	check_same "not excluded: $name is converged" "$gid" "$(stat -c %g "$lower/$name")"
done
finish excludes

echo '# keep_private'
make_lower 1
chmod 600 "$lower/dir0/file0"
chmod 700 "$lower/dir0/sub"
overlay main "$lower" "$target" "gid=$gid" keep_private handoff=no
check 'keep_private: converges' keeper main wait state=converged
check_same 'keep_private: a private file keeps its mode' "1000:$gid:600" "$(attributes "$lower/dir0/file0")"
check_same 'keep_private: a private directory, too' "1000:$gid:700" "$(attributes "$lower/dir0/sub")"
check_same 'keep_private: others do not' "1000:$gid:664" "$(attributes "$lower/dir0/file1")"
finish keep_private

echo '# policies'
make_lower 3
overlay main "$lower" "$target" "gid=$gid" policy=RootOnly paused
check_same 'RootOnly: the root is shown' "1000:$gid:2775" "$(attributes "$target")"
check_same 'RootOnly: nothing else is' 1000:1000:755 "$(attributes "$target/dir0")"
check 'RootOnly: native' turns_native main resume
check_same 'RootOnly: the root is changed' "1000:$gid:2775" "$(attributes "$lower")"
check 'RootOnly: nothing else is' untouched "$lower" -mindepth 1
finish RootOnly

overlay main "$lower" "$target" "gid=$gid" policy=OnRootMismatch
check 'OnRootMismatch, a matching root: native' turns_native main
check 'OnRootMismatch, a matching root: nothing is changed' untouched "$lower" -mindepth 1
finish 'OnRootMismatch, a matching root'
chmod g-s "$lower"
overlay main "$lower" "$target" "gid=$gid" policy=OnRootMismatch
check 'OnRootMismatch, another root: native' turns_native main
check 'OnRootMismatch, another root: all is changed' all_converged "$lower"
finish 'OnRootMismatch, another root'

echo '# pace'
make_lower 100
overlay main "$lower" "$target" "gid=$gid" converge_rate=50
keeper main wait 'seen>=5'
# Idle I/O class and a lower priority: the walk's threads, and none else of the server's. To have said nothing, or what is usual,
# is the same.
priorities() {
	local task

	for task in "/proc/$1/task/"*; do
		printf '%s %s\n' "$(ionice -p "${task##*/}" | cut -d : -f 1)" "$(awk '{ print $19 }' "$task/stat")"
	done | sed 's/^none /best-effort /' | sort -u
}
# Who wakes takes the processor from who has the longer slice, without waiting: the others' is the longest of theirs.
slices() {
	awk -v nice="$2" '/^prio / { counts = $3 == 120 + nice } /^se.slice / && counts && $3 > longest { longest = $3 }
		END { print longest + 0 }' "/proc/$1/task/"*/sched
}
server=$(keeper main get server_pid)
is_behind() { [ "$(priorities "$server")" = $'best-effort 0\nidle 10' ]; }
check 'the walk steps back behind those who serve' within 20 is_behind
check 'and yields to one of them that wakes' [ "$(slices "$server" 10)" -gt "$(slices "$server" 0)" ]
check 'pause: stops the walk' keeper main wait state=presented pause
check_same 'pause: says so' 1 "$(keeper main get paused)"
seen=$(keeper main get seen)
# That nothing happens has no event.
sleep 0.3
check_same 'pause: nothing more is seen' "$seen" "$(keeper main get seen)"
check_same 'pause: the rate is nothing' 0 "$(keeper main get rate)"
check 'resume: goes on' keeper main wait state=converging resume
keeper main send rate rate=100 >/dev/null
check_same 'rate: is shown' 100 "$(keeper main get converge_rate)"
check_fails 'rate: nonsense is refused' keeper main send rate rate=fast
check_fails 'an unknown request is refused' keeper main send dance
start=$(date +%s%N)
seen=$(keeper main get seen)
keeper main wait "seen>=$((seen + 250))"
ms=$((($(date +%s%N) - start) / 1000000))
[ "$ms" -ge 2400 ] || printf '#  250 files at 100 a second took %d ms\n' "$ms"
check 'rate: is held, without bursts' [ "$ms" -ge 2400 ]
keeper main send rate rate=0 >/dev/null
check 'rate: no limit finishes' turns_native main
check 'pace: nothing is left' all_converged "$lower"
finish pace

# Each change waits for the disk: the moment in which set-ID bits and capabilities are away is long.
make_privileged() {
	local file

	make_lower 1
	files=("$lower"/dir0/file*)
	chmod 6777 "${files[@]}"
	for file in "${files[@]}"; do
		setcap cap_net_raw+ep "$file"
	done
	mount -o remount,sync "$scratch/volume"
	overlay main "$lower" "$target" "gid=$gid" paused handoff=no
}

# WORDS... of tests/helpers/steady.c; it looks from now on, until looks_end.
looks_begin() {
	coproc LOOKS { exec "$helpers/steady" "$@"; }
	looks_pid=$LOOKS_PID
	exec {looks_out}<&"${LOOKS[0]}" {looks_in}>&"${LOOKS[1]}"
	eval "exec ${LOOKS[0]}<&- ${LOOKS[1]}>&-"
	read -r _ <&"$looks_out"
}

looks_end() {
	local status=0

	exec {looks_in}>&-
	wait "$looks_pid" || status=$?
	cat <&"$looks_out"
	exec {looks_out}<&-
	return "$status"
}

nothing_is_lost() {
	local file

	[ "$(stat -c '%a %g' "${files[@]}" | sort -u)" = "6777 $gid" ] || return
	for file in "${files[@]}"; do
		[[ $(getcap "$file") == *net_raw* ]] || return
	done
}

echo '# files that are looked at while the walk is at them'
make_privileged
looks_begin 6777 "$target"/dir0/file*
check 'looked at: converges' keeper main wait state=converged resume
check 'looked at: nothing is away for a moment' looks_end
check 'looked at: bits and capabilities are there' nothing_is_lost
finish 'looked at'

echo '# a server that dies while the walk is at such a file'
for round in 1 2 3 4 5; do
	make_privileged
	looks_begin -k "$(keeper main get server_pid)" 6777 "${files[@]}"
	check "killed, round $round: converges" keeper main wait state=converged resume
	looks_end >/dev/null
	check_same "killed, round $round: once" 1 "$(keeper main get restarts)"
	check "killed, round $round: bits and capabilities are there" nothing_is_lost
	finish "killed, round $round"
done
mount -o remount,async "$scratch/volume"

echo '# a file system that lets the walk wait'
# As many threads walk as there are processors, four at most; while they wait, more.
usual=$(nproc)
[ "$usual" -le 4 ] || usual=4
make_lower 400
mkdir "$scratch/slow"
bindfs --multithreaded -f "$lower" "$scratch/slow" &
slow_pid=$!
check 'bindfs mounts' within 10 mountpoint -q "$scratch/slow"
overlay main "$scratch/slow" "$target" "gid=$gid" handoff=no paused
waiting_threads() {
	local thread count=0

	for thread in "/proc/$server_pid/task"/*/wchan; do
		[[ $(cat "$thread") != *request_wait_answer* ]] || count=$((count + 1))
	done
	printf '%s' "$count"
}
# Lets it go on for a moment, and counts.
more_wait() {
	kill -CONT "$slow_pid"
	stop_process "$slow_pid" && [ "$(waiting_threads)" -gt "$usual" ]
}
server_pid=$(keeper main get server_pid)
stop_process "$slow_pid"
keeper main send resume >/dev/null
check 'waiting: more threads walk' within 20 more_wait
kill -CONT "$slow_pid"
check 'waiting: converges' keeper main wait state=converged
check 'waiting: all is done' all_converged "$lower"
finish 'waiting'
umount "$scratch/slow"
wait "$slow_pid"

echo '# interruption'
make_lower 40
overlay main "$lower" "$target" "gid=$gid" converge_rate=50
keeper main wait 'changed>=50'
check 'unmounting under the walk' umount "$target"
check 'unmounting under the walk: no process stays' no_process_stays
changed=$(find "$lower" -gid "$gid" | wc -l)
check 'half of it is done' [ "$changed" -gt 10 ]
check 'half of it is not' [ "$changed" -lt 400 ]
check_same 'the root comes last' 1000:1000:755 "$(attributes "$lower")"
overlay main "$lower" "$target" "gid=$gid" handoff=no
check 'a later run converges' keeper main wait state=converged
check_same 'what was done is not done again' "$(($(find "$lower" | wc -l) - changed))" \
	"$(keeper main get changed)"
check 'a later run leaves nothing' all_converged "$lower"
finish 'a later run'

make_lower 10
overlay main "$lower" "$target" "gid=$gid" paused
keeper_pid=$(keeper main get keeper_pid)
kill -TERM "$keeper_pid"
check 'SIGTERM unmounts: no process stays' no_process_stays
check 'SIGTERM unmounts: nothing is mounted' no_mount_stays "$target"
check 'SIGTERM unmounts: nothing is changed' untouched "$lower"
end_test
