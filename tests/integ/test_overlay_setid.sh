#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Needs root and /dev/fuse.
#
# Everything that takes set-ID bits away, by everybody who may do it, on every kind of set-ID file: the
# overlay with all pending against an eagerly changed copy on the native file system.
# shellcheck disable=SC2317 # functions are called through check
# shellcheck source=tests/integ/lib.sh
. "$(dirname "$0")/lib.sh"
need_root
need_fuse
need_tools setpriv mkfs.ext4 mkfs.btrfs unshare
own_mounts "$0" "$@"
start_test

gid=4242
modes=(4777 2777 6777 6766 2666 6755 2755 7777 0777)
operations_of_directories=(chown-none lchown-none fchown-none chown-group chown-away chmod-same touch)
all_operations=(write append pwrite mmap truncate truncate-same ftruncate open-trunc creat fallocate punch copy-range
	"${operations_of_directories[@]}")
operations=("${all_operations[@]}")

# uid, gid and further groups of who tries: root, the owner outside the group, the owner inside it, a
# stranger inside it, a stranger outside it, and root inside it without a capability.
users=('0 0 -' '1000 1000 -' "1000 1000 $gid" "1001 1001 $gid" '1002 1002 -' "0 $gid - fsetid")

make_files() {
	local dir=$1 mode operation user

	mkdir -p "$dir"
	for user in "${!users[@]}"; do
		for operation in "${operations[@]}"; do
			# To whom only chown(2) makes a difference.
			[[ ${users[$user]} != *fsetid || $operation == chown-* ]] || continue
			for mode in "${modes[@]}"; do
				printf 'some content\n' >"$dir/$user-$operation-$mode"
			done
		done
		for operation in "${operations_of_directories[@]}"; do
			mkdir "$dir/$user-$operation"-{2777,6777,7777}.d
		done
	done
	chown 1000:1000 "$dir"/*
	for mode in "${modes[@]}"; do
		chmod "$mode" "$dir"/*-"$mode"*
	done
}

# Does to every file what its name says, and writes down what came of it, a line each: NAME MODE GROUP SIZE [ERROR]
try_all() {
	local dir=$1 user operation uid own groups without files

	for user in "${!users[@]}"; do
		read -r uid own groups without <<<"${users[$user]}"
		[ "$groups" != - ] || groups=
		for operation in "${all_operations[@]}"; do
			files=("$dir/$user-$operation"-[0-7]*)
			[ -e "${files[0]}" ] || continue
			as "$uid" "$own" "$groups" ${without:+setpriv --bounding-set=-"$without"} \
				"$helpers/setid" "$operation" "${files[@]}" || true
		done
	done | sort >"$scratch/errors"
	(cd "$dir" && stat -c '%n %a %g %s' -- [0-9]*) | sort | join -a 1 - "$scratch/errors"
}

# After a write by somebody else than root nothing may be set-user-ID, nor set-group-ID and executable.
no_set_ids() {
	local operation='(write|append|pwrite|truncate|truncate-same|ftruncate|open-trunc|creat|fallocate|punch|copy-range)'
	local bad

	bad=$(grep -E "^[1-4]-$operation-[0-9]+ ([4567][0-7]{3}|[2367][0-7][1357][0-7]) [0-9]+ [0-9]+\$" "$1" || true)
	[ -z "$bad" ] && return
	printf '%s\n' "$bad" | head -n 10 | sed 's/^/#  still set-ID: /'
	return 1
}

# What converging left of the modes that the operations left.
modes_of() {
	(cd "$1" && stat -c '%n %a' -- *)
}

try_on() {
	local type=$1 volume=$scratch/$1

	make_volume "$type" "$type"
	mkdir "$volume/lower" "$volume/eager" "$volume/target"
	make_files "$volume/lower"
	make_files "$volume/eager"
	"$helpers/tree" apply "$volume/eager" "$gid"
	# Not made through the overlay: a file that was written to through the overlay has a writer, whose right it would be.
	printf 'x\n' >"$volume/lower/namespace"
	chmod 6777 "$volume/lower/namespace"
	overlay "$type" "$volume/lower" "$volume/target" "gid=$gid" paused
	try_all "$volume/eager" >"$scratch/wanted"
	try_all "$volume/target" >"$scratch/got"
	check "$type: set-ID bits go as on the native file system" \
		same_files "$scratch/wanted" "$scratch/got"
	check "$type: nobody keeps them after a write" no_set_ids "$scratch/got"
	# Whoever makes a user namespace has all capabilities, there.
	check_same "$type: capabilities of a user namespace below count for nothing" 'namespace errno 1' \
		"$(as 1002 1002 '' unshare -Ur "$helpers/setid" chown-none "$volume/target/namespace" || true)"
	check_same "$type: and the bits stay" 6777 "$(stat -c %a "$volume/target/namespace")"
	modes_of "$volume/target" >"$scratch/before"
	check "$type: converges to native" turns_native "$type" resume
	check_same "$type: is native" "$type" "$(type_at "$volume/target")"
	modes_of "$volume/lower" >"$scratch/after"
	check "$type: none comes back by converging" same_files "$scratch/before" "$scratch/after"
	umount "$volume/target"
}

try_on tmpfs
try_on ext4
# There a size that stays the same is not dated, bits or no bits.
operations=(truncate-same)
try_on btrfs
end_test
