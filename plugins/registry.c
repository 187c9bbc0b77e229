// SPDX-License-Identifier: Apache-2.0
#include "plugins/plugin.h"

#include <string.h>

#include "fs/base/cleanup.h"

/* Every kind of volume. A new one is a file, its table, and a row here. */
/* clang-format off */
static const struct volume_plugin *const plugins[] = {
	&plugin_config_map,
	&plugin_downward_api,
	&plugin_claim,
	&plugin_empty_dir,
	&plugin_flex_volume,
	&plugin_git_repo,
	&plugin_host_path,
	&plugin_local,
	&plugin_projected,
	&plugin_secret,
	&plugin_nfs,
	&plugin_gce_persistent_disk,
	&plugin_aws_elastic_block_store,
	&plugin_azure_disk,
	&plugin_cinder,
	&plugin_iscsi,
	&plugin_fc,
};
/* clang-format on */

const struct volume_plugin *plugin_at(size_t index)
{
	return index < ARRAY_SIZE(plugins) ? plugins[index] : NULL;
}

const struct volume_plugin *plugin_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(plugins); i++) {
		if (strcmp(plugins[i]->name, name) == 0)
			return plugins[i];
	}
	return NULL;
}
