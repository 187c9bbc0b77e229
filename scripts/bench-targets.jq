# SPDX-License-Identifier: Apache-2.0
#
# bench-targets.jq: what the overlay is held to, and what was measured of it, as a table in Markdown: for scripts/bench-table.
# Input: a result of tests/bench/bench_compare.sh; $converge: that of bench_converge.sh in a list, or an empty one.
#
# A figure is the median over the rounds of a ratio of speeds in one round; "0.97 to 1.02" where a row stands for
# several measures, all of which must hold. Those of equals scatter about 1: "not below" holds with a median of 0.95 if
# the best round reached 1.

def median: sort | if length == 0 then null elif length % 2 == 1 then .[length / 2 | floor]
	else (.[length / 2 - 1] + .[length / 2]) / 2 end;
def shown: if . >= 10 then . * 10 | round / 10 else . * 100 | round / 100 end | tostring;
def range_shown: if length == 0 then "" else (min | shown) as $a | (max | shown) as $b |
	if $a == $b then $a else "\($a) to \($b)" end end;

. as $all | .rounds as $rounds |
(.samples | map({key: "\(.part)/\(.fs)/\(.what)/\(.contender)/\(.round)", value: .}) | from_entries) as $one |
(.summary | map({key: "\(.part)/\(.fs)/\(.what)/\(.contender)", value: .}) | from_entries) as $by |
([.summary[] | .fs] | unique) as $types |

# Speeds of @a by those of @b, round by round.
def ratios($part; $fs; $what; $a; $b):
	[range(1; $rounds + 1) as $round |
	 $one["\($part)/\($fs)/\($what)/\($a)/\($round)"] as $x | $one["\($part)/\($fs)/\($what)/\($b)/\($round)"] as $y |
	 select($x and $y) | select($x.value > 0 and $y.value > 0) |
	 if $x.unit == "s" then $y.value / $x.value else $x.value / $y.value end];
def measures($part; $fs; $regex): [$all.summary[] | select(.part == $part and .fs == $fs and (.what | test($regex))) | .what] | unique;
# The servers of tests/bench/ceiling.c, which do nothing: while processors sleep where nobody runs, or as cpu_latency=0 has it.
def ceilings($row): ["ceiling", "ceiling-awake", "ceiling-affine"] + if $row.is_awake then ["ceiling-0", "ceiling-awake-0"] else [] end;
# What nobody passes who serves names through /dev/fuse: his share of a call takes as long as that of the best of those
# servers, and the call itself as long as on the tree. What needs no request, and what was not asked of those: the tree alone.
def limit($row; $part; $fs; $what; $b):
	([ceilings($row)[] as $c | ratios($part; $fs; $what; $c; $b) | median | values] | max) as $server |
	(if $b == "native" then 1 else ratios($part; $fs; $what; "native"; $b) | median end) as $tree |
	if $server and $tree and ($what | test("stat$") | not) then 1 / (1 / $server + 1 / $tree) else $tree end;
# Of a program that asks for one thing after the other, which git status does not: what it takes on the tree, and for each request that it waits for what
# the best of those servers takes for one (chmod is one request a call).
def program_limit($row; $fs; $what; $b):
	([ceilings($row)[] as $c | $by["calls/\($fs)/1-thread chmod/\($c)"].median | values] | max) as $rate |
	$by["programs/\($fs)/requests, \($what)/\($row.of)"].median as $requests |
	$by["programs/\($fs)/\($what)/native"].median as $tree | $by["programs/\($fs)/\($what)/\($b)"].median as $other |
	if $rate and $requests and $tree and $other then $other / ($tree + $requests / $rate) else null end;
# Of data that the kernel keeps for a server: what another one gets, whose requests are as few; of what it hands over to a
# server, the share of one that takes it and does nothing, and after it the call as on the tree.
def data_limit($row; $fs; $what):
	(ratios("data"; $fs; $what; $row.limited_by; "native") | median) as $server |
	if $server == null then null elif $row.and_tree then 1 / (1 / $server + 1) else $server end;
# A change of a mode that is to last with the run: before it the group and the mode are brought to what was shown, and a mark set.
def chmod_limit($fs):
	limit({}; "calls"; $fs; "1-thread chmod"; "native") as $one | $by["calls/\($fs)/1-thread chmod/native"].median as $chmod |
	$by["calls/\($fs)/1-thread setxattr/native"].median as $setxattr |
	if $one and $chmod and $setxattr then 1 / (1 / $one + 2 + $chmod / $setxattr) else null end;
def limit_of($row; $fs; $what):
	if $row.limited_by then data_limit($row; $fs; $what)
	elif $row.part == "programs" then
		if $what == "git status" then null else program_limit($row; $fs; $what; $row.to) end
	elif $row.lasts then chmod_limit($fs)
	elif $row.to != "native" then limit($row; $row.part; $fs; $what; $row.to) else null end;

# Of one row and file system: [{value, ok, best, name}]; best: the limit; name: of the measure, where there are several.
def held($row): if $row.least then .value >= $row.least elif $row.most then .value <= $row.most else null end;
def ratio_cells($row; $fs):
	[measures($row.part; $fs; $row.regex)[] as $what | ratios($row.part; $fs; $what; $row.of; $row.to) as $ratios |
	 select($ratios | length > 0) | {value: ($ratios | median), name: $what,
	  best: limit_of($row; $fs; $what)} |
	 .ok = if $row.not_below then .value >= 1 or .value >= 0.95 and ($ratios | max) >= 1 else held($row) end |
	 .bound = ($row.least // 1)];
def value_cells($row; $fs):
	[measures($row.part; $fs; $row.regex)[] as $what | $by["\($row.part)/\($fs)/\($what)/\($row.of)"] | values |
	 {value: (.median / ($row.scale // 1)), best: null} | .ok = held($row)];
def most_files($fs): [measures("ready"; $fs; " files$")[] | split(" ")[0] | tonumber] | max;
def ready_cells($row; $fs):
	most_files($fs) as $most | select($most) | "\($most) files" as $what |
	[("fsgroupfs", "fsgroupctl") as $way |
	 (if $row.kind == "growth" then
		[range(1; $rounds + 1) as $round | $one["ready/\($fs)/\($what)/\($way)/\($round)"].value /
		 $one["ready/\($fs)/1000 files/\($way)/\($round)"].value] | median
	  elif $row.kind == "time" then $by["ready/\($fs)/\($what)/\($way)"].median * 1000
	  else ["one pass", "chown, chmod"] | map(ratios("ready"; $fs; $what; $way; .) | median) | min end) |
	 {value: ., best: null} | .ok = (if $most < 1000000 then null else held($row) end)];
def walk_cells($row; $fs):
	[$converge[0][]? | select(.type == $fs) | .[$row.field] | values |
	 if $row.of then {value: .[$row.of].p99Ratio, best: null}
	 else {value: .ratio, best: (if .ofBare and $row.limited then .ratio * .ofBare else null end), bound: $row.least} end |
	 select(.value) | .ok = held($row)];
def all_cells($fs):
	[$all.summary[] | select(.fs == $fs and (.part | IN("data", "calls", "programs")) and .contender == "handed-off" and .ratio) |
	 .ratio] | if length == 0 then [] else [{value: median, best: null, ok: (median >= 0.97)}] end;

def names($of; $which): [
	{text: "create\($which)", regex: "^[14]-thread create$", least: 3},
	{text: "open and close\($which)", regex: "^[14]-thread (open|read)$", least: 3},
	(("rename", "mkdir", "chmod") | {text: "\(.)\($which)", regex: "^[14]-thread \(.)$", least: 2}),
	{text: "unlink\($which)", regex: "^[14]-thread unlink$", least: 1.5}
	] | map(. + {kind: "ratio", part: "calls", of: $of, to: "bindfs", unit: "of bindfs"});
def equals($of; $which): {kind: "ratio", text: "rename, mkdir, chmod, unlink\($which)", part: "calls",
	regex: "^[14]-thread (rename|mkdir|chmod|unlink)$", of: $of, to: "passthrough_hp", not_below: true, unit: "of passthrough_hp"};
def programs($of; $which): {kind: "ratio", text: "untar, rm -rf, git status\($which)", part: "programs",
	regex: "^(untar|rm -rf|git status)$", of: $of, to: "bindfs", least: 2, unit: "of bindfs"};
def list($of; $which): [
	{text: "readdir and stat, warm\($which)", to: "native", least: 0.6, unit: "of native"},
	{text: "readdir and stat, warm\($which)", to: "bindfs", least: 3, unit: "of bindfs"}
	] | map(. + {kind: "ratio", part: "calls", regex: "^warm list$", of: $of});
def data($of; $which): {to: "native", least: 0.95, unit: "of native", limited_by: "passthrough_hp"} as $kept | [
	{text: "128 KiB and more, cached\($which)", regex: "^cached .* (128k|1m)$"} + $kept,
	{text: "4 KiB, cached\($which)", regex: "^cached .* 4k$", to: "passthrough_hp-killpriv", not_below: true,
	 unit: "of passthrough_hp with KILLPRIV_V2"},
	{text: "O_DIRECT\($which)", regex: "^direct "} + $kept,
	{text: "mapped\($which)", regex: "^mapped "} + $kept
	] | map(. + {kind: "ratio", part: "data", of: $of});
def value($text; $part; $regex; $of): {kind: "value", text: $text, part: $part, regex: $regex, of: $of};

[
 {kind: "growth", text: "ready, most files against 1000", most: 1.2, unit: "of the time"},
 {kind: "time", text: "ready, most files", most: 30, unit: "ms"},
 {kind: "eager", text: "the eager walk is slower, most files", least: 100, unit: "times"},
 data("pending"; "")[],
 value("requests to read or write"; "data"; "^requests to"; "pending") + {most: 0, unit: ""},
 (("owner", "others") | value("requests of 1000 hot stat by path, by \(if . == "owner" then "the owner of the root" else . end)";
	"calls"; "^requests, 1000 .* \(.)$"; "pending") + {most: 0, unit: ""}),
 {kind: "ratio", text: "stat, hot", part: "calls", regex: "^[14]-thread stat$", of: "pending", to: "passthrough_hp", not_below: true,
  unit: "of passthrough_hp"},
 names("pending"; "")[],
 equals("pending"; ""),
 list("pending"; "")[],
 programs("pending"; ""),
 {kind: "ratio", text: "git status", part: "programs", regex: "^git status$", of: "pending", to: "native", least: 0.6,
  unit: "of native"},
 {kind: "all", text: "after the hand-off, median of everything", target: "1.00", unit: "of native"},
 {kind: "walk", text: "the walk, warm", field: "warm", limited: true, least: 1.5, unit: "of chown -R, chmod -R"},
 {kind: "walk", text: "the walk, cold", field: "cold", least: 1.5, unit: "of chown -R, chmod -R"},
 (("create", "stat", "write") | {kind: "walk", text: "a \(.) while it runs, 99th percentile", field: "foreground", of: .,
  unit: "of the time when it rests"}),
 (", cpu_latency=0" as $which | (names("pending-awake"; $which)[], equals("pending-awake"; $which), programs("pending-awake"; $which)) +
  {is_awake: true}),
 value("memory of all processes, an inode"; "memory"; "^memory an inode"; "pending") + {most: 200, unit: "bytes"},
 value("largest process, idle"; "memory"; "^idle, largest"; "pending") + {most: 4, scale: 1048576, unit: "MiB"},
 ({text: "read, cached, in a user namespace", regex: "^cached (rand)?read ", least: 0.7, limited_by: "passthrough_hp-cached"},
  ({text: "write 4 KiB, cached, in a user namespace", regex: "^cached (rand)?write 4k$", least: 0.08},
   {text: "write 128 KiB, cached, in a user namespace", regex: "^cached (rand)?write 128k$", least: 0.3} |
   . + {limited_by: "user-namespace-ceiling", and_tree: true}) |
  . + {kind: "ratio", part: "data", of: "user-namespace", to: "native", unit: "of native"}),
 names("user-namespace"; ", in a user namespace")[],
 list("user-namespace"; ", in a user namespace")[],
 data("pending-shared"; ", shared")[],
 {kind: "ratio", text: "stat, hot, shared", part: "calls", regex: "^[14]-thread stat$", of: "pending-shared", to: "bindfs", least: 2,
  unit: "of bindfs"},
 {kind: "ratio", text: "git status, shared", part: "programs", regex: "^git status$", of: "pending-shared", to: "bindfs", least: 2,
  unit: "of bindfs"},
 {kind: "ratio", text: "chmod by a user, many pending files", part: "calls", regex: "^large chmod$", of: "pending", to: "native",
  lasts: true, least: 0.1, unit: "of native"}
] |
map(. as $row | .cells = [$types[] as $fs |
	if .kind == "ratio" then ratio_cells($row; $fs) elif .kind == "value" then value_cells($row; $fs)
	elif .kind == "walk" then walk_cells($row; $fs) elif .kind == "all" then all_cells($fs)
	else [ready_cells($row; $fs)[]] end]) |
map(select(.cells | flatten | length > 0)) |
(map(.cells |= map(map(.value) | range_shown) |
	.goal = (if .target then .target elif .not_below then "not below" elif .least then ">= \(.least)"
		elif .most then "<= \(.most)" else "" end) ) ) as $shown |
"What the overlay is held to. The limit is what nobody passes who serves names through /dev/fuse on this machine: the",
"ceiling, and after it the call itself as on the tree; where nothing need be asked, the tree. Of a program: its time on the",
"tree, and the ceiling's for each request; of the walk, warm: two threads that do what safety asks and no more; of data: what",
"the kernel does for passthrough_hp, and in a user namespace a ceiling that takes what is written. \"Most files\" are " +
	"\([$types[] | most_files(.) | values] | max // 0).",
"",
"| | target | | \($types | join(" | ")) | limit | met |", "|---|---|---|\($types | map("---:") | join("|"))|---:|---|",
([., $shown] | transpose[] | . as [$row, $text] |
 ($row.cells | flatten) as $cells |
 ($cells | map(select(.ok == false))) as $missed |
 ($missed | map(select(.best == null or .best >= .bound))) as $within |
 (if $cells | all(.ok == null) then ""
  elif $missed == [] then "yes"
  elif $within == [] then "no: above the limit"
  elif ($cells | length) == ($within | length) or ($within | all(.name == null)) then "no"
  else "no: \($within | map(.name // "") | unique | .[0:3] | join(", "))" end) as $met |
 "| \($row.text) | \($text.goal) | \($row.unit) | \($text.cells | join(" | ")) | \([$cells[] | .best | values] | range_shown) | \($met) |")
