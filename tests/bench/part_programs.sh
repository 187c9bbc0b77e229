# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# part_programs.sh: a real tree, unpacked, put under version control, looked at, searched and removed.

export GIT_CONFIG_COUNT=3 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*' \
	GIT_CONFIG_KEY_1=gc.auto GIT_CONFIG_VALUE_1=0 GIT_CONFIG_KEY_2=core.compression GIT_CONFIG_VALUE_2=0

# Files of this machine, small ones: what counts is how many there are.
pack_tree() {
	find /usr/include /usr/share /usr/lib -xdev \( -type l -o -type f -size -128 \) -print0 2>/dev/null >"$scratch/found"
	head -z -n "$PROGRAM_FILES" "$scratch/found" | tar --null --no-recursion -T - -cf "$scratch/tree.tar" 2>/dev/null
}

# Without owners and times, which not every contender can set.
unpack() { "${enter[@]}" tar --no-same-owner -m -C "$target/tree" -xf "$scratch/tree.tar"; }
status() { "${enter[@]}" git -C "$target/tree" status --short >"$scratch/git"; }
search() { "${enter[@]}" find "$target/tree" -type f -size +1000 -printf '%s %m\n' >/dev/null; }
remove() { "${enter[@]}" rm -rf "$target/tree"; }

until_next_second() { sleep "$(printf '0.%06d' $((999999 - 10#${EPOCHREALTIME#*[.,]})))1"; }

# Those that somebody waits for.
awaited() { printf '%d' $(($(requests_of '') - $(requests_of 'FORGET|BATCH_FORGET|RELEASE|RELEASEDIR|INTERRUPT'))); }

timed() {
	local what=$1 before

	shift
	! counts_requests || before=$(awaited)
	time_of "$@"
	sample "$what" s "$seconds"
	! counts_requests || sample "requests, $what" count $(($(awaited) - before))
}

use_tree() {
	"${enter[@]}" mkdir "$target/tree"
	timed untar unpack
	timed 'find after untar' search
	"${enter[@]}" git -C "$target/tree" init -q
	# What was written in the second in which the index is git reads each time: how much depends on how long unpacking took.
	until_next_second
	"${enter[@]}" git -C "$target/tree" add -A
	status
	timed 'git status' status
	# The first to list what git has made.
	timed find search
	search
	timed 'find again' search
	timed 'rm -rf' remove
}

part_programs() {
	pack_tree
	each_in_turn use_tree
	rm -f "$scratch/tree.tar" "$scratch/found"
}
