#!/usr/bin/env bash
# Builds bin/khata. It knows its version if git does; Go's own stamp would fail the build where git refuses, as it does in
# another user's clone.
# shellcheck source=.ci/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

version=$(git describe --tags --always --dirty 2>/dev/null || true)
go build -buildvcs=false -ldflags="${version:+-X github.com/khata-ledger/khata/internal/cli.Version=$version}" -o bin/khata ./cmd/khata
