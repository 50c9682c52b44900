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
# Thousands of random requests held against a model, or against what the callers were told: as the storms, they run without the race detector
# but in their long form. What it could find in them, the tests of what happens at once find sooner.
random='^Test(Model|Property|Hour)$'
if [ -n "${KHATA_TEST_LONG:-}" ]; then
	flags+=(-timeout=60m)
else
	flags+=(-timeout=8m)
fi

if [ $# -gt 0 ]; then
	[ -n "${KHATA_TEST_LONG:-}" ] || flags+=(-skip="$storms")
	exec go test "${flags[@]}" "$@"
fi
# Those with brokers of Kafka come after the others and one at a time: three of them beside a race detector starve whoever has a deadline.
brokers='/(internal/(kafka|kafkatest|relay|fraud)|ledger/inbox)(/|$)'
# What these do is done by browsers, by other people's programs and by PostgreSQL, one thing at a time: the race detector would only make them slow.
programs='/internal/(bankfile|cli|console|devidp|export|importer|reconcile|report|suspect|support|verify)(/|$)'
mapfile -t others < <(go list ./... | grep -vE "$brokers" | grep -vE "$programs")
mapfile -t driven < <(go list ./... | grep -E "$programs")
mapfile -t kafka < <(go list ./... | grep -E "$brokers")
plain=()
for flag in "${flags[@]}"; do
	[ "$flag" = -race ] || plain+=("$flag")
done
skip=() skip_random=()
if [ -z "${KHATA_TEST_LONG:-}" ]; then
	skip=(-skip="$storms") skip_random=(-skip="$storms|$random")
	CGO_ENABLED=0 go test "${plain[@]}" -run="$random" ./internal/journal ./internal/payapi ./ledger/payclient
fi
CGO_ENABLED=0 go test "${plain[@]}" "${skip[@]}" "${driven[@]}"
go test "${flags[@]}" "${skip_random[@]}" "${others[@]}"
go test "${flags[@]}" "${skip[@]}" -p 1 "${kafka[@]}"
