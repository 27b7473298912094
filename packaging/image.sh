#!/usr/bin/env bash
# Makes an OCI image from scratch: the program, authorities for TLS, time zones, and nothing else. It runs as user 65532.
#
#   packaging/image.sh BINARY LAYOUT     needs umoci, readelf and root (for the owners of files); writes LAYOUT, a folder in OCI's layout
#
# A registry or a daemon takes the folder from skopeo: skopeo copy oci:LAYOUT:VERSION docker://registry.example/seawall:VERSION
#
# The program should be static (a musl target). One that needs glibc takes its loader and libraries along, from this machine.
#
#   SEAWALL_COMMIT=ID           the label org.opencontainers.image.revision
#   SEAWALL_SOURCE=URL          the label org.opencontainers.image.source
#   SOURCE_DATE_EPOCH=SECONDS   the time in the image; without it that of the last commit. The same input makes the same bytes.
#
# `packaging/test.sh` uses --test-build, as for build.sh.
set -euo pipefail
umask 022

of_tests=
if [[ ${1:-} == --test-build ]]; then
  of_tests=1
  shift
fi
if [[ $# != 2 ]]; then
  echo "usage: packaging/image.sh BINARY LAYOUT" >&2
  exit 2
fi
if [[ $(id -u) != 0 ]]; then
  echo "files of the image belong to different users: run packaging/image.sh as root" >&2
  exit 1
fi
binary=$(realpath "$1")
layout=$(realpath -m "$2")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=packaging/binary.sh
. packaging/binary.sh
[[ -n $of_tests ]] || refuse_test_build "$binary"

version=$("$binary" --version | cut -d' ' -f2)
[[ -z $of_tests ]] || version=$version-test
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
user=65532

made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
root=$made/root
mkdir -m 0755 "$root" "$root/etc" "$root/etc/ssl" "$root/etc/ssl/certs" "$root/usr" "$root/usr/bin" "$root/usr/share" "$root/usr/share/doc" \
  "$root/usr/share/doc/seawall" "$root/var" "$root/var/lib"

install -m 0755 "$binary" "$root/usr/bin/seawall"
# Under this name the program is a drop-in for Litestream.
ln -s seawall "$root/usr/bin/litestream"
if ! is_static "$binary"; then
  echo "$binary isn't static: its loader and libraries go into the image" >&2
  loader=$(loader_of "$binary")
  while read -r file; do
    install -D -m 0755 "$file" "$root$file"
  done < <(printf '%s\n' "$loader" && ldd "$binary" | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p')
fi

install -m 0644 LICENSE "$root/usr/share/doc/seawall/LICENSE"
"$binary" self --sbom >"$root/usr/share/doc/seawall/sbom.cdx.json"
install -m 0644 /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
# Schedules may name a time zone.
mkdir -m 0755 "$root/usr/share/zoneinfo"
tar -C /usr/share/zoneinfo --exclude=./posix --exclude=./right -c . | tar -C "$root/usr/share/zoneinfo" -x --no-same-owner
printf 'root:x:0:0:root:/:/sbin/nologin\nseawall:x:%d:%d:seawall:/var/lib/seawall:/sbin/nologin\n' $user $user >"$root/etc/passwd"
printf 'root:x:0:\nseawall:x:%d:\n' $user >"$root/etc/group"
echo 'hosts: files dns' >"$root/etc/nsswitch.conf"

# What the process writes to: its state, the databases beside it, and scratch space.
mkdir -m 1777 "$root/tmp"
mkdir -m 0700 "$root/var/lib/seawall"
mkdir -m 0755 "$root/data"
chown -R root:root "$root"
chown $user:$user "$root/var/lib/seawall" "$root/data"
find "$root" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +

case $(uname -m) in
  x86_64) architecture=amd64 ;;
  aarch64) architecture=arm64 ;;
  *) echo "no image is made for $(uname -m)" >&2 && exit 1 ;;
esac

rm -rf "$layout"
umoci init --layout "$layout"
umoci new --image "$layout:$version"
umoci insert --image "$layout:$version" --history.created "$created" --history.created_by "packaging/image.sh" "$root" /
labels=(
  "org.opencontainers.image.title=seawall"
  "org.opencontainers.image.description=Continuous protection of SQLite, LMDB, PostgreSQL and MySQL databases"
  "org.opencontainers.image.licenses=Apache-2.0"
  "org.opencontainers.image.version=$version"
  "org.opencontainers.image.created=$created"
)
[[ -z ${SEAWALL_COMMIT:-} ]] || labels+=("org.opencontainers.image.revision=$SEAWALL_COMMIT")
[[ -z ${SEAWALL_SOURCE:-} ]] || labels+=("org.opencontainers.image.source=$SEAWALL_SOURCE")
options=()
for label in "${labels[@]}"; do options+=(--config.label "$label"); done
umoci config --image "$layout:$version" --created "$created" --history.created "$created" --history.created_by "packaging/image.sh" \
  --os linux --architecture "$architecture" --config.user "$user:$user" --config.workingdir /var/lib/seawall \
  --config.env PATH=/usr/bin --config.env HOME=/var/lib/seawall --config.env XDG_STATE_HOME=/var/lib/seawall/state \
  --config.entrypoint /usr/bin/seawall --config.cmd replicate --config.stopsignal SIGTERM \
  --config.volume /var/lib/seawall --config.volume /data "${options[@]}"
umoci gc --layout "$layout"
echo "$layout:$version"
