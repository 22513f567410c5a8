#!/usr/bin/env python3
"""lockstep's DDP beside PyTorch's own, from the same libtorch wheel: same model, weights, data order and hyper-parameters.

Runs both in turn, prints the losses side by side and, of the rounds, the medians of tokens per second (wall), tokens per CPU-second and
peak memory of a rank. Ends with status 1 when a loss differs by more than --tolerance.

  bench/ddp_against_pytorch.py                       the model `tiny`, 20 steps, 2 ranks
  bench/ddp_against_pytorch.py --rounds 5 --layers 6 --width 384 --heads 6 --sequence 256 --batch 16
"""

import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
LOCKSTEP = ROOT / "build" / "lockstep"
TOKEN_HEADER_BYTES = 128


class PeakMemory(threading.Thread):
    """The largest resident size that any process below this one, whose command line holds `marker`, ever had."""

    def __init__(self, marker):
        super().__init__(daemon=True)
        self.marker, self.peak_bytes, self.stop = marker, 0, threading.Event()

    def run(self):
        while not self.stop.wait(0.05):
            for entry in pathlib.Path("/proc").glob("[0-9]*"):
                try:
                    if self.marker not in (entry / "cmdline").read_text():
                        continue
                    for line in (entry / "status").read_text().splitlines():
                        if line.startswith("VmHWM"):
                            self.peak_bytes = max(self.peak_bytes, int(line.split()[1]) * 1024)
                except OSError:
                    pass


def timed(words, marker):
    """Runs a job; returns its wall and CPU seconds and the peak memory of a rank."""
    memory = PeakMemory(marker)
    memory.start()
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(words, capture_output=True, text=True, timeout=1800, env={**os.environ, "OMP_NUM_THREADS": "1"})
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    memory.stop.set()
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"wall_seconds": wall, "cpu_seconds": cpu, "peak_memory_bytes": memory.peak_bytes}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", default=str(ROOT / "configs" / "tiny.toml"))
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=1, help="alternating rounds; figures are medians")
    parser.add_argument("--tolerance", type=float, default=1e-4, help="largest relative difference of a loss")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=96)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--sequence", type=int, default=96)
    parser.add_argument("--batch", type=int, default=24, help="sequences of a step, over all ranks")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()

    with tempfile.TemporaryDirectory(prefix="lockstep-bench-") as folder:
        folder = pathlib.Path(folder)
        settings = {
            "model.layers": options.layers,
            "model.width": options.width,
            "model.heads": options.heads,
            "model.context": options.sequence,
            "batch.global": options.batch,
            "data.shuffle": "false",
        }
        train = [str(LOCKSTEP), "train", options.config, "-n", str(options.ranks)]
        for key, value in settings.items():
            train += ["--set", f"{key}={value}"]
        timed(train + ["--steps", "0", "--out", str(folder / "start")], "lockstep-engine")
        config = tomllib.loads((folder / "start" / "config.toml").read_text())
        spec = {
            "layers": options.layers,
            "width": options.width,
            "heads": options.heads,
            "context": options.sequence,
            "vocab": 256,
            "checkpoint": str(folder / "start" / "checkpoints" / "step-000000"),
            "tokens": str(pathlib.Path(config["data"]["train"][0]).resolve()),
            "token_offset": TOKEN_HEADER_BYTES,
            "sequence": options.sequence,
            "global_batch": options.batch,
            **{key: config["optimizer"][key] for key in ("lr", "betas", "eps", "weight_decay")},
            "steps": options.steps,
            "result": str(folder / "peer.json"),
        }
        (folder / "spec.json").write_text(json.dumps(spec))
        peer = [str(LOCKSTEP), "run", "-n", str(options.ranks), "--", sys.executable, str(ROOT / "bench" / "peer_ddp.py"), "--spec",
                str(folder / "spec.json")]

        ours, theirs = [], []
        for round_number in range(options.rounds):
            out = folder / f"ours-{round_number}"
            figures = timed(train + ["--steps", str(options.steps), "--out", str(out)], "lockstep-engine")
            lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
            ours.append({**figures, "loss": [line["loss"] for line in lines], "step_seconds": [line["step_ms"] / 1e3 for line in lines]})
            figures = timed(peer, "peer_ddp.py")
            result = json.loads((folder / "peer.json").read_text())
            theirs.append({**figures, "loss": result["loss"], "step_seconds": result["seconds"]})

    tokens = spec["global_batch"] * spec["sequence"]
    differences = [abs(a - b) / abs(b) for a, b in zip(ours[0]["loss"], theirs[0]["loss"])]

    def summary(rounds):
        return {
            "tokens_per_second": tokens / statistics.median(statistics.median(one["step_seconds"]) for one in rounds),
            "tokens_per_cpu_second": tokens * options.steps / statistics.median(one["cpu_seconds"] for one in rounds),
            "peak_memory_bytes": statistics.median(one["peak_memory_bytes"] for one in rounds),
        }

    report = {"lockstep": summary(ours), "pytorch": summary(theirs), "loss": {"lockstep": ours[0]["loss"], "pytorch": theirs[0]["loss"]},
              "max_loss_difference": max(differences), "tolerance": options.tolerance}
    if options.json:
        print(json.dumps(report))
    else:
        print(f"{'step':>6} {'lockstep':>12} {'PyTorch DDP':>12} {'difference':>12}")
        for step, (a, b, d) in enumerate(zip(ours[0]["loss"], theirs[0]["loss"], differences), start=1):
            print(f"{step:6} {a:12.6f} {b:12.6f} {d:12.1e}")
        print(f"\n{'':32} {'lockstep':>12} {'PyTorch DDP':>12} {'ratio':>8}")
        for key in report["lockstep"]:
            a, b = report["lockstep"][key], report["pytorch"][key]
            print(f"{key:32} {a:12.0f} {b:12.0f} {a / b:8.2f}")
        print(f"{'(CPU-seconds include start-up)':32}")
    if len(differences) < options.steps or max(differences) > options.tolerance:
        sys.exit(f"losses differ by {max(differences):.1e}, more than {options.tolerance:.0e}")


if __name__ == "__main__":
    main()
