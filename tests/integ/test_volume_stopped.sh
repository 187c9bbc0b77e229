#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Nothing of ours waits for what it is to help: every command of fsgroupctl returns within two seconds while an overlay's
# server is stopped, its keeper too, or the server waits in the kernel for a frozen file system. One that cannot be
# ended is said to be `failed`, and nothing comes in its place before it has ended. Needs root, /dev/fuse, loop devices.
set -euo pipefail
# shellcheck source=tests/integ/lib_volume.sh
. "$(dirname "$0")/lib_volume.sh"
own_mounts "$0" "$@"
need_root
need_fuse
need_tools jq mkfs.ext4 fsfreeze
start_volume_test

pod=$scratch/pod
volume=$scratch/ext4
frozen=
mkdir "$pod" "$scratch/second" "$scratch/objects"
VOLUME_SIZE=64M make_volume ext4 ext4
make_files "$volume/data" 200
mkdir "$volume/data/empty"
printf '{"name": "v", "local": {"path": "%s"}}' "$volume/data" >"$scratch/spec"
printf '[]' >"$scratch/dump"

thaw() {
	[ -z "$frozen" ] || fsfreeze -u "$volume"
	frozen=
}
freeze() {
	fsfreeze -f "$volume" && frozen=1
}
trap 'status=$?; set +e; thaw; (exit "$status"); clean_up_volumes' EXIT

volumes_are_gone() { [ "$(mounts_below "$scratch") $(overlay_pids) $(ctl list --json | jq -c .)" = "$volume  []" ]; }
server() { field_of vol .server.pid; }
keeper_of() { ps -o ppid= -p "$1" | tr -d ' '; }
state_letter() { sed 's/.*) \(.\).*/\1/' "/proc/$1/stat"; }
until_true() {
	local end=$((SECONDS + ${1}))

	shift
	until "$@"; do
		((SECONDS < end)) || return 1
		sleep 0.05
	done
}

# Each command of --help has its row: what it is called with. A row that wants nothing of the volume is there all the
# same. What they answer is not the point. `upgrade` waits for the server to give way, for some seconds.
rows() {
	cat <<-END
		status
		status vol
		status $pod
		status $pod/d1
		status $pod/d1/unknown
		list
		events
		explain $pod/d1/f100
		explain $pod
		doctor
		config check
		metrics
		help status
		completion bash
		wait vol --for converged --timeout 100ms
		pause vol
		resume vol
		converge vol
		converge vol --rate 1
		recover vol
		update vol --fsgroup 4243
		update vol --converge-rate 2
		update vol --spec $scratch/spec
		refresh vol
		reconstruct
		reconstruct --dry-run
		store check
		store dump
		store restore $scratch/dump
		stage --spec $scratch/spec --device /dev/null
		unstage vol
		mount --plugin local --source $volume/data --target $pod --fsgroup $GROUP --volume-id vol --handoff no
		mount --plugin local --source $volume/data --target $pod --fsgroup 4243 --volume-id vol
		mount --plugin local --source $volume/data --target $scratch/second --fsgroup 4243 --volume-id second
		mount --plugin local --source $pod/d1 --target $scratch/second --fsgroup $GROUP --volume-id second
		mount --plugin emptyDir --target $pod/empty --fsgroup $GROUP --volume-id below
		mount --plugin emptyDir --target $scratch/second --fsgroup $GROUP --volume-id second
		unmount second
		unmount below
		unmount $pod/d1/unknown
		install-flexvolume $scratch/exec
	END
}

check_same 'every command has a row' '' "$(
	"$BIN/fsgroupctl" --help | sed -n 's/^  \([a-z][a-z-]*\).*/\1/p' | sort -u |
		grep -vxF upgrade | grep -vxFf <(rows | cut -d ' ' -f 1) || true
)"
mkdir "$scratch/exec"

# too_slow PREPARE [ROWS]: runs them; prints those that took too long, or died. PREPARE is called before each.
too_slow() {
	local prepare=$1 row status began took

	while read -r row; do
		"$prepare"
		began=${EPOCHREALTIME/./} status=0
		# shellcheck disable=SC2086
		timeout -s KILL 10 "$BIN/fsgroupctl" $row >"$scratch/stdout" 2>&1 </dev/null || status=$?
		took=$(((${EPOCHREALTIME/./} - began) / 1000))
		[ -z "${TOOK:-}" ] || printf '# %5d ms, status %d: %s: %s\n' "$took" "$status" "$row" \
			"$(head -n 1 "$scratch/stdout" | cut -c1-150)" >&2
		if ((took >= 2000 || status >= 124)); then
			printf '%d ms, status %d: fsgroupctl %s\n' "$took" "$status" "$row"
		fi
	done < <("${2:-rows}")
}
each_command() { rows | grep -v -- "--source $pod/d1" | awk '!seen[$1]++'; }

# With an open file, so that no update of the group replaces the overlay.
mount_it() {
	ctl mount --plugin local --source "$volume/data" --target "$pod" --fsgroup "$GROUP" --volume-id vol --handoff no \
		--converge-rate 1 && exec 9<"$pod/d0/f0"
}

# ---- a server that is stopped ----

check 'mount' mount_it
stopped=$(server)
keeper=$(keeper_of "$stopped")
# After a while the keeper replaces a server that is stopped.
stop_server() {
	if [ "$(ps -o ppid= -p "$stopped" 2>/dev/null | tr -d ' ')" != "$keeper" ]; then
		stopped=$(pgrep -P "$keeper" | head -n 1)
	fi
	stop_process "$stopped"
}
server_is_stopped() { stop_server && same T "$(state_letter "$stopped")"; }
check_same 'no command waits for a server that is stopped' '' "$(too_slow stop_server)"
# Where this took longer than the keeper waits, another server may have let a mount be made below.
kill -CONT "$(pgrep -P "$keeper" | head -n 1)" || true
"$BIN/fsgroupctl" unmount below >"$scratch/stdout" 2>&1 || true
check 'it is stopped still, or another by now' within 20 server_is_stopped
exec 9<&-
unmounts_in_time() {
	timeout 6 "$BIN/fsgroupctl" unmount vol 2>"$scratch/stderr" && return
	sed 's/^/#  /' "$scratch/stderr"
	return 1
}
# To wait for it would take ten.
check 'and the volume is unmounted in some seconds' unmounts_in_time
check 'nothing is left' until_true 20 volumes_are_gone

# ---- and its keeper, too ----

check 'mount' mount_it
stopped=$(server)
keeper=$(keeper_of "$stopped")
stop_both() {
	stop_server
	stop_process "$keeper"
}
check_same 'nor for a keeper' '' "$(too_slow stop_both each_command)"
exec 9<&-
kill_daemon KILL
check_same 'nor does a daemon that starts' '' "$(only_list() { echo list; } && too_slow stop_both only_list)"
begin_unmount() { timeout 6 "$BIN/fsgroupctl" unmount vol >"$scratch/stdout" 2>"$scratch/stderr"; }
check_fails 'unmount does not wait, either' begin_unmount
check 'it says why' grep -q 'its keeper is stopped' "$scratch/stderr"
check_same 'nothing is at the target' '' "$(mounts_below "$pod")"
kill -CONT "$keeper" "$stopped"
check 'when they go on the tear-down does' until_true 20 volumes_are_gone

# ---- a server that waits in the kernel ----

check 'mount' mount_it
stopped=$(server)
keeper=$(keeper_of "$stopped")
check 'the file system is frozen' freeze
touch "$pod/d1/new" &
toucher=$!
waits_in_kernel() { grep -qs '^[0-9]* (.*) D ' /proc/"$1"/task/*/stat; }
check 'its server waits for it' until_true 10 waits_in_kernel "$stopped"
check_same 'no command waits with it' '' "$(too_slow true each_command)"
exec 9<&-
kill -9 "$stopped"
has_state() { [ "$(state_of vol)" = "$1" ]; }
check 'killed, it cannot end: the volume has failed' until_true 25 has_state failed
check_same 'which status explains' 'server cannot be ended: it waits in the kernel' "$(field_of vol .reason)"
check_same 'nothing comes in its place before it has ended' "$stopped" "$(pgrep -P "$keeper")"
thaw
check 'when it has the volume comes back' until_true 20 has_state converging
check 'what was asked for is done' wait "$toucher"
check_same 'once' "0:$GROUP:644" "$(attributes "$volume/data/d1/new")"
check 'frozen again' freeze
touch "$pod/d1/newer" &
toucher=$!
stopped=$(server)
check 'its server waits for it' until_true 10 waits_in_kernel "$stopped"
begin_unmount() { timeout 6 "$BIN/fsgroupctl" unmount "$@" vol >"$scratch/stdout" 2>"$scratch/stderr"; }
check 'a lazy unmount does not wait for it' begin_unmount --lazy
thaw
wait "$toucher" || true
check 'and all ends with it' until_true 20 volumes_are_gone
umount "$volume"
end_volume_test
