#!/usr/bin/env bash
# Linters over Go and protobuf, and the layout of both.
# shellcheck source=.ci/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

tool golangci-lint run ./...
cd proto
tool buf lint
tool buf format --diff --exit-code --exclude-path google
