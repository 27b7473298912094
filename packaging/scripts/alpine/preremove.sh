#!/bin/sh
# An upgrade doesn't call this.
set -e
if [ -e /run/openrc/softlevel ]; then rc-service --ifstarted seawall stop || true; fi
rc-update --quiet del seawall || true
