// SPDX-License-Identifier: Apache-2.0
#include "mountd/root_record.h"

#include <errno.h>
#include <sha2.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>

#include "fs/base/parse.h"

#define RECORD_NAME "trusted.fsgroupfs.run"
#define RECORD_MAX 512
#define RECORD_VERSION "1"
#define BEGUN "begun"
#define FINISHED "finished"

struct record {
	char tree[80], wanted[80], run[48]; /* "key=value" each */
};

/* Digests, because both texts have no bound and the attribute has one. */
static void add_digest(const char *key, const char *text, char *ret_field, size_t size)
{
	unsigned char sum[SHA256_DIGEST_LENGTH];
	char hex[2 * sizeof(sum) + 1];
	SHA2_CTX context;

	SHA256Init(&context);
	SHA256Update(&context, (const uint8_t *)text, strlen(text));
	SHA256Final(sum, &context);
	format_hex(sum, sizeof(sum), hex);
	snprintf(ret_field, size, "%s=%s", key, hex);
}

static void compose(const char *tree, const char *wanted, const char *run_id,
		    struct record *ret_record)
{
	add_digest("tree", tree, ret_record->tree, sizeof(ret_record->tree));
	add_digest("wanted", wanted, ret_record->wanted, sizeof(ret_record->wanted));
	snprintf(ret_record->run, sizeof(ret_record->run), "run=%s", run_id ? run_id : "");
}

static const char *path_of(int fd, char ret_path[64])
{
	snprintf(ret_path, 64, "/proc/self/fd/%d", fd);
	return ret_path;
}

enum root_record root_record_read(int root_fd, const char *tree, const char *wanted,
				  const char *run_id)
{
	char text[RECORD_MAX], path[64], *rest = text;
	const char *version, *state, *found_tree, *found_wanted, *found_run;
	struct record record;
	ssize_t len = getxattr(path_of(root_fd, path), RECORD_NAME, text, sizeof(text) - 1);

	if (len < 0)
		return ROOT_RECORD_NONE;
	text[len] = '\0';
	version = strsep(&rest, " ");
	state = strsep(&rest, " ");
	found_tree = strsep(&rest, " ");
	found_wanted = strsep(&rest, " ");
	found_run = strsep(&rest, " ");
	compose(tree, wanted, run_id, &record);
	if (!found_run || strcmp(version, RECORD_VERSION) != 0 ||
	    strcmp(found_tree, record.tree) != 0)
		return ROOT_RECORD_NONE;
	if (strcmp(state, FINISHED) == 0)
		return strcmp(found_wanted, record.wanted) == 0 ? ROOT_RECORD_EQUAL :
								  ROOT_RECORD_OTHER;
	return strcmp(found_run, record.run) == 0 ? ROOT_RECORD_NONE : ROOT_RECORD_BEGUN;
}

static int write_record(int root_fd, const char *state, const char *tree, const char *wanted,
			const char *run_id)
{
	char text[RECORD_MAX], path[64];
	struct record record;

	if (root_record_read(root_fd, tree, wanted, run_id) == ROOT_RECORD_EQUAL)
		return 0;
	compose(tree, wanted, run_id, &record);
	snprintf(text, sizeof(text), RECORD_VERSION " %s %s %s %s", state, record.tree,
		 record.wanted, record.run);
	return setxattr(path_of(root_fd, path), RECORD_NAME, text, strlen(text), 0) < 0 ? -errno :
											  0;
}

int root_record_begin(int root_fd, const char *tree, const char *wanted, const char *run_id)
{
	return write_record(root_fd, BEGUN, tree, wanted, run_id);
}

int root_record_finish(int root_fd, const char *tree, const char *wanted, const char *run_id)
{
	return write_record(root_fd, FINISHED, tree, wanted, run_id);
}
