#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Needs root, /dev/fuse, loop devices and two processors.
#
# Where requests come close one after the other one thread looks for them, or serves on the processor of who asks, and
# nobody waits for it who must not.
# shellcheck disable=SC2317 # functions are called through check
# shellcheck source=tests/integ/lib.sh
. "$(dirname "$0")/lib.sh"

# What is as it is with every kind of server; $policies_wanted are the scheduling policies of those that serve.
inside() {
	start_test
	target=$scratch/target
	volume=$scratch/volume
	lower=$volume/lower
	VOLUME_SIZE=2G make_volume ext4 volume # where there is little room nothing is laid aside
	mkdir "$target" "$lower" "$lower/here" "$lower/there"
	touch "$lower/there/"{1..400}
	clean_more() { fsfreeze -u "$volume" 2>/dev/null; }

	in_turn() { keeper main get in_turn; }

	# One caller; a machine that does much else lets him wait between his requests, now and then for long.
	make_and_remove() {
		"$TESTBIN/bench/rates" calls "$target/here" "$1" 1 >/dev/null
	}
	comes_in_turn() {
		make_and_remove 300
		[ "$(in_turn)" -gt "$1" ]
	}

	switches() {
		awk '$1 ~ /ctxt_switches:/ { sum += $2 } END { print sum }' "/proc/$1/task/"*/status
	}
	# ThreadSanitizer has a thread of its own, which wakes ten times a second.
	switches_most=0
	[[ $BIN != *-thread ]] || switches_most=10
	sleeps() {
		local before

		before=$(switches "$1")
		sleep 0.2
		[ $(($(switches "$1") - before)) -le "$switches_most" ]
	}

	overlay main "$lower" "$target" gid=4242 paused handoff=no coherence=exclusive
	server=$(keeper main get server_pid)
	check_same 'at first nobody looks for requests' 0 "$(in_turn)"
	check 'of one caller who asks again and again they are found so' within 60 comes_in_turn 0
	check 'a server that is asked for nothing sleeps' within 30 sleeps "$server"
	# To make room later takes the kernel some 10 ms, in which a request waits.
	check 'it has room for descriptors' awk '$1 == "FDSize:" && $2 >= 1024 { enough = 1 } END { exit !enough }' "/proc/$server/status"

	echo '# on the processor of who asks'
	ask_for_ever() { exec perl -e 'while (1) { stat "$ARGV[0]/none-$$-$i"; $i++ }' "$target/here"; }
	# Of threads that are bound to one processor: which.
	bound_to() {
		awk '$1 == "Cpus_allowed_list:" && $2 ~ /^[0-9]+$/ { print $2 }' "/proc/$server/task/"*/status
	}
	is_on() { [ "$(processor_of "$asks")" = "$1" ]; }
	# Scheduling policies of those that serve: 0, but 3 (SCHED_BATCH) of those that walk.
	policies() {
		sed 's/.*) //' "/proc/$server/task/"*/stat | awk '$39 != 3 { print $39 }' | sort -u | paste -sd ' '
	}
	processor_of() { awk '{ sub(/.*\) /, ""); print $37 }' "/proc/$1/stat"; }
	serves_where_it_is_asked() {
		local processor

		processor=$(processor_of "$asks") && [ "$(bound_to)" = "$processor" ]
	}
	mapfile -t processors < <(taskset -pc $$ | sed 's/.*: //' | tr , '\n' | awk -F- '{ for (i = $1; i <= $NF; i++) print i }')
	check_same 'no thread is bound at first' '' "$(bound_to)"
	ask_for_ever &
	asks=$!
	check 'one caller is served on his processor' within 60 serves_where_it_is_asked
	for processor in "${processors[@]:0:2}"; do
		taskset -pc "$processor" "$asks" >"$scratch/out"
		check_same "moved to $processor, he is there" "$processor" "$(within 30 is_on "$processor" && processor_of "$asks")"
		check 'and is followed' within 60 serves_where_it_is_asked
	done
	kill "$asks"
	wait "$asks" 2>/dev/null || true
	is_free() { [ -z "$(bound_to)" ]; }
	check 'when he is gone the thread is free again' within 30 is_free
	check_same 'and of no other policy than before' "$policies_wanted" "$(policies)"
	check 'and sleeps' within 30 sleeps "$server"

	echo '# who removes files has not to wait until they are gone'
	# Files of which each is removed by the same thread, who then does what @1 says.
	remove_and() {
		exec perl -MTime::HiRes=time,sleep -e 'unlink "$ARGV[0]/file-$_" or die for 1 .. 3000; syswrite STDOUT, "done\n";
			my $until = time + 300; if ($ARGV[1] eq "compute") { 1 while time < $until } else { sleep 300 }' \
			"$target/here" "$1" >"$scratch/fifo"
	}
	blocks_free() { stat -f -c %f "$volume"; }
	are_free() { [ "$(blocks_free)" -ge "$1" ]; }
	# But for those of a few directories.
	holds_no_more_than() { [ "$(descriptors_of "$server")" -le $(($1 + 16)) ]; }
	mkfifo "$scratch/fifo"
	for does in compute sleep; do
		# What the directory has grown to stays.
		mkdir -p "$lower/here"
		touch "$lower/here"/file-{1..3000}
		rm "$lower/here"/file-*
		before=$(blocks_free)
		held=$(descriptors_of "$server")
		perl -e 'for (1 .. 3000) { open my $f, ">", "$ARGV[0]/file-$_" or die; print $f "x" x 5000 }' "$target/here"
		check "who will $does: files take room" eval '! are_free $((before - 1000))'
		remove_and "$does" &
		asks=$!
		read -r _ <"$scratch/fifo"
		check_same 'no name is left' '' "$(ls "$lower/here")"
		check 'soon it is free' within 60 are_free "$before"
		check 'and nothing is open any more' within 60 holds_no_more_than "$held"
		check 'while he goes on' kill "$asks"
		wait "$asks" 2>/dev/null || true
	done

	echo '# on a full disk'
	# One that has no inode left: each file that is removed makes room for one, at once.
	mkdir "$scratch/full"
	truncate -s 16M "$scratch/full.img"
	mkfs.ext4 -q -F -N 320 "$scratch/full.img"
	loop=$(losetup --find --show "$scratch/full.img")
	loops+=("$loop")
	mount "$loop" "$scratch/full"
	mkdir "$scratch/full/lower" "$scratch/there"
	overlay full "$scratch/full/lower" "$scratch/there" gid=4242 paused handoff=no coherence=exclusive
	fill_and_replace() {
		perl -e 'my ($dir, $count, $failed) = ($ARGV[0], 0, 0);
			$count++ while open my $f, ">", "$dir/$count";
			for (0 .. 3999) { my $path = "$dir/" . $_ % $count; unlink $path; open(my $f, ">", $path) or $failed++ }
			print "$failed\n"' "$scratch/there"
	}
	check_same 'who removes a file finds room for another' 0 "$(fill_and_replace)"
	check 'is unmounted' umount "$scratch/there"

	echo '# while he computes who was answered last'
	# 2,000 names, then nothing: who serves on his processor has to wait behind him.
	ask_and_compute() {
		exec perl -MTime::HiRes=time -e 'stat "$ARGV[0]/none-$$-$_" for 1 .. 2000; syswrite STDOUT, "computes\n";
			my $until = time + 120; 1 while time < $until' "$target/here" >"$scratch/fifo"
	}
	begin_to_compute() {
		ask_and_compute &
		asks=$!
		read -r _ <"$scratch/fifo"
	}
	end_to_compute() {
		kill "$asks"
		wait "$asks" 2>/dev/null || true
	}
	for i in 1 2 3; do
		begin_to_compute
		check "others are answered ($i)" timeout 30 stat -c %n "$target/there/$i"
		end_to_compute
	done
	begin_to_compute
	check 'another server takes over' upgrade_overlay main "$fsgroupfs"
	end_to_compute
	server=$(keeper main get server_pid)
	check_same 'no thread stays behind' "$policies_wanted" "$(policies)"

	echo '# a request that takes long'
	# Looks for names that are not there, then makes a FIFO, which waits until the disk is changed again.
	look_and_make() {
		perl -MPOSIX -e 'stat "$ARGV[0]/none-$$-$_" for 1 .. 3000; mkfifo "$ARGV[0]/$ARGV[1]", 0600 or die' \
			"$target/here" "$1"
	}
	# Then who found that in his turn waits for the disk.
	is_asked() { keeper main get requests | grep -q ' MKNOD:'; }
	before=$(in_turn)
	fsfreeze -f "$volume"
	look_and_make new &
	waits=$!
	check 'comes' within 60 is_asked
	# Next to nothing where much else is done, or a sanitizer slows it: then others need not wait in any case.
	printf '# %d of those before it were found so\n' $(($(in_turn) - before))
	check_same 'others need not wait for it' 400 "$(timeout 30 stat -c %n "$target/there/"{1..400} | wc -l)"
	# Else it would come last on its processor for as long as it takes.
	is_as_before() { [ "$(policies)" = "$policies_wanted" ]; }
	check 'who serves it has the policy of before' within 30 is_as_before
	[ "$policies_wanted" = 0 ] || check 'or it is not bound any more' within 30 is_free
	check 'while it waits' grep -q '^State:.S' "/proc/$waits/status"
	fsfreeze -u "$volume"
	check 'until it is done' wait "$waits"

	# Looks, then sets the length of a file: that may take the processor for long.
	look_and_truncate() {
		perl -e 'stat "$ARGV[0]/none-$$-$_" for 1 .. 3000; truncate "$ARGV[0]/long", 10 or die' "$target/here"
	}
	stuck_policies() {
		sed 's/.*) //' "/proc/$server/task/"*/stat | awk '$1 == "D" { print $39 }'
	}
	has_policy_of_others() { [ "$(stuck_policies)" = 0 ]; }
	truncate -s 100 "$lower/here/long"
	for i in 1 2 3; do
		stat "$target/here/long" >"$scratch/out"
		before=$(in_turn)
		fsfreeze -f "$volume"
		look_and_truncate &
		waits=$!
		check "a length is set by a thread like others ($i)" within 30 has_policy_of_others
		printf '# %d before it were found so\n' $(($(in_turn) - before))
		fsfreeze -u "$volume"
		check 'when it can be' wait "$waits"
		check_same 'and is what was asked for' 10 "$(stat -c %s "$lower/here/long")"
		truncate -s 100 "$target/here/long"
	done

	echo '# another server'
	within 60 comes_in_turn "$(in_turn)"
	before=$(in_turn)
	make_and_remove 1000 &
	working=$!
	check 'takes over from one who looks' upgrade_overlay main "$fsgroupfs"
	check 'from one who works' wait "$working"
	check 'and looks as well' within 60 comes_in_turn "$before"
	kill -KILL "$(keeper main get server_pid)"
	check 'so does one that follows a dead one' within 60 comes_in_turn "$(in_turn)"
	check 'converges' keeper main wait state=converged resume
	check 'unmounts' umount "$target"
	check 'its processes end' no_process_stays
	end_test
}

case ${1:-} in
coming_back)
	policies_wanted=0
	inside
	;;
following)
	policies_wanted='0 5'
	inside
	;;
esac

need_root
need_fuse
need_tools mkfs.ext4 losetup fsfreeze perl taskset setpriv
[ "$(nproc)" -ge 2 ] || skip 'needs two processors'
own_mounts "$0" "$@"
start_test
echo '# threads that can come back'
check 'where threads come back from SCHED_IDLE' "$0" coming_back
echo '# one that cannot'
check 'where one follows callers and no other' \
	setpriv --bounding-set=-sys_nice --inh-caps=-sys_nice "$0" following
end_test
