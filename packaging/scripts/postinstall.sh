#!/bin/sh
set -e
state=/var/lib/seawall
configuration=/etc/seawall.yml

[ -d "$state" ] || install -d -m 0700 "$state"
# A service that runs as the application's user owns the folder: only a new one is given away.
if [ "$(stat -L -c %u "$state")" = 0 ]; then chown seawall: "$state"; fi

# The new program reads the configuration as the unit's user, before the old one ends.
accepts() {
  [ -e "$configuration" ] || return 0
  # Without D-Bus it can't be asked.
  systemd-run --quiet --wait --collect --pipe /bin/true </dev/null >/dev/null 2>&1 || return 0
  systemd-run --quiet --wait --collect --pipe --property=RuntimeMaxSec=60 --property=User="$(systemctl show --property=User --value seawall.service)" \
    --property=EnvironmentFile=-/etc/default/seawall /usr/bin/seawall config check --config "$configuration" </dev/null >/dev/null
}

running=
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload || true
  case "$(systemctl show --property=ActiveState --value seawall.service || true)" in
    active | activating | reloading)
      running=1
      # An upgrade goes on with the new program. It doesn't wait: the databases may need hours until they are settled.
      if accepts; then
        systemctl --no-block try-restart seawall.service || true
      else
        echo "seawall: the new program refuses $configuration, so the old one goes on. Mend it, then: systemctl restart seawall" >&2
      fi
      ;;
  esac
fi
if [ ! -e "$configuration" ]; then
  echo "seawall: write $configuration, look at it with 'seawall doctor', and start the service:"
  echo "seawall: systemctl enable --now seawall"
elif [ -d /run/systemd/system ] && [ -z "$running" ]; then
  echo "seawall: $configuration is there, and the service doesn't run: systemctl enable --now seawall"
fi
