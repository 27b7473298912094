#!/bin/sh
# An upgrade goes on with the new program. What isn't running stays so.
set -e
[ -e /run/openrc/softlevel ] || exit 0

# The new program reads the configuration as the service's user, before the old one ends.
accepts() (
  [ -e /etc/seawall.yml ] || exit 0
  set -a
  # shellcheck source=/dev/null
  if [ -r /etc/conf.d/seawall ]; then . /etc/conf.d/seawall; fi
  exec su -s /bin/sh -c 'exec /usr/bin/seawall config check --config /etc/seawall.yml' "${seawall_user:-seawall}" >/dev/null
)

if ! rc-service --quiet seawall status; then exit 0; fi
if accepts; then
  rc-service --ifstarted seawall restart || true
else
  echo "seawall: the new program refuses /etc/seawall.yml, so the old one goes on. Mend it, then: rc-service seawall restart" >&2
fi
