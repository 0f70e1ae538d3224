#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# runtime_wheel.sh PRESET [FOLDER]: the wheel straightline-runtime in FOLDER (dist/) over the build tree of PRESET. Compiles nothing.
set -euo pipefail
cd "$(dirname "$0")/../.."
preset=$1
folder=${2:-dist}
glibc_floor=2.34
environment=.cache/setup/wheel-runtime
if ! cmp -s requirements/wheel.txt "$environment/installed"; then
  rm -rf "$environment"
  .venv/bin/python -m venv "$environment"
  "$environment/bin/python" -m pip install --quiet --disable-pip-version-check --no-input -r requirements/wheel.txt </dev/null
  cp requirements/wheel.txt "$environment/installed"
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
tag=cp310-abi3-manylinux_${glibc_floor/./_}_x86_64
"$environment/bin/python" -m pip wheel packaging/runtime --quiet --disable-pip-version-check --no-deps --no-build-isolation --no-index \
  --wheel-dir "$scratch" -C "cmake.define.SL_PREBUILT=$PWD/build/$preset" -C "wheel.tags=$tag" </dev/null
python3 tools/setup/check_wheel.py --glibc "$glibc_floor" --megabytes 3 "$scratch"/straightline_runtime-*.whl
mkdir -p "$folder"
mv "$scratch"/straightline_runtime-*.whl "$folder"
ls "$folder"/straightline_runtime-*-"$tag".whl
