#!/bin/sh
set -e
chown seawall:seawall /var/lib/seawall
if [ ! -e /etc/seawall.yml ]; then
  echo "seawall: write /etc/seawall.yml, look at it with 'seawall doctor', and start the service:"
  echo "seawall: rc-update add seawall && rc-service seawall start"
fi
