# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# lib_document.sh: the commands that documents show, to be run as they stand there.
#
#   commands_of FILE [WORD]   prints a script of the blocks of a Markdown file that are marked "sh" or "sh WORD", in their
#                             order. Where a line ends in "# → TEXT" the command must print TEXT, and nothing else;
#                             a manual page has "->" for the arrow
#   examples_of PAGE          the same of what a manual page shows, displayed, in its section EXAMPLES
#   run_commands FILE         runs such a script; the line that failed is shown

# What is to be printed becomes a comparison.
compare_printed() {
	awk 'match($0, / +# (→|->) /) {
			wanted = substr($0, RSTART + RLENGTH)
			gsub(/\047/, "\047\\\047\047", wanted)
			printf "prints \047%s\047 \"$(%s)\"\n", wanted, substr($0, 1, RSTART - 1)
			next
		}
		{ print }'
}

commands_of() {
	awk -v fence='```'"sh${2:+ $2}" '
		$0 == fence { inside = 1; next }
		/^```$/ { inside = 0 }
		inside { print }' "$1" | compare_printed
}

# What is displayed stands further to the right than what is said.
examples_of() {
	mandoc -Tascii -O indent=5,width=140 "$1" | col -bx | awk '
		/^[A-Z]/ { inside = $0 == "EXAMPLES"; next }
		inside && sub(/^           /, "") { print }' | compare_printed
}

run_commands() {
	# shellcheck disable=SC2016 # for another shell
	local before='prints() { [ "$1" = "$2" ] || { printf "wanted: %s\ngot:    %s\n" "$1" "$2"; return 1; }; }
		trap '\''printf "this failed: %s\n" "$BASH_COMMAND" >&2'\'' ERR'

	bash -Eeuo pipefail -c "$before"$'\n''. "$1"' _ "$1" >"$1.printed" 2>&1 && return
	sed 's/^/#  /' "$1.printed"
	return 1
}
