# shellcheck shell=bash
# The packages for Debian and Red Hat in a clean Debian: installed, upgraded, removed, purged.

root=$work/root

# The Debian, unpacked into a folder.
unpack_root() {
  [[ -z ${root_job:-} ]] || wait "$root_job" || true
  [[ -s $tools/root.tar ]] || return 1
  mkdir -p "$root"
  tar -xf "$tools/root.tar" -C "$root" --exclude='./dev/*'
  mkdir -p "$root/tmp/packages"
  cp "$work"/packages/* "$root/tmp/packages/"
}

inside() { in_root "$root" 0:0 PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C DEBIAN_FRONTEND=noninteractive "$@"; }

# is PATH MODE OWNER: of a file in the Debian.
is() {
  local found
  found=$(inside stat -c '%a %U:%G' "$1")
  echo "$1 $found"
  [[ $found == "$2 $3" ]]
}

# The program works, as the user of the service.
works() {
  [[ $(inside seawall --version) == "$("$program" --version)" ]]
  inside seawall self --sbom | cmp - "$root/usr/share/doc/seawall/sbom.cdx.json"
  rm -rf "$root/var/lib/seawall/tried"
  inside install -d -o seawall -g seawall /var/lib/seawall/tried
  in_root "$root" seawall:seawall HOME=/var/lib/seawall /bin/sh -c 'cd /var/lib/seawall/tried && exec /usr/bin/seawall demo'
}

deb_installs() {
  inside dpkg -i "/tmp/packages/seawall_0.0.1_$deb_arch.deb" | tee "$work/said"
  grep -q "write /etc/seawall.yml" "$work/said"
  [[ $(inside getent passwd seawall) == seawall:*:/var/lib/seawall:/usr/sbin/nologin ]]
  is /var/lib/seawall 700 seawall:seawall
  is /etc/default/seawall 640 root:root
  is /usr/bin/seawall 755 root:root
  inside dpkg --verify seawall
  works
}

deb_upgrades() {
  echo "vault: /vault" >"$root/etc/seawall.yml"
  echo "AWS_REGION=eu-central-1" >>"$root/etc/default/seawall"
  in_root "$root" seawall:seawall touch /var/lib/seawall/kept
  inside dpkg -i "/tmp/packages/seawall_0.0.2_$deb_arch.deb" | tee "$work/said"
  if grep -q "write /etc/seawall.yml" "$work/said"; then return 1; fi
  [[ $(inside dpkg-query -W -f '${Version} ${Status}' seawall) == "0.0.2 install ok installed" ]]
  grep AWS_REGION "$root/etc/default/seawall"
  is /var/lib/seawall 700 seawall:seawall
  is /var/lib/seawall/kept 644 seawall:seawall
}

deb_goes() {
  inside dpkg -r seawall
  [[ ! -e $root/usr/bin/seawall && ! -e $root/lib/systemd/system/seawall.service ]]
  [[ -e $root/var/lib/seawall/kept && -e $root/etc/default/seawall ]]
  inside dpkg -P seawall
  [[ ! -e $root/var/lib/seawall && ! -e $root/etc/default/seawall ]]
  # The configuration is the administrator's.
  [[ -e $root/etc/seawall.yml ]]
  if inside dpkg-query -W seawall; then return 1; fi
  # And again, with the user that is left.
  inside dpkg -i "/tmp/packages/seawall_0.0.2_$deb_arch.deb"
  works
  inside dpkg -P seawall
  rm "$root/etc/seawall.yml"
}

# rpm's own Debian program works on the folder. What the package needs is Debian's here, which rpm's database doesn't know.
in_rpm() { rpm --root "$root" --nodeps "$@"; }

rpm_installs_upgrades_and_goes() {
  local arch
  arch=$(uname -m)
  inside userdel seawall
  in_rpm -i "$work/packages/seawall-0.0.1-1.$arch.rpm"
  [[ $(inside getent passwd seawall) == seawall:*:/var/lib/seawall:/usr/sbin/nologin ]]
  is /var/lib/seawall 700 seawall:seawall
  is /usr/lib/systemd/system/seawall.service 644 root:root
  works
  echo "vault: /vault" >"$root/etc/seawall.yml"
  echo "AWS_REGION=eu-central-1" >>"$root/etc/default/seawall"
  in_rpm -U "$work/packages/seawall-0.0.2-1.$arch.rpm"
  grep AWS_REGION "$root/etc/default/seawall"
  is /var/lib/seawall 700 seawall:seawall
  in_rpm -e seawall
  [[ ! -e $root/usr/bin/seawall && -e $root/etc/seawall.yml && -e $root/var/lib/seawall/tried ]]
  # What was changed is put aside, not deleted.
  grep AWS_REGION "$root/etc/default/seawall.rpmsave"
}

say "packages in a clean Debian"
if [[ ! -d $work/packages ]]; then
  skip "packages in a clean Debian" "there are none"
elif ! may_isolate; then
  lacks "packages in a clean Debian" "this machine allows no mounts in a namespace"
elif ! unpack_root; then
  skip "packages in a clean Debian" "mmdebstrap (Debian's mmdebstrap, as root) can't make one: $(tail -n 1 "$tools/root.log" 2>/dev/null)"
else
  check "the package for Debian is installed and works" deb_installs
  check "an upgrade keeps settings and state" deb_upgrades
  check "removing keeps state, purging deletes it, and the configuration stays" deb_goes
  if command -v rpm >/dev/null; then
    check "the package for Red Hat is installed, upgraded and erased" rpm_installs_upgrades_and_goes
  else
    skip "the package for Red Hat" "rpm (Debian's rpm) is missing"
  fi
fi
