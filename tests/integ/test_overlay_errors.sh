#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Needs root and /dev/fuse.
#
# Bad input: one clear line that names what and why, an exit status that is not 0, nothing mounted, no
# process left.
# shellcheck disable=SC2317 # functions are called through check
# shellcheck disable=SC2016 # scripts for other shells
# shellcheck source=tests/integ/lib.sh
. "$(dirname "$0")/lib.sh"
need_root
need_fuse
need_tools unshare
own_mounts "$0" "$@"
start_test

source=$scratch/source
target=$scratch/target
mkdir "$source" "$target"
printf 'content\n' >"$source/file"
printf 'file\n' >"$scratch/file"

# Runs a command that must fail with one line on standard error in which all WORDS (up to "--") stand.
refused() {
	local words=() word status=0

	while [ "$1" != -- ]; do
		words+=("$1")
		shift
	done
	shift
	"$@" >"$scratch/out" 2>"$scratch/err" </dev/null || status=$?
	if [ "$status" = 0 ]; then
		printf '#  it succeeded\n'
		return 1
	fi
	if [ "$(wc -l <"$scratch/err")" != 1 ] || [ -s "$scratch/out" ]; then
		printf '#  not one line on stderr:\n'
		sed 's/^/#  /' "$scratch/out" "$scratch/err"
		return 1
	fi
	for word in "${words[@]}"; do
		if ! grep -qiF -- "$word" "$scratch/err"; then
			printf '#  "%s" is missing in: %s\n' "$word" "$(cat "$scratch/err")"
			return 1
		fi
	done
	no_mount_stays "$scratch/target" && no_process_stays
}

check_refused() {
	local text=$1

	shift
	check "$text" refused "$@"
}


check_refused 'an absent source' source "$scratch/absent" 'no such file' -- \
	"$fsgroupfs" -o gid=4242 "$scratch/absent" "$target"
check_refused 'a source that is a file' source "$scratch/file" 'not a directory' -- \
	"$fsgroupfs" -o gid=4242 "$scratch/file" "$target"
check_refused 'an empty source' source 'no such file' -- "$fsgroupfs" -o gid=4242 '' "$target"
check_refused 'an absent target' target "$scratch/nowhere" 'no such file' -- \
	"$fsgroupfs" -o gid=4242 "$source" "$scratch/nowhere"
check_refused 'an absent parent of the target' target "$scratch/nowhere/at" 'no such file' -- \
	"$fsgroupfs" -o gid=4242 "$source" "$scratch/nowhere/at"
check_refused 'a target that is a file' target "$scratch/file" 'not a directory' -- \
	"$fsgroupfs" -o gid=4242 "$source" "$scratch/file"
ln -s "$target" "$scratch/link"
check_refused 'a target that is a symbolic link' target "$scratch/link" 'not a directory' -- \
	"$fsgroupfs" -o gid=4242 "$source" "$scratch/link"
check_refused 'a target that ends in ..' target 'invalid' -- \
	"$fsgroupfs" -o gid=4242 "$source" "$target/.."

check_refused 'no gid' gid -- "$fsgroupfs" "$source" "$target"
check_refused 'a gid that is not a number' gid '"staff"' -- "$fsgroupfs" -o gid=staff "$source" "$target"
check_refused 'a negative gid' gid '"-1"' -- "$fsgroupfs" -o gid=-1 "$source" "$target"
check_refused 'an empty gid' gid '""' -- "$fsgroupfs" -o gid= "$source" "$target"
check_refused 'a gid out of range' gid range 4294967296 -- \
	"$fsgroupfs" -o gid=4294967296 "$source" "$target"
check_refused 'the gid that means none' gid range 4294967295 -- \
	"$fsgroupfs" -o gid=4294967295 "$source" "$target"
check_refused 'a gid that is not mapped' 4242 'not mapped' -- \
	unshare -Urm "$fsgroupfs" -o gid=4242 "$source" "$target"

check_refused 'an unknown option' option nonsense -- \
	"$fsgroupfs" -o gid=4242,nonsense "$source" "$target"
check_refused 'an unknown option with a value' option nonsense -- \
	"$fsgroupfs" -o gid=4242,nonsense=1 "$source" "$target"
for bad in policy=Sometimes ownership=mine coherence=loose handoff=perhaps converge_rate=fast \
	converge_rate=-1 run=xyz epoch= volume=../x control_fd=x; do
	check_refused "a bad value: $bad" option "${bad%%=*}" "\"${bad#*=}\"" -- \
		"$fsgroupfs" -o "gid=4242,$bad" "$source" "$target"
done
for bad in '' '!a' 'a//b' '../x' './x' '/'; do
	check_refused "a bad pattern: \"$bad\"" exclude "\"$bad\"" -- \
		"$fsgroupfs" -o gid=4242 -o "exclude=$bad" "$source" "$target"
done
check_refused 'too many patterns' exclude many -- \
	"$fsgroupfs" -o gid=4242 -o "exclude=$(printf 'x/%.0s' {1..70})x" "$source" "$target"

mkdir "$source/nested"
mount -t tmpfs tmpfs "$source/nested"
check_refused 'a mount below the source' "$source/nested" mounted -- \
	"$fsgroupfs" -o gid=4242 "$source" "$target"
umount "$source/nested"

# In mount namespaces of their own, so that the machine's /dev/fuse stays as it is.
mkdir "$scratch/dev"
mknod -m 666 "$scratch/dev/null" c 1 3
check_refused 'no /dev/fuse' /dev/fuse 'no such' -- unshare -m sh -c '
	mount --bind "$0" /dev && exec "$@"' "$scratch/dev" "$fsgroupfs" -o gid=4242 "$source" "$target"
mknod -m 600 "$scratch/dev/fuse" c 10 229
check_refused 'an unreadable /dev/fuse' /dev/fuse 'permission denied' -- unshare -m sh -c '
	mount --bind "$0" /dev && exec "$@"' "$scratch/dev" \
	setpriv --reuid 1000 --regid 1000 --clear-groups unshare -Urm \
	"$fsgroupfs" -o gid=0 "$source" "$target"
check_refused 'a /dev/fuse that is something else' "$target" -- unshare -m sh -c '
	mount --bind /dev/null /dev/fuse && exec "$0" -o gid=4242 "$1" "$2"' \
	"$fsgroupfs" "$source" "$target"
check_refused 'a user who may not mount' "$target" 'not permitted' -- \
	setpriv --reuid 1000 --regid 1000 --clear-groups "$fsgroupfs" -o gid=1000 "$source" "$target"

# Where SELinux is off no file system takes a label, and the kernel would say no more than EINVAL.
label=system_u:object_r:container_file_t:s0:c1,c2
if [ ! -e /sys/fs/selinux/enforce ]; then
	check_refused 'a label of SELinux, which is off' "context=$label: SELinux is off" -- \
		"$fsgroupfs" -o "gid=4242,context=\"$label\"" "$source" "$target"
fi
check_refused 'a label that is none' context '"container_file_t"' -- \
	"$fsgroupfs" -o gid=4242,context=container_file_t "$source" "$target"

# Usage goes on for more lines: the first says what is wrong.
usage() {
	local status=0

	"$fsgroupfs" "$@" >"$scratch/out" 2>"$scratch/err" || status=$?
	[ "$status" = 2 ] && head -n 1 "$scratch/err" | grep -q '^fsgroupfs: ' &&
		[ ! -s "$scratch/out" ] && no_process_stays
}
check 'no arguments' usage
check 'one argument' usage -o gid=1 "$source"
check 'three arguments' usage -o gid=1 "$source" "$target" more
check 'an unknown letter' usage -q -o gid=1 "$source" "$target"
check 'an -o without a value' usage "$source" "$target" -o

check 'after all that it mounts' overlay main "$source" "$target" gid=4242 handoff=no context=none
check_same 'and works' content "$(cat "$target/file")"
umount "$target"
end_test
