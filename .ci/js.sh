#!/usr/bin/env bash
# js.sh [node --test arguments]: the tests of the JavaScript module. Where there is no Node they are skipped, but not in CI: see
# need-node.sh, which runs first.
# shellcheck source=.ci/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

if ! command -v node >/dev/null; then
	[ "${CI:-}" != true ] || die "There is no Node: see .ci/need-node.sh"
	echo "No Node: the tests of the JavaScript module are skipped."
	exit 0
fi
cd ledger/payclient/js
exec node --test "$@"
