// SPDX-License-Identifier: Apache-2.0
#include "mountd/ctl/complete.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "mountd/ctl/help.h"
#include "mountd/proto.h"
#include "mountd/spec.h"

static const char bash_script[] =
	"_fsgroupctl() {\n"
	"\tlocal word files= i\n"
	"\tCOMPREPLY=()\n"
	"\twhile IFS= read -r word; do\n"
	"\t\tcase $word in\n"
	"\t\t:files) files=1 ;;\n"
	"\t\t*) COMPREPLY+=(\"$word\") ;;\n"
	"\t\tesac\n"
	"\tdone < <(\"${COMP_WORDS[0]}\" completion words -- \"${COMP_WORDS[@]:1:COMP_CWORD}\" 2>/dev/null)\n"
	"\tif [ -n \"$files\" ]; then\n"
	"\t\tcompopt -o filenames 2>/dev/null\n"
	"\t\twhile IFS= read -r word; do\n"
	"\t\t\tCOMPREPLY+=(\"$word\")\n"
	"\t\tdone < <(compgen -f -- \"${COMP_WORDS[COMP_CWORD]}\")\n"
	"\telse\n"
	"\t\tfor i in \"${!COMPREPLY[@]}\"; do\n"
	"\t\t\tprintf -v \"COMPREPLY[i]\" %q \"${COMPREPLY[i]}\"\n"
	"\t\tdone\n"
	"\tfi\n"
	"}\n"
	"complete -F _fsgroupctl fsgroupctl\n";

/* zsh loads the file as the function's own body when it is first needed: then it is called at once. */
static const char zsh_script[] =
	"#compdef fsgroupctl\n"
	"_fsgroupctl() {\n"
	"\tlocal word files=\n"
	"\tlocal -a found\n"
	"\twhile IFS= read -r word; do\n"
	"\t\tcase $word in\n"
	"\t\t:files) files=1 ;;\n"
	"\t\t*) found+=(\"$word\") ;;\n"
	"\t\tesac\n"
	"\tdone < <(\"${words[1]}\" completion words -- \"${(@)words[2,CURRENT]}\" 2>/dev/null)\n"
	"\t(( $#found )) && compadd -a found\n"
	"\t[[ -z $files ]] || _files\n"
	"}\n"
	"if [[ ${funcstack[1]} = _fsgroupctl ]]; then\n"
	"\t_fsgroupctl\n"
	"else\n"
	"\tcompdef _fsgroupctl fsgroupctl\n"
	"fi\n";

/* ---- the usage as words ---- */

static const char SEPARATORS[] = " \n[].";

/* The next word of a usage, an option or what stands for a value; NULL: there is none. */
static const char *next_word(const char **io_usage, size_t *ret_len)
{
	const char *word = *io_usage + strspn(*io_usage, SEPARATORS);

	*ret_len = strcspn(word, SEPARATORS);
	*io_usage = word + *ret_len;
	return *ret_len ? word : NULL;
}

static bool is_option(const char *word)
{
	return word[0] == '-';
}

static bool is_bar(const char *word, size_t len)
{
	return len == 1 && word[0] == '|';
}

static bool is_placeholder(const char *word, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (!isupper((unsigned char)word[i]) && word[i] != '/')
			return false;
	}
	return true;
}

static bool is_text(const char *word, size_t len, const char *text)
{
	return strlen(text) == len && memcmp(word, text, len) == 0;
}

static void offer_plugins(const char *begun, struct completion *io_completion)
{
	const char *name;

	for (size_t i = 0; (name = spec_plugin_at(i)) != NULL; i++) {
		if (strncmp(name, begun, strlen(begun)) == 0)
			io_completion->word(io_completion->arg, name, strlen(name));
	}
}

/* One of the alternatives "a|b|C". */
static void offer(const char *word, size_t len, const char *begun, struct completion *io_completion)
{
	if (is_text(word, len, "FILE") || is_text(word, len, "DIR") || is_text(word, len, "PATH") ||
	    is_text(word, len, "S"))
		io_completion->files = true;
	else if (is_text(word, len, "TARGET") || is_text(word, len, "ID"))
		io_completion->volumes = true;
	else if (is_text(word, len, "NAME"))
		offer_plugins(begun, io_completion);
	else if (is_text(word, len, "COMMAND"))
		io_completion->commands = true;
	else if (!is_placeholder(word, len) && strncmp(word, begun, strlen(begun)) == 0 &&
		 strlen(begun) <= len)
		io_completion->word(io_completion->arg, word, len);
}

static void offer_alternatives(const char *word, size_t len, const char *begun,
			       struct completion *io_completion)
{
	while (len > 0) {
		const char *bar = memchr(word, '|', len);
		size_t part = bar ? (size_t)(bar - word) : len;

		offer(word, part, begun, io_completion);
		len -= part + (bar != NULL);
		word += part + (bar != NULL);
	}
}

/* The value of @option in a usage, its length 0 where it takes none; NULL: no such option. */
static const char *value_of(const char *usage, const char *option, size_t *ret_len)
{
	const char *word;
	size_t len;

	while ((word = next_word(&usage, &len)) != NULL) {
		const char *rest = usage;

		if (!is_text(word, len, option))
			continue;
		/* "[--lazy]" has none, "--target DIR" has: only a space is between. */
		if (rest[0] != ' ' || rest[1] == '[' || rest[1] == '-' || rest[1] == '|') {
			*ret_len = 0;
			return word;
		}
		return next_word(&rest, ret_len);
	}
	return NULL;
}

bool complete_has_option(const char *usage, const char *option)
{
	size_t len;

	return value_of(usage, option, &len) != NULL;
}

bool complete_takes_value(const char *usage, const char *option)
{
	size_t len = 0;

	return value_of(usage, option, &len) && len > 0;
}

static void offer_options(const char *usage, const char *begun, struct completion *io_completion)
{
	const char *word;
	size_t len;

	while ((word = next_word(&usage, &len)) != NULL) {
		if (is_option(word) && strncmp(word, begun, strlen(begun)) == 0 &&
		    strlen(begun) <= len)
			io_completion->word(io_completion->arg, word, len);
	}
}

/* What is no option and no value of one: the command's own argument. */
static void offer_arguments(const char *usage, const char *begun, struct completion *io_completion)
{
	const char *word;
	size_t len;

	while ((word = next_word(&usage, &len)) != NULL) {
		if (is_option(word)) {
			if (usage[0] == ' ' && usage[1] != '[' && usage[1] != '-' &&
			    usage[1] != '|')
				next_word(&usage, &len);
		} else if (!is_bar(word, len)) {
			offer_alternatives(word, len, begun, io_completion);
		}
	}
}

void complete_words(const char *const *words, int count, struct completion *io_completion)
{
	const char *begun = count > 0 ? words[count - 1] : "", *value;
	const struct command_help *help;
	size_t len = 0;

	while (count > 1 && strcmp(words[0], "--root") == 0) {
		if (count == 2) {
			io_completion->files = true;
			return;
		}
		words += 2;
		count -= 2;
		if (count == 0)
			return;
	}
	if (count <= 1) {
		io_completion->commands = true;
		return;
	}
	help = help_find(words[0]);
	if (!help)
		return;
	value = count > 2 ? value_of(help->usage, words[count - 2], &len) : NULL;
	if (value && len > 0)
		offer_alternatives(value, len, begun, io_completion);
	else if (is_option(begun))
		offer_options(help->usage, begun, io_completion);
	else
		offer_arguments(help->usage, begun, io_completion);
}

/* ---- printing ---- */

static void print_word(void *arg, const char *word, size_t len)
{
	(void)arg;
	printf("%.*s\n", (int)len, word);
}

static void print_if_begun(const char *text, const char *begun)
{
	if (text && strncmp(text, begun, strlen(begun)) == 0)
		puts(text);
}

static bool is_one_line(const char *text)
{
	for (; *text; text++) {
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			return false;
	}
	return true;
}

/* A target that would need more than its own line can be typed by nobody; its id can. */
static void print_volumes(const struct ctl *ctl, const char *begun)
{
	json_t *list = NULL, *item;
	size_t i;

	if (!ctl_ask_running(ctl, json_pack("{s:s}", "command", "list"), &list))
		return;
	json_array_foreach(list, i, item) {
		const char *target = json_string_value(json_object_get(item, "target"));

		print_if_begun(json_string_value(json_object_get(item, "id")), begun);
		if (target && is_one_line(target))
			print_if_begun(target, begun);
	}
	json_decref(list);
}

static int print_candidates(const struct ctl *ctl, int count, const char *const *words)
{
	struct completion completion = { .word = print_word };
	const char *begun = count > 0 ? words[count - 1] : "";
	const struct command_help *help;

	complete_words(words, count, &completion);
	for (unsigned i = 0; completion.commands && (help = help_at(i)) != NULL; i++)
		print_if_begun(help->name, begun);
	/* What has been typed before it may say which root's. */
	if (completion.volumes)
		print_volumes(&(struct ctl){ .root = count > 2 && strcmp(words[0], "--root") == 0 ?
							     words[1] :
							     ctl->root },
			      begun);
	if (completion.files)
		puts(":files");
	return EXIT_OK;
}

int ctl_completion(const struct ctl *ctl, int argc, char **argv)
{
	if (argc >= 3 && strcmp(argv[1], "words") == 0 && strcmp(argv[2], "--") == 0)
		return print_candidates(ctl, argc - 3, (const char *const *)argv + 3);
	if (argc == 2 && strcmp(argv[1], "bash") == 0)
		fputs(bash_script, stdout);
	else if (argc == 2 && strcmp(argv[1], "zsh") == 0)
		fputs(zsh_script, stdout);
	else
		return ctl_fail(ctl, EXIT_USAGE, NULL, "bash or zsh (fsgroupctl --help says more)");
	return EXIT_OK;
}
