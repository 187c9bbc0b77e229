# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# part_data.sh: bandwidth by block size and pattern: through the page cache, around it, and mapped (fio).

# The jobs of one run of fio, one after the other, each on the file that is there.
data_jobs() {
	local size how rw engine direct

	printf '[global]\nfilename=%s\nfilesize=%s\ntime_based\nruntime=%s\nstonewall\ninvalidate=0\nfadvise_hint=0\n' \
		"$target/data" "$DATA_SIZE" "$DATA_TIME"
	printf 'overwrite=1\nallow_file_create=0\nfallocate=none\n'
	for how in $DATA_WAYS; do
		engine=psync
		direct=0
		case $how in
		direct) direct=1 ;;
		mapped) engine=mmap ;;
		esac
		for size in $DATA_SIZES; do
			for rw in $DATA_PATTERNS; do
				printf '[%s %s %s]\nrw=%s\nbs=%s\nioengine=%s\ndirect=%d\n' "$how" "$rw" "$size" "$rw" \
					"$size" "$engine" "$direct"
			done
		done
	done
}

move_data() {
	local before after

	cat "$lower/data" >/dev/null
	data_jobs >"$scratch/jobs"
	before=$("$TESTBIN/bench/rates" processor "${servers[@]}")
	"${enter[@]}" fio --output-format=json --output="$scratch/fio.json" "$scratch/jobs" 2>"$scratch/fio.log" ||
		{ cat "$scratch/fio.log"; return 1; }
	after=$("$TESTBIN/bench/rates" processor "${servers[@]}")
	jq -r '.jobs[] | .read.bw_bytes + .write.bw_bytes | . / 1048576 | tostring' "$scratch/fio.json" >"$scratch/rates"
	jq -r '.jobs[].jobname' "$scratch/fio.json" | paste - "$scratch/rates" >"$scratch/lines"
	while IFS=$'\t' read -r name rate; do
		sample "$name" MiB/s "$rate"
	done <"$scratch/lines"
	sample 'processor time a GiB' s "$(jq --argjson server $((after - before)) '
		([.jobs[] | (.usr_cpu + .sys_cpu) / 100 * .job_runtime / 1000] | add) as $own |
		([.jobs[] | .read.io_bytes + .write.io_bytes] | add / 1073741824) as $gib |
		($own + $server / 1e6) / $gib' "$scratch/fio.json")"
}

part_data() {
	head -c "$DATA_SIZE" /dev/zero >"$lower/data"
	chown 1000:1000 "$lower/data"
	each_in_turn move_data
	rm "$lower/data"
}
