# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# lib_uring.sh: FUSE over io_uring, for the time of a test. Sourced after lib.sh.
#
#   need_io_uring         it is on; a skip where it cannot be. The parameter is the machine's: one test at a time
#   io_uring_is on|off    for the kernel, from now on
#   leave_io_uring        as it was, by whoever cleans up

readonly uring_parameter=/sys/module/fuse/parameters/enable_uring
uring_was=

io_uring_is() {
	local value=N

	[ "$1" = off ] || value=Y
	printf '%s\n' "$value" 2>/dev/null >"$uring_parameter" && [ "$(cat "$uring_parameter")" = "$value" ]
}

leave_io_uring() {
	printf '%s\n' "$uring_was" >"$uring_parameter"
}

need_io_uring() {
	[ -e "$uring_parameter" ] || skip "this kernel has no FUSE over io_uring: $uring_parameter"
	need_tools flock
	exec 9<"$uring_parameter"
	flock 9
	uring_was=$(cat "$uring_parameter")
	io_uring_is on || skip "$uring_parameter cannot be set"
}
