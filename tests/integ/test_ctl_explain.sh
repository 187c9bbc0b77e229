#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# fsgroupctl explain: why a file is shown as it is, and what keeps a volume from being native; asked of servers that are
# stopped, over hostile names. Needs root and /dev/fuse.
set -euo pipefail
# shellcheck source=tests/integ/lib_volume.sh
. "$(dirname "$0")/lib_volume.sh"
need_root
need_fuse
need_tools jq setfacl chattr
own_mounts "$0" "$@"
start_volume_test

pod=$scratch/pod data=$scratch/data
mkdir "$pod"
make_files "$data" 300
mkdir "$data/keep"
touch "$data/keep/file" "$data/a.key" "$data/acl" "$data/stuck" "$data/"$'bad\nname=1'
mkfifo "$data/fifo"
ln -s d0 "$data/link"
chmod 600 "$data"/{a.key,acl,stuck}
setfacl -m u:1000:rw "$data/acl"

# entry PATH JQ: of the file's entry. because PATH REASON: its reason.
entry() { ctl explain "$1" --json | jq -r ".entry | $2"; }
because() { same "$2" "$(entry "$1" .reason)"; }

# ---- while a run is on ----

check 'mount, and hold the walk' ctl mount --plugin local --source "$data" --target "$pod" --fsgroup "$GROUP" \
	--exclude '*.key' --exclude 'keep/**' --converge-rate 1 --volume-id v
ctl pause v
touch "$pod/created"
chmod 604 "$pod/d1/f100"
check 'a file that the walk has not come to' because "$pod/d2/f299" pending
check_same 'with what is on disk and what is shown' "file 0 0640 $GROUP 0660" \
	"$(entry "$pod/d2/f299" '"\(.type) \(.gid) \(.mode) \(.shownGid) \(.shownMode)"')"
check_same 'which is what is there' "0:640 $GROUP:660" "$(stat -c %g:%a "$data/d2/f299" "$pod/d2/f299" | paste -sd ' ')"
check 'one that a user made' because "$pod/created" created
check 'one that a user changed' because "$pod/d1/f100" changed
check_same 'is shown as it is' "$GROUP 0604 $GROUP 0604" \
	"$(entry "$pod/d1/f100" '"\(.gid) \(.mode) \(.shownGid) \(.shownMode)"')"
check 'one that is left out' because "$pod/a.key" excluded
check_same 'by which pattern' '*.key' "$(entry "$pod/a.key" .pattern)"
check_same 'below an excluded directory' 'keep/**' "$(entry "$pod/keep/file" .pattern)"
check_same 'an ACL is told' 'true false' "$(entry "$pod/acl" .acl) $(entry "$pod/stuck" .acl)"
check_same 'a FIFO is not opened' fifo "$(entry "$pod/fifo" .type)"
check_same 'a link is itself' "symlink $GROUP" "$(entry "$pod/link" '"\(.type) \(.shownGid)"')"
check 'and is not followed' refuses 1 'links are not followed' explain "$pod/link/f0"
check 'nor is ..' refuses 1 "'..' below a target" explain "$pod/d0/../d1"
check 'a name with a line break' because "$pod/"$'bad\nname=1' pending
check 'is one line of the answer' grep -qF 'bad\x0aname=1' <(ctl explain "$pod/"$'bad\nname=1')
check 'a name that is not there' refuses 1 'nothing: No such file' explain "$pod/d0/nothing"
check 'one that is too long' refuses 1 'File name too long' explain "$pod/$(printf 'x%.0s' {1..300})"
long=$(printf 'd/%.0s' {1..2500})
check 'a path that is too long' refuses 1 '' explain "$pod/$long"
check 'a path in no volume' refuses 4 'no volume' explain "$scratch/elsewhere"
check 'not even one' refuses 2 'PATH is missing' explain
ln -s "$scratch" "$scratch/way"
check 'a link above the target is followed' because "$scratch/way/pod/d2/f299" pending
(cd "$pod" && check 'a path from where one stands' because d2/f299 pending)
check 'for people' grep -q '^  because     shown as wanted' <(ctl explain "$pod/d2/f299")

# ---- what keeps it from being native ----

obstacles() { ctl explain "$pod" --json | jq -r ".obstacles | map(select(.kind == \"$1\") | .text) | .[]"; }
check 'a target says what is left of the walk' grep -q 'paused' <(obstacles walk)
chattr +i "$data/stuck"
ctl resume v
ctl converge v --rate max
walked() {
	ctl wait v --for converged --timeout 60 && return
	{ cat "$scratch/stderr"; ctl status v; ctl events; } | sed 's/^/#  /'
	return 1
}
check 'the walk is done' walked
check 'a file that could not be changed' because "$pod/stuck" pending
check_same 'with its error' 'Operation not permitted' "$(entry "$pod/stuck" .failure)"
check_same 'a target lists them' 'stuck: Operation not permitted' "$(obstacles failure)"
check 'and what is left out' grep -q 'entries are left out: \["\*.key","keep/\*\*"\]' <(obstacles excluded)
chattr -i "$data/stuck"

# A copy of the mount in another namespace, and a process with an open file.
exec {held}>"$pod/held"
coproc OTHER { exec unshare -m --propagation private sh -c 'echo ready; read -r _'; }
other=$OTHER_PID
read -r _ <&"${OTHER[0]}"
check 'who has it open' grep -q "process $$ (.*) uses it: .*file" <(obstacles holder)
check 'by program' jq -e --argjson pid "$$" '.obstacles | any(.pid == $pid and (.program | startswith("test_ctl")))' \
	<(ctl explain "$pod" --json)
check 'who has a copy of the mount, and where' grep -q "mounted at $pod in the mount namespace of process $other " \
	<(obstacles copy)
echo >&"${OTHER[1]}"
wait "$other" || true
exec {held}>&-

# ---- a server that does not answer ----

server=$(field_of v .server.pid)
keeper=$(awk '/^PPid/ { print $2 }' "/proc/$server/status")
in_time() { timeout 6 "$BIN/fsgroupctl" "$@" 2>"$scratch/stderr"; }
check_same 'explain goes by the server in play' "$server" "$(pgrep -P "$keeper" | head -n 1)"
for pid in "$server" "$keeper"; do
	stop_process "$pid"
	status=0
	in_time explain "$pod/d0" || status=$?
	check_same 'stopped: the answer comes in time, and is a failure' 1 "$status"
	check 'which says why' grep -q 'does not answer' "$scratch/stderr"
	[ "$pid" = "$keeper" ] ||
		check 'of the target all else is told' grep -q 'left out' <(in_time explain "$pod")
	kill -CONT "$pid"
	check 'and it goes on' because "$pod/d0" right
done
ctl unmount v

# ---- the other states ----

# These change nothing any more.
rm -rf "$data/keep" "$data/a.key" "$data/stuck"
check 'mount' ctl mount --plugin local --source "$data" --target "$pod" --fsgroup 4243 --handoff no --volume-id v
check 'converged' ctl wait v --for converged --timeout 30
check 'a run that is over' because "$pod/d0/f0" over
check 'handoff=no is named' grep -q handoff=no <(obstacles handoff)
ctl unmount v
check 'mount' ctl mount --plugin local --source "$data" --target "$pod" --fsgroup 4244 --volume-id v
check 'native' ctl wait v --for native --timeout 30
check 'a native file' because "$pod/d0/f0" native
check_same 'has what is on disk' "4244 0660 4244 0660" "$(entry "$pod/d0/f0" '"\(.gid) \(.mode) \(.shownGid) \(.shownMode)"')"
check_same 'and nothing is in its way' '[]' "$(ctl explain "$pod" --json | jq -c .obstacles)"
check 'no link is followed there' refuses 1 'links are not followed' explain "$pod/link/f0"

# A volume inside another.
mkdir "$data/inner" "$scratch/inner"
touch "$scratch/inner/file"
check 'one mounted inside it' ctl mount --plugin local --source "$scratch/inner" --target "$pod/inner" --fsgroup 4245 \
	--ownership virtual --volume-id inner
check_same 'is the one that is asked' inner "$(ctl explain "$pod/inner/file" --json | jq -r .volume)"
check 'for ever' because "$pod/inner/file" virtual
check_same 'the outer one has its own files' v "$(ctl explain "$pod/d0/f0" --json | jq -r .volume)"
ctl unmount inner
ctl unmount v
check 'of what is unmounted there is nothing to tell' refuses 4 'no volume' explain "$pod/d0"
end_volume_test
