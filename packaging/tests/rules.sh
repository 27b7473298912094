# shellcheck shell=bash
# Rules for Prometheus, with Debian's promtool: a build with Go takes minutes. Nothing of its package is installed.

rules_are_sound() { promtool check rules packaging/prometheus/seawall.rules.yml; }

rules_alarm() { promtool test rules packaging/tests/rules.test.yml; }

say "rules"
promtool_dir=$tools/promtool
if [[ ! -x $promtool_dir/promtool ]] && command -v apt-get >/dev/null; then
  say "fetching promtool"
  mkdir -p "$promtool_dir.new"
  (cd "$promtool_dir.new" && apt-get -qq -o APT::Sandbox::User=root download prometheus && dpkg-deb --fsys-tarfile prometheus_*.deb | tar -xO ./usr/bin/promtool >promtool &&
    chmod +x promtool && rm prometheus_*.deb && mv "$promtool_dir.new" "$promtool_dir") >"$tools/promtool.log" 2>&1 || true
  rm -rf "$promtool_dir.new"
fi
PATH=$promtool_dir:$PATH
if command -v promtool >/dev/null; then
  check "promtool reads the rules" rules_are_sound
  check "the rules alarm when they should" rules_alarm
else
  skip "the rules" "promtool (Debian's prometheus) is missing: $(tail -n 1 "$tools/promtool.log" 2>/dev/null || true)"
fi
