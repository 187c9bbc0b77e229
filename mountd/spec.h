/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOUNTD_SPEC_H
#define MOUNTD_SPEC_H

/*
 * spec: what a volume is made from: a PersistentVolume, a Volume, a bare volume source, or a plugin's
 * name with a source (interface.md, Plugins and specs).
 *
 * Knows the Kubernetes forms. Does not know what a plugin wants in its source object. Called by the
 * request handlers and when a record is read back. Pure: no state, any thread.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "fs/base/cleanup.h"

#define SPEC_SCHEMA_VERSION 1
#define SPEC_ERROR_MAX 512

struct spec {
	char *plugin;	     /* a name of interface.md's list; whether it is built is not checked */
	char *kind;	     /* "PersistentVolume" | "Volume" | "VolumeSource" */
	json_t *object;	     /* as given, without kubernetes.io/secret/ values */
	json_t *source;	     /* the plugin's part of object; borrowed from it */
	bool read_only;	     /* source.readOnly */
	char *mount_options; /* a PersistentVolume's, joined with commas; NULL: none */
};

/*
 * spec_parse: the spec in @text (of @len bytes), or the one that @plugin and @source make.
 * @plugin:    a plugin's name or NULL; with a spec it must be the spec's
 * @source:    a path (local, hostPath) or the text of a bare source object, or NULL
 * @text:      the JSON of a spec, or NULL; not together with @source
 * @ret_error: SPEC_ERROR_MAX bytes; one line when the call fails; never holds the text itself
 *
 * Returns 0, -EINVAL (*ret_error says why), or -ENOMEM.
 */
int spec_parse(const char *plugin, const char *source, const char *text, struct spec **ret_spec,
	       char *ret_error);
void spec_free(struct spec *spec);
DEFINE_AUTO(spec)

/* spec_record: the stored form, {kind, schemaVersion, object}; the caller's to free; NULL: no memory. */
char *spec_record(const struct spec *spec);

/*
 * spec_restore: the spec of a stored record of plugin @plugin.
 * Returns 0, -EINVAL (damaged), -ENOTSUP (schema newer than this program) or -ENOMEM.
 */
int spec_restore(const char *plugin, const char *record, struct spec **ret_spec);

/* spec_plugin_is_named: whether interface.md names this plugin, built or not. */
bool spec_plugin_is_named(const char *plugin);

/* spec_plugin_at: the names, one by one; NULL behind the last. */
const char *spec_plugin_at(size_t index);

#endif
