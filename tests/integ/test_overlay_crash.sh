#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Needs root, /dev/fuse, loop devices, ptrace(2).
# timeout: 900
#
# Exactly once: the overlay is killed, or its file system loses power, before each change that a run makes to the
# lower tree; the run is resumed; then no file has been changed twice, none is forgotten, and what users
# did stays as it was on disk.
#
#   POWER=all   all points for the loss of power, on both file systems, instead of a few random ones
#   SEED=N      of those
# shellcheck disable=SC2317 # functions are called through check
# shellcheck source=tests/integ/lib.sh
. "$(dirname "$0")/lib.sh"
need_root
need_fuse
need_tools mkfs.ext4 mkfs.xfs losetup setpriv getfattr setfacl python3
own_mounts "$0" "$@"
start_test

gid=4242
readonly run=0123456789abcdef0123456789abcdef
SEED=${SEED:-$$}
RANDOM=$SEED
target=$scratch/target
mkdir "$target"

make_template() {
	local i

	mkdir "$volume/template"
	for i in 0 1 2; do
		mkdir "$volume/template/dir$i"
		touch "$volume/template/dir$i"/file{0..2}
	done
	ln "$volume/template/dir0/file0" "$volume/template/dir1/linked"
	ln -s dir0 "$volume/template/symlink"
	touch "$volume/template/setuid"
	chown -R 1000:1000 "$volume/template"
	chmod -R o-rwx "$volume/template"
	chmod 4750 "$volume/template/setuid"
}

# What users do, before and while everything is converged. Each change is of its own file, and leaves a mode
# that no other step has.
cat >"$scratch/users" <<'END'
#!/bin/bash
cd "$1" || exit
user() { setpriv --reuid 1000 --regid 1000 --groups 4242 --inh-caps=-all -- "$@"; }
user chmod 0604 dir0/file1
user chmod 0750 dir1
user touch dir2/made
user chmod 0601 dir2/made
user mkdir dir2/new
user mv dir0/file2 dir2/moved
user setfacl -m u:1001:r dir1/file2
chown 1001 dir1/file0
"$2" send "$3" resume >/dev/null
user chmod 0605 dir1/file1
user touch made
user rm dir2/file0
"$2" wait "$3" state=converged
END
chmod 755 "$scratch/users"

# Owner, group and mode of every entry, and when it was last changed.
list() {
	(cd "$1" && find . -printf '%p %U:%G:%m %C@\n' | LC_ALL=C sort)
}

start_run() {
	overlay main "$lower" "$target" "gid=$gid" "run=$run" handoff=no "$@"
}

# judge BEFORE AFTER: what the resumed run made of what was on disk at the crash.
judge() {
	local -A owner ctime
	local name now at bits mask gid_of status=0

	while read -r name now at; do
		owner[$name]=$now
		ctime[$name]=$at
	done <"$1"
	while read -r name now at; do
		[ -n "${owner[$name]:-}" ] || { printf '#  %s is new\n' "$name" && status=1 && continue; }
		bits=${owner[$name]##*:}
		gid_of=${owner[$name]#*:}
		gid_of=${gid_of%:*}
		case $name in
		. | ./dir[0-9] | ./dir2/new) mask=2770 ;;
		./symlink) mask=0 ;;
		*) mask=660 ;;
		esac
		case $name:$bits in
		# The users' own, made by them or with the mode that they gave.
		*made:* | ./dir2/new:* | ./dir0/file1:604 | ./dir1:2750 | ./dir1/file1:605) mask=theirs ;;
		esac
		if [ "$mask" = theirs ]; then
			[ "$now" = "${owner[$name]}" ] && unset "owner[$name]" && continue
		elif [ "$gid_of" = "$gid" ] && (((8#$bits & 8#$mask) == 8#$mask)); then
			# Marks come and go on what users changed.
			case $name in ./dir0/file1 | ./dir1 | ./dir1/file[0-2]) at=${ctime[$name]} ;; esac
			[ "$now $at" = "${owner[$name]} ${ctime[$name]}" ] && unset "owner[$name]" && continue
		else
			printf -v bits '%o' $((8#$bits | 8#$mask))
			[ "$now" = "${owner[$name]%%:*}:$gid:$bits" ] && unset "owner[$name]" && continue
		fi
		printf '#  %s was %s, is %s; ctime %s, %s\n' "$name" "${owner[$name]}" "$now" "${ctime[$name]}" "$at"
		unset "owner[$name]"
		status=1
	done <"$2"
	[ ${#owner[@]} = 0 ] && return "$status"
	printf '#  gone: %s\n' "${!owner[*]}"
	return 1
}

marks() {
	getfattr -R -h -m 'trusted.fsgroupfs' "$lower" 2>/dev/null || true
}

has_no_marks() { [ -z "$(marks)" ]; }

# The finished run is on record: no mark stays.
record_finished() {
	keeper main send finished >/dev/null
	within 60 has_no_marks || true
	same '' "$(marks)"
}

# crash HOW AT SYNC_AT: one run from beginning to end; prints nothing when it is right. Status 3: there are fewer points.
crash() {
	local how=$1 at=$2 sync_at=$3 epoch server keeper_pid status=0

	"$helpers/tree" remove "$lower" 2>/dev/null || true
	rm -rf "$lower"
	cp -a "$volume/template" "$lower"
	sync -f "$volume"
	start_run paused
	epoch=$(keeper main get epoch)
	server=$(keeper main get server_pid)
	keeper_pid=$(keeper main get keeper_pid)
	"$helpers/crash" "$how" "$server" "$keeper_pid" "$volume" "$at" "$sync_at" "$scratch/users" "$target" \
		"$helpers/keeper_ctl" "$scratch/run/main" >"$scratch/point" 2>"$scratch/crash.log" || status=$?
	umount -l "$target"
	no_process_stays || return 1
	if [ "$status" != 0 ]; then
		[ "$status" = 3 ] || sed 's/^/#  /' "$scratch/crash.log"
		return "$status"
	fi
	if [ "$how" = power ]; then
		mount_again "$loop" "$volume" || return 1
	fi
	list "$lower" >"$scratch/before"
	start_run "epoch=$epoch"
	keeper main wait state=converged
	# As a supervisor does that has the finished run on record.
	record_finished || return 1
	umount "$target"
	no_process_stays || return 1
	list "$lower" >"$scratch/after"
	judge "$scratch/before" "$scratch/after"
}

# crashes HOW AT SYNC_AT: whether that point is reached; says what went wrong there.
crashes() {
	local status=0

	crash "$@" || status=$?
	[ "$status" = 0 ] || [ "$status" = 3 ] ||
		printf '#  %s at change %d (%s), synchronised at %d, SEED=%d\n' "$1" "$2" "$(cat "$scratch/point")" "$3" "$SEED"
	return "$status"
}

# A run that is over is on record only when somebody says so: what users change until then is theirs in a walk that is
# resumed, too.
changes_before_the_record() {
	local epoch server keeper_pid

	"$helpers/tree" remove "$lower" 2>/dev/null || true
	cp -a "$volume/template" "$lower"
	start_run
	keeper main wait state=converged
	epoch=$(keeper main get epoch)
	server=$(keeper main get server_pid)
	keeper_pid=$(keeper main get keeper_pid)
	setpriv --reuid 1000 --regid 1000 --groups "$gid" --inh-caps=-all chmod 0604 "$target/dir0/file1"
	(umask 077 && setpriv --reuid 1000 --regid 1000 --groups "$gid" --inh-caps=-all touch "$target/made")
	kill -9 "$keeper_pid" "$server"
	umount -l "$target"
	no_process_stays || return 1
	start_run "epoch=$epoch"
	keeper main wait state=converged
	same "604 600" "$(stat -c %a "$lower/dir0/file1" "$lower/made" | xargs)" || return 1
	chmod 0640 "$target/dir0/file0"
	record_finished || return 1
	chmod 0600 "$target/dir0/file0"
	same '' "$(marks)" || return 1
	umount "$target"
	no_process_stays
}

# stays_synchronous copy|reserve: what a descriptor with O_DSYNC or O_SYNC was told is done outlives a loss of power, also
# where the server does it and holds no descriptor of the caller's.
stays_synchronous() {
	local status=0

	mkdir "$lower"
	head -c 5000 /dev/urandom >"$lower/from"
	touch "$lower/to"
	sync -f "$volume"
	start_run paused
	python3 - "$1" "$target" "$volume" <<'END' || return 1
import fcntl, os, sys

how, target, volume = sys.argv[1:]
source = os.open(f"{target}/from", os.O_RDONLY)
to = os.open(f"{target}/to", os.O_WRONLY | (os.O_DSYNC if how == "copy" else os.O_SYNC))
if how == "copy":
    assert os.copy_file_range(source, to, 5000) == 5000
else:
    os.posix_fallocate(to, 0, 5000)
# FS_IOC_SHUTDOWN, without writing the log
fcntl.ioctl(os.open(volume, os.O_RDONLY), 0x8004587D, b"\2\0\0\0")
END
	umount -l "$target"
	no_process_stays && mount_again "$loop" "$volume" || return 1
	[ "$1" = reserve ] || same_files "$lower/from" "$lower/to" || status=1
	same 5000 "$(stat -c %s "$lower/to")" || status=1
	rm -rf "$lower"
	return "$status"
}

# Every point there is, into $points.
all_points() {
	local how=$1 at status=0

	for ((at = 1; status == 0; at++)); do
		crashes "$how" "$at" "$((RANDOM % (at + 1)))" || status=$?
	done
	points=$((at - 2))
	[ "$status" = 3 ] && [ "$points" -ge 40 ]
}

random_points() {
	local how=$1 count=$2 at

	for ((; count > 0; count--)); do
		at=$((1 + RANDOM % points))
		crashes "$how" "$at" "$((RANDOM % (at + 1)))" || [ $? = 3 ] || return 1
	done
}

points=0
for type in ext4 xfs; do
	make_volume "$type" "$type"
	volume=$scratch/$type
	lower=$volume/lower
	loop=${loops[-1]}
	make_template
	check "$type: loses power after a synchronous copy" stays_synchronous copy
	check "$type: loses power after a synchronous reservation" stays_synchronous reserve
	check "$type: changed after the walk, and all die before it is on record" changes_before_the_record
	if [ "$type" = ext4 ]; then
		check "$type: killed before any change" all_points kill
		printf '# %d changes\n' "$points"
	else
		check "$type: killed before some changes" random_points kill 5
	fi
	if [ "${POWER:-}" = all ]; then
		check "$type: loses power before any change" all_points power
	else
		check "$type: loses power before some changes" random_points power 6
	fi
done
end_test
