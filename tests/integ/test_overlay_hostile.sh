#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Needs root, /dev/fuse and loop devices.
# timeout: 600
#
# A server that runs as root over a tree that is in somebody else's hands: nothing outside the volume is
# read, changed or made; nothing of the tree is believed; what the tree does to its own overlay does not
# reach any other; and what a server keeps for itself is no more than it says.
# shellcheck disable=SC2317 # functions are called through check
# shellcheck disable=SC2016 # scripts for other shells
# shellcheck source=tests/integ/lib.sh
. "$(dirname "$0")/lib.sh"
need_root
need_fuse
need_tools mkfs.ext4 losetup setpriv setfattr getfattr mkfifo perl
own_mounts "$0" "$@"
start_test

gid=4242
rounds=1500

# A file system with inodes for all of this, on which every read leaves its time.
volume=$scratch/volume
mkdir "$volume"
truncate -s 1G "$volume.img"
mkfs.ext4 -q -F -b 4096 -N 400000 "$volume.img"
loop=$(losetup --find --show "$volume.img")
loops+=("$loop")
mount -o strictatime "$loop" "$volume"
chmod 755 "$volume"
outside=$volume/outside
lower=$volume/lower
target=$scratch/target
mkdir "$target" "$scratch/target2"

# ---- helpers that run beside ----

# start NAME COMMAND...: until stop NAME, which prints all that it says; the last one started stops first.
declare -A inputs outputs pids
start() {
	local name=$1 in out ready

	shift
	mkfifo "$scratch/$name.in"
	exec {out}< <(exec "$@" <"$scratch/$name.in")
	pids[$name]=$!
	exec {in}>"$scratch/$name.in"
	rm "$scratch/$name.in"
	inputs[$name]=$in
	outputs[$name]=$out
	read -r -u "$out" ready
	[ "$ready" = ready ] || printf '#  %s: %s\n' "$name" "$ready"
}

stop() {
	local name=$1 in=${inputs[$1]} out=${outputs[$1]}

	exec {in}>&-
	cat <&"$out"
	exec {out}<&-
	wait "${pids[$name]}" || printf 'ended with an error\n'
}

# Nothing holds the overlay any more: so its processes end.
unmount() {
	umount "$1" && no_process_stays
}

server_pid() {
	keeper "$1" get server_pid
}

# The most memory a process ever had, in MiB.
peak() {
	awk '$1 == "VmHWM:" { print int($2 / 1024) }' "/proc/$1/status"
}

# ---- what must not be touched ----

make_canaries() {
	mkdir -p "$outside/dir" "$lower/trap"
	for dir in "$outside" "$outside/dir" "$lower/trap"; do
		printf 'CANARY\n' | tee "$dir/canary" "$dir/file" "$dir/other" "$dir/f" >"$dir/n0"
		mkdir -p "$dir/n1" "$dir/d"
		setfattr -n user.canary -v canary "$dir/file"
	done
	# The trap lies in the volume: it is right already, so that the walk leaves it alone.
	chown -R 31337:31337 "$outside"
	chown -R "31337:$gid" "$lower/trap"
	chmod -R u=rwX,g=rX,o= "$outside"
	find "$lower/trap" -type d -exec chmod 2770 {} +
	find "$lower/trap" -type f -exec chmod 660 {} +
	find "$outside" "$lower/trap" -exec touch -h -d 2001-01-01 {} +
	find "$outside" -print0 >"$scratch/outside.list"
	find "$lower/trap" -print0 >"$scratch/trap.list"
}

# By the list: reading the directories would leave its own time on them.
describe_outside() {
	xargs -0 stat -c '%n %F %s %u:%g:%a %h %X.%x %Y.%y %Z.%z' <"$scratch/outside.list"
}

describe_trap() {
	xargs -0 stat -c '%n %F %s %u:%g:%a %h %Y.%y %Z.%z' <"$scratch/trap.list"
}

contents() {
	find "$1" | sort
	find "$1" -type f -exec getfattr -h -d -m - --absolute-names {} + -exec cat {} +
}

untouched() {
	describe_outside >"$scratch/got"
	same_files "$scratch/outside.before" "$scratch/got" || return 1
	describe_trap >"$scratch/got"
	same_files "$scratch/trap.before" "$scratch/got"
}

mkdir "$lower"
make_canaries
"$helpers/attacker" prepare "$lower" "$outside"
describe_outside >"$scratch/outside.before"
describe_trap >"$scratch/trap.before"
contents "$outside" >"$scratch/outside.contents" # leaves its times: taken back
xargs -0 touch -h -d 2001-01-01 <"$scratch/outside.list"
describe_outside >"$scratch/outside.before"
mapfile -d '' -t watched <"$scratch/outside.list"

echo '# the tree changes under everything that a consumer does'
start watch "$helpers/attacker" watch "${watched[@]}"
start swap "$helpers/attacker" swap "$lower"
consume() {
	local status=0 consumer
	local -A consumers

	"$helpers/attacker" consume "$target" "$rounds" >"$scratch/root.log" &
	consumers[root]=$!
	as 1500 1500 "$gid" "$helpers/attacker" consume "$target" "$rounds" >"$scratch/user.log" &
	consumers[user]=$!
	for consumer in root user; do
		wait "${consumers[$consumer]}" || {
			status=$?
			echo "ended with status $status" >>"$scratch/$consumer.log"
		}
		sed "s/^/# $consumer: /" "$scratch/$consumer.log"
	done
	return "$status"
}
overlay main "$lower" "$target" "gid=$gid" paused
first_server=$(server_pid main)
check "$rounds rounds of every operation, by root and by a member" consume
check 'nothing outside is touched' untouched
check_same 'the server is the same' "$first_server 0" "$(keeper main get server_pid restarts | tr '\n' ' ' | sed 's/ $//')"
check "unmounts, and its processes end" unmount "$target"
overlay main "$lower" "$target" "gid=$gid" ownership=virtual
rounds=500
check 'the same in a virtual view' consume
check "unmounts, and its processes end" unmount "$target"
check 'nothing outside is touched' untouched

echo '# under the walk'
walks() {
	local i

	for ((i = 0; i < 15; i++)); do
		# Another group each time: something is to be done everywhere but in the trap, which is left out.
		overlay main "$lower" "$target" "gid=$((gid + i))" handoff=no exclude=/trap || return 1
		keeper main wait state=converged || return 1
		unmount "$target" || return 1
	done
}
check '15 walks through a tree that changes' walks
check 'nothing outside is touched' untouched

echo '# under the hand-off'
handoffs() {
	local i

	for ((i = 0; i < 15; i++)); do
		overlay main "$lower" "$target" "gid=$gid" || return 1
		"$helpers/attacker" consume "$target" 30 >"$scratch/during.log" || true
		turns_native main converge || {
			keeper main send status
			return 1
		}
		[ "$(type_at "$target")" = ext4 ] || return 1
		unmount "$target" || return 1
	done
}
check '15 hand-offs of a tree that changes' handoffs
stop swap >"$scratch/swaps"
swaps=$(cat "$scratch/swaps")
check "the tree was changed thousands of times ($swaps)" [ "$swaps" -gt 5000 ]
check 'nothing outside is touched' untouched
stop watch >"$scratch/events"
check_same 'nothing outside was opened' 0 "$(cat "$scratch/events")"
contents "$outside" >"$scratch/got"
check 'nothing outside is new or has other content' same_files "$scratch/outside.contents" "$scratch/got"
check 'when the attacker has gone, all becomes right' overlay main "$lower" "$target" "gid=$gid"
check 'and native' turns_native main
check_same 'every file' '' "$(find "$lower" -not -group "$gid")"
check "unmounts, and its processes end" unmount "$target"
rm -rf "$lower"

echo '# what a consumer makes is exchanged for something of his own'
mkdir -p "$lower/own"
chown 1700:1700 "$lower/own"
overlay main "$lower" "$target" "gid=$gid" handoff=no
keeper main wait state=converged
chmod 755 "$target"
check 'no foreign set-group-ID program comes of it' as 1700 1700 '' \
	"$helpers/attacker" setgid "$target/own" "$lower/own" 20000
check "unmounts, and its processes end" unmount "$target"
rm -rf "$lower"

echo '# the inode number of what a consumer holds goes from file to file'
mkdir "$lower"
touch "$lower/held"
ask_for_what_is_gone() {
	perl -e '
		my ($lower, $target, $times, %answers) = @ARGV;
		sysopen(my $held, "$target/held", 010000000) or die; # O_PATH
		my $path = "/proc/self/fd/" . fileno($held);
		unlink("$lower/held") or die;
		# Who answered the look-up closes it after that: until then it is there.
		my $until = time + 2;
		while (utime(undef, undef, $path) && time < $until) { }
		my $other = fork // die;
		while (!$other) { open(my $new, ">", "$lower/new") or die; close($new); unlink("$lower/new") }
		for (1 .. $times) { $answers{utime(undef, undef, $path) ? "done" : "$!"}++ }
		kill("KILL", $other);
		waitpid($other, 0);
		print(join(", ", sort(keys(%answers))), "\n")' "$lower" "$target" 20000
}
overlay main "$lower" "$target" "gid=$gid" paused
check_same 'it is stale, and nothing else' 'Stale file handle' "$(ask_for_what_is_gone)"
check "unmounts, and its processes end" unmount "$target"
rm -rf "$lower"

echo '# names'
mkdir -p "$lower/names"
names=($'new\nline' $'\001\033[2J\377' '...' '..x' ' ' '-rf' '*' "$(printf 'x%.0s' {1..255})" $'\r' 'a\nb' '"' "'")
for name in "${names[@]}"; do
	: >"$lower/names/$name"
done
chattr +i "$lower/names/"$'new\nline'
(cd "$lower" && find . -print0 | sort -z) >"$scratch/wanted"
overlay main "$lower" "$target" "gid=$gid" paused
(cd "$target" && find . -print0 | sort -z) >"$scratch/got"
check 'any name is shown' same_files "$scratch/wanted" "$scratch/got"
any_is_found() {
	local name

	for name in "${names[@]}"; do
		same "$gid" "$(stat -c %g "$target/names/$name")" || return 1
	done
}
check 'and found' any_is_found
check 'a name of 255 bytes is made' touch "$target/names/$(printf 'y%.0s' {1..255})"
check_fails 'a name of 256 bytes is not' touch "$target/names/$(printf 'y%.0s' {1..256})"
check 'converges' keeper main wait state=converged resume
check_same 'a name with a new line in the report is quoted' '1 names/new\x0aline' \
	"$(keeper main get failure.0)"
chattr -i "$lower/names/"$'new\nline'
check "unmounts, and its processes end" unmount "$target"

echo '# marks that others have set'
run=00112233445566778899aabbccddeeff
mkdir "$lower/marks"
for name in other upper short long empty binary; do
	printf 'x\n' >"$lower/marks/$name"
done
mark() {
	setfattr -n trusted.fsgroupfs.settled -v "$2" "$lower/marks/$1"
}
mark other ffeeddccbbaa99887766554433221100
mark upper 00112233445566778899AABBCCDDEEFF
mark short 00112233445566778899aabbccddeef
mark long "${run}0"
mark empty ''
mark binary 0x00112233445566778899aabbccddeeff
setfattr -n trusted.fsgroupfs.more -v more "$lower/marks/other"
setfattr -n trusted.other -v theirs "$lower/marks/other"
chown -R 1000:1000 "$lower"
chmod 600 "$lower/marks/"*
is_pending() {
	local name

	for name in other upper short long empty binary; do
		same "$name 1000:$gid:660" "$name $(attributes "$target/marks/$name")" || return 1
	done
}
# With an epoch it is a run that was begun before: then marks count.
overlay main "$lower" "$target" "gid=$gid" "run=$run" paused handoff=no
check 'a forged mark exempts nothing' is_pending
check "unmounts, and its processes end" unmount "$target"
overlay main "$lower" "$target" "gid=$gid" "run=$run" epoch=4102444800.000000000 paused handoff=no
check 'nor in a run that is resumed' is_pending
check_same 'marks are not listed' trusted.other \
	"$(getfattr -m - --absolute-names "$target/marks/other" | sed '1d;/^$/d')"
check_fails 'nor read' getfattr -n trusted.fsgroupfs.settled "$target/marks/other"
check_fails 'nor any other name of ours' getfattr -n trusted.fsgroupfs.more "$target/marks/other"
check_fails 'nor set' setfattr -n trusted.fsgroupfs.settled -v "$run" "$target/marks/other"
check_fails 'nor taken away' setfattr -x trusted.fsgroupfs.settled "$target/marks/other"
check "others' names are" setfattr -n trusted.other -v new "$target/marks/other"
check 'a user changes a file' chmod 640 "$target/marks/short"
check_same 'that makes a mark' "$run" \
	"$(getfattr --only-values --absolute-names -n trusted.fsgroupfs.settled "$lower/marks/short")"
check_fails 'which is not read' getfattr -n trusted.fsgroupfs.settled "$target/marks/short"
check_fails 'nor taken away' setfattr -x trusted.fsgroupfs.settled "$target/marks/short"
check 'converges' keeper main wait state=converged resume
check_same 'is told that this is on record' ok "$(keeper main send finished)"
check "unmounts, and its processes end" unmount "$target"
check_same 'forged marks exempt nothing from the walk' '' \
	"$(find "$lower/marks" -type f -not -name short -not '(' -group "$gid" -perm 660 ')')"
check_same 'the changed file is as its user left it' "1000:$gid:640" "$(attributes "$lower/marks/short")"
check_same 'no mark stays' '' \
	"$(getfattr -R -m '^trusted.fsgroupfs.settled' --absolute-names "$lower" 2>/dev/null)"
rm -rf "$lower"

echo '# what must never be opened'
mkdir -p "$lower/special"
for ((i = 0; i < 1000; i++)); do printf '%s\0' "$lower/special/fifo-$i"; done | xargs -0 mkfifo
mknod "$lower/special/console" c 5 1
mknod "$lower/special/watchdog" c 10 130
mknod "$lower/special/loop" b 7 250
ln -s loop-a "$lower/special/loop-b"
ln -s loop-b "$lower/special/loop-a"
ln -s . "$lower/special/self"
chown -R -h 1000:1000 "$lower"
chmod -R u=rwX,g=,o= "$lower"
cat "$lower/special/fifo-1" >"$scratch/reader" &
reader=$!
echo text >"$lower/special/fifo-2" &
writer=$!
start watch "$helpers/attacker" watch "$lower/special/"{console,watchdog,loop,fifo-3}
both_wait() {
	kill -0 "$reader" && kill -0 "$writer" && [ ! -s "$scratch/reader" ]
}
look_at_all() {
	find "$target" -ls >/dev/null &&
		getfattr -R -h -d -m - "$target" >/dev/null 2>&1 &&
		find "$target" -not -type l -exec chmod u+x {} + &&
		find "$target" -exec touch -h {} + &&
		find "$target/special" -name 'fifo-9*' -not -name fifo-9 -delete &&
		mv "$target/special/fifo-4" "$target/special/renamed" &&
		ln "$target/special/fifo-5" "$target/special/linked"
}
overlay main "$lower" "$target" "gid=$gid" paused
check 'everything is looked at' look_at_all
check 'a reader and a writer of FIFOs still wait' both_wait
check_fails 'a symbolic link loop is one' cat "$target/special/loop-a"
check_fails 'a deep one too' stat "$target$(printf '/special/self%.0s' {1..50})/special"
check 'converges to native' turns_native main resume
check 'a reader and a writer of FIFOs still wait' both_wait
stop watch >"$scratch/events"
check_same 'nothing was opened' '' "$(grep '^event 0x20 ' "$scratch/events" || true)"
check_same 'a FIFO is converged' "1000:$gid:760" "$(attributes "$lower/special/fifo-7")"
check_same 'a device too' "1000:$gid:760" "$(attributes "$lower/special/console")"
check "unmounts, and its processes end" unmount "$target"
kill "$reader" "$writer"
wait "$reader" "$writer" || true
rm -rf "$lower"

echo '# large in every direction'
mkdir -p "$lower/wide" "$lower/deep" "$volume/good"
printf 'good\n' >"$volume/good/file"
"$helpers/many" files "$lower/wide" 200000
"$helpers/many" deep "$lower/deep" 3000
overlay good "$volume/good" "$scratch/target2" "gid=$gid" paused
overlay main "$lower" "$target" "gid=$gid" paused handoff=no
entries=$(find "$target" -printf '%g\n' | sort | uniq -c | sed 's/^ *//')
check_same 'all is shown' "203004 $gid" "$entries"
bottom() {
	local at

	at=$(find "$target/deep" -name bottom -execdir cat {} \; -execdir chmod 640 {} \; -execdir touch made \; \
		-execdir mv made moved \; -printf '%d\n')
	[ "$at" = 3001 ]
}
check 'the deepest directory is usable' bottom
check 'another overlay is well meanwhile' same good "$(cat "$scratch/target2/file")"
check 'converges' keeper main wait state=converged resume
check_same 'all of it' "203005 $gid" "$(find "$lower" -printf '%g\n' | sort | uniq -c | sed 's/^ *//')"
check_same 'and counts it' '203005 0' "$(keeper main get seen failed | tr '\n' ' ' | sed 's/ $//')"
main=$(server_pid main)
server_peak=$(peak "$main")
keeper_peak=$(peak "$(keeper main get keeper_pid)")
printf '# peak memory: server %d MiB, keeper %d MiB\n' "$server_peak" "$keeper_peak"
check 'the server takes no more than it should' [ "$server_peak" -lt "${is_sanitized:+1}200" ]
check 'nor does the keeper' [ "$keeper_peak" -lt "${is_sanitized:+1}100" ]
check 'another overlay is well' touch "$scratch/target2/new"
check 'and becomes native' turns_native good resume
umount "$scratch/target2"
check 'the whole tree is removed through the overlay' sh -c 'cd "$1" && rm -rf wide deep && [ -z "$(ls)" ]' _ "$target"
check "unmounts, and its processes end" unmount "$target"

echo '# what the server keeps for itself'
mkdir -p "$lower/dir"
printf 'text\n' >"$lower/file"
overlay main "$lower" "$target" "gid=$gid" paused
server=$(server_pid main)
field() {
	cat /proc/"$server"/task/*/status | awk -v name="$1:" '$1 == name { $1 = ""; sub(/^ /, ""); print }' | sort -u
}
# chown dac_override dac_read_search fowner fsetid setgid setuid linux_immutable sys_admin sys_nice mknod setfcap
mask=0
for bit in 0 1 2 3 4 6 7 9 21 23 27 31; do
	mask=$((mask | 1 << bit))
done
mask=$(printf '%016x' "$mask")
none=$(printf '%016x' 0)
check_same 'no new privileges, in every thread' 1 "$(field NoNewPrivs)"
check_same 'a system call filter' 2 "$(field Seccomp)"
check_same 'capabilities: effective' "$mask" "$(field CapEff)"
check_same 'capabilities: permitted' "$mask" "$(field CapPrm)"
check_same 'capabilities: inheritable' "$none" "$(field CapInh)"
check_same 'capabilities: bounding' "$none" "$(field CapBnd)"
check_same 'capabilities: ambient' "$none" "$(field CapAmb)"
check_same 'no supplementary groups' '' "$(field Groups)"
check_same 'its root is the lower tree' "$(stat -c %d:%i "$lower")" "$(stat -L -c %d:%i "/proc/$server/root/.")"
check_same 'and the only mount' '/lower /' "$(awk '{ print $4, $5 }' "/proc/$server/mountinfo")"
check_same 'above it there is nothing' "$(stat -c %d:%i "$lower")" "$(stat -L -c %d:%i "/proc/$server/root/../..")"
check 'its mount namespace is its own' [ "$(readlink /proc/self/ns/mnt)" != "$(readlink "/proc/$server/ns/mnt")" ]
descriptors() {
	local fd to

	for fd in "/proc/$1/fd/"*; do
		to=$(readlink "$fd") || continue
		# What is on the volume, by itself; of other things their kind.
		if [ "$(stat -L -c %d "$fd")" = "$(stat -c %d "$lower")" ]; then
			to="volume:$(stat -L -c %i "$fd")"
		fi
		printf '%s\n' "$to" | sed 's/:\[[0-9]*\]$//; s/^\/memfd:.*/memfd/'
	done | sort | uniq -c | sed 's/^ *//'
}
root_ino=$(stat -c %i "$lower")
check_same 'its descriptors' "2 /dev/fuse
3 /dev/null
1 /proc
1 anon_inode:[eventfd]
1 anon_inode:[timerfd]
1 memfd
9 socket" "$(descriptors "$server" | grep -v volume)"
check_same 'of the volume nothing but its root' "volume:$root_ino" \
	"$(descriptors "$server" | sed -n 's/^[0-9]* volume/volume/p')"
check_same 'its working directory' "/proc/$server/fd" "$(readlink "/proc/$server/cwd")"
keeper_pid=$(keeper main get keeper_pid)
descriptors "$keeper_pid" | sed 's/^/#  keeper: /'
check_same 'the keeper has nothing of the volume but the trees that go beneath, and to the next server' "2 volume:$root_ino" \
	"$(descriptors "$keeper_pid" | grep volume)"
check_same 'and no working directory' / "$(readlink "/proc/$keeper_pid/cwd")"
check "unmounts, and its processes end" unmount "$target"
overlay main "$lower" "$target" "gid=$gid" paused handoff=no
keeper_pid=$(keeper main get keeper_pid)
check_same 'without a hand-off but the latter' "1 volume:$root_ino" "$(descriptors "$keeper_pid" | grep volume || true)"
check "unmounts, and its processes end" unmount "$target"
end_test
