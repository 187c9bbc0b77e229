#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Real programs, unchanged, on an overlay that converges under them: git, tar, rsync, SQLite, PostgreSQL, stress-ng.
# What fails on the overlay and not on the lower file system itself is our failure. Needs root and /dev/fuse.
#
# timeout: 600
set -euo pipefail
# shellcheck source=tests/integ/lib.sh
. "$(dirname "$0")/lib.sh"
need_root
need_fuse
need_tools git tar rsync sqlite3 stress-ng
own_mounts "$0" "$@"
start_test

readonly GROUP=4242 WORKER=1000
postgres_bin=$(find /usr/lib/postgresql -maxdepth 2 -name bin 2>/dev/null | sort -V | tail -n 1)
[ -x "$postgres_bin/postgres" ] || skip 'needs PostgreSQL'

worker() { as "$WORKER" "$WORKER" "$GROUP" env HOME="$scratch/home" "$@"; }

stop_postgres() {
	[ ! -e "$1/postmaster.pid" ] ||
		setpriv --reuid postgres --regid postgres --clear-groups "$postgres_bin/pg_ctl" -D "$1" -m immediate stop \
			>/dev/null 2>&1 || true
}

VOLUME_SIZE=2G make_volume ext4 lower
lower=$scratch/lower view=$scratch/view pg=$scratch/view/postgres
mkdir -p "$view" "$scratch/home" "$scratch/out"
chown "$WORKER" "$scratch/home" "$scratch/out"

# ---- what is in the volume before it is mounted: foreign files, a database, a repository ----

mkdir "$lower/tree" "$lower/postgres"
cp -a /usr/share/doc/git "$lower/tree/" 2>/dev/null || true
find /usr/include -type f | sed -n 1,2000p | tar -cf - -T - 2>/dev/null | tar -xf - -C "$lower/tree"
chown postgres:postgres "$lower/postgres"
chmod 0700 "$lower/postgres"
as_postgres() { setpriv --reuid postgres --regid postgres --clear-groups "$@"; }
as_postgres "$postgres_bin/initdb" -D "$lower/postgres" -A trust -N >"$scratch/initdb.log"
git init -q "$lower/repository"
cp -r "$repository/fs" "$lower/repository/"
git -C "$lower/repository" add .
git -C "$lower/repository" -c user.name=x -c user.email=x@localhost commit -qm first
chown -R root:root "$lower/repository" "$lower/tree"

overlay programs "$lower" "$view" gid=$GROUP handoff=no exclude=postgres/ converge_rate=10

# ---- PostgreSQL keeps its 0700, by a pattern, and works ----

trap 'stop_postgres "$pg"; clean_up' EXIT
mkdir -p "$scratch/socket"
chown postgres "$scratch/socket"
psql() { as_postgres "$postgres_bin/psql" -qAtX -h "$scratch/socket" -d postgres "$@"; }
check 'PostgreSQL starts: its directory kept 0700' as_postgres "$postgres_bin/pg_ctl" -s -w -D "$pg" \
	-l "$scratch/socket/log" -o "-k $scratch/socket -c listen_addresses=''" start
check 'pgbench makes its tables' as_postgres "$postgres_bin/pgbench" -q -i -s 1 -h "$scratch/socket" postgres \
	2>"$scratch/pgbench.log"
check 'pgbench runs' as_postgres "$postgres_bin/pgbench" -c 4 -t 200 -h "$scratch/socket" postgres \
	>"$scratch/pgbench.log" 2>&1
check_same 'every transaction is there' 800 "$(psql -c 'SELECT count(*) FROM pgbench_history')"
check 'it is killed' as_postgres "$postgres_bin/pg_ctl" -s -D "$pg" -m immediate stop
check 'and recovers' as_postgres "$postgres_bin/pg_ctl" -s -w -D "$pg" -l "$scratch/socket/log" \
	-o "-k $scratch/socket -c listen_addresses=''" start
check_same 'with every transaction' 800 "$(psql -c 'SELECT count(*) FROM pgbench_history')"
check 'its own checker finds nothing' as_postgres "$postgres_bin/pg_amcheck" -h "$scratch/socket" postgres \
	--install-missing
check 'it stops' as_postgres "$postgres_bin/pg_ctl" -s -D "$pg" -m fast stop

# ---- git, as a member of the group ----

printf '[safe]\n\tdirectory = *\n' >"$scratch/home/.gitconfig"
check 'git clone out of the pending volume' worker git clone -q --no-hardlinks "$view/repository" "$scratch/out/clone"
check 'git clone into it' worker git clone -q --no-hardlinks "$scratch/out/clone" "$view/clone"
check 'git fsck' worker git -C "$view/clone" fsck --full --strict --no-progress
check 'git gc' worker git -C "$view/clone" gc -q --aggressive
check 'git fsck again' worker git -C "$view/clone" fsck --full --strict --no-progress
check_same 'git status is clean' '' "$(worker git -C "$view/clone" status --porcelain)"

# ---- tar and rsync, in and out ----

check 'tar out' tar -C "$view" -cpf "$scratch/out/tree.tar" tree
mkdir "$view/again"
check 'tar in' tar -C "$view/again" -xpf "$scratch/out/tree.tar"
check 'tar finds no difference' tar -C "$view/again" -df "$scratch/out/tree.tar"
check 'rsync -aHAX into the volume' rsync -aHAX "$view/tree/" "$view/rsync/"
check_same 'rsync finds no difference' '' "$(rsync -aHAXinc --delete "$view/tree/" "$view/rsync/" 2>&1)"

# ---- SQLite, three writers ----

sqlite_writers() {
	local pids=() pid status=0 i

	worker sqlite3 "$view/db" 'PRAGMA journal_mode=WAL; CREATE TABLE t (writer, n);' >"$scratch/sqlite.log"
	for i in 1 2 3; do
		worker bash -c '
			for ((n = 0; n < 60; n++)); do
				echo ".timeout 20000"
				echo "INSERT INTO t VALUES ('"$i"', $n);"
			done | sqlite3 -bail "$1"' _ "$view/db" &
		pids+=($!)
	done
	for pid in "${pids[@]}"; do
		wait "$pid" || status=1
	done
	return "$status"
}
check 'three SQLite writers' sqlite_writers
check_same 'all rows are there' '180|ok' "$(worker sqlite3 "$view/db" 'SELECT count(*) FROM t; PRAGMA integrity_check;' | paste -sd '|')"

# ---- stress-ng, with verification, on the overlay and on the lower file system itself ----

mkdir "$view/stress" "$lower/native-stress"
chmod 0777 "$view/stress" "$lower/native-stress"
# binderfs, bind-mount, procfs and lease need no volume; fiemap and verity are on the list of what FUSE cannot pass.
stressors='access chdir chmod chown copy-file dentry dir dirdeep dup fallocate fcntl filename flock fpunch fsize fstat
	getdent hdd inotify iomix link locka lockf lockofd mknod open rename symlink sync-file touch utime xattr mmap'
# Two of fcntl, on a loaded machine, do not find their own directories now and then: also on the lower file system.
instances() { [ "$1" = fcntl ] && echo 1 || echo 2; }
stress() {
	local args=() name

	for name in $stressors; do
		[ "$1" != "$name" ] || args+=("--$name" "$(instances "$name")" "--$name-ops" 60)
	done
	(cd "$2" && worker timeout 300 stress-ng --verify -q --timeout 5 --temp-path "$2" "${args[@]}") \
		>"$scratch/stress.log" 2>&1
}
unfit=0
for name in $stressors; do
	if stress "$name" "$view/stress"; then
		check "stress-ng $name" true
	elif stress "$name" "$lower/native-stress"; then
		sed -n 's/^/#  /;1,5p' "$scratch/stress.log"
		check "stress-ng $name" false
	else
		printf '# stress-ng %s fails on the lower file system too\n' "$name"
		sed -n 's/^/#  /;1,3p' "$scratch/stress.log"
		unfit=$((unfit + 1))
	fi
done
check 'nearly all stressors work on the lower file system' test "$unfit" -le 3

check 'it is still converging' grep -q '^state=converging' <(keeper programs send status)
check 'the rest converges' keeper programs send rate rate=0
check 'to the end' keeper programs wait state=converged
check_same 'nothing failed' 0 "$(keeper programs send status | sed -n 's/^failed=//p')"
check_same 'the database directory is as PostgreSQL wants it' 700 "$(stat -c %a "$lower/postgres")"
check_same 'every file of the tree belongs to the group' '' "$(find "$lower/tree" "$lower/repository" ! -gid $GROUP)"
check 'unmount' umount "$view"
end_test
