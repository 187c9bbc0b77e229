#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Needs root, /dev/fuse, loop devices, and the mkfs of ext4, xfs and btrfs.
# timeout: 400
#
# No system call tells the overlay of a pending tree from a tree that was eagerly changed: random steps of
# many users in lockstep (tests/differential/main.c), some seconds on each file system, in each mode. Longer:
# make soak.
# shellcheck source=tests/integ/lib_differential.sh
. "$(dirname "$0")/lib_differential.sh"
start_differential "$@"

# With sanitizers it is an order of magnitude slower: a third of its steps.
default=6000
[ -z "$is_sanitized" ] || default=2000
steps=${DIFFERENTIAL_STEPS:-$default}
seed=${DIFFERENTIAL_SEED:-1}

# A program of its own for each: a difference in one leaves the others. With the access times that a mount has by default,
# and with all of them; scripts/soak has them in every mode.
try_on() {
	local type=$1 mode coherence durable atime

	for mode in paused converging; do
		atime=relatime
		[ "$mode" != converging ] || atime=strictatime
		for coherence in shared exclusive; do
			durable=no
			[ "$mode" != converging ] || durable=yes
			check "$type, $mode, $coherence" "$differential" --fs "$type" --mode "$mode" \
				--coherence "$coherence" --atime "$atime" --durable "$durable" --seed "$seed" \
				--steps "$steps" --shrink 20
		done
	done
}

for type in tmpfs ext4 xfs btrfs; do
	try_on "$type"
done

# The same while the server is killed, or another takes over from it, again and again.
for type in tmpfs ext4 xfs btrfs; do
	check "$type, killed" "$differential" --fs "$type" --mode converging --coherence exclusive --atime relatime \
		--kill 60 --seed "$seed" --steps $((steps / 4)) --shrink 20
done

soak() {
	SOAK_JOBS=2 scripts/soak 3 "$seed" >"$scratch/soak"
	sed 's/^/# /' "$scratch/soak"
	tail -n 1 "$scratch/soak" | grep -Eqx '[1-9][0-9]* steps, 0 differences'
}
check 'and by turns, as make soak does' soak
end_test
