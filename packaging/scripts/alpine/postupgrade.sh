#!/bin/sh
# An upgrade goes on with the new program. What isn't running stays so.
set -e
chown seawall:seawall /var/lib/seawall
if [ -e /run/openrc/softlevel ]; then rc-service --ifstarted seawall restart || true; fi
