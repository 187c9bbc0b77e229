#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Volumes, their daemon and their overlays as an ordinary user has them, in a user namespace; what README.md shows of it.
# Needs root (to become one with a range of ids), /dev/fuse, and user namespaces.
# shellcheck disable=SC2317 # functions are called through check
# shellcheck source=tests/integ/lib.sh
. "$(dirname "$0")/lib.sh"

show_readme() {
	# shellcheck source=tests/integ/lib_document.sh
	. "$(dirname "$0")/lib_document.sh"
	commands_of "$1" userns >"$scratch/commands"
	check 'README.md shows how' test -s "$scratch/commands"
	check 'as it says' env SCRATCH="$scratch/readme" PATH="$BIN:$PATH" bash -c '. "$0" && mkdir "$SCRATCH" && run_commands "$1"' \
		"$(dirname "$0")/lib_document.sh" "$scratch/commands"
	FSGROUPFS_ROOT=$scratch/readme/root kill_daemon TERM
}

inside() {
	start_volume_test
	local pod=$scratch/pod data=$scratch/data first

	show_readme "$(dirname "$0")/README.md"
	mkdir "$pod"
	make_files "$data" 300

	check 'a local volume' ctl mount --plugin local --source "$data" --target "$pod" --fsgroup "$GROUP" --volume-id v --handoff no
	check_same 'its group is shown' "$GROUP" "$(stat -c %g "$pod/d0/f1")"
	check_same 'its data goes through the page cache' cached "$(field_of v .server.dataPath)"
	check_same 'a member writes' '' "$(as 1500 1500 "$GROUP" sh -c 'echo more >>"$1/d0/f1"' _ "$pod" 2>&1)"
	check_same 'its server cannot be followed, and why' 'file handles cannot be opened here' "$(field_of v .server.noFailover)"
	first=$(daemon_pid)
	kill_daemon KILL
	check 'a killed daemon is followed by another' ctl wait v --for converged --timeout 30
	check_fails 'which is not the same' same "$first" "$(daemon_pid)"
	check 'and has adopted the overlay' same 0 "$(field_of v .server.restarts)"
	check 'what is on disk is right' is_right "$data"
	mkdir "$scratch/second"
	check 'another group at the same time' ctl mount --plugin local --source "$data" --target "$scratch/second" --fsgroup 4243 \
		--conflict virtual --volume-id other
	check_same 'is shown' 4243 "$(stat -c %g "$scratch/second/d0/f1")"
	check 'unmount' ctl unmount other
	check 'unmount' ctl unmount v

	check 'an emptyDir in memory' ctl mount --plugin emptyDir --source '{"medium": "Memory"}' --target "$pod" --fsgroup "$GROUP"
	check_same 'is a tmpfs' tmpfs "$(stat -fc %T "$pod")"
	check_same 'of the group' "$GROUP" "$(stat -c %g "$pod")"
	check 'unmount' ctl unmount "$pod"
	echo '{"secret": {"secretName": "db"}}' >"$scratch/volume.json"
	echo '{"kind": "Secret", "metadata": {"name": "db"}, "stringData": {"key": "old"}}' >"$scratch/objects.json"
	check 'a secret' ctl mount --spec "$scratch/volume.json" --objects "$scratch/objects.json" --target "$pod" --fsgroup "$GROUP"
	check_same 'is there' "old $GROUP" "$(cat "$pod/key") $(stat -Lc %g "$pod/key")"
	sed -i s/old/new/ "$scratch/objects.json"
	check_same 'is refreshed' changed "$(ctl refresh "$pod" --objects "$scratch/objects.json")"
	check_same 'and new' new "$(cat "$pod/key")"
	end_volume_test
}

case ${1:-} in
inside)
	# shellcheck source=tests/integ/lib_volume.sh
	. "$(dirname "$0")/lib_volume.sh"
	inside
	;;
esac

need_root
need_fuse
need_tools unshare setpriv newuidmap newgidmap jq
unshare -Ur true 2>/dev/null || skip 'needs user namespaces'
own_mounts "$0" "$@"
# shellcheck source=tests/integ/lib_user.sh
. "$(dirname "$0")/lib_user.sh"
start_test
make_user "$0" "$repository"/tests/integ/lib_*.sh "$repository/README.md"
check 'in a user namespace with a range of ids' as_user unshare --map-auto -Urm "$user_tests/$(basename "$0")" inside
check_same 'nothing is left behind' '' "$(ls "$user_tmp")"
end_test
