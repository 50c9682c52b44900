#!/usr/bin/env bash
# test.sh [go test arguments]: the tests, without the storms. KHATA_TEST_LONG=1 adds those, and gives every test more to
# do. RACE=0 leaves the race detector out.
# shellcheck source=.ci/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

flags=(-count=1)
if [ "${RACE:-1}" = 0 ]; then
	:
elif command -v "$(go env CC)" >/dev/null; then
	export CGO_ENABLED=1
	flags+=(-race)
else
	echo "No C compiler: running without the race detector."
fi
if [ -n "${KHATA_TEST_LONG:-}" ]; then
	flags+=(-timeout=60m)
else
	flags+=(-timeout=8m -skip="$storms")
fi

[ $# -gt 0 ] || set -- ./...
exec go test "${flags[@]}" "$@"
