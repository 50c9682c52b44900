#!/usr/bin/env bash
# Lays out Go and protobuf.
# shellcheck source=.ci/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

gofmt -s -w cmd db internal ledger
cd proto
tool buf format --write --exclude-path google
