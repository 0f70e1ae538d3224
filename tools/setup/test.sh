#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# test.sh PRESET JOBS: lint, build, ctest, lit, pytest. A failing step does not stop the next ones (but nothing can follow a
# failed build); the exit status is nonzero when any failed.
set -uo pipefail
cd "$(dirname "$0")/../.."
preset=$1
jobs=$2
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
if [[ ${#failed[@]} -gt 0 ]]; then
  echo "failed so far: ${failed[*]}"
fi
# Two processes at a time: two thirds of the files of tests/run, and the other folders before the last third.
others=()
for folder in tests/*/; do
  if [[ $folder != tests/run/ && -n $(find "$folder" -name '*_test.py' -print -quit) ]]; then
    others+=("$folder")
  fi
done
first=() second=()
number=0
for file in tests/run/*_test.py; do
  if ((number++ % 3 == 2)); then second+=("$file"); else first+=("$file"); fi
done
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export PYTHONPATH="build/$preset/python"
{
  .venv/bin/python -m pytest "${others[@]}"
  others_status=$?
  .venv/bin/python -m pytest "${second[@]}" && exit "$others_status"
} </dev/null >"$log" 2>&1 &
pid=$!
start=$SECONDS
echo "=== pytest: ${#first[@]} files of tests/run"
.venv/bin/python -m pytest "${first[@]}" </dev/null
run_status=$?
echo "=== ended with $run_status after $((SECONDS - start)) s; pytest ${others[*]}, then ${#second[@]} files of tests/run"
wait "$pid"
status=$?
cat "$log"
echo "=== pytest: $((SECONDS - start)) s, those ended with $run_status, the others with $status"
[[ ${#failed[@]} -eq 0 && $run_status -eq 0 && $status -eq 0 ]]
