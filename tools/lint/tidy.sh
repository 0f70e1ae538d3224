#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tidy.sh [--base REV | --all]: clang-tidy (.clang-tidy) on the C++ sources that differ from REV, which is by default where this branch
# left main, and on main itself the commit before; --all: on every source. Headers are checked with the sources that include them.
# A file of MLIR takes 9 s of a core, one of the runtime 1 s. It reads how files are compiled from build/*/compile_commands.json.
# CLANG_TIDY_JOBS: how many at a time; CLANG_TIDY: another program than .venv's.
set -uo pipefail
cd "$(dirname "$0")/../.."
git() { command git -c safe.directory='*' "$@"; }

database=$(ls -t build/{release,dev}/compile_commands.json 2>/dev/null | head -1)
if [[ -z $database ]]; then
  echo "tidy: there is no build/release/compile_commands.json: make build" >&2
  exit 2
fi
tidy=${CLANG_TIDY:-.venv/bin/clang-tidy}
if [[ ! -x $tidy ]]; then
  echo "tidy: $tidy is missing: make tidy installs it" >&2
  exit 2
fi

if [[ ${1:-} == --all ]]; then
  candidates=$(git ls-files '*.cpp')
else
  base=${2:-}
  if [[ -z $base ]]; then
    base=$(git merge-base HEAD main 2>/dev/null || git rev-parse HEAD)
    [[ $base != "$(git rev-parse HEAD)" ]] || base=$(git rev-parse --verify -q HEAD~1 || echo HEAD)
  fi
  candidates=$(git diff --name-only --diff-filter=d "$base" -- '*.cpp'; git ls-files -o --exclude-standard -- '*.cpp')
fi
files=()
for file in $candidates; do
  grep -qF "\"$PWD/$file\"" "$database" && files+=("$file")
done
[[ ${#files[@]} -gt 0 ]] || exit 0
# Precompiled headers are for one compiler alone.
mkdir -p build/tidy
sed 's/ -include-pch [^ ]*//' "$database" >build/tidy/compile_commands.json
printf '%s\n' "${files[@]}" | xargs -P "${CLANG_TIDY_JOBS:-$(nproc)}" -n 1 "$tidy" -p build/tidy --quiet 2>/dev/null
