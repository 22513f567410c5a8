#!/usr/bin/env bash
# Trains configs/demo.toml on two processes and lets the result write a paragraph.
set -euo pipefail
cd "$(dirname "$0")/.."
rm -rf runs/demo
build/lockstep train configs/demo.toml -n 2 --out runs/demo
echo
build/lockstep generate runs/demo --prompt "In the beginning " --max-new-tokens 300 --temperature 0.8 --seed 1
echo
echo "The run is in runs/demo: config.toml, metrics.jsonl, checkpoints/. Next: docs/first-run.md"
