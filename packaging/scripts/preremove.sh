#!/bin/sh
set -e
# An upgrade calls this too: dpkg with "upgrade", rpm with 1.
case "${1:-remove}" in
  # Whether the service is enabled is kept until the package is purged.
  remove)
    if [ -d /run/systemd/system ]; then systemctl stop seawall.service || true; fi
    ;;
  0)
    if [ -d /run/systemd/system ]; then systemctl disable --now seawall.service || true; fi
    ;;
esac
