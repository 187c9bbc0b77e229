# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# lib_user.sh: an ordinary user with a range of ids, who exists for a test only. Sourced after lib.sh, by root.
#
#   make_user FILE...      makes him, with copies of the programs, the helpers and FILEs where he can reach them, whatever
#                          the directories above the repository allow. Skips where user namespaces cannot be had.
#   as_user COMMAND...     runs a command as him, with a /dev/fuse that he may open; TMPDIR is his
#   $user_bin, $user_tests, $user_tmp   where his programs, his helpers and FILEs, and his files are

readonly ORDINARY_UID=54321

make_user() {
	local file

	user_bin=$scratch/bin user_tests=$scratch/tests user_tmp=$scratch/tmp
	mkdir "$scratch/etc" "$user_bin" "$user_tests" "$user_tests/helpers" "$user_tmp"
	for file in subuid subgid; do
		printf 'fsgroupfs-test:300000:65536\n' >"$scratch/etc/$file"
		[ -e "/etc/$file" ] || : >"/etc/$file"
	done
	{
		cat /etc/passwd
		printf 'fsgroupfs-test:x:%d:%d::/:/bin/sh\n' "$ORDINARY_UID" "$ORDINARY_UID"
	} >"$scratch/etc/passwd"
	mknod -m 666 "$scratch/etc/fuse" c 10 229
	find "$BIN" -maxdepth 1 -type f -perm -100 -exec cp -t "$user_bin" {} +
	cp "$helpers"/* "$user_tests/helpers"
	cp "$repository/tests/integ/lib.sh" "$@" "$user_tests"
	chown "$ORDINARY_UID:$ORDINARY_UID" "$user_tmp"
	as_user unshare --map-auto -Urm true 2>"$scratch/err" ||
		skip "needs a range of ids in a user namespace: $(head -n 1 "$scratch/err")"
}

as_user() {
	unshare -m bash -c '
		set -e
		for file in passwd subuid subgid; do
			mount --bind "$0/etc/$file" "/etc/$file"
		done
		mount --bind "$0/etc/fuse" /dev/fuse
		cd /
		exec setpriv --reuid "$1" --regid "$1" --clear-groups --inh-caps=-all \
			env HOME=/ TMPDIR="$0/tmp" BIN="$0/bin" TESTBIN="$0/tests" "${@:2}"' \
		"$scratch" "$ORDINARY_UID" "$@"
}
