#!/usr/bin/env bash
# Sees to it that hledger and beancount are there for the tests of the journals that Khata exports: they are what judges them. It installs the
# system's packages if they are missing and it may. Khata itself needs none of it. Where they cannot be had, CI fails; elsewhere the tests that
# run them are skipped, and this says so.
set -euo pipefail

# without ends this where something cannot be had.
without() {
	printf 'hledger and beancount: %s\n' "$*" >&2
	[ "${CI:-}" != true ] || exit 1
	echo "hledger and beancount: tests that run them will be skipped" >&2
	exit 0
}

# missing prints the packages of the programs that are not there. The one of bean-check also brings bean-query.
missing() {
	command -v hledger >/dev/null || echo hledger
	{ command -v bean-check && command -v bean-query; } >/dev/null || echo beancount
}

# apt installs packages quietly; what apt-get printed is shown only if it failed.
apt() {
	local as_root=() log
	command -v apt-get >/dev/null || without "install $*, which cannot be installed by itself"
	if [ "$(id -u)" -ne 0 ]; then
		as_root=(sudo -n)
		sudo -n true 2>/dev/null || without "run 'sudo apt-get install $*'"
	fi
	echo "hledger and beancount: installing $*"
	log=$(mktemp)
	if "${as_root[@]}" apt-get -q -o DPkg::Lock::Timeout=120 update >"$log" 2>&1 </dev/null &&
		"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y -q -o DPkg::Lock::Timeout=120 \
			install --no-install-recommends "$@" >"$log" 2>&1 </dev/null; then
		rm -f "$log"
		return
	fi
	cat "$log" >&2
	rm -f "$log"
	without "'apt-get install $*' failed"
}

packages=$(missing)
# shellcheck disable=SC2086 # one word a package
[ -z "$packages" ] || apt $packages
packages=$(missing)
[ -z "$packages" ] || without "what apt-get installed of ${packages//$'\n'/ and } did not bring the programs"
echo "hledger and beancount: $(LC_ALL=C.UTF-8 hledger --version), $(bean-check --version)"
