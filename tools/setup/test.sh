#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# test.sh PRESET JOBS [whole]: lint, build, ctest, lit, pytest. A failing step does not stop the next ones (but nothing can follow
# a failed build); the exit status is nonzero when any failed. Without `whole` pytest runs a slice (tests/conftest.py), which the
# commit chooses, or STRAIGHTLINE_TEST_SLICE.
set -uo pipefail
cd "$(dirname "$0")/../.."
preset=$1
jobs=$2
if [[ ${3:-} == whole ]]; then
  unset STRAIGHTLINE_TEST_SLICE
  export STRAIGHTLINE_PROPERTY_GRAPHS=${STRAIGHTLINE_PROPERTY_GRAPHS:-600}
else
  export STRAIGHTLINE_TEST_SLICE=${STRAIGHTLINE_TEST_SLICE:-$(git rev-parse --short=12 HEAD 2>/dev/null || echo none)}
  export STRAIGHTLINE_PROPERTY_GRAPHS=${STRAIGHTLINE_PROPERTY_GRAPHS:-100}
fi
failed=()

step() {
  local name=$1 start=$SECONDS
  shift
  echo "=== $name"
  if ! "$@" </dev/null; then
    failed+=("$name")
    echo "=== $name FAILED after $((SECONDS - start)) s"
    return 1
  fi
  echo "=== $name: $((SECONDS - start)) s"
}

step lint tools/lint/run.sh || true
if ! step build tools/setup/build.sh "$preset" "$jobs"; then
  echo "failed: ${failed[*]}"
  exit 1
fi
step ctest ctest --test-dir "build/$preset" --output-on-failure --no-tests=error --parallel "$jobs" || true
if [[ -f build/$preset/tests/lit.site.cfg.py ]]; then
  step lit .venv/bin/lit -sv "build/$preset/tests" || true
fi
# JOBS processes of tests, file by file: a file's programs stay warm in its process.
step pytest env PYTHONPATH="build/$preset/python" .venv/bin/python -m pytest -n "$jobs" --max-worker-restart 1 --dist loadfile --no-loadscope-reorder --durations 40 || true
# Tests of a framework's programs run in that framework's environment (make frameworks).
for framework in jax paddle triton; do
  step "$framework" env PYTHONPATH="build/$preset/python" ".venv-$framework/bin/python" -m pytest -n "$jobs" --max-worker-restart 1 --dist loadfile --no-loadscope-reorder "tests/frameworks/$framework" || true
done
if [[ ${#failed[@]} -gt 0 ]]; then
  echo "failed: ${failed[*]}"
  exit 1
fi
