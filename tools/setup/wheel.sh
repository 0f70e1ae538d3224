#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# wheel.sh PYTHON PRESET [FOLDER]: a wheel in FOLDER (dist/) over the build tree of PRESET, for Python PYTHON: a version such as 3.12,
# or the path of an interpreter. Compiles the one module that is made per Python, and checks that the wheel wants no more of a
# machine than its name says.
set -euo pipefail
cd "$(dirname "$0")/../.."
wanted=$1
preset=$2
folder=${3:-dist}
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
glibc_floor=2.34

# Fit to use: runs (a pyenv shim may not), is the version asked for, makes environments, has headers.
usable() {
  "$1" - "$wanted" 2>/dev/null <<'PY'
import ensurepip, os, sys, sysconfig, venv
header = os.path.join(sysconfig.get_path("include"), "Python.h")
right = "/" in sys.argv[1] or sys.argv[1] == "%d.%d" % sys.version_info[:2]
raise SystemExit(0 if right and sys.version_info >= (3, 10) and os.path.exists(header) else 1)
PY
}

choose() {
  local candidate candidates=("$wanted")
  if [[ $wanted != */* ]]; then
    candidates=("python$wanted" .venv/bin/python "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$wanted".*/bin/python)
  fi
  for candidate in "${candidates[@]}"; do
    if command -v "$candidate" >/dev/null && usable "$candidate"; then
      "$candidate" -c 'import sys; print(sys.executable)'
      return
    fi
  done
  echo "error: no Python $wanted (3.10 or newer) with venv, ensurepip and headers; give one as PYTHON=/path/to/python" >&2
  return 1
}

python=$(choose)
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
environment=.cache/setup/wheel-$version
stamp=$environment/installed
if ! cmp -s requirements/wheel.txt "$stamp"; then
  rm -rf "$environment"
  "$python" -m venv "$environment"
  "$environment/bin/python" -m pip install --quiet --disable-pip-version-check --no-input -r requirements/wheel.txt </dev/null
  cp requirements/wheel.txt "$stamp"
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
tag=cp${version/./}-cp${version/./}-manylinux_${glibc_floor/./_}_x86_64
# Torch's device is built for the torch of the interpreter, or of the tree's tests: its headers are the same for every Python.
find_torch='import importlib.util as u; s = u.find_spec("torch"); print(s.submodule_search_locations[0] if s else "")'
torch=$("$python" -c "$find_torch")
[[ -n $torch || ! -x .venv/bin/python ]] || torch=$(.venv/bin/python -c "$find_torch")
[[ -n $torch ]] || echo "note: no torch here: the wheel has torch's device as sources alone" >&2
"$environment/bin/python" -m pip wheel . --quiet --disable-pip-version-check --no-deps --no-build-isolation --no-index \
  --wheel-dir "$scratch" -C "cmake.define.SL_PREBUILT=$PWD/build/$preset" \
  -C "cmake.define.SL_TORCH=$torch" -C "wheel.tags=$tag" </dev/null
python3 tools/setup/check_wheel.py --glibc "$glibc_floor" --megabytes 60 "$scratch"/straightline-*.whl
mkdir -p "$folder"
mv "$scratch"/straightline-*.whl "$folder"
ls "$folder"/straightline-*-"$tag".whl
