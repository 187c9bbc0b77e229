# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# part_memory.sh: what the processes of a contender take, idle, and for each inode that the kernel knows.

resident_kib() {
	local pid

	for pid; do
		awk '$1 == "Pss:" { print $2 }' "/proc/$pid/smaps_rollup"
	done | awk '{ sum += $1 } END { printf "%d", sum }'
}

descriptors_of() {
	local pid

	for pid; do
		find "/proc/$pid/fd" -mindepth 1
	done | wc -l
}

# The biggest single process: an idle server is held against a bound.
largest_kib() {
	local pid

	for pid; do
		awk '$1 == "VmRSS:" { print $2 }' "/proc/$pid/status"
	done | sort -n | tail -n 1
}

weigh() {
	local kib fds entries

	[ ${#servers[@]} -gt 0 ] || return 0
	"${enter[@]}" stat "$target" >/dev/null
	sample 'idle, largest process' bytes $(($(largest_kib "${servers[@]}") * 1024))
	kib=$(resident_kib "${servers[@]}")
	fds=$(descriptors_of "${servers[@]}")
	entries=$("${enter[@]}" find "$target" -printf '%s\n' | wc -l)
	sample 'memory an inode' bytes $((($(resident_kib "${servers[@]}") - kib) * 1024 / entries))
	sample 'descriptors an inode' count "$(awk -v n=$(($(descriptors_of "${servers[@]}") - fds)) -v of="$entries" \
		'BEGIN { printf "%.3f", n / of }')"
}

# The lower file system has no part in it: one is enough.
part_memory() {
	is_first_type || return 0
	mkdir "$lower/many"
	"$helpers/many" files "$lower/many" "$MEMORY_FILES" 1000
	ROUNDS=1 each_in_turn weigh
	rm -rf "$lower/many"
}
