#!/usr/bin/env bash
# Fails if proto/ breaks a client that was built from the version landed last: what origin/main and this have in common,
# or the commit before this one where this has landed itself. AGAINST names another commit.
# shellcheck source=.ci/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

commit() { git rev-parse --quiet --verify "$1^{commit}"; }

landed() {
	local head main base
	if [ -n "${AGAINST:-}" ]; then
		commit "$AGAINST" || die "AGAINST=$AGAINST is not a commit here."
		return
	fi
	head=$(commit HEAD) || return 0
	main=$(commit origin/main || true)
	if [ -n "$main" ]; then
		base=$(git merge-base "$head" "$main" || echo "$main")
		if [ "$base" != "$head" ] || [ -n "$(git status --porcelain -- proto)" ]; then
			echo "$base"
			return
		fi
	fi
	commit 'HEAD^' || true
}

against=$(landed)
if [ -z "$against" ]; then
	echo "Nothing to compare the protobuf files with: no origin/main, and no commit before this one."
	exit 0
fi
protos=$(git ls-tree -r --name-only "$against" -- proto/khata | grep '\.proto$' || true)
if [ -z "$protos" ]; then
	echo "Nothing to compare the protobuf files with: ${against:0:12} has none."
	exit 0
fi
old=$(mktemp -d)
trap 'rm -rf "$old"' EXIT
git archive "$against" -- proto | tar -x -C "$old"
cd proto
tool buf breaking --against "$old/proto"
echo "No breaking change since ${against:0:12}."
