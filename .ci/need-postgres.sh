#!/usr/bin/env bash
# Sees to it that PostgreSQL's server programs are installed: khata up and the tests start a server of their own. It looks
# where Khata will look (internal/devpg), and installs the system's package if there is none and it may.
set -euo pipefail

oldest=15

die() {
	printf '%s\n' "$*" >&2
	exit 1
}

# major prints the major version of the server in a directory, or nothing if it has none that runs.
major() {
	[ -x "$1/initdb" ] && [ -x "$1/postgres" ] || return 0
	"$1/initdb" --version >/dev/null 2>&1 || return 0
	("$1/postgres" --version 2>/dev/null || true) | sed -n 's/^postgres (PostgreSQL) \([0-9]*\).*/\1/p'
}

# locate prints the newest usable directory and its version, and fails if there is none.
locate() {
	local dir v best='' newest=0 onpath
	onpath=$(command -v postgres || true)
	for dir in /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /usr/libexec/postgresql* /usr/local/pgsql/bin \
		/opt/homebrew/opt/postgresql@*/bin /usr/local/opt/postgresql@*/bin \
		/Applications/Postgres.app/*/latest/bin "${onpath%/*}"; do
		v=$(major "$dir")
		if [ "${v:-0}" -gt "$newest" ]; then
			best=$dir newest=$v
		fi
	done
	[ "$newest" -ge "$oldest" ] || return 1
	echo "PostgreSQL: $newest in $best"
}

if [ -n "${KHATA_PG_BIN:-}" ]; then
	v=$(major "$KHATA_PG_BIN")
	[ "${v:-0}" -ge "$oldest" ] ||
		die "KHATA_PG_BIN=$KHATA_PG_BIN holds no initdb and postgres of version $oldest or newer that run."
	echo "PostgreSQL: $v in $KHATA_PG_BIN"
	exit 0
fi
locate && exit 0

hint="or set KHATA_PG_BIN to the directory of its initdb and postgres."
command -v apt-get >/dev/null ||
	die "PostgreSQL $oldest or newer is needed: install its server, $hint"

as_root=()
if [ "$(id -u)" -ne 0 ]; then
	as_root=(sudo -n)
	sudo -n true 2>/dev/null ||
		die "PostgreSQL $oldest or newer is needed: run 'sudo apt-get install postgresql', $hint"
fi

log=$(mktemp)
config=/etc/postgresql-common/createcluster.d/khata.conf
trap 'rm -f "$log"; "${as_root[@]}" rm -f "$config"' EXIT

# apt runs apt-get quietly; what it printed is shown only if it failed.
apt() {
	"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y -q \
		-o DPkg::Lock::Timeout=120 "$@" >"$log" 2>&1 </dev/null && return
	cat "$log" >&2
	die "PostgreSQL $oldest or newer is needed, and 'apt-get $1' failed: install the package postgresql by hand, $hint"
}

echo "PostgreSQL: none found, installing the package postgresql"
apt update
packaged=$(apt-cache policy postgresql | sed -n 's/^ *Candidate: \([0-9]*\).*/\1/p')
[ "${packaged:-0}" -ge "$oldest" ] ||
	die "PostgreSQL $oldest or newer is needed, and this system packages ${packaged:-none}: run 'apt-get install postgresql-common && /usr/share/postgresql-common/pgdg/apt.postgresql.org.sh -y' as root and then this again, $hint"
# Without this the package would set up and start a cluster "main", which nobody here asked for.
"${as_root[@]}" mkdir -p "${config%/*}"
echo "create_main_cluster = false" | "${as_root[@]}" tee "$config" >/dev/null
apt install --no-install-recommends postgresql
locate || die "PostgreSQL $oldest or newer is needed, and the package postgresql did not bring it: $hint"
