# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# lib_block.sh: what the tests of volumes on block devices share, on top of lib_volume.sh.
#
#   loop NAME SIZE [OPTION...]  an image that is all hole, $scratch/NAME.img, and a loop device for it: $loop
#   reloop IMAGE [OPTION...]    another loop device, of IMAGE, in place of $loop
#   blank_image IMAGE           all hole again, also behind a device that nobody has open
#   spec NAME [FIELDS]          $scratch/spec.json: a gcePersistentDisk
#   stage ID OPTION...          the device $loop from that spec; standard output is kept in $scratch/stdout
#   no_stage WORDS ID OPTION... must be refused with one line that has WORDS
#   is_free DEVICE              nobody uses it: what unstage promises
#   mounts_of DEVICE            mount points of it, on one line

# shellcheck source=tests/integ/lib_volume.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib_volume.sh"

volumes=
loop=

start_block_test() {
	start_volume_test
	volumes=$FSGROUPFS_ROOT/var/lib/fsgroupfs/volumes
}

loop() {
	local image=$scratch/$1.img

	truncate -s "$2" "$image"
	shift 2
	loop=$(losetup --find --show "$@" "$image") || skip 'needs loop devices'
	loops+=("$loop")
}

reloop() {
	local image=$1

	shift
	losetup -d "$loop"
	loop=$(losetup --find --show "$@" "$image")
	loops+=("$loop")
}

spec() {
	printf '{"gcePersistentDisk":{"pdName":"%s"%s}}' "$1" "${2:-}" >"$scratch/spec.json"
}

stage() {
	local id=$1

	shift
	ctl stage --spec "$scratch/spec.json" --device "$loop" --volume-id "$id" "$@" >"$scratch/stdout" && return
	sed 's/^/#  /' "$scratch/stderr"
	return 1
}

blank_image() {
	fallocate --punch-hole --offset 0 --length "$(stat -c %s "$1")" "$1"
}

no_stage() {
	local words=$1 id=$2

	shift 2
	refuses 1 "$words" stage --spec "$scratch/spec.json" --device "$loop" --volume-id "$id" "$@"
}

is_free() {
	"$helpers/hold" claim "$1" </dev/null >/dev/null
}

sum_of() {
	sha256sum <"$1"
}

mounts_of() {
	awk -v dev="$1" '{ for (i = 7; $i != "-"; i++); if ($(i + 2) == dev) print $5 }' /proc/self/mountinfo | sort |
		paste -sd ' '
}
