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

if [ $# -gt 0 ]; then
	exec go test "${flags[@]}" "$@"
fi
# Those with brokers of Kafka come after the others and one at a time: three of them beside a race detector starve whoever has a deadline.
brokers='/(internal/(kafka|kafkatest|relay|fraud)|ledger/inbox)(/|$)'
mapfile -t others < <(go list ./... | grep -vE "$brokers")
mapfile -t kafka < <(go list ./... | grep -E "$brokers")
go test "${flags[@]}" "${others[@]}"
go test "${flags[@]}" -p 1 "${kafka[@]}"
