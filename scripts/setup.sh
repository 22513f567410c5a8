#!/usr/bin/env bash
# Installs what the project needs: the Debian packages of packages.txt and a Python environment in .venv with requirements.txt.
# Quick when nothing changed: a stamp remembers what was installed.
set -euo pipefail
cd "$(dirname "$0")/.."

want=$(cat packages.txt requirements.txt scripts/setup.sh | sha256sum)
if [ "$(cat .venv/lockstep-setup 2>/dev/null)" = "$want" ] && [ -x .venv/bin/python ]; then
  exit 0
fi

packages=$(sed -e 's/#.*//' packages.txt)
missing=$(for p in $packages; do
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$p" 2>/dev/null)" = installed ] || echo "$p"
done)
if [ -n "$missing" ]; then
  root=""
  if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null; then
      echo "setup: these Debian packages are missing and this user cannot install them:" $missing >&2
      echo "setup: run as root: apt-get install --no-install-recommends" $missing >&2
      exit 4
    fi
    root=sudo
  fi
  echo "setup: installing Debian packages:" $missing
  $root apt-get update -qq
  DEBIAN_FRONTEND=noninteractive $root apt-get install -y -qq --no-install-recommends $missing >/dev/null
fi

echo "setup: Python environment .venv with $(grep -c '^[a-z]' requirements.txt) packages (libtorch is some hundred MB)"
[ -x .venv/bin/python ] || python3 -m venv .venv
.venv/bin/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
echo "$want" > .venv/lockstep-setup
