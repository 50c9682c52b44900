#!/usr/bin/env bash
# generate.sh [check]: writes the generated code again, and with check fails if that changed anything. The comparison is
# with git's index, so generated code that is added but not yet committed passes. Nothing is put back.
# shellcheck source=.ci/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

tool sqlc generate
(cd proto && tool buf generate)

# Neither tool removes what it wrote for a file that is gone.
for f in internal/dbsqlc/*.sql.go; do
	[ ! -e "$f" ] || [ -e "db/queries/$(basename "$f" .go)" ] || rm -v "$f"
done
for f in proto/khata/*/*.pb.go; do
	case $f in
	*_grpc.pb.go) grep -qs '^service ' "${f%_grpc.pb.go}.proto" || rm -fv "$f" ;;
	*) [ -e "${f%.pb.go}.proto" ] || rm -fv "$f" ;;
	esac
done

[ "${1:-}" = check ] || exit 0
generated=(internal/dbsqlc 'proto/*.pb.go')
git --no-pager diff --exit-code --stat -- "${generated[@]}" ||
	die "Generated code differs from its sources: it has been written again, look at it and commit it."
untracked=$(git ls-files --others --exclude-standard -- "${generated[@]}")
[ -z "$untracked" ] || die "Generated code is not in git:"$'\n'"$untracked"
