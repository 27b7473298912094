#!/usr/bin/env bash
# Prints the Homebrew formula of a release.
#
#   packaging/homebrew/fill.sh VERSION URL-OF-THE-REPOSITORY SHA256SUMS
set -euo pipefail
version=${1:?}
source=${2:?}
sums=${3:?}

# The checksum of the static program for a processor.
sum() {
  local found
  found=$(awk -v name="seawall-$version-$1-unknown-linux-musl.tar.gz" '$2 == name { print $1 }' "$sums")
  if [[ ! $found =~ ^[0-9a-f]{64}$ ]]; then
    echo "$sums has no checksum of the program for $1" >&2
    exit 1
  fi
  echo "$found"
}

intel=$(sum x86_64)
arm=$(sum aarch64)
sed -e "s|@VERSION@|$version|g" -e "s|@SOURCE@|$source|g" -e "s|@X86_64@|$intel|" -e "s|@AARCH64@|$arm|" -e 1d \
  "$(dirname "${BASH_SOURCE[0]}")/seawall.rb"
