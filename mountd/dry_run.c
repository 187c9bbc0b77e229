// SPDX-License-Identifier: Apache-2.0
#include "mountd/dry_run.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/base/log.h"
#include "mountd/holders.h"
#include "mountd/neighbours.h"
#include "mountd/tree_identity.h"

/* ---- ownership ---- */

/* The same words that plan.c compares; a virtual one says so. */
static char *wanted_of(const struct volume_record *vol, bool is_virtual)
{
	AUTO_FREE char *wanted = wanted_text(vol);
	char *text = NULL;

	if (!wanted || !is_virtual)
		return take_ptr(&wanted);
	return asprintf(&text, "virtual;%s", wanted) < 0 ? NULL : text;
}

/* Other volumes on the tree. *io_virtual: whether this one would be virtual. */
static enum proto_exit look_at_neighbours(struct manager *m, const struct volume_record *vol,
					  int source_fd, bool conflict_is_refused, bool *io_virtual,
					  struct answer *answer)
{
	AUTO_FREE char *wanted = wanted_of(vol, *io_virtual);
	AUTO_FREE char *tree = NULL;
	struct neighbours n;
	struct stat st;
	int r;

	if (fstat(source_fd, &st) < 0 || !S_ISDIR(st.st_mode))
		return EXIT_OK;
	r = tree_identity(source_fd, m->boot_id, &tree);
	if (r == 0)
		r = wanted ?
			    neighbours_find(m, vol->id, source_fd, tree, wanted, !*io_virtual, &n) :
			    -ENOMEM;
	if (r < 0)
		return answer_fail(answer, EXIT_FAILED, "the source: %s", strerror(-r));
	if (n.other[0] && conflict_is_refused)
		return answer_fail(
			answer, EXIT_FAILED,
			"volume %s has another ownership on %s (conflict=virtual would show this one its own)",
			n.other, n.where);
	if (n.other[0]) {
		*io_virtual = true;
		return answer_would(answer, "be virtual: volume %s has another ownership on %s",
				    n.other, n.where);
	}
	if (n.equal[0])
		answer_would(answer, "share the tree with volume %s, which wants the same",
			     n.equal);
	return EXIT_OK;
}

enum proto_exit dry_run_ownership(struct manager *m, const struct volume_record *vol,
				  const struct volume_plugin *plugin, int source_fd,
				  bool conflict_is_refused, struct answer *answer)
{
	unsigned gid = (unsigned)vol->fs_group;
	bool is_virtual = strcmp(vol->ownership, "virtual") == 0;

	if (vol->fs_group == GID_UNSET || strcmp(vol->ownership, "none") == 0)
		return answer_would(answer, "leave every owner and mode as it is");
	if (!plugin->attributes.manages_ownership && !is_virtual)
		return answer_would(answer, "ignore fsGroup %u: %s does not manage ownership", gid,
				    plugin->name);
	/* What the plugin itself writes has its group from the beginning. */
	if (plugin->attributes.is_read_only && !is_virtual)
		return answer_would(answer, "write its files with group %u", gid);
	is_virtual = is_virtual || vol->read_only;
	if (source_fd >= 0 && look_at_neighbours(m, vol, source_fd, conflict_is_refused,
						 &is_virtual, answer) != EXIT_OK)
		return answer->exit;
	if (is_virtual)
		return answer_would(answer, "show every file with group %u, and write nothing",
				    gid);
	if (strcmp(vol->policy, "RootOnly") == 0)
		return answer_would(answer, "give the root directory to group %u", gid);
	answer_would(answer,
		     "show every file with group %u at once, and make it true behind that%s", gid,
		     strcmp(vol->policy, "OnRootMismatch") == 0 ?
			     ", unless the root is right already" :
			     "");
	if (strcmp(vol->excludes, "[]") != 0)
		answer_would(answer, "leave out %s", vol->excludes);
	return EXIT_OK;
}

/* ---- taking it off ---- */

/* Whether what is mounted at the target is the volume's. */
static bool is_ours(struct manager *m, const struct volume_record *vol, struct overlay *o,
		    const struct target *target, const struct mount_view *view)
{
	struct overlay_status status = { 0 };

	if (o)
		overlay_status_get(o, &status);
	return view->id == vol->mount_id || (o && view->id == status.mount_id) || is_orphan(vol) ||
	       was_handed_off(m, vol, target, view);
}

enum proto_exit dry_run_detach(struct manager *m, const struct volume_record *vol, bool lazy,
			       struct answer *answer)
{
	AUTO(overlay) *o = overlay_find(m->overlays, vol->id);
	AUTO(target) *target = NULL;
	AUTO_FREE char *below = NULL;
	struct mount_view view = { 0 };
	char text[512], quoted[256];

	if (target_open(vol->target_resolved, &target, text) < 0 ||
	    mount_look(target->parent_fd, target->name, &view) < 0 || !view.is_root)
		return answer_would(answer, "find nothing mounted at the target");
	if (!is_ours(m, vol, o, target, &view)) {
		if (mount_describe(vol->target_resolved, text, sizeof(text)) < 0)
			snprintf(text, sizeof(text), "something");
		return answer_fail(answer, EXIT_FAILED,
				   "%s is mounted at the target, and is not ours: left untouched",
				   text);
	}
	if (!lazy && mount_below(vol->target_resolved, &below) == 0)
		return answer_fail(answer, EXIT_FAILED,
				   "the target is busy: another mount is below it, at %s",
				   log_quote(below, quoted, sizeof(quoted)));
	/* The number of an overlay that has gone may be another's by now. */
	if (!lazy &&
	    holders_find(view.id, o && vol->state != VOLUME_NATIVE ? live_dev(m, vol->id) : 0,
			 o ? overlay_keeper_pid(o) : 0, text, sizeof(text)))
		return answer_fail(answer, EXIT_FAILED, "the target is busy: %s", text);
	return answer_would(answer, "take the mount off %s%s",
			    log_quote(vol->target, quoted, sizeof(quoted)),
			    lazy ? ", also while it is in use" : "");
}

enum proto_exit dry_run_unmount(struct manager *m, const struct volume_record *vol, bool lazy,
				struct answer *answer)
{
	const struct volume_plugin *plugin = plugin_find(vol->plugin);
	AUTO(overlay) *o = overlay_find(m->overlays, vol->id);

	if (dry_run_detach(m, vol, lazy, answer) != EXIT_OK)
		return answer->exit;
	if (o)
		answer_would(answer, "end its overlay");
	if (plugin && plugin->attributes.idempotency == IDEMPOTENCY_MARKER)
		answer_would(answer, "delete what %s has made", plugin->name);
	else
		answer_would(answer, "leave what is in it");
	return answer_would(answer, "forget volume %s", vol->id);
}
