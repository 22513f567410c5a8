#!/usr/bin/env bash
# usage: demo_data.sh [BUILD]
# Makes data/demo from the King James Bible (public domain) of the Debian package bible-kjv: 4.4 MB of English, one byte a token.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
[ -e data/demo/prepared.json ] && exit 0
mkdir -p data
text=$(mktemp data/kjv-XXXXXX.txt)
trap 'rm -f "$text" "$text.json"' EXIT
bible -f gen1:1-rev22:21 > "$text"
"$build/lockstep" data prepare "$text" --tokenizer byte --valid-fraction 0.02 --out data/demo --json > "$text.json"
cat "$text.json"
mv "$text.json" data/demo/prepared.json
