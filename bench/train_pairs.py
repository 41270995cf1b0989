#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What synchronising costs a training step: train_bert with --sync every_step against --sync never and --sync barrier.

    .venv/bin/python bench/train_pairs.py --data train.json --model CHECKPOINT [--pairs 7] [--steps 20] [-- FLAGS]

Each pair is three runs, one right after the other, in an order that turns from pair to pair: never and barrier train each
rank by itself, with barrier they wait for each other before each update. So never / barrier of the median step is
the best that any synchronous training could reach here, and barrier / every_step what the reduction costs beyond that. FLAGS go
to the runs with --sync every_step.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

SYNCS = ["never", "every_step", "barrier"]
BIN = Path(__file__).resolve().parents[1] / "build" / "bin"


def run(options, sync, flags, folder):
    command = [BIN / "ruedarun", "-np", str(options.ranks), BIN / "train_bert", "--data", options.data, "--model", options.model,
               "--steps", str(options.steps), "--batch", str(options.batch), "--max-length", str(options.max_length), "--stride",
               "32", "--held-out", "1", "--eval-first", "no", "--save", "no", "--output", folder, "--sync", sync, *flags]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, OMP_NUM_THREADS="1"))
    if done.returncode != 0:
        sys.exit(f"error: train_bert --sync {sync} ended with status {done.returncode}\n{done.stderr}")
    return json.loads((Path(folder) / "summary.json").read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="SQuAD v1.1 JSON")
    parser.add_argument("--model", required=True, help="checkpoint folder")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--max-length", type=int, default=128)
    parser.add_argument("--json", help="write all figures here")
    parser.add_argument("flags", nargs="*", help="after --: for the runs with --sync every_step")
    options = parser.parse_args()
    pairs = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.pairs):
            order = SYNCS[number % 3:] + SYNCS[:number % 3]
            found = {sync: run(options, sync, options.flags if sync == "every_step" else [], folder) for sync in order}
            pairs.append(found)
            print(f"pair {number + 1}: " + ", ".join(
                f"{sync} {found[sync]['step_ms']:.1f} ms ({found[sync]['cpu_ms']:.0f} of processor)" for sync in SYNCS)
                + f"; waited {found['every_step']['wait_ms']:.1f} for reductions", flush=True)
    medians = {}
    for slower, faster in (("every_step", "never"), ("barrier", "never"), ("every_step", "barrier")):
        ratios = sorted(pair[faster]["step_ms"] / pair[slower]["step_ms"] for pair in pairs)
        medians[f"{faster}/{slower}"] = statistics.median(ratios)
        print(f"{faster} / {slower}: median ratio {statistics.median(ratios):.3f}, from {ratios[0]:.3f} to {ratios[-1]:.3f}")
    cpu = {sync: statistics.median(pair[sync]["cpu_ms"] for pair in pairs) / 1e3 for sync in SYNCS}
    print(f"{options.pairs} pairs of {options.steps} steps; processor seconds a step and rank: "
          + ", ".join(f"{sync} {cpu[sync]:.3f}" for sync in SYNCS) + f"; load {os.getloadavg()[0]:.1f}")
    if options.json:
        Path(options.json).write_text(json.dumps({"medians": medians, "cpu_s": cpu, "pairs": pairs}, indent=2) + "\n")


if __name__ == "__main__":
    main()
