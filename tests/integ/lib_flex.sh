# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# lib_flex.sh: kubelet's side of the FlexVolume interface, on top of lib_block.sh.
#
#   start_flex_test [OPTION]   start_volume_test, the drivers installed in $plugins, kubelet's directory is $kubelet
#   use_driver volume|device   $driver: which one is called from now on
#   run_driver FILE ARGUMENT...   as kubelet does it; the answer goes to FILE
#   call ARGUMENT...           the same; $scratch/answer must be one JSON document
#   says STATUS WORDS ARGUMENT...   call, whose answer must have this status, and a message with WORDS
#   succeeds ARGUMENT...
#   refused WORDS POD [OPTION=VALUE]...   mount must be a Failure that leaves nothing mounted and no volume
#   target POD [VOLUME]        the directory of a pod's volume; make_target makes it as kubelet does
#   options POD [OPTION=VALUE]...   kubelet's own keys, and the pod's
#   is_mounted PATH, mount_count PATH

# shellcheck source=tests/integ/lib_block.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib_block.sh"

driver=

use_driver() { driver=$plugins/fsgroupfs~$1/$1; }

start_flex_test() {
	start_volume_test
	plugins=$scratch/exec
	kubelet=$scratch/kubelet
	mkdir "$plugins" "$kubelet"
	check 'the driver is installed' ctl install-flexvolume "$plugins" "$@"
	use_driver volume
}

# No environment of ours, both outputs one pipe, a descriptor of the starter's left open.
run_driver() {
	env -i PATH="$PATH" ${FSGROUPFS_TEST:+FSGROUPFS_TEST="$FSGROUPFS_TEST"} ${LIBEXEC:+FSGROUPFS_LIBEXEC="$LIBEXEC"} \
		${FSGROUPFS_BOOT_ID:+FSGROUPFS_BOOT_ID="$FSGROUPFS_BOOT_ID"} \
		timeout 60 "$driver" "${@:2}" >"$1" 2>&1 </dev/null 9<"$scratch"
}

call() {
	local status=0

	run_driver "$scratch/answer" "$@" || status=$?
	[ "$(jq -s length "$scratch/answer" 2>/dev/null)" = 1 ] || {
		printf '#  not one JSON document: %s\n' "$(cat "$scratch/answer")"
		return 1
	}
	[ "$(jq -r .status "$scratch/answer")" = Success ] && [ "$status" != 0 ] && return 1
	return 0
}

says() {
	local status=$1 words=$2

	shift 2
	call "$@" || return 1
	if [ "$(jq -r .status "$scratch/answer")" != "$status" ] ||
		! jq -r '.message // ""' "$scratch/answer" | grep -qF -- "$words"; then
		printf '#  not %s with "%s": %s\n' "$status" "$words" "$(cat "$scratch/answer")"
		return 1
	fi
}

succeeds() { says Success '' "$@"; }

target() {
	local name=${driver##*/}

	printf '%s/pods/%s/volumes/fsgroupfs~%s/%s' "$kubelet" "$1" "$name" "${2:-v}"
}

make_target() {
	mkdir -p "$(target "$@")"
	chmod 0750 "$(target "$@")"
}

options() {
	local pod=$1

	shift
	jq -cn --arg pod "$pod" '{"kubernetes.io/fsType": "", "kubernetes.io/readwrite": "rw",
		"kubernetes.io/mounterArgs.FsGroup": "4242", "kubernetes.io/pod.name": $pod,
		"kubernetes.io/pod.namespace": "default", "kubernetes.io/pod.uid": $pod,
		"kubernetes.io/pvOrVolumeName": "v", "kubernetes.io/serviceAccount.name": ""} +
		($ARGS.positional | map(capture("^(?<key>[^=]*)=(?<value>[\\s\\S]*)$")) | from_entries)' --args -- "$@"
}

is_mounted() { awk -v at="$1" '$5 == at { found = 1 } END { exit !found }' /proc/self/mountinfo; }
mount_count() { awk -v at="$1" '$5 == at { n++ } END { print n + 0 }' /proc/self/mountinfo; }

refused() {
	local words=$1 pod=$2 all

	shift 2
	make_target "$pod"
	all=$(options "$pod" "$@")
	says Failure "$words" mount "$(target "$pod")" "$all" || return 1
	! is_mounted "$(target "$pod")" || { printf '#  something is mounted\n'; return 1; }
	same '[]' "$(ctl list --json | jq -c .)"
}
