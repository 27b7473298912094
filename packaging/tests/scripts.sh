# shellcheck shell=bash
# The scripts of this folder.

scripts_are_sound() {
  shellcheck --external-sources packaging/*.sh packaging/scripts/*.sh packaging/scripts/*/*.sh packaging/homebrew/*.sh
  # The parts of the test share the variables of packaging/test.sh.
  shellcheck --exclude=SC2154,SC2034,SC2016 packaging/tests/*.sh
  # Its first line names a program that shellcheck doesn't know.
  shellcheck --shell=sh --exclude=SC1091,SC2034 packaging/openrc/seawall
}

say "scripts"
if command -v shellcheck >/dev/null; then
  check "shellcheck finds nothing" scripts_are_sound
else
  skip "shellcheck" "it is missing (Debian's shellcheck)"
fi
