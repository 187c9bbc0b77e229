# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# part_data.sh: bandwidth by block size and pattern: through the page cache, around it, and mapped (fio).

# Who has no files takes what is written.
takes_job() { has_files || case $1/$2 in cached/*write) ;; *) return 1 ;; esac }

# One after the other, each on the file that is there. fio looks ten times a second whether a job has ended: one is as long as
# that.
each_data_job() {
	local job how size patterns rw engine

	for job in $DATA_JOBS; do
		IFS=: read -r how size patterns <<<"$job"
		engine=psync
		[ "$how" != mapped ] || engine=mmap
		for rw in ${patterns//,/ }; do
			takes_job "$how" "$rw" || continue
			printf '[%s %s %s]\nrw=%s\nbs=%s\nioengine=%s\ndirect=%d\n' "$how" "$rw" "$size" "$rw" "$size" \
				"$engine" "$([ "$how" = direct ] && echo 1 || echo 0)"
		done
	done
}

# Those of one run of fio: so short a job says little, so all of them come several times.
data_jobs() {
	local time

	printf '[global]\nfilename=%s\nfilesize=%s\ntime_based\nruntime=90ms\nstonewall\nthread\ndisk_util=0\n' \
		"$target/data" "$DATA_SIZE"
	printf 'invalidate=0\nfadvise_hint=0\noverwrite=1\nallow_file_create=0\nfallocate=none\n'
	for ((time = 0; time < DATA_TIMES; time++)); do
		each_data_job
	done
}

move_data() {
	local before after requests=0

	cat "$lower/data" >/dev/null
	# Who has a cache of his own reads from that.
	if has_files; then
		"${enter[@]}" cat "$target/data" >/dev/null
	else
		# Nor does it get memory for what is written while it is measured.
		"${enter[@]}" truncate -s "$DATA_SIZE" "$target/data"
		"${enter[@]}" dd if="$lower/data" of="$target/data" bs=1M conv=notrunc status=none
	fi
	data_jobs >"$scratch/jobs"
	! counts_requests || requests=$(requests_of 'READ|WRITE')
	before=$("$TESTBIN/bench/rates" processor "${servers[@]}")
	"${enter[@]}" fio --output-format=json --output="$scratch/fio.json" "$scratch/jobs" 2>"$scratch/fio.log" ||
		{ cat "$scratch/fio.log"; return 1; }
	after=$("$TESTBIN/bench/rates" processor "${servers[@]}")
	! counts_requests || sample 'requests to read or write' count $(($(requests_of 'READ|WRITE') - requests))
	jq -r '[.jobs[] | {name: .jobname, rate: ((.read.bw_bytes + .write.bw_bytes) / 1048576)}] | group_by(.name)[] |
		[.[0].name, (map(.rate) | sort | .[length / 2 | floor])] | @tsv' "$scratch/fio.json" >"$scratch/lines"
	while IFS=$'\t' read -r name rate; do
		sample "$name" MiB/s "$rate"
	done <"$scratch/lines"
	sample 'processor time a GiB' s "$(jq --argjson server $((after - before)) '
		([.jobs[] | (.usr_cpu + .sys_cpu) / 100 * .job_runtime / 1000] | add) as $own |
		([.jobs[] | .read.io_bytes + .write.io_bytes] | add / 1073741824) as $gib |
		($own + $server / 1e6) / $gib' "$scratch/fio.json")"
}

# What goes around the cache must not end in that of the file system which the image lies on: every five seconds that is
# written back, and who is at it then has a tenth of the speed.
part_data() {
	losetup --direct-io=on "$loop"
	head -c "$DATA_SIZE" /dev/zero >"$lower/data"
	chown 1000:1000 "$lower/data"
	each_in_turn move_data
	rm "$lower/data"
	losetup --direct-io=off "$loop"
}
