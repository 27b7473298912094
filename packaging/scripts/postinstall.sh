#!/bin/sh
set -e
chown seawall:seawall /var/lib/seawall
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  # An upgrade goes on with the new program. What isn't running stays so.
  systemctl try-restart seawall.service || true
fi
if [ ! -e /etc/seawall.yml ]; then
  echo "seawall: write /etc/seawall.yml, look at it with 'seawall doctor', and start the service:"
  echo "seawall: systemctl enable --now seawall"
fi
