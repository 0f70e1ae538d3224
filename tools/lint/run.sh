#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh [--fix]: every rule of CONTRIBUTING.md that a tool can check. With --fix the formatters write what they would refuse.
# Each check runs whether or not the one before it failed; the exit status is nonzero when any failed.
set -uo pipefail
cd "$(dirname "$0")/../.."
bin=.venv/bin
status=0

# Tracked and new files with these endings, without the goldens, whose text is the emitter's.
sources() {
  git -c safe.directory='*' ls-files -co --exclude-standard -- "$@" | grep -v '/golden/'
}

if [[ ${1:-} == --fix ]]; then
  sources '*.c' '*.cpp' '*.h' '*.hpp' '*.cu' | xargs "$bin/clang-format" -i || status=1
  "$bin/ruff" format --quiet || status=1
fi

"$bin/python" tools/lint/layers.py || status=1
"$bin/python" tools/lint/circles.py || status=1
"$bin/python" tools/lint/text_rules.py || status=1
"$bin/ruff" check --quiet || status=1
if ! "$bin/ruff" format --check --quiet; then
  echo "these Python files are not as ruff formats them; tools/lint/run.sh --fix mends it:"
  "$bin/ruff" format --check | head -n -1
  status=1
fi
unformatted=$(sources '*.c' '*.cpp' '*.h' '*.hpp' '*.cu' | xargs "$bin/clang-format" --dry-run 2>&1 | sed -n 's|^\([^ :]*\):.*code should be clang-formatted.*|\1|p' | sort -u)
if [[ -n $unformatted ]]; then
  printf 'these files are not as clang-format formats them; tools/lint/run.sh --fix mends it:\n%s\n' "$unformatted"
  status=1
fi
# Function length: 80 lines in C and C++, 80 lines of code in Python. The list names what is longer today; it may only shrink.
sources '*.c' '*.cpp' '*.h' '*.hpp' | xargs "$bin/lizard" -l cpp -L 80 -C 1000 -a 100 -w -W tools/lint/long_functions.txt || status=1
sources '*.py' | xargs "$bin/lizard" -l python -T nloc=80 -C 1000 -a 100 -w -W tools/lint/long_functions.txt || status=1
exit $status
