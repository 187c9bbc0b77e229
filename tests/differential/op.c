// SPDX-License-Identifier: Apache-2.0
#include "tests/differential/op.h"

#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "fs/base/cleanup.h"

static const struct {
	const struct op *rows;
	const unsigned *count;
} tables[] = {
	{ op_file_rows, &op_file_count },
	{ op_name_rows, &op_name_count },
	{ op_attr_rows, &op_attr_count },
	{ op_misc_rows, &op_misc_count },
};

const struct op *op_get(unsigned index)
{
	for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
		if (index < *tables[i].count)
			return &tables[i].rows[index];
		index -= *tables[i].count;
	}
	abort(); /* steps are made from the table */
}

static unsigned op_count(void)
{
	unsigned count = 0;

	for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
		count += *tables[i].count;
	return count;
}

bool op_is(unsigned index, const char *name)
{
	return strcmp(op_get(index)->name, name) == 0;
}

/* Without refreshes as if there were no such row: a seed reproduces what it did before there was. */
static unsigned weight(const struct generator *g, unsigned op)
{
	return g->refreshes || !op_is(op, "refresh") ? op_get(op)->weight : 0;
}

static unsigned pick_op(struct generator *g)
{
	unsigned total = 0, at = 0, i;

	for (i = 0; i < op_count(); i++)
		total += weight(g, i);
	total = random_below(&g->random, total);
	for (i = 0;; i++) {
		at += weight(g, i);
		if (at > total)
			return i;
	}
}

static bool can_be_made(const struct generator *g, unsigned op)
{
	if (op_is(op, "converge"))
		return g->converges;
	/* Changes of the lower tree raise no events: compare.h. */
	return !g->refreshes || !op_is(op, "inotify_add_watch");
}

void op_generate(struct generator *g, struct step *ret_step)
{
	memset(ret_step, 0, sizeof(*ret_step));
	do
		ret_step->op = (uint16_t)pick_op(g);
	while (!can_be_made(g, ret_step->op));
	ret_step->worker = (uint16_t)random_below(&g->random, WORKERS);
	ret_step->relative = random_percent(&g->random, 5);
	op_get(ret_step->op)->generate(g, ret_step);
}

void pick_type(struct generator *g, mode_t type, char ret_path[TREE_PATH_MAX])
{
	unsigned i = 0;

	for (unsigned tries = 0; tries < 20; tries++) {
		i = random_below(&g->random, g->paths.count);
		if (g->paths.entries[i].type == type)
			break;
	}
	strcpy(ret_path, g->paths.entries[i].path);
}

void pick_new(struct generator *g, char ret_path[TREE_PATH_MAX])
{
	char dir[TREE_PATH_MAX];

	pick_type(g, S_IFDIR, dir);
	if (random_percent(&g->random, 2))
		snprintf(ret_path, TREE_PATH_MAX, "%.40s/%0*u", dir, 255,
			 random_below(&g->random, 4));
	else
		snprintf(ret_path, TREE_PATH_MAX, "%.280s/n%u", dir, random_below(&g->random, 30));
}

void pick_existing(struct generator *g, char ret_path[TREE_PATH_MAX])
{
	unsigned i = random_below(&g->random, g->paths.count), kind = random_below(&g->random, 100);
	const char *path = g->paths.entries[i].path;

	if (kind < 84)
		snprintf(ret_path, TREE_PATH_MAX, "%s", path);
	else if (kind < 92)
		pick_new(g, ret_path);
	else if (kind < 94)
		snprintf(ret_path, TREE_PATH_MAX, "%.300s/", path);
	else if (kind < 96)
		snprintf(ret_path, TREE_PATH_MAX, "%.300s/../d1", path);
	else if (kind < 98)
		snprintf(ret_path, TREE_PATH_MAX, "%.300s/a", path);
	else if (kind < 99)
		snprintf(ret_path, TREE_PATH_MAX, "%.300s/.", path);
	else
		snprintf(ret_path, TREE_PATH_MAX, "%.20s/%0*u", path, 256, 7);
}

void pick_slot(struct generator *g, const struct step *step, uint8_t *ret_slot)
{
	for (unsigned tries = 0; tries < 8; tries++) {
		*ret_slot = (uint8_t)random_below(&g->random, SLOTS);
		if (g->slot_is_open[step->worker][*ret_slot])
			return;
	}
}

int file_flags(int fd)
{
	int flags = 0;

	return ioctl(fd, FS_IOC_GETFLAGS, &flags) == 0 ? flags : 0;
}

bool has_capability(int fd)
{
	return fgetxattr(fd, "security.capability", NULL, 0) > 0;
}

int64_t slot_set(struct hands *h, uint8_t slot, int fd)
{
	int *at = &h->slots[slot % SLOTS];

	if (fd < 0)
		return -1;
	if (*at >= 0)
		close(*at);
	*at = fd;
	return 0;
}
