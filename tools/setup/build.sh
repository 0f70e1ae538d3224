#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# build.sh PRESET JOBS: configures when needed and builds everything of one preset.
set -euo pipefail
cd "$(dirname "$0")/../.."
preset=$1
jobs=$2
# ccache sees paths relative to the checkout, so that another clone finds what this one compiled.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

# CMake watches its own inputs; configure by hand only when there is no build folder or the presets changed.
if [[ ! -f build/$preset/build.ninja || CMakePresets.json -nt build/$preset/CMakeCache.txt ]]; then
  cmake --preset "$preset" </dev/null
fi
cmake --build "build/$preset" --parallel "$jobs" </dev/null
