#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How training scales: train_bert reads the same windows on one rank, on two, and on virtual hosts, by how often ranks synchronise.

    sudo .venv/bin/python bench/scaling.py [--windows 3200] [--rate 200mbit] [--keep FOLDER] [-- FLAGS]

A row for each: seconds of training, times one rank's, efficiency (of as many ranks), losses, and what a step waits for others. All ranks share this
machine's cores: more ranks than cores cannot be faster. --keep leaves the summaries in FOLDER, for ruedarun --report. FLAGS (--data, --model)
go to every train_bert; without them a small random BERT learns the sample.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

BIN = Path(__file__).resolve().parents[1] / "build" / "bin"
PLACEMENTS = [("1 rank", 1, 0), ("2 ranks of a host", 2, 0), ("2 hosts", 2, 2), ("4 hosts", 4, 4)]
SCHEDULES = ["every_step", "accumulate:10", "accumulate:50"]
BATCH = 16


def run(options, folder, ranks, hosts, schedule):
    network = ["--virtual-hosts", str(hosts), "--rate", options.rate] if hosts else []
    output = folder / f"{ranks}-{hosts}-{schedule.replace(':', '-')}"
    command = [BIN / "ruedarun", "--no-prefix", *network, "-np", str(ranks), BIN / "train_bert", "--batch", str(BATCH), "--steps",
               str(options.windows // (BATCH * ranks)), "--sync", schedule, "--eval-first", "no", "--save", "no", "--output", output,
               *options.flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200, env=dict(os.environ, OMP_NUM_THREADS="1"))
    if done.returncode != 0:
        sys.exit(f"error: {ranks} ranks, {schedule}: status {done.returncode}\n{done.stderr}")
    return json.loads((output / "summary.json").read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--windows", type=int, default=3200, help="read by all ranks together")
    parser.add_argument("--rate", default="200mbit", help="of each card")
    parser.add_argument("--keep", type=Path, help="folder for the summaries")
    parser.add_argument("flags", nargs="*", help="after --: for every train_bert")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or Path(scratch)
        print(f"{options.windows} windows, batches of {BATCH} a rank; {options.rate} a card; load {os.getloadavg()[0]:.1f}")
        print(f"{'':18} {'synchronised':14}{'s':>8}{'times':>8}{'efficiency':>12}{'loss':>16}{'held out':>10}{'waiting ms':>12}")
        alone = None
        for placement, ranks, hosts in PLACEMENTS:
            for schedule in SCHEDULES if ranks > 1 else SCHEDULES[:1]:
                found = run(options, folder, ranks, hosts, schedule)
                seconds = options.windows / found["samples_per_s"]
                alone = alone or seconds
                print(f"{placement:18} {schedule:14}{seconds:8.1f}{alone / seconds:8.2f}{alone / seconds / ranks:12.2f}"
                      f"{found['loss_first']:8.2f} ->{found['loss_last']:5.2f}{found['loss_held_out']:10.3f}{found['wait_ms']:12.1f}", flush=True)


if __name__ == "__main__":
    main()
