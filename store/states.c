// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "store/store.h"

#define BIT(state) (1U << VOLUME_##state)
#define OVERLAY_STATES (BIT(PRESENTED) | BIT(CONVERGING) | BIT(CONVERGED))
#define LIVE_STATES (OVERLAY_STATES | BIT(NATIVE) | BIT(VIRTUAL))
/* Wherever a volume is, it can be set up anew, be found gone or broken, and be taken away. */
#define ALWAYS (BIT(SETTING_UP) | BIT(ABSENT) | BIT(FAILED) | BIT(TEARING_DOWN))

/*
 * The states of interface.md, and what may follow each. What is at the target changes its kind only
 * through setting-up: a native volume does not get an overlay behind its consumers' back, nor a
 * virtual one a run.
 */
static const struct {
	const char *name;
	unsigned next;
} states[] = {
	[VOLUME_SETTING_UP] = { "setting-up", ALWAYS | LIVE_STATES | BIT(STAGED) },
	[VOLUME_PRESENTED] = { "presented", ALWAYS | OVERLAY_STATES | BIT(NATIVE) },
	[VOLUME_CONVERGING] = { "converging", ALWAYS | OVERLAY_STATES | BIT(NATIVE) },
	[VOLUME_CONVERGED] = { "converged", ALWAYS | OVERLAY_STATES | BIT(NATIVE) },
	[VOLUME_NATIVE] = { "native", ALWAYS | BIT(NATIVE) },
	[VOLUME_VIRTUAL] = { "virtual", ALWAYS | BIT(VIRTUAL) },
	[VOLUME_STAGED] = { "staged", ALWAYS | BIT(STAGED) },
	/* What was thought lost is found again, its keeper alive. */
	[VOLUME_ABSENT] = { "absent", ALWAYS | LIVE_STATES | BIT(STAGED) },
	[VOLUME_FAILED] = { "failed", ALWAYS | LIVE_STATES | BIT(STAGED) },
	/* What turns out to be busy is again what it was. */
	[VOLUME_TEARING_DOWN] = { "tearing-down", ALWAYS | LIVE_STATES | BIT(STAGED) },
};

const char *volume_state_name(enum volume_state state)
{
	assert((size_t)state < ARRAY_SIZE(states));
	return states[state].name;
}

int volume_state_from_name(const char *name, enum volume_state *ret_state)
{
	for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
		if (strcmp(name, states[i].name) == 0) {
			*ret_state = (enum volume_state)i;
			return 0;
		}
	}
	return -EINVAL;
}

bool volume_state_may_become(enum volume_state from, enum volume_state to)
{
	assert((size_t)from < ARRAY_SIZE(states) && (size_t)to < ARRAY_SIZE(states));
	return states[from].next & (1U << to);
}

bool volume_state_is_live(enum volume_state state)
{
	return (1U << state) & LIVE_STATES;
}
