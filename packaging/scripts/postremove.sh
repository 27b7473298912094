#!/bin/sh
set -e
state=/var/lib/seawall
if [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi
if [ "${1:-}" = purge ]; then
  # Removing the package left the service enabled.
  if command -v systemctl >/dev/null; then systemctl --quiet disable seawall.service 2>/dev/null || true; fi
  # Keys without which encrypted vaults take no writes, registered databases and vaults can be there: only an empty folder goes.
  rmdir "$state" 2>/dev/null || true
  if [ -d "$state" ]; then
    echo "seawall: $state stays. It has:"
    find "$state" -mindepth 1 -maxdepth 1 | sort | sed 's/^/seawall:   /'
  fi
fi
