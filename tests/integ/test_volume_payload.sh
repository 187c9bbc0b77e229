#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# secret, configMap, downwardAPI and projected through fsgroupctl with real mounts: set-up, refresh, readers
# meanwhile, a killed daemon, tear-down; and a canary: a secret is found nowhere but in its tmpfs. Needs root.
set -euo pipefail
# shellcheck source=tests/integ/lib_volume.sh
. "$(dirname "$0")/lib_volume.sh"
need_root
need_fuse
need_tools jq base64
own_mounts "$0" "$@"
start_volume_test

pod=$scratch/pod objects=$scratch/objects spec=$scratch/spec.json
mkdir "$pod" "$objects"

# The log with all that it can say.
mkdir -p "$FSGROUPFS_ROOT/etc/fsgroupfs"
printf '[log]\nlevel = debug\n' >"$FSGROUPFS_ROOT/etc/fsgroupfs/mountd.conf"

# No command line of ours may have the canary either: builtins write it, and grep reads it from a file.
canary=CANARY-0f3b6b1d-is-secret
printf '%s\n' "$canary" >"$scratch/patterns"
# Its base64, at the three ways in which bytes can fall into groups, without what depends on the bytes beside it.
for pad in '' x xx; do
	encoded=$(printf '%s%s' "$pad" "$canary" | base64 -w0)
	printf '%s\n' "${encoded:4:28}"
done >>"$scratch/patterns"

secret_object() {
	local user pass

	user=$(printf '%s' "$1" | base64 -w0)
	pass=$(printf '%s' "$2" | base64 -w0)
	printf '{"kind": "Secret", "metadata": {"name": "s", "namespace": "ns"}, "data": {"user": "%s", "pass": "%s"}}\n' \
		"$user" "$pass" >"$objects/secret.json"
}

# Files with the canary: everything below the state and run directories but what is mounted there, what fsgroupctl
# printed, and every process's arguments and environment but those of this script's own shells.
found_canary() {
	find "$FSGROUPFS_ROOT" -xdev -type f -exec grep -laF -f "$scratch/patterns" {} + || true
	grep -laF -f "$scratch/patterns" "$scratch/stderr" "$scratch/stdout" "$scratch/said" 2>/dev/null || true
	grep -laF -f "$scratch/patterns" /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null || true
}

# What can be asked for, and then all files, and the daemon's memory: what it was given is wiped after use.
no_canary() {
	{
		ctl status --json
		ctl events --json
		ctl list
	} >"$scratch/said"
	same '' "$(found_canary)" && "$helpers/memory" "$(daemon_pid)" "$scratch/patterns"
}

link_stamp() {
	stat -c '%i %y %z' "$pod/..data" "$pod" "$pod/"* | paste -sd ' '
}

daemon_limits_cores() {
	same '0 0' "$(awk '/^Max core file size/ { print $5, $6 }' "/proc/$(daemon_pid)/limits")"
}

# ---- the canary would be found ----

mkdir "$FSGROUPFS_ROOT/probe"
for pad in '' x xx; do
	printf '{"data": "%s"}' "$(printf '%sa%s-b' "$pad" "$canary" | base64 -w0)" >"$FSGROUPFS_ROOT/probe/base64$pad"
done
printf 'text %s text' "$canary" >"$FSGROUPFS_ROOT/probe/plain"
: >"$scratch/stdout"
check_same 'the canary is found in files, in any base64' 4 "$(found_canary | grep -c /probe/)"
rm -r "$FSGROUPFS_ROOT/probe"
PROBE=$canary sleep 60 &
probe=$!
check 'and in an environment' grep -q "^/proc/$probe/environ" <(found_canary)
kill "$probe"
wait "$probe" 2>/dev/null || true
check_same 'and nowhere else' '' "$(found_canary)"

check_fails 'in memory as well' "$helpers/memory" "$$" "$scratch/patterns"

# ---- secret ----

secret_object alice "$canary"
printf '{"name": "v", "secret": {"secretName": "s", "defaultMode": 256}}' >"$spec"
mount_secret() {
	ctl mount --spec "$spec" --objects "$objects" --pod ns/p --target "$pod" --volume-id s "$@"
}

check 'secret' mount_secret --fsgroup "$GROUP"
check_same 'shows the value' "$canary" "$(<"$pod/pass")"
check_same 'which the group can read, and nobody can write' "0:$GROUP:440" "$(attributes "$pod/..data/pass")"
check_same 'directories are the group'\''s' "0:$GROUP:2777 0:$GROUP:2755" \
	"$(attributes "$pod" "$pod/..data/" | paste -sd ' ')"
check 'every entry is the group'\''s' same '' "$(find "$pod" ! -gid "$GROUP")"
check_same 'is in memory' tmpfs "$(stat -fc %T "$pod")"
check_same 'is native at once' native "$(state_of s)"
check_fails 'cannot be written' touch "$pod/new"
check_fails 'cannot be written to' sh -c "echo x >'$pod/user'"
check 'no canary after the mount' no_canary
check 'the daemon dumps no core' daemon_limits_cores
before=$(link_stamp)
check 'mounting again is harmless' mount_secret --fsgroup "$GROUP"
check_same 'and writes nothing' "$before" "$(link_stamp)"
check_same 'refresh of the same' unchanged "$(ctl refresh s --objects "$objects" --pod ns/p)"
check_same 'writes nothing' "$before" "$(link_stamp)"
secret_object bob "$canary"
check_same 'refresh of another' changed "$(ctl refresh s --objects "$objects" --pod ns/p)"
check_same 'shows it' bob "$(<"$pod/user")"
check 'every entry is the group'\''s' same '' "$(find "$pod" ! -gid "$GROUP")"
check_same 'one payload is left' 1 "$(find "$pod" -maxdepth 1 -type d -name '..2*' | wc -l)"
check 'no canary after refreshes' no_canary

# A drifted file is repaired; the volume's own directory is where it can drift.
inner=$(find "$FSGROUPFS_ROOT/var/lib/fsgroupfs/volumes/s" -xdev -mindepth 2 -type d -name data)
chmod 666 "$inner/..data/pass"
check_same 'a drifted mode' changed "$(ctl refresh s --objects "$objects" --pod ns/p)"
check_same 'is repaired' "0:$GROUP:440" "$(attributes "$pod/..data/pass")"

# ---- another group, while it is mounted ----

check 'another fsGroup' ctl update s --fsgroup 5353
check_same 'is that of every entry' '' "$(find "$pod" ! -gid 5353)"
check_same 'the values stay' "bob $canary" "$(<"$pod/user") $(<"$pod/pass")"
check_same 'refresh of the same' unchanged "$(ctl refresh s --objects "$objects" --pod ns/p)"
check 'mounting again with it is harmless' mount_secret --fsgroup 5353
check 'refused: mounting again with the old one' refuses 1 fsgroup mount --spec "$spec" --objects "$objects" --pod ns/p \
	--target "$pod" --volume-id s --fsgroup "$GROUP"
check 'the old fsGroup again' ctl update s --fsgroup "$GROUP"
check_same 'is that of every entry' '' "$(find "$pod" ! -gid "$GROUP")"
check 'no canary after updates' no_canary

# ---- errors: the old payload stays, and none says what was in it ----

keeps() {
	local text=$1 words=$2

	check "refused: $text" refuses 1 "$words" refresh s --objects "$scratch/bad" --pod ns/p
	check_same 'the old payload stays' "bob $canary" "$(<"$pod/user") $(<"$pod/pass")"
	check 'no canary after the failure' no_canary
}

printf '{"kind": "Secret",\n "data": %s}' "$canary" >"$scratch/bad"
keeps 'invalid JSON' 'line 2 column'
printf '{"kind": "Secret", "metadata": {"name": "s", "namespace": "ns"}, "data": {"user": "%s"}}' "$canary" >"$scratch/bad"
keeps 'no base64' 'key user'
printf '{"kind": "Secret", "metadata": {"name": "s", "namespace": "ns"}, "data": {"user": ["%s"]}}' "$canary" >"$scratch/bad"
keeps 'no string' 'key user'
printf '{"kind": "Secret", "metadata": {"name": "s", "namespace": "ns"}, "data": {"../../%s": ""}}' x >"$scratch/bad"
keeps 'a key that leads out' 'not a valid key'
printf '{"kind": "Secret", "metadata": {"name": "s", "namespace": "other"}, "stringData": {"user": "%s"}}' "$canary" >"$scratch/bad"
keeps 'another namespace' 'Secret ns/s'
printf '{"kind": "List", "items": [{"kind": "Secret", "metadata": {"name": "s", "namespace": "ns"}, "stringData": {"user": "%s"}}, {"kind": "Secret", "metadata": {"name": "s", "namespace": "ns"}}]}' \
	"$canary" >"$scratch/bad"
keeps 'two that differ' 'two that differ'
printf '{"kind": "Secret", "metadata": "%s"}' "$canary" >"$scratch/bad"
keeps 'metadata that is no object' 'metadata'
rm "$scratch/bad"
keeps 'no file' 'No such file'
check 'refused: a secret as the spec' refuses 1 'Secret' mount --spec "$objects/secret.json" --target "$pod" --volume-id x
check 'no canary after that' no_canary

# ---- readers meanwhile ----

# Prints how often both files were read, and how often they were not of one payload.
read_pairs() {
	local pairs=0 mixtures=0 user pass

	while [ ! -e "$scratch/stop" ]; do
		cd -P "$pod/..data" 2>/dev/null || continue
		user='' pass=''
		{ read -r user <user; } 2>/dev/null || [ -n "$user" ] || continue
		{ read -r pass <pass; } 2>/dev/null || [ -n "$pass" ] || continue
		pairs=$((pairs + 1))
		[ "$user" = "$pass" ] || mixtures=$((mixtures + 1))
	done
	cd /
	printf '%s %s\n' "$pairs" "$mixtures" >"$scratch/pairs"
}

secret_object v0 v0
ctl refresh s --objects "$objects" --pod ns/p >/dev/null
read_pairs &
reader=$!
for ((i = 1; i <= 25; i++)); do
	secret_object "v$i" "v$i"
	ctl refresh s --objects "$objects" --pod ns/p >/dev/null
done
touch "$scratch/stop"
wait "$reader"
rm "$scratch/stop"
read -r pairs mixtures <"$scratch/pairs"
printf '# %s pairs were read while 25 payloads came\n' "$pairs"
check 'readers were there' test "$pairs" -ge 25
check_same 'and never saw a mixture' 0 "$mixtures"
check_same 'the last one is there' v25 "$(<"$pod/user")"

# ---- a daemon that is killed in the middle ----

# Some die before the write, some after it; the client asks the next daemon again.
for ((i = 1; i <= 6; i++)); do
	secret_object "k$i" "$canary"
	old=$(<"$pod/user")
	"$BIN/fsgroupctl" refresh s --objects "$objects" --pod ns/p >/dev/null 2>&1 &
	client=$!
	pid=$(daemon_pid)
	timeout 0.01$i tail --pid="$client" -f /dev/null || true
	[ -z "$pid" ] || kill -SEGV "$pid" 2>/dev/null || true
	now=$(<"$pod/user")
	[ "$now" = "$old" ] || [ "$now" = "k$i" ] || check_same 'old or new' "$old or k$i" "$now"
	wait "$client" || true
done
check 'refresh after all that' ctl refresh s --objects "$objects" --pod ns/p
check_same 'shows the last' "k6 $canary" "$(<"$pod/user") $(<"$pod/pass")"
check_same 'and nothing of those before' 1 "$(find "$pod" -maxdepth 1 -type d -name '..2*' | wc -l)"
check 'no canary after the crashes' no_canary
check_same 'no core' '' "$(find "$scratch" "$PWD" -xdev -maxdepth 2 -name 'core*' -type f -newer "$spec")"

check 'unmount' ctl unmount s
check 'unmount again' ctl unmount s
check 'no canary after the unmount' no_canary
check_same 'nothing is left of it' '' "$(ls -A "$FSGROUPFS_ROOT/var/lib/fsgroupfs/volumes")"

# ---- without fsGroup, and private files ----

check 'secret without fsGroup' mount_secret
check_same 'has its own mode' '0:0:400 0:0:777' "$(attributes "$pod/..data/pass" "$pod" | paste -sd ' ')"
check 'unmount' ctl unmount s
check 'secret, private files kept' mount_secret --fsgroup "$GROUP" --keep-private
check_same 'has its own mode' "0:$GROUP:400" "$(attributes "$pod/..data/pass")"
check 'unmount' ctl unmount s
check 'refused: no objects' refuses 1 'no objects' mount --spec "$spec" --target "$pod" --volume-id s
check 'refused: no such secret' refuses 1 'Secret other/s' mount --spec "$spec" --objects "$objects" --pod other/p \
	--target "$pod" --volume-id s
check 'nothing is left of these' nothing_mounted

# ---- configMap ----

printf '{"kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"app.conf": "a=1"}, "binaryData": {"logo": "iVBORw=="}}' \
	>"$scratch/config.json"
printf '{"name": "v", "configMap": {"name": "c", "items": [{"key": "app.conf", "path": "etc/app.conf", "mode": 493}, {"key": "logo", "path": "logo"}]}}' \
	>"$spec"
check 'configMap' ctl mount --spec "$spec" --objects - --target "$pod" --fsgroup "$GROUP" --volume-id c <"$scratch/config.json"
check_same 'is on disk' "$(stat -fc %T "$FSGROUPFS_ROOT")" "$(stat -fc %T "$pod")"
check_same 'shows text' a=1 "$(<"$pod/etc/app.conf")"
check_same 'and bytes' 89504e47 "$(od -An -tx1 "$pod/logo" | tr -d ' ')"
check_same 'with modes' "0:$GROUP:755 0:$GROUP:644" "$(attributes "$pod/etc/app.conf" "$pod/..data/logo" | paste -sd ' ')"
check_fails 'cannot be written' touch "$pod/etc/new"
before=$(link_stamp)
check_same 'refresh of the same' unchanged "$(ctl refresh c --objects "$scratch/config.json")"
check_same 'writes nothing' "$before" "$(link_stamp)"
sed -i 's/a=1/a=2/' "$scratch/config.json"
check 'mounting again is a refresh' ctl mount --spec "$spec" --objects "$scratch/config.json" --target "$pod" \
	--fsgroup "$GROUP" --volume-id c
check_same 'shows the new' a=2 "$(<"$pod/etc/app.conf")"
check 'unmount' ctl unmount c
check 'unmount again' ctl unmount c
check_same 'its data is gone' '' "$(find "$FSGROUPFS_ROOT" -name app.conf)"

# ---- downwardAPI ----

printf '{"kind": "Pod", "metadata": {"name": "p", "namespace": "ns", "uid": "u-1", "labels": {"zone": "us-est-coast", "cluster": "test-cluster1"}, "annotations": {"note": "%s"}}, "spec": {"containers": [{"name": "m", "resources": {"limits": {"cpu": "250m"}}}]}}' \
	"$canary" >"$objects/pod.json"
printf '{"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"memory": "1Gi"}}}' >"$objects/node.json"
printf '{"name": "v", "downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}, {"path": "note", "fieldRef": {"fieldPath": "metadata.annotations['\''note'\'']"}}, {"path": "cpu", "resourceFieldRef": {"containerName": "m", "resource": "limits.cpu", "divisor": "1m"}}, {"path": "memory", "resourceFieldRef": {"containerName": "m", "resource": "limits.memory", "divisor": "1Mi"}}]}}' \
	>"$spec"
check 'downwardAPI' ctl mount --spec "$spec" --objects "$objects" --target "$pod" --fsgroup "$GROUP" --volume-id d
check_same 'shows labels' $'cluster="test-cluster1"\nzone="us-est-coast"' "$(<"$pod/labels")"
check_same 'an annotation' "$canary" "$(<"$pod/note")"
check_same 'a limit, and one of the Node' '250 1024' "$(<"$pod/cpu") $(<"$pod/memory")"
check_same 'is in memory' tmpfs "$(stat -fc %T "$pod")"
check 'no canary' no_canary
sed -i 's/us-est-coast/eu/' "$objects/pod.json"
check_same 'a new label' changed "$(ctl refresh d --objects "$objects")"
check_same 'is shown' $'cluster="test-cluster1"\nzone="eu"' "$(<"$pod/labels")"
check_same 'the same' unchanged "$(ctl refresh d --objects "$objects")"
check 'unmount' ctl unmount d
check 'no canary after the unmount' no_canary

# ---- projected ----

printf '{"kind": "TokenRequest", "spec": {"audiences": ["vault"]}, "status": {"token": "%s.jwt"}}' "$canary" \
	>"$objects/token.json"
secret_object alice "$canary"
printf '{"name": "v", "projected": {"defaultMode": 256, "sources": [{"secret": {"name": "s"}}, {"serviceAccountToken": {"audience": "vault", "path": "tokens/vault"}}, {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}}]}}' \
	>"$spec"
check 'projected' ctl mount --spec "$spec" --objects "$objects" --target "$pod" --fsgroup "$GROUP" --volume-id p
check_same 'shows all its sources' "$canary $canary.jwt p" "$(<"$pod/pass") $(<"$pod/tokens/vault") $(<"$pod/name")"
check_same 'the token is the group'\''s' "0:$GROUP:640" "$(attributes "$pod/tokens/vault")"
check 'no canary' no_canary
printf '{"kind": "TokenRequest", "spec": {"audiences": ["vault"]}, "status": {"token": "%s.new"}}' "$canary" \
	>"$objects/token.json"
check_same 'a new token' changed "$(ctl refresh p --objects "$objects")"
check_same 'is shown' "$canary.new" "$(<"$pod/tokens/vault")"
check_same 'the same' unchanged "$(ctl refresh p --objects "$objects")"
printf '{"kind": "TokenRequest", "spec": {"audiences": ["other"]}, "status": {"token": "%s.other"}}' "$canary" \
	>"$objects/token.json"
check 'refused: a token of another audience' refuses 1 'audience "vault"' refresh p --objects "$objects"
check_same 'the old one stays' "$canary.new" "$(<"$pod/tokens/vault")"
check 'no canary after the failure' no_canary
check 'unmount' ctl unmount p
printf '{"name": "v", "projected": {"sources": [{"secret": {"name": "s"}}, {"configMap": {"name": "c", "items": [{"key": "x", "path": "user/x"}]}}]}}' \
	>"$spec"
printf '{"kind": "ConfigMap", "metadata": {"name": "c", "namespace": "ns"}, "data": {"x": "%s"}}' "$canary" >"$objects/c.json"
check 'refused: two sources in conflict' refuses 1 'a directory elsewhere' mount --spec "$spec" --objects "$objects" \
	--target "$pod" --volume-id p
check 'nothing is left of it' nothing_mounted
check 'no canary at the end' no_canary

end_volume_test
