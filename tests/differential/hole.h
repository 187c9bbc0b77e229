/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_DIFFERENTIAL_HOLE_H
#define TESTS_DIFFERENTIAL_HOLE_H

/*
 * hole: where SEEK_DATA and SEEK_HOLE may answer differently with nothing changed. Space that is allocated and was never
 * written is data as long as the page cache has it, on ext4 and xfs (iomap_seek_hole, mapping_seek_hole_data); so is a
 * hole on tmpfs that was read through a mapping. Both read as zeros.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * hole_is_by_chance: whether all of @answers (a position; -1: ENXIO) to one lseek(2) (@whence: SEEK_DATA or SEEK_HOLE) are
 * right for the synchronized file that @fd is open on, in any way, depending on what the page cache has of it: no hole has
 * bytes in it that are not zero, and where the file system tells what was written (FIEMAP), what was is data, and where
 * there is nothing is a hole. The file is opened and read, without a change of its access time.
 */
bool hole_is_by_chance(int fd, int whence, off_t offset, const int64_t *answers, unsigned count);

#endif
