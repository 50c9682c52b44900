#!/usr/bin/env bash
# Sees to it that Node is there for the tests of the JavaScript module (ledger/payclient/js), which needs nothing else. It installs the
# system's package if there is none and it may. Khata itself needs no Node. Where it cannot be had, CI fails; elsewhere the tests are
# skipped, and this says so.
set -euo pipefail

oldest=18

# without ends this where Node cannot be had.
without() {
	printf 'Node: %s\n' "$*" >&2
	[ "${CI:-}" != true ] || exit 1
	echo "Node: the tests of the JavaScript module will be skipped" >&2
	exit 0
}

# node_major prints the major version of the node on PATH, or nothing if there is none that runs.
node_major() { (node --version 2>/dev/null || true) | sed -n 's/^v\([0-9]*\)\..*/\1/p'; }

major=$(node_major)
if [ "${major:-0}" -lt "$oldest" ]; then
	why="Node $oldest or newer is needed on PATH, and there is ${major:-none}"
	command -v apt-get >/dev/null || without "$why"
	as_root=()
	if [ "$(id -u)" -ne 0 ]; then
		as_root=(sudo -n)
		sudo -n true 2>/dev/null || without "run 'sudo apt-get install nodejs': $why"
	fi
	echo "Node: installing the package nodejs"
	log=$(mktemp)
	trap 'rm -f "$log"' EXIT
	{ "${as_root[@]}" apt-get -q -o DPkg::Lock::Timeout=120 update &&
		"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y -q -o DPkg::Lock::Timeout=120 \
			install --no-install-recommends nodejs; } >"$log" 2>&1 </dev/null || {
		cat "$log" >&2
		without "'apt-get install nodejs' failed: $why"
	}
	major=$(node_major)
	[ "${major:-0}" -ge "$oldest" ] || without "$why"
fi
echo "Node: $(node --version)"
