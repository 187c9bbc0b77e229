// SPDX-License-Identifier: Apache-2.0
#include "plugins/device_program.h"

#include <string.h>

#include "fs/base/log.h"
#include "plugins/builder.h"

#define OUTPUT_MAX 16384

int device_program_run(struct volume_builder *b, const struct device *device, const char *name,
		       const char *const args[DEVICE_PROGRAM_ARGS], uint64_t timeout_ms,
		       struct program_result **ret_result)
{
	char path[PATH_MAX], node[64], quoted[256];
	const char *argv[DEVICE_PROGRAM_ARGS + 3] = { name };
	struct program_request request = {
		.path = path,
		.argv = argv,
		.cwd_fd = -1,
		.timeout_ms = timeout_ms,
		.output_max = OUTPUT_MAX,
	};
	size_t argc = 1;
	int r = program_find(name, path, sizeof(path));

	if (r < 0)
		return builder_fail(b, r, "%s is not installed", name);
	for (size_t i = 0; i < DEVICE_PROGRAM_ARGS && args[i]; i++)
		argv[argc++] = args[i];
	device_program_path(device, node, sizeof(node));
	argv[argc] = node;
	r = program_run(&request, ret_result);
	if (r < 0)
		return builder_fail(b, r, "%s of %s: %s", name,
				    log_quote(device->path, quoted, sizeof(quoted)), strerror(-r));
	return 0;
}
