#!/usr/bin/env bash
# Insists that a version is the same everywhere it stands: workspace, lock, chart, changelog.
#
#   packaging/version.sh VERSION           says which place differs
#   packaging/version.sh --notes VERSION   prints what the changelog says of it
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

notes=
if [[ ${1:-} == --notes ]]; then
  notes=1
  shift
fi
version=${1:?usage: packaging/version.sh [--notes] VERSION}

# The part of the changelog below the heading of this version.
of_version() { awk -v heading="## $version" '/^## / { on = index($0 " ", heading " ") == 1; next } on' CHANGELOG.md; }

if [[ -n $notes ]]; then
  of_version
  exit
fi

failed=0
differs() {
  echo "$1 doesn't have the version $version" >&2
  failed=1
}
grep -qx "version = \"$version\"" Cargo.toml || differs Cargo.toml
grep -A1 -x 'name = "seawall"' Cargo.lock | grep -qx "version = \"$version\"" || differs Cargo.lock
grep -qx "version: $version" packaging/helm/seawall/Chart.yaml || differs "the version in packaging/helm/seawall/Chart.yaml"
grep -qx "appVersion: \"$version\"" packaging/helm/seawall/Chart.yaml || differs "the appVersion in packaging/helm/seawall/Chart.yaml"
[[ -n $(of_version) ]] || differs CHANGELOG.md
exit $failed
