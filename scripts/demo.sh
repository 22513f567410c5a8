#!/usr/bin/env bash
# Trains configs/demo.toml on two processes and lets the result write a paragraph.
set -euo pipefail
cd "$(dirname "$0")/.."
rm -rf runs/demo
build/lockstep train configs/demo.toml -n 2 --out runs/demo
.venv/bin/python - <<'END'
import json, sys
guess = json.load(open("data/demo/prepared.json"))["valid_unigram_entropy_nats"]
last = [json.loads(line)["valid_loss"] for line in open("runs/demo/evaluations.jsonl")][-1]
print(f"\nvalidation loss {last:.2f} nats a byte; guessing by the frequency of bytes would have {guess:.2f}")
sys.exit(last >= guess)
END
echo
build/lockstep generate runs/demo --prompt "In the beginning " --max-new-tokens 300 --temperature 0.7 --seed 1
echo
echo "The run is in runs/demo: config.toml, metrics.jsonl, checkpoints/. Next: docs/first-run.md"
