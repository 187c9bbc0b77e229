#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The Debian package: what is in it, installing, upgrading, removing and purging it on a copy of this machine. Needs root
# and /dev/fuse.
set -euo pipefail
# shellcheck source=tests/integ/lib_volume.sh
. "$(dirname "$0")/lib_volume.sh"
# shellcheck source=tests/integ/lib_root.sh
. "$(dirname "$0")/lib_root.sh"
need_root
need_fuse
need_tools dpkg dpkg-deb dpkg-shlibdeps strip make jq
own_mounts "$0" "$@"
start_volume_test
make_root
cd "$repository"
unset MAKEFLAGS MFLAGS MAKEOVERRIDES

pack() { PACKAGE_VERSION=${2:-} scripts/make-deb "$scratch/$1" >/dev/null; }
package() { printf '%s\n' "$scratch/$1"/*.deb; }

# ---- what is in it ----

check 'it is built' pack first
check 'and built again' pack again
check 'the same bytes come of the same tree' cmp "$(package first)" "$(package again)"
dpkg-deb -f "$(package first)" Depends >"$scratch/depends"
check 'it depends on the libraries that the programs need' grep -q 'libc6.*libjansson4.*libmount1.*libsqlite3-0' "$scratch/depends"
fuse_is_said() {
	if ldd "$BIN/fsgroupfs" | grep -q libfuse3; then
		grep -q libfuse3 "$scratch/depends"
	else
		dpkg-deb -f "$(package first)" Built-Using | grep -q '^fuse3 (= '
	fi
}
check 'libfuse is depended on, or said to be in it' fuse_is_said
dpkg-deb -c "$(package first)" | awk '$6 !~ /\/$/ { print $2, $6 }' >"$scratch/content"
check_same 'all of it is root'\''s' root/root "$(awk '{ print $1 }' "$scratch/content" | sort -u)"
for file in bin/fsgroupfs bin/fsgroupctl bin/fsgroup-flexvolume sbin/fsgroup-mountd share/doc/fsgroupfs/copyright; do
	check "it has $file" grep -qxF "root/root ./usr/$file" "$scratch/content"
done

# ---- installed on a machine ----

# Nothing of the copy need survive a loss of power, and no index of its manual pages is needed.
package_tool() { in_root dpkg --force-unsafe-io --no-triggers "$@"; }
install_package() {
	cp "$(package "$1")" "$root/tmp/package.deb"
	package_tool -i /tmp/package.deb >"$scratch/dpkg" 2>&1 || { sed 's/^/#  /' "$scratch/dpkg" && return 1; }
}
# The daemon of the copy: no other is seen there with that program.
package_daemons() {
	local proc

	for proc in /proc/[0-9]*; do
		[ "$(readlink "$proc/root")" = "$root" ] && [ "$(cat "$proc/comm")" = fsgroup-mountd ] && printf '%s\n' "${proc#/proc/}"
	done 2>/dev/null || true
}
end_package_daemon() {
	local pid

	for pid in $(package_daemons); do
		kill "-$1" "$pid" 2>/dev/null || true
		timeout 20 tail -s 0.02 --pid="$pid" -f /dev/null
	done
}
trap 'status=$?; set +e; end_package_daemon KILL; (exit "$status"); clean_up_volumes' EXIT

check 'it is installed' install_package first
check 'where there is systemd its socket is listened to' test -L "$root/etc/systemd/system/sockets.target.wants/fsgroup-mountd.socket"
mkdir "$root/srv/data" "$root/mnt/pod" "$root/mnt/view"
echo content >"$root/srv/data/file"
check 'a volume is mounted with it' in_root fsgroupctl mount --plugin local --source /srv/data --target /mnt/pod \
	--fsgroup "$GROUP" --handoff no --volume-id v
check_same 'and shown' "$GROUP" "$(in_root stat -c %g /mnt/pod/file)"
check_same 'by the daemon of the package' "$root/usr/sbin/fsgroup-mountd" "$(readlink "/proc/$(package_daemons)/exe")"

# ---- removing it ----

# removal_is_refused ACTION WORDS: nothing is removed, and one line of the package says why.
removal_is_refused() {
	if package_tool "$1" fsgroupfs >"$scratch/dpkg" 2>&1; then
		printf '#  dpkg %s did it\n' "$1"
		return 1
	fi
	[ -x "$root/usr/bin/fsgroupctl" ] && [ "$(grep -c '^fsgroupfs: not removed' "$scratch/dpkg")" = 1 ] &&
		grep '^fsgroupfs: not removed' "$scratch/dpkg" | grep -F -- "$2" | grep -qF 'fsgroupctl unmount --all' && return
	sed 's/^/#  /' "$scratch/dpkg"
	return 1
}

check 'with a volume mounted it is not removed, which is said with its name' removal_is_refused -r '/mnt/pod (converged)'
check 'nor purged' removal_is_refused -P '/mnt/pod (converged)'
check_same 'the volume is served' "$GROUP" "$(in_root stat -c %g /mnt/pod/file)"
check_same 'under supervision' converged "$(in_root fsgroupctl status --json v | jq -r .state)"

# ---- upgrading it ----

exec {held}<>"$root/mnt/pod/file"
before=$(in_root fsgroupctl status --json v | jq -c '[.server.pid, .server.restarts]')
daemon=$(package_daemons)
check 'a newer version' pack newer 99
check 'takes its place' install_package newer
check_fails 'with another daemon' same "$daemon" "$(package_daemons)"
check_same 'which is one' 1 "$(package_daemons | wc -l)"
check_same 'and the new one' "$root/usr/sbin/fsgroup-mountd" "$(readlink "/proc/$(package_daemons)/exe")"
check_same 'the overlay is what it was' "$before" "$(in_root fsgroupctl status --json v | jq -c '[.server.pid, .server.restarts]')"
check_same 'what was open is open' content "$(cat <&"$held")"
exec {held}>&-
check_same 'on record' '["v"]' "$(in_root fsgroupctl list --json | jq -c 'map(.id)')"

check 'mount(8) knows the type, too' in_root mount -t fsgroupfs -o "gid=$GROUP,handoff=no" /srv/data /mnt/view
check_same 'and shows it' "$GROUP" "$(in_root stat -c %g /mnt/view/file)"
check 'umount(8) as well' in_root umount /mnt/view

# ---- an overlay that nobody keeps account of ----

check 'unmounted' in_root fsgroupctl unmount v
check 'an overlay without a daemon' in_root fsgroupfs -o "gid=$GROUP,handoff=no" /srv/data /mnt/view
check 'keeps the package, too' removal_is_refused -r '/mnt/view (overlay)'
end_package_daemon TERM
mv "$root/usr/sbin/fsgroup-mountd" "$root/usr/sbin/fsgroup-mountd.away"
check 'also where there is no daemon to ask' removal_is_refused -r '/mnt/view (overlay)'
check 'which is said' grep -q 'fsgroup-mountd does not say which volumes there are' "$scratch/dpkg"
mv "$root/usr/sbin/fsgroup-mountd.away" "$root/usr/sbin/fsgroup-mountd"
in_root umount /mnt/view

# ---- removed, and state that stays ----

check 'a volume again' in_root fsgroupctl mount --plugin local --source /srv/data --target /mnt/pod --fsgroup "$GROUP" \
	--handoff no --volume-id v
end_package_daemon TERM
umount "$root/mnt/pod"
echo 11111111-2222-3333-4444-555555555555 >"$root/tmp/boot_id"
mount --bind "$root/tmp/boot_id" "$root/proc/sys/kernel/random/boot_id"
check_same 'after a restart of the machine it is absent' absent "$(in_root fsgroupctl status --json v | jq -r .state)"
removes() { package_tool "$1" fsgroupfs >"$scratch/dpkg" 2>&1 || { sed 's/^/#  /' "$scratch/dpkg" && return 1; }; }
check 'then it is removed' removes -r
check_same 'with its daemon' '' "$(package_daemons)"
check_fails 'and its programs' test -e "$root/usr/bin/fsgroupctl"
check 'purged' removes -P
check 'the record of a volume stays, which is said' grep -q "^fsgroupfs: /var/lib/fsgroupfs stays: .*(v)" "$scratch/dpkg"
check 'with the store' test -s "$root/var/lib/fsgroupfs/store.db"
check 'installed again' install_package first
check 'the volume is known' in_root fsgroupctl unmount v
check 'purged again' removes -P
check_same 'no file is left of it' '' \
	"$(find "$root"/{usr,etc,var} -xdev -path "$root/var/lib/dpkg" -prune -o -name '*fsgroup*' -newer "$(package first)" -print 2>/dev/null |
		grep -v "^$root$repository/" | head -n 3)"
end_volume_test
