#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A training step between hosts: train_bert on virtual hosts of one rank, as its gradients travel in several ways.

    sudo .venv/bin/python bench/train_over_hosts.py [--hosts 4] [--rails 1] [--rate 200mbit] [--steps 24] [-- FLAGS]

A row for each way: what a rank gives to allreduce, the median step, what of it is computing, and waiting. FLAGS (--data, --model) go
to every train_bert; without them a small random BERT learns the sample.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

BIN = Path(__file__).resolve().parents[1] / "build" / "bin"
WAYS = [["--sync", "never"], ["--overlap", "off"], ["--overlap", "on"],
        *(["--overlap", "on", "--backward-passes-per-step", passes] for passes in ("4", "16")),
        ["--overlap", "on", "--compression", "bf16"],
        ["--overlap", "on", "--compression", "topk", "--compression-share", "0.01"],
        ["--overlap", "on", "--low-rank", "4"]]


def run(options, way, folder):
    command = [BIN / "ruedarun", "--no-prefix", "--virtual-hosts", str(options.hosts), "--rails", str(options.rails), "--rate", options.rate,
               "-np", str(options.hosts), BIN / "train_bert", "--steps", str(options.steps), "--eval-first", "no", "--save", "no",
               "--held-out", "1", "--output", folder, *way, *options.flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=dict(os.environ, OMP_NUM_THREADS="1"))
    if done.returncode != 0:
        sys.exit(f"error: {' '.join(way)} ended with status {done.returncode}\n{done.stderr}")
    return json.loads((Path(folder) / "summary.json").read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--rails", type=int, default=1)
    parser.add_argument("--rate", default="200mbit", help="of each card")
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("flags", nargs="*", help="after --: for every train_bert")
    options = parser.parse_args()
    print(f"{options.hosts} hosts of one rank, {options.rails} x {options.rate}; load {os.getloadavg()[0]:.1f}")
    print(f"{'':64}{'step ms':>9}{'computing':>11}{'waiting':>9}{'reduced MB':>12}")
    with tempfile.TemporaryDirectory() as folder:
        for way in WAYS:
            found = run(options, way, folder)
            print(f"{' '.join(way):64}{found['step_ms']:9.0f}{found['compute_ms']:11.0f}{found['wait_ms']:9.0f}"
                  f"{found['reduced_mb']:12.1f}", flush=True)


if __name__ == "__main__":
    main()
