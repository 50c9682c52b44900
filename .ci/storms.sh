#!/usr/bin/env bash
# storms.sh [go test arguments]: the storms alone, in their short form. They run without the race detector, which would
# slow the clients down until they hardly meet; make test-long runs them with it.
# shellcheck source=.ci/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# Only the packages that have some, so that the others' tests need not be linked again.
packages=$({ grep -rlE "^func Test[A-Za-z0-9_]*$storms" --include='*_test.go' cmd db internal ledger || true; } |
	sed 's|^\(.*\)/[^/]*$|./\1|' | sort -u)
if [ -z "$packages" ]; then
	echo "There are no storms: no test is named Test…$storms…."
	exit 0
fi
# shellcheck disable=SC2086 # one word a package
exec go test -count=1 -timeout=8m -run="$storms" "$@" $packages
