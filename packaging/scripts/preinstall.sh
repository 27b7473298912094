#!/bin/sh
# Makes the user of the service. Its home is the folder of its state.
set -e
id seawall >/dev/null 2>&1 && exit 0
group=--user-group
if getent group seawall >/dev/null; then group='--gid seawall'; fi
# shellcheck disable=SC2086
useradd --system $group --home-dir /var/lib/seawall --no-create-home --shell /usr/sbin/nologin seawall
