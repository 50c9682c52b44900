#!/usr/bin/env bash
# Fails if gofmt would change a file.
# shellcheck source=.ci/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

badly=$(gofmt -s -l cmd db internal ledger proto)
[ -z "$badly" ] || die "Not laid out by gofmt (make fmt does it):"$'\n'"$badly"
