#!/usr/bin/env bash
# Sees to it that there is a Go that can build this module.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

want=$(sed -n 's/^go //p' go.mod)
if ! command -v go >/dev/null; then
	echo "Go $want or newer is needed: see https://go.dev/dl/, and have it on the PATH." >&2
	exit 1
fi
# An older Go fetches the one that go.mod asks for, unless GOTOOLCHAIN forbids it.
if ! have=$(go env GOVERSION 2>&1); then
	echo "Go $want or newer is needed: $(tail -n 1 <<<"$have")" >&2
	exit 1
fi
echo "Go: $have"
