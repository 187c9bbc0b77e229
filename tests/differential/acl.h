/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_DIFFERENTIAL_ACL_H
#define TESTS_DIFFERENTIAL_ACL_H

/* acl: random POSIX ACLs in the form of the extended attribute (linux/posix_acl_xattr.h). */

#include <stddef.h>

#include "tests/differential/random.h"

enum { ACL_BYTES_MAX = 64 };

/* acl_random: with or without named entries and mask, sometimes invalid. Returns the length. */
size_t acl_random(struct random *random, bool may_be_invalid, unsigned char ret[ACL_BYTES_MAX]);

#endif
