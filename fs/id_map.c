// SPDX-License-Identifier: Apache-2.0
#include "fs/id_map.h"

#include <errno.h>

#include "fs/base/parse.h"

int id_map_parse(const char *text, struct id_map *ret_map)
{
	ret_map->count = 0;
	while (*text != '\0') {
		struct id_range *range = &ret_map->ranges[ret_map->count];

		if (ret_map->count == ID_RANGES_MAX || parse_next_u32(&text, &range->first) < 0 ||
		    parse_next_u32(&text, &range->lower) < 0 ||
		    parse_next_u32(&text, &range->count) < 0)
			return -EINVAL;
		/* The last id of all is none: a range ends before it. */
		if (range->count > UINT32_MAX - range->first ||
		    range->count > UINT32_MAX - range->lower)
			return -EINVAL;
		if (*text != '\n' && *text != '\0')
			return -EINVAL;
		text += *text == '\n';
		ret_map->count++;
	}
	return 0;
}

void id_map_identity(struct id_map *ret_map)
{
	ret_map->count = 1;
	ret_map->ranges[0] = (struct id_range){ 0, 0, UINT32_MAX };
}

uint32_t id_map_down(const struct id_map *map, uint32_t first)
{
	for (size_t i = 0; i < map->count; i++) {
		const struct id_range *range = &map->ranges[i];

		if (first >= range->first && first - range->first < range->count)
			return range->lower + (first - range->first);
	}
	return ID_NONE;
}

bool id_map_has_lower(const struct id_map *map, uint32_t lower)
{
	for (size_t i = 0; i < map->count; i++) {
		const struct id_range *range = &map->ranges[i];

		if (lower >= range->lower && lower - range->lower < range->count)
			return true;
	}
	return false;
}
