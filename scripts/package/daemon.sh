# What the package's scripts share; put into each of them by scripts/make-deb.

daemon=/usr/sbin/fsgroup-mountd
units='fsgroup-mountd.service fsgroup-mountd.socket'

# Works without it; then clients start the daemon.
systemd_runs() { [ -d /run/systemd/system ]; }

# The daemons of the root directory /, also of a program that has been replaced: process ids.
daemons() {
	for proc in /proc/[0-9]*; do
		program=$(readlink "$proc/exe" 2>/dev/null) || continue
		case $program in
		"$daemon" | "$daemon (deleted)") ;;
		*) continue ;;
		esac
		# Not that of a container, nor that of the machine when this is one.
		[ "$proc/root" -ef / ] || continue
		if tr '\0' '\n' <"$proc/cmdline" 2>/dev/null | awk '
			/^--root=/ { root = substr($0, 8) }
			before == "--root" { root = $0 }
			{ before = $0 }
			END { exit root != "" && root != "/" }'; then
			printf '%s\n' "${proc#/proc/}"
		fi
	done
}

# It ends when its requests in progress are done; what it supervises goes on without it.
stop_daemons() {
	for pid in $(daemons); do
		kill -TERM "$pid" 2>/dev/null || continue
		timeout 60 tail --pid="$pid" -s 0.1 -f /dev/null ||
			printf 'fsgroupfs: fsgroup-mountd (process %s) does not end\n' "$pid" >&2
	done
}
