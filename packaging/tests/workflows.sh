# shellcheck shell=bash
# Workflows of a public CI. None runs here: actionlint reads them, with shellcheck for what they run.

workflows_are_sound() { actionlint -color=false .github/workflows/*.yml; }

actions_are_pinned() {
  local loose
  loose=$(grep -Eh '^ *(- )?uses:' .github/workflows/*.yml | grep -Ev '@[0-9a-f]{40} # v[0-9.]+$' || true)
  echo "$loose"
  [[ -z $loose ]]
}

# The tools that a release is built with are those that the tests try.
versions_agree() {
  has_line "  NFPM_VERSION: $nfpm_version" <.github/workflows/release.yml
}

version_is_compared() {
  local version
  version=$("$program" --version | cut -d' ' -f2)
  # Only the changelog may lack the version of the next release.
  packaging/version.sh "$version" 2>"$work/said" || [[ $(cat "$work/said") == "CHANGELOG.md doesn't have the version $version" ]]
  refuses 1 "Cargo.toml doesn't have the version" packaging/version.sh 9.9.9
}

say "workflows"
if command -v actionlint >/dev/null && command -v shellcheck >/dev/null; then
  check "actionlint finds nothing" workflows_are_sound
else
  skip "actionlint" "actionlint or shellcheck (Debian's shellcheck) is missing: $(tail -n 1 "$tools/actionlint.log" 2>/dev/null || true)"
fi
check "each action is pinned to a commit" actions_are_pinned
check "a release is built with the tools of the tests" versions_agree
check "a version is compared with every place where it stands" version_is_compared
