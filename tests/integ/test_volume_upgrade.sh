#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# fsgroupctl upgrade: volumes in all states are followed by the programs that are installed now, and their users go on;
# programs that are no good are refused, and nothing has happened.
# Needs root and /dev/fuse.
# shellcheck disable=SC2317 # functions are called through check
set -euo pipefail
# shellcheck source=tests/integ/lib_volume.sh
. "$(dirname "$0")/lib_volume.sh"
own_mounts "$0" "$@"
need_root
need_fuse
need_tools jq
start_volume_test

# Programs of a directory of the test's own, where others are installed over them: versions are texts of equal length.
programs=$scratch/programs
mkdir "$programs" "$scratch/newer"
install -m 755 "$BIN/fsgroupfs" "$BIN/fsgroup-mountd" "$programs"
version=$("$fsgroupfs" --version | cut -d ' ' -f 2)
newer=$(tr 0-9 7 <<<"$version")
for program in fsgroupfs fsgroup-mountd; do
	LC_ALL=C sed "s/${version//./\\.}/$newer/g" "$BIN/$program" >"$scratch/newer/$program"
done
export FSGROUPFS_LIBEXEC=$programs
install_program() {
	install -m 755 "$1" "$programs/$2"
}

upgrade() {
	ctl upgrade "$@" >"$scratch/said"
}

# mount_one ID ARGUMENT...
mount_one() {
	local id=$1

	shift
	mkdir -p "$scratch/on/$id"
	ctl mount --target "$scratch/on/$id" --fsgroup "$GROUP" --volume-id "$id" "$@"
}
of_server() {
	field_of "$1" ".server.$2"
}

for id in paused walking held virtual shared native failed; do
	make_files "$scratch/$id" 40
done
make_files "$scratch/walking" 600 # at one a second
check 'a volume that is paused' mount_one paused --plugin local --source "$scratch/paused" --converge-rate 1
check 'which is' ctl pause paused
check 'one that is converging' mount_one walking --plugin local --source "$scratch/walking" --converge-rate 1
check 'one that is converged' mount_one held --plugin local --source "$scratch/held" --handoff no
check 'which it is' ctl wait held --for converged --timeout 20
exec 7<>"$scratch/on/held/d0/f1"
check 'one that is virtual' mount_one virtual --plugin local --source "$scratch/virtual" --ownership virtual
check 'two that share a server' mount_one shared --plugin local --source "$scratch/shared" --converge-rate 1
check 'that is the second' mount_one sharing --plugin local --source "$scratch/shared" --converge-rate 1
check 'one that is native' mount_one native --plugin local --source "$scratch/native"
check 'which nothing serves' ctl wait native --for native --timeout 20
check 'one whose servers die' mount_one failed --plugin local --source "$scratch/failed" --converge-rate 1
check 'until it is given up' kill_until_failed failed
served='failed held paused shared sharing virtual walking'
pids() {
	local id

	for id in $served; do
		printf '%s ' "$(of_server "$id" pid)"
	done
}

echo '# programs that are no good'
is_refused() {
	local words=$1

	refuses 1 'could not be followed' upgrade --all && grep -qF -- "$words" "$scratch/stdout" ||
		same "$words" "$(cat "$scratch/stdout")"
}
before=$(pids)
install_program /bin/true fsgroupfs
check 'one that ends at once' is_refused 'the new server died while it was starting'
check_same 'is tried once' 6 "$(grep -c 'not tried' "$scratch/stdout")"
echo text >"$programs/fsgroupfs"
check 'one that is none' is_refused 'Exec format error'
chmod 777 "$programs/fsgroupfs"
check 'one that everybody can write' refuses 1 'can be written by others than root' upgrade --all
rm "$programs/fsgroupfs"
check 'none at all' refuses 1 'No such file' upgrade --all
check_same 'all go on as they were' "$before" "$(pids)"
check_same 'which status says' "$version" "$(of_server held version)"

daemon_says() {
	"$helpers/call" '{"command": "ping"}' | jq -r ".result.$1"
}
daemon_stays() {
	refuses 1 "$1" upgrade --all && same "$version $pid" "$(daemon_says program) $(daemon_says pid)"
}
echo '# a daemon that is no good'
install_program "$BIN/fsgroupfs" fsgroupfs
pid=$(daemon_says pid)
install_program /bin/true fsgroup-mountd
check 'another program' daemon_stays 'is no fsgroup-mountd'
install_program /bin/false fsgroup-mountd
check 'one that fails' daemon_stays 'the new daemon cannot start'
echo text >"$programs/fsgroup-mountd"
check 'none at all' daemon_stays 'Exec format error'
chmod 777 "$programs/fsgroup-mountd"
check 'one that everybody can write' daemon_stays 'can be written by others than root'
install_program "$scratch/newer/fsgroup-mountd" fsgroup-mountd
mv "$FSGROUPFS_ROOT/var/lib/fsgroupfs/store.db" "$scratch/store.db"
mkdir "$FSGROUPFS_ROOT/var/lib/fsgroupfs/store.db"
check 'one that cannot use the store' daemon_stays 'the new daemon cannot start: the store'
rmdir "$FSGROUPFS_ROOT/var/lib/fsgroupfs/store.db"
mv "$scratch/store.db" "$FSGROUPFS_ROOT/var/lib/fsgroupfs/store.db"

echo '# a newer daemon, and clients all the while'
client() {
	local target=$scratch/on/client$1 i

	mkdir -p "$target"
	while [ ! -e "$scratch/enough" ]; do
		timeout 60 "$BIN/fsgroupctl" mount --plugin emptyDir --target "$target" --fsgroup "$GROUP" || return
		timeout 60 "$BIN/fsgroupctl" status --json "$target" || return
		timeout 60 "$BIN/fsgroupctl" unmount "$target" || return
	done >"$scratch/client$1.out" 2>&1
}
clients=()
for i in 1 2 3; do
	client "$i" &
	clients+=("$!")
done
timeout 600 "$BIN/fsgroupctl" wait paused --for native --timeout 600 >"$scratch/waiting" 2>&1 &
waiting=$!
check 'takes the place of the daemon' upgrade --all
check_same 'which is said' "daemon $version, now $newer" "$(grep ^daemon "$scratch/said")"
check_same 'in its process' "$newer $pid" "$(daemon_says program) $(daemon_says pid)"
check 'and once more' upgrade --all
touch "$scratch/enough"
all_were_served() {
	local client i=0

	for client in "${clients[@]}"; do
		i=$((i + 1))
		wait "$client" || same '' "$(cat "$scratch/client$i.out")" || return
	done
}
check 'no client has seen anything of it' all_were_served
check_same 'volumes are what they were' "presented converged $served" "$(state_of paused) $(state_of held) $(
	ctl list --json | jq -r '[.[] | select(.server != null) | .id] | sort | join(" ")')"
install_program "$BIN/fsgroup-mountd" fsgroup-mountd
check 'there is a way back' upgrade --all
check_same 'which is one' "$version $pid" "$(daemon_says program) $(daemon_says pid)"
check 'the log goes on' grep -q "version=$newer" "$FSGROUPFS_ROOT/var/lib/fsgroupfs/mountd.log"
kill "$waiting"
wait "$waiting" || true
check 'who waited for a volume has waited on' fails test -s "$scratch/waiting"

echo '# a newer one'
install_program "$scratch/newer/fsgroupfs" fsgroupfs
check 'for one volume' upgrade --volume paused
check_same 'is said' "paused: server $version, now $newer" "$(cat "$scratch/said")"
check_same 'by status' "$newer $version 0 true" \
	"$(field_of paused '.server | "\(.version) \(.keeperVersion) \(.restarts) \(.upgrades > 0)"')"
check_same 'which is what it was' presented "$(state_of paused)"
check_same 'the others are not' "$version" "$(of_server held version)"
check 'for what nothing serves there is nothing to do' upgrade --volume native
check 'which is said' grep -qF 'nothing serves it' "$scratch/stderr"
check 'for no volume there is none' refuses 4 nope upgrade --volume nope
check 'for all' upgrade --all --json
check_same 'is said of each' "$served" "$(jq -r '[.servers[] | select(.error == null) | .volume] | sort | join(" ")' "$scratch/said")"
all_are_new() {
	local id

	for id in $served; do
		same "$newer" "$(of_server "$id" version)" || return
	done
}
check 'and so it is' all_are_new
check_same 'those that share a server do so' "$(of_server shared pid)" "$(of_server sharing pid)"
check_same 'what was given up is served' 7 "$(cat "$scratch/on/failed/d0/f7")"
printf 'more\n' >&7
check_same 'what was open is written' more "$(tail -c 5 "$scratch/held/d0/f1")"
exec 7>&-
has_event() {
	ctl events --json | jq -ers --arg kind "$1" --arg message "$2" '[.[] | if type == "array" then .[] else . end |
		select(.kind == $kind and .message == $message)] | length > 0' >"$scratch/answer"
}
# A new program is on trial for some seconds.
kill -9 "$(of_server virtual pid)"
check_same 'one that dies soon after is followed by the one before' "0:$GROUP:660" "$(attributes "$scratch/on/virtual/d0/f2")"
has_version() { [ "$(of_server virtual version)" = "$version" ]; }
check 'which status says' within 20 has_version
check 'and an event' within 20 has_event upgrade-failed "server $newer has died, server $version serves again"
check_same 'what is virtual is so' "virtual 0:$GROUP:660" "$(state_of virtual) $(attributes "$scratch/on/virtual/d0/f1")"
check 'the walk goes on' ctl converge walking --rate max
check 'to the end' ctl wait walking --for native --timeout 30
check 'and all is right' is_right "$scratch/walking"
check 'events say so of servers' has_event upgraded "server $version was followed by $newer"
check 'and of the daemon' has_event daemon-upgraded "daemon $version makes place for $newer"

check 'unmount' ctl unmount --all
check 'nothing is left' nothing_mounted
end_volume_test
