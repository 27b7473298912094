#!/usr/bin/env bash
# Builds the packages for Debian and Red Hat from a built program.
#
#   packaging/build.sh BINARY FOLDER     needs nfpm (github.com/goreleaser/nfpm) on PATH; writes the packages into FOLDER
#
# For a package that anybody may install: cargo build --profile dist -p seawall --locked
set -euo pipefail
binary=$(realpath "$1")
mkdir -p "$2"
folder=$(realpath "$2")
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Only builds with debug assertions hold the deliberate defects that the engine's own tests need.
if grep -q "BEGIN; -- without a barrier" "$binary"; then
  echo "$binary was built with debug assertions, for tests: build it with cargo build --profile dist -p seawall --locked" >&2
  exit 1
fi

made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
mkdir -p "$made/man" "$made/completions"
"$binary" manual -o "$made/man" >/dev/null
"$binary" completion bash >"$made/completions/seawall.bash"
"$binary" completion zsh >"$made/completions/_seawall"
"$binary" completion fish >"$made/completions/seawall.fish"

case $(uname -m) in
  x86_64) SEAWALL_ARCH=amd64 ;;
  aarch64) SEAWALL_ARCH=arm64 ;;
  *) echo "no package is made for $(uname -m)" >&2 && exit 1 ;;
esac
SEAWALL_VERSION=${SEAWALL_VERSION:-$("$binary" --version | cut -d' ' -f2)}
SEAWALL_BINARY=$binary
SEAWALL_MADE=$made
export SEAWALL_ARCH SEAWALL_VERSION SEAWALL_BINARY SEAWALL_MADE

for packager in deb rpm; do
  # Debian and Red Hat keep units in different folders.
  SEAWALL_UNITS=/usr/lib/systemd/system
  [[ $packager == deb ]] && SEAWALL_UNITS=/lib/systemd/system
  export SEAWALL_UNITS
  nfpm package --config packaging/nfpm.yaml --packager "$packager" --target "$folder"
done
ls "$folder"
