// SPDX-License-Identifier: Apache-2.0
#include "mountd/answer.h"

#include <stdarg.h>
#include <stdio.h>

enum proto_exit answer_fail(struct answer *answer, enum proto_exit exit, const char *format, ...)
{
	char text[ANSWER_TEXT_MAX]; /* the arguments may lie in answer->error */
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	for (char *p = text; *p; p++) {
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = '?';
	}
	snprintf(answer->error, sizeof(answer->error), "%s", text);
	answer->exit = exit;
	json_decref(answer->result);
	answer->result = NULL;
	return exit;
}

void answer_tell(const struct answer *answer, const char *what, uint64_t done, uint64_t total)
{
	if (answer->listener)
		answer->listener->tell(answer->listener->arg, what, done, total);
}

enum proto_exit answer_would(struct answer *answer, const char *format, ...)
{
	char text[ANSWER_TEXT_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (!answer->result)
		answer->result = json_pack("{s:[]}", "would");
	json_array_append_new(json_object_get(answer->result, "would"), json_string(text));
	return EXIT_OK;
}

json_t *answer_json(const struct answer *answer)
{
	json_t *frame = json_pack("{s:i}", "exit", (int)answer->exit);

	if (frame && answer->exit != EXIT_OK)
		json_object_set_new(frame, "error", json_string(answer->error));
	/* A text cut in the middle of a character is no JSON string. */
	if (frame && answer->exit != EXIT_OK && !json_object_get(frame, "error"))
		json_object_set_new(frame, "error",
				    json_string("failed (the reason is not valid UTF-8)"));
	if (frame && answer->note[0])
		json_object_set_new(frame, "note", json_string(answer->note));
	if (frame && answer->result)
		json_object_set(frame, "result", answer->result);
	return frame;
}

void answer_fini(struct answer *answer)
{
	json_decref(answer->result);
	answer->result = NULL;
}
