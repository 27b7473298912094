#!/bin/sh
# Makes the user of the service. Its home is the folder of its state.
set -e
id seawall >/dev/null 2>&1 && exit 0
addgroup -S seawall
adduser -S -D -H -h /var/lib/seawall -s /sbin/nologin -G seawall seawall
