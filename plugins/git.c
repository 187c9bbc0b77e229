// SPDX-License-Identifier: Apache-2.0
#include "plugins/git.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

#include "fs/base/log.h"
#include "plugins/builder.h"
#include "plugins/program.h"
#include "plugins/tree_visit.h"

#define GIT_MEMORY_BYTES (1ULL << 30)
#define GIT_ENTRIES_MAX 1000000
#define WATCH_MS 500
#define OUTPUT_MAX 16384

/* Whom git runs as. */
struct user {
	uid_t uid;
	gid_t gid;
	char home[256];
};

/* One clone under way. */
struct cloning {
	struct volume_builder *b;
	const struct plugin_settings *settings;
	const struct git_source *source;
	int dir_fd;
	char git_path[PATH_MAX];
	struct user user;
};

/* ---- what may be asked for ---- */

static const char *const protocols[] = { "https", "http", "ssh", "git" };

static bool has_control(const char *text)
{
	for (; *text; text++) {
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			return true;
	}
	return false;
}

static int check_word(struct volume_builder *b, const char *key, const char *value)
{
	char quoted[128];

	log_quote(value, quoted, sizeof(quoted));
	if (value[0] == '-')
		return builder_fail(b, -EINVAL, "%s: %s begins with \"-\"", key, quoted);
	if (has_control(value))
		return builder_fail(b, -EINVAL, "%s: %s holds a control character", key, quoted);
	return 0;
}

static int check_file(struct volume_builder *b)
{
	if (b->host->is_root_at_shell(b))
		return 0;
	return builder_fail(b, -EACCES,
			    "repository: the protocol file is for root at fsgroupctl only");
}

/* The part between "://" and the path must not hold a password: git may print it, and others may read that. */
static int check_authority(struct volume_builder *b, const char *authority)
{
	size_t len = strcspn(authority, "/");
	const char *at = memrchr(authority, '@', len);

	if (authority[0] == '-')
		return builder_fail(b, -EINVAL, "repository: a host that begins with \"-\"");
	if (at && memchr(authority, ':', (size_t)(at - authority)))
		return builder_fail(b, -EINVAL, "repository: a password in the URL is refused");
	return 0;
}

static int check_repository(struct volume_builder *b, const char *url)
{
	const char *scheme_end = strstr(url, "://");
	const char *colon = strchr(url, ':'), *slash = strchr(url, '/');
	char quoted[64], *scheme;

	if (!*url)
		return builder_fail(b, -EINVAL, "repository: missing");
	if (url[0] == '/')
		return check_file(b);
	if (colon && colon[1] == ':')
		return builder_fail(b, -EINVAL, "repository: transport helpers are refused");
	if (!scheme_end) {
		/* user@host:path, which is ssh */
		if (colon && (!slash || colon < slash) && colon != url)
			return 0;
		return builder_fail(b, -EINVAL, "repository: neither a URL nor an absolute path");
	}
	scheme = strndupa(url, (size_t)(scheme_end - url));
	if (strcmp(scheme, "file") == 0)
		return check_file(b);
	for (size_t i = 0; i < ARRAY_SIZE(protocols); i++) {
		if (strcmp(scheme, protocols[i]) == 0)
			return check_authority(b, scheme_end + strlen("://"));
	}
	return builder_fail(b, -EINVAL,
			    "repository: the protocol %s is none of https, http, ssh and git",
			    log_quote(scheme, quoted, sizeof(quoted)));
}

int git_check(struct volume_builder *b, const struct git_source *source)
{
	int r = check_word(b, "repository", source->repository);

	if (r == 0)
		r = check_repository(b, source->repository);
	return r < 0 ? r : check_word(b, "revision", source->revision);
}

int git_directory_name(const char *repository, char *ret_name)
{
	static const char *const endings[] = { "/.git", ".git", ".bundle" };
	size_t len = strlen(repository), begin;

	while (len > 0 && (repository[len - 1] == '/' || repository[len - 1] == ' '))
		len--;
	for (size_t i = 0; i < ARRAY_SIZE(endings); i++) {
		size_t ending = strlen(endings[i]);

		if (len > ending && memcmp(repository + len - ending, endings[i], ending) == 0)
			len -= ending;
	}
	while (len > 0 && repository[len - 1] == '/')
		len--;
	for (begin = len; begin > 0 && repository[begin - 1] != '/' && repository[begin - 1] != ':';
	     begin--)
		;
	if (len == begin || len - begin > NAME_MAX || repository[begin] == '.')
		return -EINVAL;
	memcpy(ret_name, repository + begin, len - begin);
	ret_name[len - begin] = '\0';
	return 0;
}

/* ---- running git ---- */

static int find_user(struct cloning *c)
{
	const char *name = c->settings->git_user;
	char buffer[4096];
	struct passwd entry, *found = NULL;
	int error = getpwnam_r(name, &entry, buffer, sizeof(buffer), &found);

	if (!found)
		return builder_fail(c->b, -ENOENT, "git: there is no user %s to run it as%s%s",
				    name, error ? ": " : "", error ? strerror(error) : "");
	if (found->pw_uid == 0)
		return builder_fail(c->b, -EPERM, "git: does not run as %s, which is root", name);
	c->user.uid = found->pw_uid;
	c->user.gid = found->pw_gid;
	if ((size_t)snprintf(c->user.home, sizeof(c->user.home), "HOME=%s", found->pw_dir) >=
	    sizeof(c->user.home))
		return builder_fail(c->b, -ENAMETOOLONG, "git: the home of %s", name);
	return 0;
}

/* Whether it has grown too large; the tree changes meanwhile, so what cannot be read now is no matter. */
static int check_size(void *arg)
{
	struct cloning *c = arg;
	struct tree_usage usage;

	if (tree_usage(c->dir_fd, GIT_ENTRIES_MAX, &usage) < 0)
		return 0;
	return usage.cut || usage.bytes > c->settings->git_size_bytes ? -EDQUOT : 0;
}

static int fail_run(struct cloning *c, const char *what, int r)
{
	if (r == -EDQUOT)
		return builder_fail(
			c->b, r,
			"%s: larger than %llu bytes or %d entries (git-size of mountd.conf)", what,
			(unsigned long long)c->settings->git_size_bytes, GIT_ENTRIES_MAX);
	if (r == -ETIMEDOUT)
		return builder_fail(c->b, r,
				    "%s: not done within %llu s (git-timeout of mountd.conf)", what,
				    (unsigned long long)c->settings->git_timeout_ms / 1000);
	return builder_fail(c->b, r, "%s: cannot run %s: %s", what, c->git_path, strerror(-r));
}

/* @words: the command and its arguments, NULL at the end. */
static int git(struct cloning *c, const char *const *words)
{
	/* What the command line says goes before any file, also before the clone's own configuration. */
	static const char *const options[] = {
		"-c",
		"core.hooksPath=/dev/null",
		"-c",
		"core.fsmonitor=false",
		"-c",
		"core.attributesFile=/dev/null",
		"-c",
		("core.sshCommand=ssh -o BatchMode=yes -o StrictHostKeyChecking=yes "
		 "-o ForwardAgent=no -o PermitLocalCommand=no"),
		"-c",
		"credential.helper=",
		"-c",
		"submodule.recurse=false",
		"-c",
		"fetch.recurseSubmodules=false",
		"-c",
		"transfer.bundleURI=false",
		"-c",
		"gc.auto=0",
		"-c",
		"maintenance.auto=false",
		"-c",
		"advice.detachedHead=false",
		"-c",
		"safe.directory=*", /* the clone is the user's, its directory may be root's */
	};
	const char *envp[] = {
		"PATH=" PROGRAM_PATH,
		c->user.home,
		"LC_ALL=C",
		"GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_ATTR_NOSYSTEM=1",
		"GIT_TEMPLATE_DIR=",
		"GIT_TERMINAL_PROMPT=0",
		"GIT_LFS_SKIP_SMUDGE=1",
		"GIT_NO_LAZY_FETCH=1",
		c->b->host->is_root_at_shell(c->b) ? "GIT_ALLOW_PROTOCOL=https:http:ssh:git:file" :
						     "GIT_ALLOW_PROTOCOL=https:http:ssh:git",
		NULL,
	};
	const char *argv[64] = { "git" };
	struct program_request q = {
		.path = c->git_path,
		.argv = argv,
		.envp = envp,
		.cwd_fd = c->dir_fd,
		.as_user = true,
		.uid = c->user.uid,
		.gid = c->user.gid,
		.own_pids = true,
		.own_mounts = true,
		.timeout_ms = c->settings->git_timeout_ms,
		.output_max = OUTPUT_MAX,
		.file_bytes = c->settings->git_size_bytes,
		.data_bytes = GIT_MEMORY_BYTES,
		.watch = check_size,
		.watch_arg = c,
		.watch_ms = WATCH_MS,
	};
	AUTO(program_result) *result = NULL;
	char what[32], line[300];
	size_t n = 1;
	int r;

	memcpy(argv + n, options, sizeof(options));
	n += ARRAY_SIZE(options);
	for (size_t i = 0; words[i]; i++)
		argv[n++] = words[i];
	snprintf(what, sizeof(what), "git %s", words[0]);
	r = program_run(&q, &result);
	if (r < 0)
		return fail_run(c, what, r);
	/* A file that grew to its limit is git's own failure, in the C library's words; it tidies up. */
	if (result->exit_status != 0 && strstr(result->output, strerror(EFBIG)))
		return fail_run(c, what, -EDQUOT);
	if (result->exit_status != 0)
		return builder_fail(c->b, -EIO, "%s: %s", what,
				    program_result_line(result, line, sizeof(line)));
	return 0;
}

static int fetch(struct cloning *c)
{
	const char *const words[] = {
		"clone",
		"--quiet",
		"--no-local",
		"--no-checkout",
		"--no-recurse-submodules",
		"--template=",
		/* For the protocol file: its other end has another owner, and takes no setting of ours. */
		"--upload-pack=git -c safe.directory=* upload-pack",
		"--",
		c->source->repository,
		".",
		NULL,
	};
	const char *const network[] = {
		"clone",
		"--quiet",
		"--no-local",
		"--no-checkout",
		"--no-recurse-submodules",
		"--template=",
		"--",
		c->source->repository,
		".",
		NULL,
	};
	bool is_file = c->source->repository[0] == '/' ||
		       strncmp(c->source->repository, "file:", strlen("file:")) == 0;

	return git(c, is_file ? words : network);
}

/* "checkout HEAD" fails where a repository is empty, which a clone of it does not. */
static int check_out(struct cloning *c)
{
	const char *const words[] = { "checkout",	   "--quiet", "--force",
				      c->source->revision, "--",      NULL };
	const char *const probe[] = { "rev-parse", "--quiet", "--verify", "HEAD^{commit}", NULL };
	const char *const head[] = { "checkout", "--quiet", "--force", "HEAD", "--", NULL };

	if (c->source->revision[0])
		return git(c, words);
	if (git(c, probe) == -EIO) {
		c->b->error[0] = '\0';
		return 0;
	}
	return git(c, head);
}

static int give_entry(void *arg, int dir_fd, const char *name, const struct statx *st)
{
	(void)arg;
	(void)st;
	return fchownat(dir_fd, name, 0, 0, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

/* From the user whom git ran as to root, as whom a node agent would have run it. */
static int give_to_root(struct cloning *c)
{
	int r = tree_visit(c->dir_fd, 0, give_entry, NULL);

	if (r == 0 && fchownat(c->dir_fd, "", 0, 0, AT_EMPTY_PATH) < 0)
		r = -errno;
	return r < 0 ? builder_fail(c->b, r, "git: giving the clone to root: %s", strerror(-r)) : 0;
}

int git_clone(struct volume_builder *b, const struct git_source *source, int dir_fd)
{
	struct cloning c = {
		.b = b,
		.settings = b->host->settings(b),
		.source = source,
		.dir_fd = dir_fd,
	};
	int r = git_check(b, source);

	if (r < 0)
		return r;
	if (program_find("git", c.git_path, sizeof(c.git_path)) < 0)
		return builder_fail(b, -ENOENT, "git: not installed (looked in %s)", PROGRAM_PATH);
	r = find_user(&c);
	if (r < 0)
		return r;
	if (fchownat(dir_fd, "", c.user.uid, c.user.gid, AT_EMPTY_PATH) < 0) {
		r = -errno;
		return builder_fail(b, r, "git: the clone's directory: %s", strerror(-r));
	}
	if ((r = fetch(&c)) < 0 || (r = check_out(&c)) < 0)
		return r;
	r = check_size(&c);
	return r < 0 ? fail_run(&c, "git", r) : give_to_root(&c);
}
