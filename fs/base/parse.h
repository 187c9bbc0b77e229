/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FS_BASE_PARSE_H
#define FS_BASE_PARSE_H

/*
 * parse: strict reading of what people and programs write: numbers, gids, sizes, times, names.
 *
 * Nothing is skipped, rounded or guessed: no sign, no white space (but in parse_next_u32), no leading
 * "0x", no trailing text. Every function returns 0 or -EINVAL (not of the form) or -ERANGE (of the form, too large),
 * and writes its output only on success. No state, any thread.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* "fsGroup is not set: change nothing." (gid_t)-1 is what the kernel reserves for "no id". */
#define GID_UNSET ((gid_t)-1)

#define VOLUME_ID_MAX 128 /* characters, without the NUL */

int parse_u64(const char *text, uint64_t *ret_value);
int parse_u32(const char *text, uint32_t *ret_value);

/* parse_u32_up_to: more than @most is refused with -ERANGE. */
int parse_u32_up_to(const char *text, uint32_t most, uint32_t *ret_value);

/*
 * parse_next_u32: the next number of a list, after spaces and tabs; *io_text is behind it then. -EINVAL: there is none,
 * *io_text stays; -ERANGE: *io_text is behind it all the same.
 */
int parse_next_u32(const char **io_text, uint32_t *ret_value);

/* parse_gid: a decimal gid, 0 to 4294967294; (gid_t)-1 is refused with -ERANGE. */
int parse_gid(const char *text, gid_t *ret_gid);

/*
 * parse_cpu_latency: microseconds in which a processor is to wake, at most CPU_LATENCY_MAX_US: a second.
 * (Source: the kernel's power/pm_qos_interface.rst, for /dev/cpu_dma_latency; its unit.)
 */
#define CPU_LATENCY_MAX_US 1000000
int parse_cpu_latency(const char *text, int64_t *ret_us);

/*
 * parse_size: a Kubernetes quantity of bytes: digits and one of "", k, M, G, T, P, E, Ki, Mi, Gi, Ti,
 * Pi, Ei.
 * (Source: Kubernetes resource.Quantity, integers only.)
 */
int parse_size(const char *text, uint64_t *ret_bytes);

/* parse_duration: digits and a unit: ms, s, m, h; a bare number is in @default_unit_ms milliseconds. */
int parse_duration(const char *text, uint64_t default_unit_ms, uint64_t *ret_ms);

/* parse_bool: yes, no, true, false, 1, 0. */
int parse_bool(const char *text, bool *ret_value);

/* parse_hex: exactly 2 * @len lower-case hex digits into @ret_bytes. */
int parse_hex(const char *text, unsigned char *ret_bytes, size_t len);

/* format_hex: 2 * @len lower-case digits and a NUL into @ret_text. */
void format_hex(const unsigned char *bytes, size_t len, char *ret_text);

/* volume_id_is_valid: [A-Za-z0-9][A-Za-z0-9._-]{0,127} (interface.md, fsgroupctl). */
bool volume_id_is_valid(const char *id);

#endif
