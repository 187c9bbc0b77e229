/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLUGINS_TRACE_H
#define PLUGINS_TRACE_H

/*
 * trace: a decorator for any plugin: each call that does something gives one line:
 *
 *     vol=ID plugin=NAME call=set_up result=ok us=1234
 *     vol=ID plugin=NAME call=tear_down result=EBUSY us=56
 *
 * The line has the names of things of ours and an errno's name: no field of a source, no option, no path of
 * a payload, no message. The plugin does not notice; what it lacks its decorated table lacks too. Calls that only read
 * the source (identity, is_shared, manages) are not decorated. Thread rule of plugin.h.
 */

#include <stdint.h>

#include "plugins/plugin.h"

/* A call that was traced. */
struct traced_call {
	const char *plugin, *call, *result;
	uint64_t us;
	const char *line; /* without a newline */
};

/* One builder's decorator; the fields are trace's own. Must live as long as the builder. */
struct trace {
	struct volume_plugin table;
	const struct volume_plugin *plugin;
	void (*say)(const struct volume_builder *b, const struct traced_call *call);
};

/*
 * trace_plugin: the table to call instead of @plugin's with the builder @b, and with it alone.
 * @say: gets each call; any thread that calls the plugin
 */
const struct volume_plugin *
trace_plugin(struct trace *trace, struct volume_builder *b, const struct volume_plugin *plugin,
	     void (*say)(const struct volume_builder *b, const struct traced_call *call));

#endif
