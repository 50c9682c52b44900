# Sourced by the scripts beside it, which then run from the top of the repository.
# shellcheck shell=bash

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Everything builds without a C compiler, and so shares one build cache. Only the race detector needs one: see test.sh.
export CGO_ENABLED=0

# The storms: many clients at once, with faults. They take longer than the other tests and run on their own.
# shellcheck disable=SC2034 # read by test.sh and storms.sh
storms='Storm'

# tool runs a developer's tool at the version that .ci/tools pins. Each has a module of its own, so that neither our
# dependencies nor another tool's decide what it is built with.
tool() {
	local name=$1 up=
	shift
	while [ ! -e "${up}.ci/tools" ]; do up=../$up; done
	GOWORK=off go tool "-modfile=${up}.ci/tools/$name/go.mod" "$name" "$@"
}

die() {
	printf '%s\n' "$*" >&2
	exit 1
}
