// SPDX-License-Identifier: Apache-2.0
/*
 * call: one request of the local protocol (mountd/PROTOCOL.md), as a node agent makes it: the request's
 * JSON is the argument, the last reply goes to standard output. The root is FSGROUPFS_ROOT's.
 */
#include <stdio.h>
#include <stdlib.h>

#include "mountd/client/call.h"

int main(int argc, char **argv)
{
	const char *root = getenv("FSGROUPFS_ROOT");
	json_t *request = argc == 2 ? json_loads(argv[1], 0, NULL) : NULL, *reply = NULL;
	char why[512];
	int r;

	if (!request || !root) {
		fprintf(stderr, "usage: FSGROUPFS_ROOT=DIR call JSON\n");
		return 2;
	}
	r = client_call(root, request, NULL, NULL, &reply, why, sizeof(why));
	json_decref(request);
	if (r < 0) {
		fprintf(stderr, "call: %s\n", why);
		return 1;
	}
	json_dumpf(reply, stdout, JSON_COMPACT | JSON_SORT_KEYS);
	putchar('\n');
	r = client_reply_exit(reply);
	json_decref(reply);
	return r;
}
