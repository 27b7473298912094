# shellcheck shell=bash
# What every part of `packaging/test.sh` uses: checks that are counted, and tools that are fetched.

passed=0
failed=0
skipped=0

say() { printf '== %s\n' "$*"; }

# check WORDS COMMAND…: runs a command, most often a function, which fails at its first failing line.
check() {
  local words=$1 status=0
  shift
  set +e
  (
    set -euo pipefail
    "$@"
  ) >"$work/check.log" 2>&1
  status=$?
  set -e
  if ((status == 0)); then
    passed=$((passed + 1))
    printf '   ok: %s\n' "$words"
  else
    failed=$((failed + 1))
    printf 'FAILED: %s (exit code %d)\n' "$words" "$status"
    sed 's/^/    | /' "$work/check.log"
  fi
}

# skip WORDS WHY: tells a part that isn't tried. In CI that is a failure.
skip() {
  if [[ -n ${CI:-} ]]; then
    failed=$((failed + 1))
    printf 'FAILED: %s: %s\n' "$1" "$2"
  else
    skipped=$((skipped + 1))
    printf '   not tried: %s: %s\n' "$1" "$2"
  fi
}

# lacks WORDS WHY: tells a part that isn't tried because the kernel doesn't allow it here. No tool would change that, so it is no failure in CI.
lacks() {
  skipped=$((skipped + 1))
  printf '   not tried: %s: %s\n' "$1" "$2"
}

# Whether the kernel lets this process mount in a namespace of its own, as the runtime of a container does.
may_isolate() {
  mkdir -p "$work/isolated"
  # shellcheck disable=SC2016
  unshare --mount --propagation private /bin/sh -c 'mount -t proc proc "$0"' "$work/isolated" 2>/dev/null
}

# refuses CODE WORD COMMAND…: insists that a command ends with this exit code and says this word.
refuses() {
  local code=$1 word=$2 said status=0
  shift 2
  said=$("$@" 2>&1) || status=$?
  printf '%s\n' "$said"
  [[ $status == "$code" && $said == *"$word"* ]] || return 1
}

# The line, as a whole, is in the text of standard input.
has_line() { grep -qxF -- "$1"; }

# in_root ROOT USER [VARIABLE=VALUE…] COMMAND…: runs a command in another root as a container does: with /proc and /dev/null, and no other variables.
in_root() {
  local root=$1 user=$2 variables=()
  shift 2
  while [[ $1 == *=* ]]; do
    variables+=("$1")
    shift
  done
  mkdir -p "$root/proc" "$root/dev"
  [[ -e $root/dev/null ]] || mknod -m 666 "$root/dev/null" c 1 3
  # shellcheck disable=SC2016
  unshare --mount --propagation private /bin/sh -c 'mount -t proc proc "$0/proc" && exec "$@"' "$root" \
    env -i "${variables[@]}" "$(command -v chroot)" --userspec="$user" "$root" "$@"
}

# go_tool VERSION PACKAGE: builds a Go program into a folder of its own, once.
go_tool() {
  local version=$1 package=$2 name dir
  name=$(basename "$package")
  dir=$tools/$name-$version
  if [[ ! -x $dir/$name ]] && command -v go >/dev/null; then
    say "installing $name $version"
    rm -rf "$dir.new"
    mkdir -p "$dir.new"
    if CGO_ENABLED=0 GOBIN=$dir.new go install "$package@$version" >"$tools/$name.log" 2>&1 </dev/null; then
      rm -rf "$dir" && mv "$dir.new" "$dir"
    fi
    rm -rf "$dir.new"
  fi
  PATH=$dir:$PATH
}

# pip_tool NAME VERSION: a Python package in a folder of its own, once.
pip_tool() {
  local name=$1 version=$2 dir=$tools/$1-$2
  if [[ ! -d $dir ]] && command -v python3 >/dev/null; then
    say "installing $name $version"
    rm -rf "$dir.new"
    if python3 -m pip install --quiet --disable-pip-version-check --no-input --target "$dir.new" "$name==$version" \
      >"$tools/$name.log" 2>&1 </dev/null; then
      mv "$dir.new" "$dir"
    fi
    rm -rf "$dir.new"
  fi
}

# apt_tools PACKAGE…: packages of the distribution, none of which starts a service.
apt_tools() {
  local missing=() package
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q ' installed$' || missing+=("$package")
  done
  ((${#missing[@]})) || return 0
  command -v apt-get >/dev/null && [[ $(id -u) == 0 ]] || return 0
  say "installing ${missing[*]}"
  (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}") \
    >"$tools/apt-packaging.log" 2>&1 </dev/null || true
}

# Starts to make the Debian in the background: that waits for the network most of the time.
make_root() {
  command -v mmdebstrap >/dev/null && [[ $(id -u) == 0 ]] || return 0
  if [[ ! -s $tools/root.tar ]]; then
    say "making a clean Debian"
    local release
    # shellcheck source=/dev/null
    release=$(. /etc/os-release && echo "$VERSION_CODENAME")
    # shellcheck disable=SC2064
    { mmdebstrap --quiet --variant=essential --include=passwd,libgcc-s1 "$release" "$tools/root.new.tar" >"$tools/root.log" 2>&1 </dev/null &&
      mv "$tools/root.new.tar" "$tools/root.tar"; } &
    root_job=$!
  fi
}
