#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes .venv-tour, which sees the packages of .venv, and installs requirements/tour.txt into it.
set -euo pipefail
cd "$(dirname "$0")/../.."
if ! .venv-tour/bin/python -c 'import pip' 2>/dev/null; then
  rm -rf .venv-tour
  .venv/bin/python -m venv .venv-tour
fi
site() { "$1" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }
echo "$(cd "$(site .venv/bin/python)" && pwd)" >"$(site .venv-tour/bin/python)/venv.pth"
.venv-tour/bin/python -m pip install --quiet --disable-pip-version-check --no-input -r requirements/tour.txt </dev/null
