// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "fs/base/cleanup.h"
#include "plugins/plugin.h"

/* Source: interface.md, Plugins and specs: the Kubernetes source keys. */
static const char *const source_keys[] = {
	"emptyDir",
	"hostPath",
	"local",
	"secret",
	"configMap",
	"downwardAPI",
	"projected",
	"gitRepo",
	"persistentVolumeClaim",
	"nfs",
	"flexVolume",
	"gcePersistentDisk",
	"awsElasticBlockStore",
	"azureDisk",
	"cinder",
	"iscsi",
	"fc",
};

static void plugin_at_every_row_has_its_functions(void **state)
{
	(void)state;
	for (size_t i = 0; plugin_at(i); i++) {
		const struct volume_plugin *plugin = plugin_at(i);

		assert_non_null(plugin->name);
		assert_non_null(plugin->check);
		assert_non_null(plugin->identity);
		assert_non_null(plugin->set_up);
		assert_non_null(plugin->open_lower);
		assert_non_null(plugin->tear_down);
	}
}

static void plugin_at_every_row_has_what_its_idempotency_needs(void **state)
{
	(void)state;
	for (size_t i = 0; plugin_at(i); i++) {
		const struct volume_plugin *plugin = plugin_at(i);
		enum idempotency idempotency = plugin->attributes.idempotency;

		assert_true(idempotency == IDEMPOTENCY_NONE ||
			    idempotency == IDEMPOTENCY_MOUNTPOINT ||
			    idempotency == IDEMPOTENCY_MARKER);
		assert_int_equal(plugin->certify != NULL, idempotency == IDEMPOTENCY_MARKER);
		assert_int_equal(plugin->is_set_up != NULL, idempotency == IDEMPOTENCY_MOUNTPOINT);
	}
}

static void plugin_at_names_are_kubernetes_keys(void **state)
{
	(void)state;
	for (size_t i = 0; plugin_at(i); i++) {
		bool known = false;

		for (size_t k = 0; k < ARRAY_SIZE(source_keys); k++)
			known |= strcmp(plugin_at(i)->name, source_keys[k]) == 0;
		assert_true(known);
	}
}

static void plugin_find_every_name_is_unique(void **state)
{
	size_t count = 0;

	(void)state;
	for (; plugin_at(count); count++)
		assert_ptr_equal(plugin_find(plugin_at(count)->name), plugin_at(count));
	assert_true(count >= 3);
	assert_null(plugin_at(count + 1));
}

static void plugin_find_unknown_is_null(void **state)
{
	(void)state;
	assert_null(plugin_find(""));
	assert_null(plugin_find("emptydir"));
	assert_null(plugin_find("emptyDir "));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plugin_at_every_row_has_its_functions),
		cmocka_unit_test(plugin_at_every_row_has_what_its_idempotency_needs),
		cmocka_unit_test(plugin_at_names_are_kubernetes_keys),
		cmocka_unit_test(plugin_find_every_name_is_unique),
		cmocka_unit_test(plugin_find_unknown_is_null),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
