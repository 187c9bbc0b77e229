#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# fsgroupctl as people meet it: tables on a terminal, colours, progress, JSON of every command, help and completion.
# Needs root and /dev/fuse.
set -euo pipefail
# shellcheck source=tests/integ/lib_volume.sh
. "$(dirname "$0")/lib_volume.sh"
need_root
need_fuse
need_tools jq python3
own_mounts "$0" "$@"
start_volume_test
export LC_ALL=C.UTF-8
unset NO_COLOR COLUMNS

# on_terminal COLUMNS LINES COMMAND...: what the command writes to a terminal of that size. With WHEN=TEXT and
# DO=SHELL-COMMAND that is run once the text has been written, and with UNTIL=TEXT the command is interrupted once that
# has been written after it.
on_terminal() {
	python3 /dev/fd/3 "$@" 3<<-'PYTHON'
		import fcntl, os, pty, signal, struct, subprocess, sys, termios
		columns, lines, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
		when, until = (os.environ.pop(name, "").encode() for name in ("WHEN", "UNTIL"))
		do = os.environ.pop("DO", "true")
		pid, terminal = pty.fork()
		if pid == 0:
		    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
		    os.execvp(command[0], command)
		written, since = b"", 0
		while True:
		    try:
		        some = os.read(terminal, 65536)
		    except OSError:
		        break
		    if not some:
		        break
		    written += some
		    if when and when in written:
		        since, when = len(written), b""
		        subprocess.run(["bash", "-c", do], check=True, stdout=subprocess.DEVNULL)
		    if not when and until and until in written[since:]:
		        os.kill(pid, signal.SIGINT)
		        until = b""
		sys.stdout.buffer.write(written.replace(b"\r\n", b"\n"))
		code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
		sys.exit(code if code >= 0 else 128 - code)
	PYTHON
}

# The widest line of a text, in columns of a terminal, escape sequences left out.
widest_line() {
	python3 -c '
import re, sys, unicodedata
text = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", sys.stdin.read())
wide = lambda c: 2 if unicodedata.east_asian_width(c) in "WF" else 1
print(max(sum(map(wide, line)) for line in text.split("\n")))'
}

# ---- tables ----

hostile=$scratch/$'pod\n\033[2Jx' wide=$scratch/日本語 data=$scratch/data
mkdir -p "$hostile" "$wide" "$scratch/plain"
make_files "$data" 300
check 'mount at a hostile name' ctl mount --plugin emptyDir --target "$hostile" --volume-id hostile
check 'mount at a wide name' ctl mount --plugin local --source "$data" --target "$wide" --fsgroup "$GROUP" \
	--handoff no --volume-id wide
check 'until it is converged' ctl wait wide --for converged --timeout 30

ctl list >"$scratch/list"
check_same 'a line each, whatever the names' 3 "$(wc -l <"$scratch/list")"
check 'hostile bytes are escaped' grep -qF 'pod\x0a\x1b[2Jx' "$scratch/list"
check 'wide letters are not' grep -qF '日本語' "$scratch/list"
check_fails 'no colour in a file' grep -q $'\033' "$scratch/list"
check 'the reason is there' grep -qF 'hand-off is off' "$scratch/list"
check_same 'elsewhere all but ASCII is escaped' 1 "$(LC_ALL=C "$BIN/fsgroupctl" list | grep -cF '\xe6\x97\xa5')"
for columns in 132 80 60 40; do
	on_terminal "$columns" 24 "$BIN/fsgroupctl" list >"$scratch/list.$columns"
	check "a terminal of $columns columns is not exceeded" \
		test "$(widest_line <"$scratch/list.$columns")" -le "$columns"
	check_same 'and no line is broken' 3 "$(wc -l <"$scratch/list.$columns")"
done
check_same 'COLUMNS holds where there is no terminal' 50 \
	"$(COLUMNS=50 "$BIN/fsgroupctl" list | widest_line)"
check 'colours on a terminal' grep -q $'\033\[32mnative' "$scratch/list.132"
check_fails 'not with NO_COLOR' grep -q $'\033' <(NO_COLOR=1 on_terminal 80 24 "$BIN/fsgroupctl" list)
check 'status has them too' grep -q $'\033\[36mconverged' <(on_terminal 80 24 "$BIN/fsgroupctl" status wide)
check_same 'status of a hostile name is its lines' "$(ctl status wide | grep -c '^  target')" \
	"$(ctl status hostile | grep -c '^  target')"

# ---- watching ----

check 'watching what is final ends' ctl status wide --watch
watch_tables() {
	local status=0

	WHEN=REASON DO="'$BIN/fsgroupctl' mount --plugin emptyDir --target '$scratch/plain' --volume-id plain" UNTIL=plain \
		on_terminal 80 24 "$BIN/fsgroupctl" status --watch >"$scratch/watch" || status=$?
	same 130 "$status"
}
check 'the table of a terminal is drawn again at a change' watch_tables
check 'in its own place' grep -qF $'\033[3A\033[J' "$scratch/watch"

# ---- what takes longer than a second ----

# How many there are is known of a file system's own root.
mkdir "$scratch/slow"
make_volume tmpfs many
make_files "$scratch/many" 300
ctl mount --plugin local --source "$scratch/many" --target "$scratch/slow" --fsgroup "$GROUP" --converge-rate 20 --volume-id slow
WHEN=' s left' DO="'$BIN/fsgroupctl' converge slow --rate max" \
	on_terminal 80 24 "$BIN/fsgroupctl" wait slow --for native --timeout 60 >"$scratch/waited"
check 'a wait draws how far it is, how fast, and how long it will take' \
	grep -qE $'\r\033\\[K\\[#*-+\\] +[0-9]+%  converging, [0-9]+ entries, [0-9]+/s, [0-9]+ s left' "$scratch/waited"
check_same 'and nothing stays of it' '' "$(sed 's/.*\x1b\[K//' "$scratch/waited")"
check_same 'nothing is drawn elsewhere' '' "$("$BIN/fsgroupctl" wait slow --for native --timeout 60 2>&1)"
ctl unmount slow

# ---- JSON ----

# The keys of a command's answer, as mountd/SCHEMA.md has them.
schema_of() {
	awk -F '|' -v row=" \`$1\` " '$2 == row { print $4 }' "$repository/mountd/SCHEMA.md" |
		grep -o '`[A-Za-z]*`' | tr -d '`' | sort | paste -sd ' '
}

# answers NAME JQ-PATH ARGUMENT...: the keys of what is at the path in the command's answer are those of the schema.
answers() {
	local name=$1 path=$2 wanted

	shift 2
	wanted=$(schema_of "${name/list/status}")
	ctl "$@" --json >"$scratch/answer" || true
	check_same "$name --json is one value with the keys of SCHEMA.md" "$wanted" \
		"$(jq -rs "if length > 0 then .[0] | $path | keys | sort | join(\" \") else \"nothing\" end" <"$scratch/answer")"
}

mkdir "$scratch/pod" "$scratch/secret"
echo '{"secret": {"secretName": "s"}}' >"$scratch/spec"
echo '{"kind": "Secret", "metadata": {"name": "s"}, "stringData": {"key": "value"}}' >"$scratch/objects"
answers mount . mount --plugin local --source "$data" --target "$scratch/pod" --volume-id pod
ctl mount --spec "$scratch/spec" --objects "$scratch/objects" --target "$scratch/secret" --volume-id secret
answers refresh . refresh secret --objects "$scratch/objects"
answers update . update wide --converge-rate 1000
answers status . status wide
answers list '.[0]' list
answers explain . explain "$wide"
answers 'explain`: `.entry' .entry explain "$wide/d0"
answers 'explain`: `.obstacles' '.obstacles[0]' explain "$wide"
answers wait . wait "$scratch/pod" --for presented
for command in pause resume converge recover; do
	answers "$command" . "$command" wide
done
answers events . events
mkdir "$scratch/exec"
answers install-flexvolume . install-flexvolume "$scratch/exec"
answers 'store check' . store check
answers 'store dump' . store dump
ctl store dump >"$scratch/dump"
answers unmount . unmount pod
answers 'store restore' '.[0]' store restore "$scratch/dump"
check_same 'a failure writes nothing there' '' "$(ctl status --json frob || true)"
check_same 'an unmount of what is not there says null' null "$(ctl unmount --json frob)"

# ---- mountd.conf ----

printf '[flexvolume]\nplugins = emptyDir local\nsources = /srv\nownership = converge\n' >"$scratch/conf"
answers 'config check' . config check "$scratch/conf"
check_same 'what a front end may do, and what is refused' 'local /srv virtual,none' "$(jq -r '.frontEnds[] |
	select(.name == "flexvolume") | "\(.plugins[1]) \(.sources[0]) \(.refused.ownership | join(","))"' "$scratch/answer")"
check_same 'without the file: what is built in' '["emptyDir"]' "$(ctl config check --json | jq -c '.frontEnds[1].plugins')"
printf '[ctl]\n  format = perhaps\n' >"$scratch/conf"
check 'a mistake has line, column and key' refuses 1 'line 2 column 12: format: a value' config check "$scratch/conf"
printf '[csi]\nplugins = emptydir\n' >"$scratch/conf"
check_fails 'so has a plugin that is none' ctl config check "$scratch/conf"
check 'by its name' grep -q '\[csi\] plugins: emptydir is no plugin' "$scratch/stderr"
chmod 666 "$scratch/conf"
check 'a file that others may write is refused' refuses 1 'writable by nobody else' config check "$scratch/conf"
check 'and one that is not there' refuses 1 'No such file' config check "$scratch/none"
check 'an ordinary user may look' as 1000 1000 '' "$BIN/fsgroupctl" --root "$FSGROUPFS_ROOT" config check

# ---- doctor ----

verdict_of() { jq -r ".[] | select(.check == \"$1\") | .verdict" "$scratch/findings"; }
examine() { ctl doctor --json >"$scratch/findings"; }
check 'doctor finds nothing that fails' examine
check_same 'with the keys of SCHEMA.md' "$(schema_of doctor)" "$(jq -r '.[0] | keys | sort | join(" ")' "$scratch/findings")"
for finding in fsopen /dev/fuse fsgroupfs version mountd.conf state disk daemon store records overlays; do
	check_same "$finding is well" ok "$(verdict_of "$finding")"
done
check 'each line has a verdict' grep -qE '^(ok|warn) +version +fsgroupfs [0-9.]+ \(libfuse 3' <(ctl doctor)
check_fails 'and no other' grep -vE '^(ok|warn|fail) ' <(ctl doctor)
chmod 755 "$FSGROUPFS_ROOT/var/lib/fsgroupfs"
mkdir -p "$FSGROUPFS_ROOT/etc/fsgroupfs"
echo frob >"$FSGROUPFS_ROOT/etc/fsgroupfs/mountd.conf"
check_fails 'what is wrong fails' examine
check_same 'by name' 'fail fail' "$(verdict_of state) $(verdict_of mountd.conf)"
check 'with its mend' jq -e '.[] | select(.check == "state") | .mend | contains("chmod 700")' "$scratch/findings"
rm "$FSGROUPFS_ROOT/etc/fsgroupfs/mountd.conf"
chmod 700 "$FSGROUPFS_ROOT/var/lib/fsgroupfs"
examine_as_user() { as 1000 1000 '' "$BIN/fsgroupctl" --root "$FSGROUPFS_ROOT" doctor >"$scratch/findings"; }
check 'an ordinary user is told what he cannot see' examine_as_user
check 'as such' grep -q '^warn *rights' "$scratch/findings"
check 'programs that are not there fail' eval '! FSGROUPFS_LIBEXEC=$scratch "$BIN/fsgroupctl" doctor | grep -q "^ok *fsgroupfs"'

# ---- metrics ----

# Reads the text form of Prometheus strictly; prints the value of each series that is asked for.
read_metrics() {
	python3 /dev/fd/3 "$@" 3<<-'PYTHON'
		import re, sys
		name, label = r"[a-zA-Z_:][a-zA-Z0-9_:]*", r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"'
		text = sys.stdin.buffer.read().decode("utf-8")
		assert text.endswith("\n")
		types, helps, family, samples = {}, set(), None, {}
		for line in text[:-1].split("\n"):
		    comment = re.fullmatch(rf"# (HELP|TYPE) ({name}) (.+)", line)
		    if comment:
		        kind, about, rest = comment.groups()
		        if kind == "HELP":
		            assert about not in helps, line
		            helps.add(about)
		        else:
		            assert about in helps and about not in types and rest in ("counter", "gauge", "histogram"), line
		            assert (rest == "counter") == about.endswith("_total"), line
		            types[about], family = rest, about
		        continue
		    sample = re.fullmatch(rf"({name})(?:\{{({label}(?:,{label})*)\}})? ([0-9.]+)", line)
		    assert sample, line
		    labels = dict(re.findall(label, sample.group(2) or ""))
		    base = sample.group(1)
		    if types[family] == "histogram":
		        assert base in (family + "_bucket", family + "_sum", family + "_count"), line
		    else:
		        assert base == family, line
		    key = (base, tuple(sorted(labels.items())))
		    assert key not in samples, line
		    samples[key] = float(sample.group(len(sample.groups())))
		for (base, labels), value in samples.items():
		    if not base.endswith("_bucket") or dict(labels)["le"] != "+Inf":
		        continue
		    own = tuple(pair for pair in labels if pair[0] != "le")
		    steps = [(float(dict(l)["le"]), v) for (b, l), v in samples.items()
		             if b == base and tuple(pair for pair in l if pair[0] != "le") == own]
		    assert steps == sorted(steps) and [v for _, v in steps] == sorted(v for _, v in steps), base
		    assert value == samples[(base[:-7] + "_count", own)] and (base[:-7] + "_sum", own) in samples, base
		for wanted in sys.argv[1:]:
		    base, _, rest = wanted.partition("{")
		    key = (base, tuple(sorted(re.findall(label, rest))))
		    print("%g" % samples[key] if key in samples else "none")
	PYTHON
}
ctl metrics >"$scratch/metrics"
check 'metrics are of the form' read_metrics <"$scratch/metrics"
check_same 'volumes by state, entries by kind, requests, calls, events' '1 3 304 0 1 1 6' "$(read_metrics \
	'fsgroupfs_volumes{state="converged"}' 'fsgroupfs_volumes{state="native"}' \
	'fsgroupfs_volume_entries{volume="wide",kind="seen"}' 'fsgroupfs_volume_entries{volume="wide",kind="failed"}' \
	'fsgroupfs_requests_total{command="refresh",exit="0"}' \
	'fsgroupfs_plugin_calls_total{plugin="secret",call="refresh",result="unchanged"}' \
	'fsgroupfs_events_total{kind="mounted"}' <"$scratch/metrics" | paste -sd ' ')"
check_fails 'a form that is wrong is noticed' eval \
	'sed "s/^fsgroupfs_volumes{state=\"native\"} .*/& &/" "$scratch/metrics" | read_metrics'
check_same 'as JSON' "$(grep -c '^# TYPE' "$scratch/metrics")" "$(ctl metrics --json | jq -r . | grep -c '^# TYPE')"

# ---- a node is drained ----

# What is held stays, the others go; both are named.
exec 9>"$wide/held"
drain() { ctl unmount --all --json >"$scratch/drain"; }
check_fails 'unmount --all with an open file' drain
check 'a line for what stays, with who holds it' \
	grep -q "unmount wide: $scratch/日本語: the target is busy: held by process.* $$ (\|the target is busy: held by process $$ " "$scratch/stderr"
check 'goes on after it' same '[]' "$(ctl list --json | jq -c 'map(select(.id != "wide"))')"
check_same 'each is reported' 'hostile plain secret wide' \
	"$(jq -r 'map(select(.volume != "pod") | .volume) | sort | join(" ")' "$scratch/drain")"
check_same 'with the keys of SCHEMA.md' "$(schema_of 'unmount --all')" "$(jq -r '.[0] | keys | sort | join(" ")' "$scratch/drain")"
check_same 'and nobody else has an error' wide "$(jq -r '.[] | select(.error) | .volume' "$scratch/drain")"
exec 9>&-
on_terminal 80 24 "$BIN/fsgroupctl" unmount --all >"$scratch/drained"
check_same 'on a terminal nothing stays of the progress' '' "$(sed 's/.*\x1b\[K//' "$scratch/drained")"

# ---- help ----

commands=$("$BIN/fsgroupctl" completion words -- '')
for command in $commands; do
	check "help of $command" grep -q '^Examples:$' <("$BIN/fsgroupctl" help "$command")
	check_same "and $command --help is the same" "$("$BIN/fsgroupctl" help "$command")" "$("$BIN/fsgroupctl" "$command" --help)"
done
check_same 'every command is in --help' '' "$(for command in $commands; do
	"$BIN/fsgroupctl" --help | grep -q "^  $command" || echo "$command"
done)"

# An option that the help has is one that the command takes, and it needs a value where the help has one.
unknown_options() {
	local command option

	for command in $commands; do
		for option in $("$BIN/fsgroupctl" completion words -- "$command" --); do
			"$BIN/fsgroupctl" "$command" "$option" --no-such --no-such 2>&1 </dev/null | grep -F "unrecognized option '$option'"
		done
	done
}
check_same 'every option of the help is known' '' "$(unknown_options)"
check 'help of an unknown command' refuses 2 'no such command' help frob

# ---- completion ----

ctl mount --plugin emptyDir --target "$scratch/plain" --volume-id plain
completions() {
	bash -c 'source <("$0" completion bash)
		COMP_WORDS=("$0" "$@") COMP_CWORD=$#
		_fsgroupctl
		printf "%s\n" "${COMPREPLY[@]}"' "$BIN/fsgroupctl" "$@"
}
check_same 'bash completes a command' unmount "$(completions unm)"
check_same 'an option' --timeout "$(completions wait v --t)"
check_same 'a value' OnRootMismatch "$(completions mount --policy On)"
check_same 'a volume by its id' plain "$(completions unmount pla)"
check_same 'and by its target' "$scratch/plain" "$(completions status "$scratch/")"
check_same 'a file' "$scratch/spec" "$(completions mount --spec "$scratch/sp")"

# typed PREPARATION LINE WANTED SHELL...: in the shell at a terminal, once it is ready, the line is typed with a tab
# at its end; what is wanted must appear.
typed() {
	python3 /dev/fd/3 "$@" 3<<-'PYTHON'
		import os, pty, select, sys
		preparation, line, wanted, shell = sys.argv[1], sys.argv[2], sys.argv[3].encode(), sys.argv[4:]
		pid, terminal = pty.fork()
		if pid == 0:
		    os.environ.update(PS1="> ", TERM="dumb", INPUTRC="/dev/null")
		    os.execvp(shell[0], shell)
		def until(text):
		    seen = b""
		    while text not in seen:
		        if not select.select([terminal], [], [], 20)[0]:
		            sys.exit("# %r did not come: %r" % (text, seen))
		        seen += os.read(terminal, 4096)
		# Apart in what is typed, so that its echo is not taken for it.
		os.write(terminal, (preparation + "; echo rea''dy\n").encode())
		until(b"ready")
		os.write(terminal, line.encode() + b"\t")
		until(wanted)
		os.kill(pid, 9)
		os.waitpid(pid, 0)
	PYTHON
}
check 'at a real prompt of bash' typed "PATH=$BIN:\$PATH; source <(fsgroupctl completion bash)" \
	'fsgroupctl mount --policy OnR' ootMismatch bash --norc -i
if command -v zsh >/dev/null; then
	check 'and of zsh' typed "PATH=$BIN:\$PATH; autoload -U compinit; compinit -D -u; source <(fsgroupctl completion zsh)" \
		'fsgroupctl mount --policy OnR' ootMismatch zsh -fi
	check 'which completes a volume too' \
		typed "PATH=$BIN:\$PATH; autoload -U compinit; compinit -D -u; source <(fsgroupctl completion zsh)" \
		'fsgroupctl unmount pla' 'in' zsh -fi
fi
ctl unmount --all
mkdir "$scratch/dead"
ctl mount --plugin local --source "$data" --target "$scratch/dead" --fsgroup "$GROUP" --handoff no --volume-id dead
server=$(field_of dead .server.pid)
kill_daemon KILL
kill -9 "$(awk '/^PPid/ { print $2 }' "/proc/$server/status")" "$server"
no_process_stays
check 'doctor finds an overlay that nobody serves' examine
check 'by its volume' jq -e '.[] | select(.check == "overlays" and .verdict == "warn") | .message | contains("dead")' \
	"$scratch/findings"
ctl unmount --all
kill_daemon TERM
check 'doctor starts no daemon' examine
check_same 'and none runs' "$(daemon_pid)" ''
check_same 'without a daemon there is no volume' '' "$(completions unmount pla)"
check_same 'and none is started' '' "$(daemon_pid)"
end_volume_test
