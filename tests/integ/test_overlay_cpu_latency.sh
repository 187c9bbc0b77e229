#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Needs root, /dev/fuse and /dev/cpu_dma_latency.
# alone: the limit that it looks at is the machine's
#
# While requests come close one after the other, and no longer, processors are to wake as fast as was asked for.
# shellcheck disable=SC2317 # functions are called through check
# shellcheck source=tests/integ/lib.sh
. "$(dirname "$0")/lib.sh"
need_root
need_fuse
need_tools od perl
[ -r /dev/cpu_dma_latency ] || skip 'needs /dev/cpu_dma_latency'
own_mounts "$0" "$@"
start_test

target=$scratch/target
lower=$scratch/lower
mkdir "$target" "$lower"

# What the kernel goes by, microseconds: the smallest that anybody has asked for.
limit() { od -An -td4 -N4 /dev/cpu_dma_latency | tr -d ' '; }
is_limit() { [ "$(limit)" = "$1" ]; }
before=$(limit)
[ "$before" -gt 7 ] || skip "somebody has asked for $before us already"

works=
work() {
	perl -e 'while (1) { mkdir "$ARGV[0]/d"; rmdir "$ARGV[0]/d" or sleep 1 }' "$target" &
	works=$!
}
rest() {
	kill "$works"
	wait "$works" || true
}
serves() { [ "$(keeper main get server_pid)" != "$1" ] && touch "$target/served"; }
has_worked() { keeper main get requests | grep -Eq ' MKDIR:[0-9]{4}'; }
stays_until() {
	local until=$1

	while ! $until; do
		is_limit "$before" || return
	done
}

overlay main "$lower" "$target" gid=4242 paused handoff=no
work
check 'who has asked for nothing gets nothing' stays_until has_worked
rest
check 'unmounts' umount "$target"
check 'it ends' no_process_stays

overlay main "$lower" "$target" gid=4242 paused handoff=no cpu_latency=7
check_same 'nobody works: nothing is asked for' "$before" "$(limit)"
work
check 'while requests come processors wake fast' within 60 is_limit 7
rest
check 'then as before' within 30 is_limit "$before"
work
check 'and again' within 60 is_limit 7
server=$(keeper main get server_pid)
kill -KILL "$server"
rest
check 'when the server is killed meanwhile, as before' within 30 is_limit "$before"
check 'the next one serves' within 30 serves "$server"
work
check 'and asks for the same' within 60 is_limit 7
check 'one that takes over as well' "$helpers/keeper_ctl" upgrade "$scratch/run/main" "$fsgroupfs"
check 'and asks for the same' within 60 is_limit 7
rest
check 'at last as before' within 30 is_limit "$before"
check 'unmounts' umount "$target"
end_test
