# shellcheck shell=bash
# The Homebrew formula. No Homebrew runs here: it is filled in, and Ruby reads it.

fill() {
  local one two
  one=$(sha256sum <<<one | cut -d' ' -f1)
  two=$(sha256sum <<<two | cut -d' ' -f1)
  printf '%s  seawall-1.2.3-x86_64-unknown-linux-musl.tar.gz\n' "$one" >"$work/sums"
  refuses 1 "no checksum of the program for aarch64" packaging/homebrew/fill.sh 1.2.3 https://example.com/seawall "$work/sums"
  printf '%s  seawall-1.2.3-aarch64-unknown-linux-musl.tar.gz\n' "$two" >>"$work/sums"
  packaging/homebrew/fill.sh 1.2.3 https://example.com/seawall "$work/sums" >"$work/seawall.rb"
  if grep '@' "$work/seawall.rb"; then return 1; fi
  has_line "    url \"https://example.com/seawall/releases/download/v1.2.3/seawall-1.2.3-aarch64-unknown-linux-musl.tar.gz\"" <"$work/seawall.rb"
  has_line "    sha256 \"$two\"" <"$work/seawall.rb"
}

formula_parses() { ruby -c "$work/seawall.rb"; }

say "formula"
check "the formula is filled in" fill
if command -v ruby >/dev/null; then
  check "Ruby reads the formula" formula_parses
else
  # Ruby is too large to be installed for this alone.
  skipped=$((skipped + 1))
  printf '   not tried: Ruby reads the formula: there is no ruby\n'
fi
