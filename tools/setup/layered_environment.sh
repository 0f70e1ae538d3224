#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# layered_environment.sh NAME [REQUIREMENT]: makes .venv-NAME, which sees the packages of .venv, and installs the requirement into
# it, or requirements/NAME.txt, then requirements/NAME_without_dependencies.txt, where there is one, without what its packages ask for.
set -euo pipefail
cd "$(dirname "$0")/../.."
name=$1
if ! ".venv-$name/bin/python" -c 'import pip' 2>/dev/null; then
  rm -rf ".venv-$name"
  .venv/bin/python -m venv ".venv-$name"
fi
site() { "$1" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }
echo "$(cd "$(site .venv/bin/python)" && pwd)" >"$(site ".venv-$name/bin/python")/venv.pth"
install() { ".venv-$name/bin/python" -m pip install --quiet --disable-pip-version-check --no-input "$@" </dev/null; }
if [ $# -gt 1 ]; then
  install "$2"
else
  install -r "requirements/$name.txt"
fi
if [ -f "requirements/${name}_without_dependencies.txt" ]; then
  install --no-deps -r "requirements/${name}_without_dependencies.txt"
fi
