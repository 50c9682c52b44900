#!/usr/bin/env bash
# Sees to it that Chromium is there for the tests of the pages, with fonts for Bengali, and axe-core, which looks for faults that keep people
# out (in the user's cache, where the tests look for it). It installs the system's packages if they are missing and it may. Khata itself
# needs none of it. Where Chromium cannot be had, CI fails; elsewhere the tests of the pages are skipped, and this says so.
set -euo pipefail

axe=4.14.1
axe_sha256=29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c
home=${XDG_CACHE_HOME:-$HOME/.cache}/khata/axe-core-$axe

# without ends this where something cannot be had.
without() {
	printf 'Chromium: %s\n' "$*" >&2
	[ "${CI:-}" != true ] || exit 1
	echo "Chromium: tests of the pages will be skipped" >&2
	exit 0
}

# browser prints the path of a browser that the tests can use.
browser() {
	local name
	for name in chromium chromium-browser google-chrome google-chrome-stable; do
		command -v "$name" && return
	done
	return 1
}

# apt installs packages quietly; what apt-get printed is shown only if it failed.
apt() {
	local as_root=() log
	command -v apt-get >/dev/null || without "install $*, which cannot be installed by itself"
	if [ "$(id -u)" -ne 0 ]; then
		as_root=(sudo -n)
		sudo -n true 2>/dev/null || without "run 'sudo apt-get install $*'"
	fi
	echo "Chromium: installing $*"
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

browser >/dev/null || apt chromium fonts-noto-core
path=$(browser) || without "the package chromium did not bring it"

has_axe() { echo "$axe_sha256  $home/axe.min.js" | sha256sum --check --status 2>/dev/null; }

# fetch_axe gets axe-core, if npm is there and can.
fetch_axe() {
	command -v npm >/dev/null || return
	fresh=$(mktemp -d)
	trap 'rm -rf "$fresh"' EXIT
	(cd "$fresh" && npm pack --silent "axe-core@$axe" >/dev/null && tar -xzf "axe-core-$axe.tgz" package/axe.min.js) || return
	mkdir -p "$home"
	mv "$fresh/package/axe.min.js" "$home/axe.min.js"
	has_axe || rm "$home/axe.min.js"
}

# The tests have checks of their own besides, so this is no reason to fail.
has_axe || fetch_axe || true
if has_axe; then
	echo "Chromium: $path, with axe-core $axe"
else
	echo "Chromium: $path; without axe-core $axe, which npm could not fetch into $home: only checks of our own look for faults that keep people out"
fi
