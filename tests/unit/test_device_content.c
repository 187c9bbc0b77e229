// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "fs/base/cleanup.h"
#include "plugins/device_content.h"

#define MIB (1 << 20)

/* A file of zeros that is as good as a device. */
static int blank(off_t size)
{
	int fd = memfd_create("device", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, size), 0);
	return fd;
}

static void put(int fd, const void *bytes, size_t len, off_t at)
{
	assert_int_equal(pwrite(fd, bytes, len, at), (ssize_t)len);
}

/* A version 1 swap header of 4 KiB pages (source: mkswap(8), linux/swap.h). */
static void put_swap(int fd)
{
	const uint32_t header[3] = { 1, 255, 0 };

	put(fd, header, sizeof(header), 1024);
	put(fd, "SWAPSPACE2", 10, 4086);
}

/* A DOS partition table with one Linux partition of 2,048 sectors from sector 2,048 on. */
static void put_partition_table(int fd)
{
	const unsigned char entry[16] = { 0, 0, 0, 0, 0x83, 0, 0, 0, 0, 8, 0, 0, 0, 8, 0, 0 };

	put(fd, entry, sizeof(entry), 446);
	put(fd, "\x55\xaa", 2, 510);
}

static void device_content_read_zeros_are_nothing(void **state)
{
	struct device_content content;
	AUTO_FD int fd = blank(8 * MIB);

	(void)state;
	assert_int_equal(device_content_read(fd, &content), 0);
	assert_int_equal(content.kind, CONTENT_NONE);
	assert_string_equal(content.fs_type, "");
}

static void device_content_read_what_cannot_be_mounted_is_named(void **state)
{
	struct device_content content;
	AUTO_FD int swap = blank(8 * MIB), disk = blank(8 * MIB), both = blank(8 * MIB);

	(void)state;
	put_swap(swap);
	assert_int_equal(device_content_read(swap, &content), 0);
	assert_int_equal(content.kind, CONTENT_OTHER);
	assert_string_equal(content.what, "swap");
	put_partition_table(disk);
	assert_int_equal(device_content_read(disk, &content), 0);
	assert_int_equal(content.kind, CONTENT_OTHER);
	assert_string_equal(content.what, "a partition table (dos)");
	put_partition_table(both);
	put_swap(both);
	assert_int_equal(device_content_read(both, &content), 0);
	assert_int_equal(content.kind, CONTENT_OTHER);
}

static void device_content_read_a_small_device_is_read(void **state)
{
	struct device_content content;
	AUTO_FD int fd = blank(512);

	(void)state;
	assert_int_equal(device_content_read(fd, &content), 0);
	assert_int_equal(content.kind, CONTENT_NONE);
}

static void device_content_read_what_cannot_be_read_is_an_error(void **state)
{
	struct device_content content;
	AUTO_FD int fd = open("/dev", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	(void)state;
	assert_true(device_content_read(fd, &content) < 0);
}

static void device_ends_are_zero_each_byte_of_the_ends_counts(void **state)
{
	static const off_t places[] = { 0, 1, 4095, MIB - 1, 3 * MIB, 4 * MIB - 1 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		AUTO_FD int fd = blank(4 * MIB);

		assert_int_equal(device_ends_are_zero(fd, 4 * MIB), 0);
		put(fd, "x", 1, places[i]);
		assert_int_equal(device_ends_are_zero(fd, 4 * MIB), -ENOTEMPTY);
	}
}

static void device_ends_are_zero_small_devices_are_read_whole(void **state)
{
	static const uint64_t sizes[] = { 1, 512, MIB, MIB + 512, 2 * MIB - 1 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		AUTO_FD int fd = blank((off_t)sizes[i]);

		assert_int_equal(device_ends_are_zero(fd, sizes[i]), 0);
		put(fd, "x", 1, (off_t)sizes[i] / 2);
		assert_int_equal(device_ends_are_zero(fd, sizes[i]), -ENOTEMPTY);
	}
}

static void device_ends_are_zero_a_device_that_ends_early_is_an_error(void **state)
{
	AUTO_FD int fd = blank(MIB);

	(void)state;
	assert_int_equal(device_ends_are_zero(fd, 3 * MIB), -EIO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(device_content_read_zeros_are_nothing),
		cmocka_unit_test(device_content_read_what_cannot_be_mounted_is_named),
		cmocka_unit_test(device_content_read_a_small_device_is_read),
		cmocka_unit_test(device_content_read_what_cannot_be_read_is_an_error),
		cmocka_unit_test(device_ends_are_zero_each_byte_of_the_ends_counts),
		cmocka_unit_test(device_ends_are_zero_small_devices_are_read_whole),
		cmocka_unit_test(device_ends_are_zero_a_device_that_ends_early_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
