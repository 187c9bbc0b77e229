// SPDX-License-Identifier: Apache-2.0
#include "mountd/rules.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/base/io.h"
#include "fs/base/parse.h"
#include "fs/base/selinux.h"

#define CONFIG_BYTES_MAX (1 << 20)

static const char *const front_names[FRONT_END_COUNT] = {
	[FRONT_CTL] = "ctl",
	[FRONT_FLEXVOLUME] = "flexvolume",
	[FRONT_MOUNT] = "mount",
	[FRONT_CSI] = "csi",
};

static const char *const policies[] = { "Always", "OnRootMismatch", "RootOnly", NULL };
static const char *const ownerships[] = { "converge", "virtual", "none", NULL };
static const char *const conflicts[] = { "refuse", "virtual", NULL };

static bool is_listed(const char *word, const char *const *list)
{
	for (; *list; list++) {
		if (strcmp(word, *list) == 0)
			return true;
	}
	return false;
}

static void words_free(char **words)
{
	for (size_t i = 0; words && words[i]; i++)
		free(words[i]);
	free(words);
}

/* @text split at spaces and tabs; NULL: no memory. */
static char **words_split(const char *text)
{
	size_t count = 0, room = strlen(text) / 2 + 2;
	char **words = calloc(room, sizeof(*words));

	while (words) {
		size_t len;

		text += strspn(text, " \t");
		len = strcspn(text, " \t");
		if (len == 0)
			break;
		words[count] = strndup(text, len);
		if (!words[count++]) {
			words_free(words);
			return NULL;
		}
		text += len;
	}
	return words;
}

static int set_words(char ***io_words, const char *value)
{
	char **words = words_split(value);

	if (!words)
		return -ENOMEM;
	words_free(*io_words);
	*io_words = words;
	return 0;
}

static int set_choice(char **io_text, const char *value, const char *const *choices)
{
	char *text;

	if (!is_listed(value, choices))
		return -EINVAL;
	text = strdup(value);
	if (!text)
		return -ENOMEM;
	free(*io_text);
	*io_text = text;
	return 0;
}

static int set_text(char **io_text, const char *value)
{
	char *text = strdup(value);

	if (!text)
		return -ENOMEM;
	free(*io_text);
	*io_text = text;
	return 0;
}

static int set_plugins(struct front_rules *front, const char *value)
{
	return set_words(&front->plugins, value);
}

static int set_paths(char ***io_words, const char *value)
{
	int r = set_words(io_words, value);

	for (size_t i = 0; r == 0 && (*io_words)[i]; i++) {
		if ((*io_words)[i][0] != '/')
			r = -EINVAL;
	}
	return r;
}

static int set_sources(struct front_rules *front, const char *value)
{
	return set_paths(&front->sources, value);
}

static int set_objects(struct front_rules *front, const char *value)
{
	return set_paths(&front->objects, value);
}

static int set_ownership(struct front_rules *front, const char *value)
{
	int r = set_words(&front->ownership, value);

	for (size_t i = 0; r == 0 && front->ownership[i]; i++) {
		if (!is_listed(front->ownership[i], ownerships))
			r = -EINVAL;
	}
	return r;
}

static int set_format(struct front_rules *front, const char *value)
{
	if (strcmp(value, "yes") != 0 && strcmp(value, "no") != 0)
		return -EINVAL;
	front->format = strcmp(value, "yes") == 0;
	return 0;
}

static int set_policy(struct front_rules *front, const char *value)
{
	return set_choice(&front->policy, value, policies);
}

static int set_default_ownership(struct front_rules *front, const char *value)
{
	return set_choice(&front->default_ownership, value, ownerships);
}

static int set_exclude(struct front_rules *front, const char *value)
{
	return set_words(&front->exclude, value);
}

static int set_converge_rate(struct front_rules *front, const char *value)
{
	return parse_u64(value, &front->converge_rate);
}

static int set_settle(struct front_rules *front, const char *value)
{
	return parse_duration(value, 1, &front->settle_ms);
}

static int set_conflict(struct front_rules *front, const char *value)
{
	return set_choice(&front->conflict, value, conflicts);
}

static int set_context(struct front_rules *front, const char *value)
{
	return selinux_label_is_valid(value) ? set_text(&front->context, value) : -EINVAL;
}

static int set_idmap(struct front_rules *front, const char *value)
{
	if (strcmp(value, "yes") != 0 && strcmp(value, "no") != 0)
		return -EINVAL;
	front->idmap = strcmp(value, "yes") == 0;
	return 0;
}

static const struct {
	const char *key;
	int (*set)(struct front_rules *front, const char *value);
} front_keys[] = {
	{ "plugins", set_plugins },	{ "sources", set_sources },
	{ "ownership", set_ownership }, { "format", set_format },
	{ "policy", set_policy },	{ "default-ownership", set_default_ownership },
	{ "exclude", set_exclude },	{ "converge-rate", set_converge_rate },
	{ "settle", set_settle },	{ "conflict", set_conflict },
	{ "objects", set_objects },	{ "context", set_context },
	{ "idmap", set_idmap },
};

/* ---- [plugins] ---- */

const struct plugin_settings rules_default_settings = {
	.flexvolume_timeout_ms = 2 * 60 * 1000,
	.git_user = (char *)"nobody",
	.git_timeout_ms = 5 * 60 * 1000,
	.git_size_bytes = 2ULL << 30,
};

static int set_flexvolume_dir(struct plugin_settings *settings, const char *value)
{
	return value[0] == '/' ? set_text(&settings->flexvolume_dir, value) : -EINVAL;
}

static int set_limit(uint64_t *io_value, int error, uint64_t value)
{
	if (error < 0 || value == 0)
		return -EINVAL;
	*io_value = value;
	return 0;
}

static int set_flexvolume_timeout(struct plugin_settings *settings, const char *value)
{
	uint64_t ms = 0;
	int r = parse_duration(value, 1000, &ms);

	return set_limit(&settings->flexvolume_timeout_ms, r, ms);
}

static int set_git_user(struct plugin_settings *settings, const char *value)
{
	return value[0] && strcmp(value, "root") != 0 ? set_text(&settings->git_user, value) :
							-EINVAL;
}

static int set_git_timeout(struct plugin_settings *settings, const char *value)
{
	uint64_t ms = 0;
	int r = parse_duration(value, 1000, &ms);

	return set_limit(&settings->git_timeout_ms, r, ms);
}

static int set_git_size(struct plugin_settings *settings, const char *value)
{
	uint64_t bytes = 0;
	int r = parse_size(value, &bytes);

	return set_limit(&settings->git_size_bytes, r, bytes);
}

static const struct {
	const char *key;
	int (*set)(struct plugin_settings *settings, const char *value);
} plugin_keys[] = {
	{ "flexvolume-dir", set_flexvolume_dir },
	{ "flexvolume-timeout", set_flexvolume_timeout },
	{ "git-user", set_git_user },
	{ "git-timeout", set_git_timeout },
	{ "git-size", set_git_size },
};

/* People may do all that root may; node agents only what is written down, emptyDir apart. */
static int set_builtin(struct rules *rules)
{
	int r = 0;

	rules->log_level = LOG_INFO;
	rules->cpu_latency_us = -1;
	rules->settings = rules_default_settings;
	rules->settings.git_user = NULL;
	r = set_text(&rules->settings.git_user, rules_default_settings.git_user);
	for (int i = 0; r == 0 && i < FRONT_END_COUNT; i++) {
		struct front_rules *front = &rules->front[i];
		bool person = i == FRONT_CTL || i == FRONT_MOUNT;

		front->settings = &rules->settings;
		front->is_root_at_shell = i == FRONT_CTL;
		front->format = person;
		front->settle_ms = person ? 0 : 50;
		r = set_policy(front, "Always");
		if (r == 0)
			r = set_default_ownership(front, "converge");
		if (r == 0)
			r = set_conflict(front, person ? "refuse" : "virtual");
		if (r == 0 && i == FRONT_FLEXVOLUME)
			r = set_plugins(front, "emptyDir");
		if (r == 0 && !person)
			r = set_sources(front, "");
	}
	return r;
}

static char *trim(char *text)
{
	char *end;

	text += strspn(text, " \t\r");
	for (end = text + strlen(text); end > text && strchr(" \t\r", end[-1]); end--)
		;
	*end = '\0';
	return text;
}

enum {
	SECTION_NONE = -1,
	SECTION_LOG = FRONT_END_COUNT,
	SECTION_PLUGINS,
	SECTION_DAEMON,
	SECTION_COUNT
};

int rules_front_end_from_name(const char *name, enum front_end *ret_front)
{
	for (size_t i = 0; i < FRONT_END_COUNT; i++) {
		if (strcmp(name, front_names[i]) == 0) {
			*ret_front = (enum front_end)i;
			return 0;
		}
	}
	return -EINVAL;
}

static int section_from_name(const char *name, int *ret_section)
{
	enum front_end front;

	if (strcmp(name, "log") == 0) {
		*ret_section = SECTION_LOG;
		return 0;
	}
	if (strcmp(name, "plugins") == 0) {
		*ret_section = SECTION_PLUGINS;
		return 0;
	}
	if (strcmp(name, "daemon") == 0) {
		*ret_section = SECTION_DAEMON;
		return 0;
	}
	if (rules_front_end_from_name(name, &front) < 0)
		return -EINVAL;
	*ret_section = (int)front;
	return 0;
}

static int set_status_group(struct rules *rules, const char *value)
{
	return value[0] && !strpbrk(value, " \t") ? set_text(&rules->status_group, value) : -EINVAL;
}

static int set_cpu_latency(struct rules *rules, const char *value)
{
	return parse_cpu_latency(value, &rules->cpu_latency_us);
}

static const struct {
	const char *key;
	int (*set)(struct rules *rules, const char *value);
} daemon_keys[] = {
	{ "cpu-latency", set_cpu_latency },
	{ "status-group", set_status_group },
};

static int set_daemon_key(struct rules *rules, const char *key, const char *value,
			  unsigned *io_seen)
{
	for (size_t i = 0; i < ARRAY_SIZE(daemon_keys); i++) {
		if (strcmp(key, daemon_keys[i].key) != 0)
			continue;
		if (*io_seen & 1U << i)
			return -EEXIST;
		*io_seen |= 1U << i;
		return daemon_keys[i].set(rules, value);
	}
	return -ENOENT;
}

static int set_plugin_key(struct rules *rules, const char *key, const char *value,
			  unsigned *io_seen)
{
	for (size_t i = 0; i < ARRAY_SIZE(plugin_keys); i++) {
		if (strcmp(key, plugin_keys[i].key) != 0)
			continue;
		if (*io_seen & 1U << i)
			return -EEXIST;
		*io_seen |= 1U << i;
		return plugin_keys[i].set(&rules->settings, value);
	}
	return -ENOENT;
}

/* -ENOENT: no such key. *io_seen has a bit for each key that the section has had already: -EEXIST. */
static int set_key(struct rules *rules, int section, const char *key, const char *value,
		   unsigned *io_seen)
{
	if (section == SECTION_LOG) {
		if (strcmp(key, "level") != 0)
			return -ENOENT;
		return log_level_from_name(value, &rules->log_level);
	}
	if (section == SECTION_PLUGINS)
		return set_plugin_key(rules, key, value, io_seen);
	if (section == SECTION_DAEMON)
		return set_daemon_key(rules, key, value, io_seen);
	for (size_t i = 0; i < ARRAY_SIZE(front_keys); i++) {
		if (strcmp(key, front_keys[i].key) != 0)
			continue;
		if (*io_seen & 1U << i)
			return -EEXIST;
		*io_seen |= 1U << i;
		return front_keys[i].set(&rules->front[section], value);
	}
	return -ENOENT;
}

/* What is wrong with a line, and where. */
struct mistake {
	const char *why;
	const char *at;	  /* in the line */
	const char *name; /* of the section or key; or NULL */
};

static int parse_section(char *line, int *io_section, unsigned *io_seen,
			 struct mistake *ret_mistake)
{
	size_t len = strlen(line);
	int r;

	*ret_mistake = (struct mistake){ "unknown section", line, line + 1 };
	if (line[len - 1] != ']')
		return -EINVAL;
	line[len - 1] = '\0';
	r = section_from_name(line + 1, io_section);
	if (r < 0)
		return r;
	if (*io_section != SECTION_LOG && io_seen[*io_section] & 1U << 31) {
		ret_mistake->why = "a section twice";
		return -EINVAL;
	}
	io_seen[*io_section] |= 1U << 31;
	return 0;
}

static int parse_line(struct rules *rules, char *line, int *io_section, unsigned *io_seen,
		      struct mistake *ret_mistake)
{
	char *equals, *key, *value;
	int r;

	if (!line[0] || line[0] == '#' || line[0] == ';')
		return 0;
	if (line[0] == '[')
		return parse_section(line, io_section, io_seen, ret_mistake);
	*ret_mistake = (struct mistake){ "neither a section nor key = value", line, NULL };
	equals = strchr(line, '=');
	if (!equals)
		return -EINVAL;
	*equals = '\0';
	key = trim(line);
	value = trim(equals + 1);
	*ret_mistake = (struct mistake){ "a key outside any section", key, key };
	if (*io_section == SECTION_NONE)
		return -EINVAL;
	r = set_key(rules, *io_section, key, value, &io_seen[*io_section]);
	ret_mistake->why = r == -ENOENT ? "unknown key" :
			   r == -EEXIST ? "a key twice" :
					  "a value that is not allowed";
	if (r != -ENOENT && r != -EEXIST)
		ret_mistake->at = value;
	return r;
}

int rules_parse(const char *text, struct rules **ret_rules, char *ret_error)
{
	AUTO(rules) *rules = calloc(1, sizeof(*rules));
	unsigned seen[SECTION_COUNT] = { 0 };
	int section = SECTION_NONE, r;

	ret_error[0] = '\0';
	if (!rules)
		return -ENOMEM;
	r = set_builtin(rules);
	for (int number = 1; r == 0 && *text; number++) {
		size_t len = strcspn(text, "\n");
		AUTO_FREE char *line = strndup(text, len);
		struct mistake mistake = { 0 };
		char quoted[64];

		if (!line)
			return -ENOMEM;
		r = parse_line(rules, trim(line), &section, seen, &mistake);
		if (r < 0 && r != -ENOMEM) {
			snprintf(ret_error, RULES_ERROR_MAX, "line %d column %d: %s%s%s", number,
				 (int)(mistake.at - line) + 1,
				 mistake.name ? log_quote(mistake.name, quoted, sizeof(quoted)) :
						"",
				 mistake.name ? ": " : "", mistake.why);
			return -EINVAL;
		}
		text += len + (text[len] == '\n');
	}
	if (r < 0)
		return r;
	*ret_rules = take_ptr(&rules);
	return 0;
}

static int read_all(int fd, char **ret_text)
{
	AUTO_FREE char *text = malloc(CONFIG_BYTES_MAX + 1);
	ssize_t used = text ? io_read_all(fd, text, CONFIG_BYTES_MAX + 1) : -ENOMEM;

	if (used < 0)
		return (int)used;
	if (used > CONFIG_BYTES_MAX)
		return -EFBIG;
	if (memchr(text, '\0', (size_t)used))
		return -EINVAL;
	text[used] = '\0';
	*ret_text = take_ptr(&text);
	return 0;
}

int rules_load(const char *path, struct rules **ret_rules, char *ret_error)
{
	AUTO_FREE char *text = NULL;
	char why[RULES_ERROR_MAX];
	struct stat st;
	AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	int r;

	ret_error[0] = '\0';
	if (fd < 0) {
		if (errno == ENOENT || errno == ENOTDIR)
			return rules_parse("", ret_rules, ret_error);
		r = -errno;
		snprintf(ret_error, RULES_ERROR_MAX, "%s: %s", path, strerror(-r));
		return r;
	}
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || (st.st_uid != 0 && st.st_uid != geteuid()) ||
	    (st.st_mode & 022)) {
		snprintf(ret_error, RULES_ERROR_MAX,
			 "%s: must be a file owned by root and writable by nobody else", path);
		return -EPERM;
	}
	r = read_all(fd, &text);
	if (r < 0) {
		snprintf(ret_error, RULES_ERROR_MAX, "%s: %s", path, strerror(-r));
		return r;
	}
	r = rules_parse(text, ret_rules, why);
	if (r < 0)
		snprintf(ret_error, RULES_ERROR_MAX, "%.200s: %.200s", path,
			 why[0] ? why : strerror(-r));
	return r;
}

void rules_free(struct rules *rules)
{
	if (!rules)
		return;
	free(rules->status_group);
	free(rules->settings.flexvolume_dir);
	free(rules->settings.git_user);
	for (int i = 0; i < FRONT_END_COUNT; i++) {
		struct front_rules *front = &rules->front[i];

		words_free(front->plugins);
		words_free(front->sources);
		words_free(front->objects);
		words_free(front->ownership);
		words_free(front->exclude);
		free(front->policy);
		free(front->default_ownership);
		free(front->conflict);
		free(front->context);
	}
	free(rules);
}

const char *rules_front_end_name(enum front_end front)
{
	return front_names[front];
}

bool rules_plugin_is_allowed(const struct front_rules *front, const char *plugin)
{
	return !front->plugins || is_listed(plugin, (const char *const *)front->plugins);
}

bool rules_ownership_is_allowed(const struct front_rules *front, const char *ownership)
{
	return !front->ownership || is_listed(ownership, (const char *const *)front->ownership);
}

static const char *longest_prefix(char *const *prefixes, const char *path, const char **ret_rest)
{
	const char *best = NULL;
	size_t best_len = 0;

	if (!prefixes) {
		*ret_rest = path;
		return "";
	}
	for (size_t i = 0; prefixes[i]; i++) {
		const char *prefix = prefixes[i];
		size_t len = strlen(prefix);

		while (len > 1 && prefix[len - 1] == '/')
			len--;
		if (len == 1)
			len = 0; /* "/": everything is beneath */
		if (strncmp(path, prefix, len) != 0 || (path[len] != '/' && path[len] != '\0'))
			continue;
		if (best && len <= best_len)
			continue;
		best = prefix;
		best_len = len;
	}
	if (best) {
		*ret_rest = path + best_len;
		*ret_rest += strspn(*ret_rest, "/");
	}
	return best;
}

const char *rules_source_prefix(const struct front_rules *front, const char *path,
				const char **ret_rest)
{
	return longest_prefix(front->sources, path, ret_rest);
}

const char *rules_objects_prefix(const struct front_rules *front, const char *path,
				 const char **ret_rest)
{
	return longest_prefix(front->objects ? front->objects : front->sources, path, ret_rest);
}
