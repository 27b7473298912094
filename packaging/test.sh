#!/usr/bin/env bash
# Builds the packages, the image and the chart from a built program, looks into them and tries them out.
#
#   packaging/test.sh [BINARY] [PART…]    BINARY: target/debug/seawall; parts: scripts packages chroot image chart workflows rules formula
#
# Tools go to target/tools; small ones of the distribution become packages of the system (umoci, mmdebstrap, rpm, shellcheck). In CI a
# missing tool is a failure, elsewhere the part isn't tried, and the end says so.
set -euo pipefail
umask 022
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PIP_ROOT_USER_ACTION=ignore

target=${CARGO_TARGET_DIR:-$PWD/target}
[[ $target == /* ]] || target=$PWD/$target
tools=$target/tools
mkdir -p "$tools"
binary=$(realpath "${1:-$target/debug/seawall}")
shift || true
parts=("$@")
((${#parts[@]})) || parts=(scripts packages chroot image chart workflows rules formula)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# shellcheck source=packaging/tests/common.sh
. packaging/tests/common.sh

apt_tools binutils umoci mmdebstrap rpm shellcheck ca-certificates tzdata jq
[[ " ${parts[*]} " != *" chroot "* ]] || make_root
nfpm_version=v2.45.2
go_tool "$nfpm_version" github.com/goreleaser/nfpm/v2/cmd/nfpm
go_tool v1.7.12 github.com/rhysd/actionlint/cmd/actionlint
export PATH

# shellcheck disable=SC2034
deb_arch=$(dpkg --print-architecture 2>/dev/null || true)
# Symbols would only make the packages large.
program=$work/seawall
strip -o "$program" "$binary"

for part in "${parts[@]}"; do
  # shellcheck source=/dev/null
  . "packaging/tests/$part.sh"
done

printf 'packaging: %d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
((failed == 0))
