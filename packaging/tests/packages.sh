# shellcheck shell=bash
# Packages: what is in them. `chroot.sh` installs them.

# The files of every package, without the pages of the manual and what only one system has: mode, owner and path.
files_of_all='drwx------ root /var/lib/seawall
-rwxr-xr-x root /usr/bin/seawall
-rw-r--r-- root /usr/share/bash-completion/completions/seawall
-rw-r--r-- root /usr/share/doc/seawall/LICENSE
-rw-r--r-- root /usr/share/doc/seawall/README.md
-rw-r--r-- root /usr/share/doc/seawall/sbom.cdx.json
-rw-r--r-- root /usr/share/fish/vendor_completions.d/seawall.fish
-rw-r--r-- root /usr/share/zsh/site-functions/_seawall'

# files_are LIST LINE…: a listing has exactly the files of all, these lines, and a page of the manual for each command.
files_are() {
  local list=$1 pages commands
  shift
  # Folders that every system has are in some forms and not in others.
  list=$(awk '{ sub("/$", "", $3) } $1 !~ /^d/ || $3 == "/var/lib/seawall"' <<<"$list")
  diff <(printf '%s\n' "$files_of_all" "$@" | sort) <(grep -v ' /usr/share/man/' <<<"$list" | sort)
  pages=$(grep -c -- '^-rw-r--r-- root /usr/share/man/man1/seawall.*\.1$' <<<"$list")
  mkdir -p "$work/pages"
  "$program" manual -o "$work/pages"
  commands=$(find "$work/pages" -name 'seawall*.1' | wc -l)
  [[ $pages == "$commands" ]] && ((pages > 50))
}

# A listing of tar as mode, owner and path.
of_tar() { awk '{ sub("/.*", "", $2); sub(/^\.\//, "/", $6); sub(/^[^\/]/, "/&", $6); print $1, $2, $6 }'; }

refuses_programs_of_tests() { refuses 1 "was built with debug assertions" packaging/build.sh "$binary" "$work/no"; }

refuses_versions_of_releases() {
  SEAWALL_VERSION=9.0.0 refuses 2 "set SEAWALL_VERSION" packaging/build.sh --test-build "$program" "$work/no"
}

builds() {
  SEAWALL_VERSION=0.0.1 packaging/build.sh --test-build "$program" "$work/packages" deb rpm
  SEAWALL_VERSION=0.0.2 packaging/build.sh --test-build "$program" "$work/packages"
}

same_bytes() {
  SEAWALL_VERSION=0.0.1 packaging/build.sh --test-build "$program" "$work/again" deb rpm
  local file
  for file in "$work"/again/*; do cmp "$file" "$work/packages/$(basename "$file")"; done
}

deb_content() {
  local deb=$work/packages/seawall_0.0.2_$deb_arch.deb
  files_are "$(dpkg-deb --fsys-tarfile "$deb" | tar -tv | of_tar)" "-rw-r----- root /etc/default/seawall" \
    "-rw-r--r-- root /lib/systemd/system/seawall.service"
  dpkg-deb --fsys-tarfile "$deb" | tar -xO ./lib/systemd/system/seawall.service | cmp - packaging/systemd/seawall.service
  dpkg-deb -e "$deb" "$work/control"
  has_line /etc/default/seawall <"$work/control/conffiles"
  local script
  for script in preinst postinst prerm postrm; do
    [[ -x $work/control/$script ]]
    sh -n "$work/control/$script"
  done
  has_line "Package: seawall" <"$work/control/control"
  has_line "Architecture: $deb_arch" <"$work/control/control"
  grep -E '^Depends: libc6 \(>= 2\.[0-9]+\), libgcc-s1$' "$work/control/control"
}

rpm_content() {
  local rpm
  rpm=$work/packages/seawall-0.0.2-1.$(uname -m).rpm
  files_are "$(rpm -qp --qf '[%{FILEMODES:perms} %{FILEUSERNAME} %{FILENAMES}\n]' "$rpm")" "-rw-r----- root /etc/default/seawall" \
    "-rw-r--r-- root /usr/lib/systemd/system/seawall.service"
  rpm -qp --configfiles "$rpm" | has_line /etc/default/seawall
  rpm -qp --requires "$rpm" | grep -E '^libc\.so\.6\(GLIBC_2\.[0-9]+\)\(64bit\)$'
  rpm -qp --scripts "$rpm" >"$work/scripts"
  local script
  for script in preinstall postinstall preuninstall postuninstall; do grep -q "^$script scriptlet" "$work/scripts"; done
  has_line Apache-2.0 <<<"$(rpm -qp --qf '%{LICENSE}\n' "$rpm")"
}

apk_content() {
  local apk
  apk=$work/packages/seawall_0.0.2_$(uname -m).apk
  files_are "$(tar --warning=no-unknown-keyword -tvzf "$apk" | of_tar | grep -v ' /\.')" "-rw-r----- root /etc/conf.d/seawall" \
    "-rwxr-xr-x root /etc/init.d/seawall"
  mkdir "$work/apk"
  tar --warning=no-unknown-keyword -xzf "$apk" -C "$work/apk"
  cmp "$program" "$work/apk/usr/bin/seawall"
  has_line "pkgver = 0.0.2" <"$work/apk/.PKGINFO"
  has_line "arch = $(uname -m)" <"$work/apk/.PKGINFO"
  local script
  for script in pre-install post-install pre-deinstall post-upgrade; do sh -n "$work/apk/.$script"; done
  sh -n "$work/apk/etc/init.d/seawall"
}

only_static_programs_for_alpine() {
  # Without the words that give it away, the program of the tests stands in for one that anybody may install.
  LC_ALL=C sed 's/BEGIN; -- without a barrier/BEGIN; -- without a barrieR/; s/debug_assertions/debug_assertionS/g' "$program" >"$work/released"
  chmod +x "$work/released"
  refuses 1 "needs glibc, which Alpine hasn't" packaging/build.sh "$work/released" "$work/no" apk
  # Each of the two words is enough for a refusal.
  LC_ALL=C sed 's/BEGIN; -- without a barrier/BEGIN; -- without a barrieR/' "$program" >"$work/half"
  chmod +x "$work/half"
  refuses 1 "was built with debug assertions" packaging/build.sh "$work/half" "$work/no" deb
  rm "$work/half" "$work/released"
}

unit_has_narrow_rights() { systemd-analyze security --offline=yes --threshold=20 packaging/systemd/seawall.service; }

say "packages"
check "a program of the tests is refused" refuses_programs_of_tests
check "a package for tests has a version older than any release" refuses_versions_of_releases
check "a program that needs glibc isn't packaged for Alpine" only_static_programs_for_alpine
if command -v nfpm >/dev/null; then
  check "packages are built" builds
  check "the same program makes the same packages" same_bytes
  check "the package for Debian has its files, modes, unit, completions, pages of the manual and scripts" deb_content
  if command -v rpm >/dev/null; then
    check "the package for Red Hat has the same" rpm_content
  else
    skip "the package for Red Hat" "rpm (Debian's rpm) is missing"
  fi
  check "the package for Alpine has the same, for OpenRC" apk_content
else
  skip "packages" "nfpm is missing: $(tail -n 1 "$tools/nfpm.log" 2>/dev/null || echo "there is no Go to build it with")"
fi
if command -v systemd-analyze >/dev/null; then
  check "the unit's rights are narrow" unit_has_narrow_rights
else
  skip "the unit's rights" "systemd-analyze (Debian's systemd) is missing"
fi
