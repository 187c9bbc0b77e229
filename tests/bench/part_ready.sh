# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# part_ready.sh: from the call until a file can be used as it shall be, against the number of files: the overlay alone,
# by way of the daemon, and what is done eagerly: chown -R and chmod -R, or one pass as kubelet makes it. The trees of all
# sizes are there together, and have their turn in each round.

# The first stat, without a process of its own.
looks() { [ -f "$1/dir-0/file-0" ]; }

ready_overlay() {
	"$fsgroupfs" -o "gid=$gid" -o handoff=no -o coherence=exclusive -o paused "$lower" "$target"
	looks "$target"
}

ready_daemon() {
	"$BIN/fsgroupctl" mount --plugin local --source "$lower" --target "$target" --fsgroup "$gid" --settle 0 \
		--volume-id bench --converge-rate 1 >/dev/null
	looks "$target"
}

ready_commands() {
	chown -R ":$((gid + 1))" "$lower"
	chmod -R ug+rwX "$lower"
	chmod g+s "$lower"
	looks "$lower"
}

ready_one_pass() {
	"$TESTBIN/bench/load" eager "$lower" "$gid"
	looks "$lower"
}

# The commands come to what one pass has left: to other groups, but to the same bits, which is in their favour.
get_ready() {
	local files=$1 lower=$lower/tree-$1

	contender=fsgroupfs
	enter=()
	time_of ready_overlay
	sample "$files files" s "$seconds"
	umount "$target"
	no_process_stays
	contender=fsgroupctl
	time_of ready_daemon
	sample "$files files" s "$seconds"
	"$BIN/fsgroupctl" unmount bench
	contender='one pass'
	time_of ready_one_pass
	sample "$files files" s "$seconds"
	contender='chown, chmod'
	time_of ready_commands
	sample "$files files" s "$seconds"
	"$TESTBIN/bench/load" reset "$lower" 1000 1000
}

# The eager walks of a million files take their minutes: on the first file system alone.
part_ready() {
	local files sizes=$READY_FILES

	is_first_type || sizes=${sizes% 1000000}
	"$BIN/fsgroupctl" list >/dev/null # the daemon starts
	for files in $sizes; do
		mkdir "$lower/tree-$files"
		"$helpers/many" files "$lower/tree-$files" "$files" 100
		[ "$files" -lt 100000 ] || say "there are $files files"
	done
	for ((round = 1; round <= ROUNDS; round++)); do
		for files in $sizes; do
			get_ready "$files"
		done
		say "ready, round $round of $ROUNDS"
	done
	renew_bench_volume # far sooner than they can be removed
}
