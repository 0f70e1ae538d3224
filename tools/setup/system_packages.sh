#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages of apt_packages.txt that are missing. Without the rights to do so it prints the exact command and stops.
set -euo pipefail
cd "$(dirname "$0")/../.."

mapfile -t wanted < <(grep -v '^#' tools/setup/apt_packages.txt)
llvm_major=$(sed 's/\..*//' cmake/llvm_version.txt)
missing=()
for package in "${wanted[@]}"; do
  if ! dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed; then
    missing+=("$package")
  fi
done
if [[ ${#missing[@]} -eq 0 ]]; then
  exit 0
fi
if ! command -v apt-get >/dev/null; then
  echo "error: no apt-get here; install what these Debian packages hold: ${missing[*]}" >&2
  exit 1
fi

as_root=()
if [[ $(id -u) -ne 0 ]]; then
  if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    as_root=(sudo -n)
  else
    echo "error: system packages are missing and this user may not install them; run:" >&2
    echo "  sudo apt-get update && sudo apt-get install -y --no-install-recommends ${missing[*]}" >&2
    exit 1
  fi
fi

"${as_root[@]}" apt-get update
for package in "${missing[@]}"; do
  if ! apt-cache show "$package" >/dev/null 2>&1; then
    echo "error: apt knows no package $package" >&2
    if [[ $package == *-"$llvm_major"* ]]; then
      echo "  LLVM $llvm_major comes from the distribution's repositories or from apt.llvm.org," >&2
      echo "  suite llvm-toolchain-bookworm-$llvm_major: add that suite and run this again" >&2
    fi
    exit 1
  fi
done
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}" </dev/null
