#!/bin/sh
set -e
state=/var/lib/seawall
[ -d "$state" ] || install -d -m 0700 "$state"
# A service that runs as the application's user owns the folder: only a new one is given away.
if [ "$(stat -L -c %u "$state")" = 0 ]; then chown seawall: "$state"; fi
if [ ! -e /etc/seawall.yml ]; then
  echo "seawall: write /etc/seawall.yml, look at it with 'seawall doctor', and start the service:"
  echo "seawall: rc-update add seawall && rc-service seawall start"
fi
