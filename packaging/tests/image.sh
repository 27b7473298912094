# shellcheck shell=bash
# The OCI image: its settings, and its root as a container would run it: as its user, with its variables, and with nothing else.

layout=$work/image
bundle=$work/bundle
user=65532:65532

refuses_image_of_tests() { refuses 1 "was built with debug assertions" packaging/image.sh "$binary" "$work/no"; }

image_is_made() {
  SEAWALL_COMMIT=0123456789abcdef SOURCE_DATE_EPOCH=1000000000 packaging/image.sh --test-build "$program" "$layout"
  umoci unpack --image "$layout:$version-test" "$bundle"
}

image_again() {
  SEAWALL_COMMIT=0123456789abcdef SOURCE_DATE_EPOCH=1000000000 packaging/image.sh --test-build "$program" "$work/image2"
  diff -r "$layout" "$work/image2"
}

# The document that a digest of the layout names.
blob() { jq . "$layout/blobs/${1/://}"; }

image_settings() {
  local manifest config
  manifest=$(blob "$(jq -r '.manifests[0].digest' "$layout/index.json")")
  config=$(blob "$(jq -r .config.digest <<<"$manifest")")
  jq '{ created, architecture, os, config }' <<<"$config"
  jq -e '.os == "linux" and .created == "2001-09-09T01:46:40Z" and (.config
    | .User == "65532:65532" and .Entrypoint == ["/usr/bin/seawall"] and .Cmd == ["replicate"] and .StopSignal == "SIGTERM"
    and .WorkingDir == "/var/lib/seawall" and (.Volumes | keys == ["/data", "/var/lib/seawall"])
    and .Labels["org.opencontainers.image.revision"] == "0123456789abcdef" and .Labels["org.opencontainers.image.licenses"] == "Apache-2.0")' \
    <<<"$config" >/dev/null
  jq -r '.config.Env[]' <<<"$config" >"$work/variables"
}

image_files() {
  local root=$bundle/rootfs
  [[ $(stat -c '%a %u' "$root/tmp") == "1777 0" && $(stat -c '%a %u' "$root/data") == "755 65532" ]]
  [[ $(stat -c '%a %u' "$root/var/lib/seawall") == "700 65532" && $(stat -c '%a %u' "$root/usr/bin/seawall") == "755 0" ]]
  grep -q "BEGIN CERTIFICATE" "$root/etc/ssl/certs/ca-certificates.crt"
  [[ -e $root/usr/share/zoneinfo/Europe/Berlin ]]
  # Only root's files, and none that another user may write; no shell.
  [[ -z $(find "$root" \( -perm /6000 -o -perm -2 ! -type l ! -path "$root/tmp" \)) ]]
  [[ -z $(find "$root" -name '*sh' -type f -perm /111) ]]
}

# in_image COMMAND…: as the runtime would.
in_image() {
  local variables
  mapfile -t variables <"$work/variables"
  in_root "$bundle/rootfs" "$user" "${variables[@]}" "$@"
}

image_shows_it_works() {
  # chroot has no working folder of its own; the demo begins in /.
  chmod 0777 "$bundle/rootfs"
  in_image /usr/bin/seawall demo
  in_image /usr/bin/seawall self --sbom | cmp - "$bundle/rootfs/usr/share/doc/seawall/sbom.cdx.json"
  in_image /usr/bin/litestream version
  rm -rf "$bundle/rootfs/seawall-demo" "$bundle/rootfs/vault"
  chmod 0755 "$bundle/rootfs"
}

# Without authorities, TLS can't be set up at all. Nothing listens on this port.
image_finds_its_authorities() {
  refuses 1 "Connection refused" in_image AWS_ACCESS_KEY_ID=a AWS_SECRET_ACCESS_KEY=b \
    /usr/bin/seawall timeline "s3://bucket/app?endpoint=https://127.0.0.1:1&region=us-east-1"
}

# What Compose and the chart do with the image: restore at the first start, protect, ask whether it runs, stop by the image's signal, restore.
image_protects_and_restores() {
  local root=$bundle/rootfs
  cat >"$root/etc/seawall.yml" <<'YAML'
vault: /data/vault
socket: { path: /tmp/seawall.sock }
prove: { schedule: "H 5 * * * Europe/Berlin" }
databases: [{ path: /data/app.db }]
YAML
  mkdir "$root/data/vault"
  chown "$user" "$root/data/vault"
  in_image /usr/bin/seawall config check
  in_image /usr/bin/seawall restore app --if-missing --allow-empty | grep "no backup yet"
  [[ ! -e $root/data/app.db ]]
  python3 -c 'import sqlite3, sys
db = sqlite3.connect(sys.argv[1]); db.execute("PRAGMA journal_mode = wal"); db.execute("CREATE TABLE t(x)"); db.execute("INSERT INTO t VALUES (7)"); db.commit()' \
    "$root/data/app.db"
  chown "$user" "$root"/data/app.db*
  in_image /usr/bin/seawall replicate &
  local process=$!
  local tries=0
  until in_image /usr/bin/seawall info; do
    ((tries += 1))
    if ((tries > 100)); then return 1; fi
    sleep 0.2
  done
  in_image /usr/bin/seawall sync app --wait
  in_image /usr/bin/seawall status --check
  kill -TERM "$(in_image /usr/bin/seawall info --json | jq .pid)"
  wait $process
  rm "$root"/data/app.db*
  in_image /usr/bin/seawall restore app --if-missing --allow-empty
  [[ $(python3 -c 'import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute("SELECT x FROM t").fetchone()[0])' "$root/data/app.db") == 7 ]]
  in_image /usr/bin/seawall restore app --if-missing --allow-empty | grep "nothing was restored"
  # A folder that doesn't exist is no empty vault.
  rm -rf "$root/data/vault" "$root"/data/app.db*
  if in_image /usr/bin/seawall restore app --if-missing --allow-empty; then return 1; fi
}

say "image"
if ! command -v umoci >/dev/null || ! command -v jq >/dev/null || [[ $(id -u) != 0 ]]; then
  skip "the image" "umoci or jq (Debian's umoci and jq) is missing, or this isn't root"
else
  version=$("$program" --version | cut -d' ' -f2)
  check "no image is made of a program of the tests" refuses_image_of_tests
  check "the image is made" image_is_made
  check "the same program makes the same image" image_again
  check "the image has its user, command, signal, volumes and labels" image_settings
  check "the image has its folders, authorities and time zones, and no shell" image_files
  check "the image shows that it works, as its user" image_shows_it_works
  check "the image finds its authorities for TLS" image_finds_its_authorities
  check "the image restores, protects and stops as containers do" image_protects_and_restores
fi
