#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# bench_memory.sh: what an inode that was looked up costs keeper, server and the memory that they share, beside what the
# kernel has of it. Needs root and /dev/fuse.
#
#   FILES=1000000  in directories of a thousand, on a tmpfs
#   OUTPUT=build/bench/memory.json
#
#   idle_keeper_kib, idle_server_kib   before anything was looked up
#   table_bytes         of the shared memory, an inode: the slots of the node table
#   processes_bytes     of all that the two processes have (PSS, with the shared memory), an inode
#   keeper_kib          the keeper's, with all inodes looked up; the table is in it only as far as it has touched it
# shellcheck source=tests/integ/lib.sh
. "$(dirname "$0")/../integ/lib.sh"
need_root
need_fuse
need_tools jq
own_mounts "$0" "$@"
start_test

FILES=${FILES:-1000000}
OUTPUT=${OUTPUT:-$repository/build/bench/memory.json}
mkdir -p "$(dirname "$OUTPUT")" "$scratch/target" "$scratch/lower"
mount -t tmpfs -o size=16g,nr_inodes=0,mode=755 tmpfs "$scratch/lower"
"$helpers/many" files "$scratch/lower" "$FILES" 1000

pss_of() { awk '$1 == "Pss:" { print $2 }' "/proc/$1/smaps_rollup"; }
shared_bytes() {
	local fd

	for fd in /proc/"$1"/fd/*; do
		case $(readlink "$fd") in
		/memfd:fsgroupfs*) echo $(($(stat -Lc %b "$fd") * 512)) && return ;;
		esac
	done
}

holds() { jq -e "$1" "$OUTPUT" >"$scratch/stdout"; }

overlay main "$scratch/lower" "$scratch/target" gid=4242 paused handoff=no
keeper_pid=$(keeper main get keeper_pid)
server_pid=$(keeper main get server_pid)
stat "$scratch/target" >"$scratch/stat"
idle_keeper=$(pss_of "$keeper_pid") idle_server=$(pss_of "$server_pid") idle_shared=$(shared_bytes "$keeper_pid")
entries=$(find "$scratch/target" -printf '%s\n' | wc -l)
keeper_kib=$(pss_of "$keeper_pid") server_kib=$(pss_of "$server_pid") shared=$(shared_bytes "$keeper_pid")
grown=$(((keeper_kib + server_kib - idle_keeper - idle_server) * 1024))
jq -n --argjson entries "$entries" --argjson idle_keeper "$idle_keeper" --argjson idle_server "$idle_server" \
	--argjson table $((shared - idle_shared)) --argjson grown "$grown" --argjson keeper "$keeper_kib" \
	'{benchmark: "memory", $entries, idle_keeper_kib: $idle_keeper, idle_server_kib: $idle_server,
	table_bytes: ($table * 10 / $entries | round / 10), processes_bytes: ($grown * 10 / $entries | round / 10),
	keeper_kib: $keeper}' | tee "$OUTPUT"
check 'an inode costs the table less than 160 bytes' holds '.table_bytes < 160'
check 'and all processes less than 200' holds '.processes_bytes < 200'
check 'a keeper is less than 400 KiB' holds '.idle_keeper_kib < 400'
umount "$scratch/target"
check 'it ends' no_process_stays
umount "$scratch/lower"
end_test
