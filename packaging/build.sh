#!/usr/bin/env bash
# Builds the packages for Debian, Red Hat and Alpine from a built program.
#
#   packaging/build.sh BINARY FOLDER [deb] [rpm] [apk]     needs nfpm (github.com/goreleaser/nfpm) and readelf on PATH
#
# For packages that anybody may install: cargo build --profile dist -p seawall --locked
# Alpine has no glibc: its package is made of a static program only.
#
#   SEAWALL_VERSION=V           a version other than the program's own
#   SOURCE_DATE_EPOCH=SECONDS   the time in the packages; without it that of the last commit. The same input makes the same bytes.
#
# `packaging/test.sh` packages the program of the tests with --test-build. Such packages have the version 0.0.N, older than any release.
set -euo pipefail

of_tests=
if [[ ${1:-} == --test-build ]]; then
  of_tests=1
  shift
fi
if (($# < 2)); then
  echo "usage: packaging/build.sh BINARY FOLDER [deb] [rpm] [apk]" >&2
  exit 2
fi
binary=$(realpath "$1")
mkdir -p "$2"
folder=$(realpath "$2")
shift 2
packagers=("$@")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=packaging/binary.sh
. packaging/binary.sh

SEAWALL_VERSION=${SEAWALL_VERSION:-$("$binary" --version | cut -d' ' -f2)}
SEAWALL_REMARK=
if [[ -n $of_tests ]]; then
  if [[ $SEAWALL_VERSION != 0.0.* ]]; then
    echo "a package of --test-build has a version 0.0.N: set SEAWALL_VERSION" >&2
    exit 2
  fi
  SEAWALL_REMARK="Built for tests. Don't install it."
else
  refuse_test_build "$binary"
fi

made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
mkdir -p "$made/man" "$made/completions"
"$binary" manual -o "$made/man" >/dev/null
"$binary" completion bash >"$made/completions/seawall.bash"
"$binary" completion zsh >"$made/completions/_seawall"
"$binary" completion fish >"$made/completions/seawall.fish"
"$binary" self --sbom >"$made/sbom.cdx.json"

case $(uname -m) in
  x86_64) SEAWALL_ARCH=amd64 ;;
  aarch64) SEAWALL_ARCH=arm64 ;;
  *) echo "no package is made for $(uname -m)" >&2 && exit 1 ;;
esac
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
SEAWALL_BINARY=$binary
SEAWALL_MADE=$made
export SEAWALL_ARCH SEAWALL_VERSION SEAWALL_BINARY SEAWALL_MADE SEAWALL_REMARK SOURCE_DATE_EPOCH

SEAWALL_DEB_LIBC='' SEAWALL_DEB_LIBGCC='' SEAWALL_RPM_LIBC='' SEAWALL_RPM_LIBGCC=''
if ! is_static "$binary"; then
  # What the program needs of the C library, by the names that each distribution gives it.
  glibc=$(glibc_of "$binary")
  SEAWALL_DEB_LIBC="libc6 (>= $glibc)"
  SEAWALL_RPM_LIBC="libc.so.6(GLIBC_$glibc)(64bit)"
  if needs_library "$binary" libgcc_s.so.1; then
    SEAWALL_DEB_LIBGCC=libgcc-s1
    SEAWALL_RPM_LIBGCC="libgcc_s.so.1()(64bit)"
  fi
  no_alpine="$binary needs glibc, which Alpine hasn't: build it for a musl target"
  if ((${#packagers[@]} == 0)) && [[ -z $of_tests ]]; then
    packagers=(deb rpm)
    echo "no apk: $no_alpine" >&2
  elif [[ " ${packagers[*]} " == *" apk "* && -z $of_tests ]]; then
    echo "$no_alpine" >&2
    exit 1
  fi
fi
if ((${#packagers[@]} == 0)); then packagers=(deb rpm apk); fi
export SEAWALL_DEB_LIBC SEAWALL_DEB_LIBGCC SEAWALL_RPM_LIBC SEAWALL_RPM_LIBGCC

for packager in "${packagers[@]}"; do
  # Debian and Red Hat keep units in different folders.
  SEAWALL_UNITS=/usr/lib/systemd/system
  [[ $packager == deb ]] && SEAWALL_UNITS=/lib/systemd/system
  export SEAWALL_UNITS
  nfpm package --config packaging/nfpm.yaml --packager "$packager" --target "$folder"
done
ls "$folder"
