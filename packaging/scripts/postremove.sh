#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi
# The state can be made again from the vault. The configuration and every vault are left.
if [ "${1:-}" = purge ]; then rm -rf /var/lib/seawall; fi
