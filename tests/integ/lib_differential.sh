# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# lib_differential.sh: what the tests with tests/differential begin with. Sources lib.sh.
#
#   start_differential ARGUMENT...   the test's own; needs root, /dev/fuse, loop devices, and the mkfs of ext4, xfs and
#                                    btrfs. Then "$differential" can be run.
# shellcheck source=tests/integ/lib.sh
. "$(dirname "$0")/lib.sh"

start_differential() {
	need_root
	need_fuse
	need_tools mkfs.ext4 mkfs.xfs mkfs.btrfs
	differential=$TESTBIN/differential
	[ -x "$differential" ] || skip "$differential is not built"
	own_mounts "$0" "$@"
	start_test
	export BIN
	export TMPDIR=$scratch
	# The workers give up the privileges that a sanitizer's search for leaks needs.
	export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
}
