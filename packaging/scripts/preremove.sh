#!/bin/sh
set -e
# An upgrade calls this too: dpkg with "upgrade", rpm with 1.
case "${1:-remove}" in
  remove | 0)
    if [ -d /run/systemd/system ]; then systemctl disable --now seawall.service || true; fi
    ;;
esac
