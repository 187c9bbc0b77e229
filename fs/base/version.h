/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_BASE_VERSION_H
#define FS_BASE_VERSION_H

/* version: what this program is called by its users; the makefile takes it from the file VERSION. */

#ifndef FSGROUPFS_VERSION
#define FSGROUPFS_VERSION "0"
#endif

/* VERSION_TEXT_MAX: room for the version of any of our programs, with its NUL. */
enum { VERSION_TEXT_MAX = 64 };

#endif
