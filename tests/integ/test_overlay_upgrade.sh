#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Needs root, /dev/fuse and loop devices.
#
# Another program takes over from the server that serves: nobody who works on the tree gets an error, nothing is lost or
# happens twice, and what is open, mapped, locked or being listed goes on. A program that cannot take over is refused
# while the old one serves on, and one that fails when it takes over, or soon after, is followed by the old one.
# shellcheck disable=SC2317 # functions are called through check
# shellcheck source=tests/integ/lib.sh
. "$(dirname "$0")/lib.sh"
own_mounts "$0" "$@"
need_root
need_fuse
need_tools mkfs.ext4 losetup flock fsfreeze
start_test

gid=4242
once=$helpers/once
make_volume ext4 volume
lower=$scratch/volume/lower
target=$scratch/target
mkdir "$target"

# Programs to change to: versions are texts of equal length in a copy of the program.
version=$("$fsgroupfs" --version | cut -d ' ' -f 2)
newer=$(tr 0-9 7 <<<"$version")
cp "$fsgroupfs" "$scratch/newer"
LC_ALL=C sed -i "s/${version//./\\.}/$newer/g" "$scratch/newer"
cp "$fsgroupfs" "$scratch/same"
for kind in exit mute take freeze late; do
	cp "$helpers/impostor" "$scratch/impostor-$kind"
done
echo 'no program' >"$scratch/text"
chmod 755 "$scratch"/{newer,same,impostor-*,text}

begin() {
	rm -rf "$lower"
	mkdir -p "$lower/dir" "$lower/many"
	(cd "$lower" && touch a b c d dir/x many/entry-with-a-long-name-{1..500})
	for file in a b c d dir/x; do
		printf 'content of %s\n' "$file" >"$lower/$file"
	done
	truncate -s 8192 "$lower/mapped"
	chown -R -h 1000:1000 "$lower"
	chmod -R go= "$lower"
	overlay main "$lower" "$target" "gid=$gid" "$@"
}

finish() {
	check "$1: unmounts, and its processes end" unmounts
}

unmounts() {
	local pids

	pids=$(keeper main get keeper_pid server_pid) || true # after a hand-off they may have ended
	umount "$target" || return
	# shellcheck disable=SC2086
	[ -z "$pids" ] || KEEPER_CTL_TIMEOUT=10 "$helpers/keeper_ctl" gone $pids
}

of() {
	keeper main get "$1"
}

# Overlays of their own for what takes its time.
for name in hanging stopped; do
	mkdir -p "$scratch/$name" "$scratch/on-$name"
	echo content >"$scratch/$name/file"
	overlay "$name" "$scratch/$name" "$scratch/on-$name" "gid=$gid" paused
done
late() {
	local status=0

	"$helpers/keeper_ctl" upgrade "$scratch/run/$1" "$scratch/$2" >"$scratch/$1.answer" || status=$?
	same 1 "$status"
}
late hanging impostor-mute &
late_start=$!
stop_process "$(keeper stopped get server_pid)"
late stopped same &
late_drain=$!

upgrade() {
	upgrade_overlay main "$scratch/$1"
}

# The old server must be there still, and the answer must say why.
is_refused() {
	local program=$1 words=$2 pid

	pid=$(of server_pid)
	fails upgrade "$program" || return
	grep -qF -- "$words" "$scratch/answer" || same "$words" "$(cat "$scratch/answer")" || return
	same "$pid $version" "$(of server_pid) $(of server_version)" && same 'content of a' "$(cat "$target/a")"
}

echo '# what is held goes on'
begin handoff=no paused
first=$(of server_pid)
exec 7<>"$target/a" 8<"$target/b" 9<>"$target/d"
flock -x 9
coproc HELD { "$once" hold "$target/c"; }
held_pid=$HELD_PID held_in=${HELD[1]} held_out=${HELD[0]}
read -r _ <&"$held_out"
wanted=$(stat -c '%i' "$lower/c")
mkfifo "$scratch/map" "$scratch/list"
"$helpers/hold" map "$target/mapped" <"$scratch/map" >"$scratch/map.out" &
map_pid=$!
"$once" list "$target/many" <"$scratch/list" >"$scratch/list.out" &
list_pid=$!
exec 5>"$scratch/map" 6>"$scratch/list"
for out in map list; do
	tail -n +1 -f "$scratch/$out.out" 2>/dev/null | grep -q -m 1 . || true
done
rm "$target/b" "$target/c"
(cd "$target" && as 1000 1000 "$gid" sh -c 'echo text >made; chmod 604 made')
check 'a newer program takes over' upgrade newer
check_same 'which says who it is' "$newer $version 0 1" \
	"$(of server_version) $(of keeper_version) $(of restarts) $(of upgrades)"
check 'the old server ends' "$helpers/keeper_ctl" gone "$first"
check_same 'an open file is read on' 'content of a' "$(cat <&7)"
printf 'and more\n' >&7
check_same 'and written, where it belongs' 'and more' "$(tail -n 1 "$lower/a")"
check_same 'an open file without a name' 'content of b' "$(cat <&8)"
check_fails 'a lock is held' flock -n -x "$target/d" true
check_same 'a file made before keeps its mode' "1000:$gid:604" "$(attributes "$target/made")"
echo >&"$held_in"
read -r got <&"$held_out"
check_same 'a descriptor of a file without a name' "$wanted 0" "$got"
check 'and once more' upgrade same
echo >&"$held_in"
read -r got <&"$held_out"
check_same 'which still stands for it' "$wanted 0" "$got"
exec 5>&- 6>&-
check 'what is mapped is stored' wait "$map_pid"
check_same 'where it belongs' mapped "$(head -c 6 "$lower/mapped")"
check 'a directory is listed on' wait "$list_pid"
check_same 'to its end, each entry once' 502 "$(tail -n 1 "$scratch/list.out")"
exec 7<&- 8<&- 9>&- {held_in}>&-
wait "$held_pid"
kill -9 "$(of server_pid)"
check_same 'a server that dies is followed, as ever' 'content of d' "$(cat "$target/d")"
finish held

echo '# programs that cannot take over'
begin handoff=no paused
check 'no program' is_refused text 'new server: exec: Exec format error'
check 'a directory' is_refused run 'is no program'
chmod 775 "$scratch/same"
check 'one that others can write' is_refused same 'can be written by others'
chmod 755 "$scratch/same"
chown 1000 "$scratch/same"
check 'one that is not root'"'"'s' is_refused same 'belongs to user 1000'
chown 0 "$scratch/same"
check 'one that ends at once' is_refused impostor-exit 'died while it was starting'

# The memory that servers share, as another version would have it: 32 bits at 4 are its layout, and the bytes of INIT
# as it was answered begin after twice 32 and 512.
memory_of() {
	local fd

	for fd in /proc/"$(of keeper_pid)"/fd/*; do
		case $(readlink "$fd") in
		/memfd:fsgroupfs*) printf '%s\n' "$fd" ;;
		esac
	done
}
memory=$(memory_of)
poke() {
	printf "$2" | dd of="$memory" bs=1 seek="$1" conv=notrunc status=none
}
layout=$(od -An -tu1 -j 4 -N 1 "$memory" | tr -d ' ')
poke 4 '\143'
check 'one with another layout of the shared memory' is_refused same 'shared memory: Protocol error'
poke 4 "\\$(printf %o "$layout")"
byte=$(od -An -tu1 -j 560 -N 1 "$memory" | tr -d ' ')
poke 560 '\252'
check 'one that would answer INIT otherwise' is_refused same 'INIT would be answered otherwise'
poke 560 "\\$(printf %o "$byte")"
check 'then it takes over' upgrade same

echo '# programs that fail when they take over'
follows() {
	fails upgrade "$1" || return
	same 'content of a' "$(cat "$target/a")" && grep -qF 'the old program serves' "$scratch/answer" &&
		same "$version" "$(of server_version)"
}
check 'one that ends' follows impostor-take
check 'a newer program takes over' upgrade newer
kill -9 "$(of server_pid)"
check_same 'and dies soon: what users ask for is answered' 'content of b' "$(cat "$target/b")"
check_same 'by the program before' "$version" "$(of server_version)"
check 'upgrades go on' upgrade newer
check_same 'to the newer program' "$newer" "$(of server_version)"

echo '# one that is given up'
keep_dying() {
	local pid before=

	# One that is killed is there for a moment yet: each is killed once.
	while [ "$(of state)" != failed ]; do
		pid=$(of server_pid)
		[ "$pid" != "$before" ] && [ "$pid" != 0 ] || continue
		kill -9 "$pid" || true
		before=$pid
	done
}
check 'servers die' keep_dying
check 'another program brings it back' upgrade same
check_same 'as it was' "presented content of c" "$(of state) $(cat "$target/c")"
finish refused

echo '# an answer that comes too late'
begin handoff=no paused
check 'a server takes over that will be late' upgrade impostor-late
answers_late() {
	fails upgrade same && grep -qF 'does not give way in time' "$scratch/answer"
}
check 'it does not give way in time' answers_late
check 'asked again it does' upgrade same
check_same 'its late answer was not taken for one to the second question: there are never two servers' void \
	"$(cat "$scratch/impostor-late.said")"
check_same 'and the next one serves' 'content of a' "$(timeout 20 cat "$target/a")"
finish late

echo '# while it is converging, and four users work'
begin handoff=no converge_rate=200 paused # not before all is there
for ((d = 0; d < 10; d++)); do
	mkdir "$lower/d$d" && (cd "$lower/d$d" && touch {1..100})
done
chmod 777 "$lower"
keeper main send resume >/dev/null
"$helpers/churn" "$target" 4 "$gid" 11 &
churn=$!
upgrades() {
	local i

	for ((i = 0; i < 12; i++)); do
		upgrade newer && upgrade same || return
		kill -0 "$churn" 2>/dev/null || return
	done
}
check 'programs take over, one after the other' upgrades
kill -TERM "$churn"
check 'whatever was asked for happened once' wait "$churn"
check_same 'no server has died' '0 24' "$(of restarts) $(of upgrades)"
keeper main send rate rate=0 >"$scratch/answer"
check 'the walk gets to the end' keeper main wait state=converged
check_same 'and everything is right' '' "$(find "$lower" ! -gid "$gid")"
finish converging

echo '# each file is changed once, also by a walk that goes on in another server'
begin handoff=no converge_rate=400
check 'it has begun' keeper main wait "changed>=50"
check 'a newer program takes over' upgrade newer
check 'and walks' keeper main wait "changed>=250"
check 'and another' upgrade same
keeper main send rate rate=0 >"$scratch/answer"
check 'to the end' keeper main wait state=converged
check_same 'which is what is there' "$(find "$lower" | wc -l)" "$(of changed)"
finish 'changed once'

echo '# after the hand-off'
begin paused
cd "$target/dir"
check 'it turns native, with a working directory below' turns_native main converge
check 'a newer program takes over' upgrade newer
check_same 'the directory is what it was' 'content of dir/x' "$(cat x)"
cd /
finish 'handed off'

echo '# file data through the page cache, where layers are too many for the kernel'
begin handoff=no
layers=()
below=$target
for layer in 2 3 4; do
	mkdir -p "$scratch/layer$layer"
	overlay "layer$layer" "$below" "$scratch/layer$layer" "gid=$gid" paused handoff=no
	below=$scratch/layer$layer
	layers=("$below" "${layers[@]}")
done
upgrade_top() {
	upgrade_overlay layer4 "$scratch/$1"
}
# Below is an overlay, too: a handle of its file is good for as long as the kernel knows the file, so it is held.
: >"$scratch/layer3/written"
exec 7<"$scratch/layer3/written"
"$once" rewrite "$below/written" 300 &
writer=$!
check 'a newer program takes over while a file is written' upgrade_top newer
check 'and the older again' upgrade_top same
check 'what was written is read, and what is mapped agrees' wait "$writer"
check_same 'by way of the page cache' cached "$(keeper layer4 get data_path)"
exec 7<&-
umount "${layers[@]}"
finish layers

echo '# a walk that ends, with a failure, while its server is to give way, and is asked for again'
make_volume ext4 frozen
frozen=$scratch/frozen/lower
frozen_target=$scratch/on-frozen
clean_more() { fsfreeze -u "$scratch/frozen" 2>/dev/null; }
mkdir "$frozen" "$frozen_target"
echo content >"$frozen/fixed"
chattr +i "$frozen/fixed"
overlay frozen "$frozen" "$frozen_target" "gid=$gid" paused handoff=no
# The root's turn is a second after the file's: a pause stops it in time, to freeze may take longer.
keeper frozen send rate rate=1 >"$scratch/answer"
keeper frozen send resume >"$scratch/answer"
frozen_server=$(keeper frozen get server_pid)
check 'the immutable file fails' keeper frozen wait failed=1
keeper frozen send pause >"$scratch/answer"
check 'and nothing walks' keeper frozen wait state=presented
fsfreeze -f "$scratch/frozen"
keeper frozen send resume >"$scratch/answer"
waits_at_root() {
	local task

	for task in "/proc/$frozen_server/task"/*; do
		! grep -q ') D ' "$task/stat" || return 0
	done
	return 1
}
# In pthread_join(2), which is a futex(2): for the walk to end.
is_giving_way() { grep -q '^futex' "/proc/$frozen_server/wchan"; }
check 'the walk waits for the disk' within 20 waits_at_root
"$helpers/keeper_ctl" upgrade "$scratch/run/frozen" "$scratch/same" >"$scratch/frozen.answer" 2>&1 &
frozen_upgrade=$!
check 'and the server for the walk' within 20 is_giving_way
keeper frozen send converge >"$scratch/answer"
keeper frozen send pause >"$scratch/answer"
check_fails 'it is not followed' wait "$frozen_upgrade"
fsfreeze -u "$scratch/frozen"
check 'it walks again, as it was asked to' keeper frozen wait state=presented
sleep 0.2 # what must not happen has no event
check_same 'and nothing is concluded from the walk before' '' "$(keeper frozen send status | grep '^reason=' || true)"
check_same 'what is pending is shown' "0:$gid:664" "$(attributes "$frozen_target/fixed")"
chattr -i "$frozen/fixed"
keeper frozen send converge >"$scratch/answer"
check 'and converged' keeper frozen wait state=converged
check_same 'for real' "0:$gid:664 0" "$(attributes "$frozen/fixed") $(keeper frozen get failed)"
umount "$frozen_target"
umount "$scratch/frozen"

echo '# a program that is never ready, and a server that does not give way'
check 'the program is given up' wait "$late_start"
check 'which is said' grep -qF 'the new server is not ready in time' "$scratch/hanging.answer"
check_same 'and the old one serves' content "$(cat "$scratch/on-hanging/file")"
check 'the stopped server is not followed' wait "$late_drain"
check 'which is said, too' grep -qF 'does not give way in time' "$scratch/stopped.answer"
kill -CONT "$(keeper stopped get server_pid)"
check_same 'when it goes on, it serves' content "$(timeout 20 cat "$scratch/on-stopped/file")"
check 'and gives way' "$helpers/keeper_ctl" upgrade "$scratch/run/stopped" "$scratch/same" >"$scratch/answer"
umount "$scratch"/on-{hanging,stopped}
end_test
