#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes .venv and installs requirements/<name>.txt for each name given. $PYTHON chooses the interpreter.
# torch comes from pip's configured index; PyPI's build for Linux carries CUDA (3 GB): set PIP_EXTRA_INDEX_URL to PyTorch's CPU
# index to save that.
set -euo pipefail
cd "$(dirname "$0")/../.."

# Fit to use: runs (a pyenv shim may not), 3.11 or newer (the pinned numpy wants it), can make environments, has headers.
usable() {
  "$1" - 2>/dev/null <<'PY'
import ensurepip, os, sys, sysconfig, venv
header = os.path.join(sysconfig.get_path("include"), "Python.h")
raise SystemExit(0 if sys.version_info >= (3, 11) and os.path.exists(header) else 1)
PY
}

choose() {
  local candidate
  for candidate in ${PYTHON:-} python3.11 python3 /usr/bin/python3 python3.12 python3.13; do
    if command -v "$candidate" >/dev/null && usable "$candidate"; then
      "$candidate" -c 'import sys; print(sys.executable)'
      return
    fi
  done
  echo "error: no Python >= 3.11 with venv, ensurepip and headers; on Debian: apt-get install python3 python3-venv python3-dev" >&2
  return 1
}

if ! .venv/bin/python -c 'import pip' 2>/dev/null; then
  python=$(choose)
  echo "making .venv with $python"
  rm -rf .venv
  "$python" -m venv .venv
fi
arguments=()
for name in "$@"; do
  arguments+=(-r "requirements/$name.txt")
done
.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-input "${arguments[@]}" </dev/null

# The package is imported from the release build tree: a .pth file points there.
site=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
echo "$PWD/build/release/python" >"$site/straightline_build.pth"
