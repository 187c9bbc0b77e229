# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# part_calls.sh: names and attributes, one kind of call after the other, with one thread and with four; a large
# directory listed with the attributes of its entries, cold and warm; the mode of all its files changed.

make_calls_tree() {
	mkdir "$lower/large" "$lower/calls"
	"$helpers/many" files "$lower/large" "$LARGE_FILES"
	chown 1000:1000 "$lower" "$lower/calls"
}

call_all() {
	local threads

	for threads in 1 4; do
		"${enter[@]}" "$TESTBIN/bench/rates" calls "$target/calls" "$CALL_FILES" "$threads" "${servers[@]}" \
			>"$scratch/lines"
		sample_rates "$threads-thread " <"$scratch/lines"
	done
	! counts_requests || count_hot_stat
}

# What a thousand looks cost, at a file that was just made and written through the view, by path: by him who owns the
# volume's root, and by another of the volume's group. (Of the root of a FUSE mount the kernel keeps no ACL, for it made
# that inode before INIT: it asks again for everybody else.)
count_hot_stat() {
	local who as before file=$target/calls/hot

	"${enter[@]}" sh -c 'echo content >"$1"' _ "$file"
	for who in owner others; do
		as=(setpriv --reuid 1000 --regid 1000 --clear-groups)
		[ "$who" = owner ] || as=(setpriv --reuid 1001 --regid 1001 --groups "$gid")
		"${enter[@]}" "${as[@]}" test -s "$file"
		before=$(requests_of '')
		"${enter[@]}" "${as[@]}" bash -c 'for ((i = 0; i < 1000; i++)); do test -s "$1"; done' _ "$file"
		sample "requests, 1000 hot stat by $who" count $(($(requests_of '') - before))
	done
	"${enter[@]}" rm "$file"
}

list_large() {
	forget_names
	"${enter[@]}" "$TESTBIN/bench/rates" list "$target/large" "${servers[@]}" >"$scratch/lines"
	sample_rates 'cold ' <"$scratch/lines"
	"${enter[@]}" "$TESTBIN/bench/rates" list "$target/large" >/dev/null
	"${enter[@]}" "$TESTBIN/bench/rates" list "$target/large" "${servers[@]}" >"$scratch/lines"
	sample_rates 'warm ' <"$scratch/lines"
}

call_and_list() {
	call_all
	! has_files || list_large
}

# Whoever changes a pending file settles it: with an id of the run each gets its mark, which the walk takes away.
chmod_large() {
	if [ "$contender" = pending ]; then
		hide
		contender=pending
		enter=()
		overlay_of handoff=no coherence=exclusive paused run=0123456789abcdef0123456789abcdef
	fi
	"${enter[@]}" "$TESTBIN/bench/rates" chmod "$target/large" 640 1000 "${servers[@]}" >"$scratch/lines"
	sample_rates 'large ' <"$scratch/lines"
	[ "$contender" != pending ] || keeper main wait state=converged resume
}

# Of others it is known from their chmod of few files; theirs takes long.
chmod_all_in_turn() {
	local name

	for ((round = 1; round <= ROUNDS; round++)); do
		for name in $CONTENDERS; do
			case $name in
			native | pending)
				"$TESTBIN/bench/load" reset "$lower/large" 1000 1000
				show "$name"
				chmod_large
				hide
				;;
			esac
		done
		say "calls: chmod_large, round $round of $ROUNDS"
	done
	"$TESTBIN/bench/load" reset "$lower" 1000 1000
}

part_calls() {
	make_calls_tree
	each_in_turn call_and_list
	chmod_all_in_turn
	rm -rf "$lower/large" "$lower/calls"
}
