#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What delayed synchronisation costs in quality and saves in bytes: train_bert with each schedule, on the same batches.

delayed_sync.py --data FILE --model DIR [--seeds 1,2,3] [--steps N] [--json FILE] [SCHEDULE...]

Every run reads as many batches as every other, in the same order for the same seed; schedules take turns within a seed. Prints a
row for each schedule: F1 and loss on held-out questions (means over seeds, with the standard error of F1), bytes that a rank
reduced, of those of every_step, and the time of training, of that of every_step in the same seed (median). --json keeps every run,
and goes on where an earlier call stopped.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

SCHEDULES = ["every_step", "accumulate:2", "accumulate:10", "accumulate:50", "local_sgd:4", "local_sgd:8", "diloco:8", "adaptive",
             "one_step_late"]


def run(options, schedule, seed):
    with tempfile.TemporaryDirectory() as folder:
        command = [options.bin / "ruedarun", "--no-prefix", "-np", options.ranks, options.bin / "train_bert", "--data", options.data,
                   "--model", options.model, "--steps", options.steps, "--batch", options.batch, "--max-length", options.max_length,
                   "--seed", seed, "--eval-first", "no", "--save", "no", "--output", folder, "--sync", schedule, *options.flags]
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=3600,
                              env={"OMP_NUM_THREADS": "1", **os.environ})
        if done.returncode != 0:
            sys.exit(f"error: train_bert --sync {schedule} ended with status {done.returncode}\n{done.stderr}")
        return json.loads((Path(folder) / "summary.json").read_text())


def standard_error(values):
    return statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0


def table(runs, schedules, seeds):
    print("| schedule | F1 | standard error | held-out loss | of every_step's | bytes a rank | of every_step's | time, of every_step's |")
    print("|---|---|---|---|---|---|---|---|")
    for schedule in schedules:
        of = [runs[schedule, seed] for seed in seeds if (schedule, seed) in runs]
        base = [runs["every_step", seed] for seed in seeds if (schedule, seed) in runs and ("every_step", seed) in runs]
        if not of or len(base) != len(of):
            continue
        f1, loss, megabytes = ([each[key] for each in of] for key in ("f1", "loss_held_out", "reduced_mb"))
        loss_ratio = statistics.mean(loss) / statistics.mean(each["loss_held_out"] for each in base)
        byte_ratio = sum(megabytes) / sum(each["reduced_mb"] for each in base)
        times = statistics.median(mine["samples_per_s"] and its["samples_per_s"] / mine["samples_per_s"] for mine, its in zip(of, base))
        print(f"| {schedule} | {statistics.mean(f1):.2f} | {standard_error(f1):.2f} | {statistics.mean(loss):.4f} | {loss_ratio:.3f} "
              f"| {statistics.mean(megabytes):.0f} MB | {byte_ratio:.3f} | {times:.3f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=Path, default=Path("build/bin"))
    parser.add_argument("--data", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--seeds", default="1,2,3", help="default: 1,2,3")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=400, help="batches of each rank; default: 400")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--max-length", type=int, default=128)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--flags", nargs="*", default=[], help="of train_bert, for all runs")
    parser.add_argument("schedules", nargs="*", default=SCHEDULES)
    options = parser.parse_args()
    seeds = [int(seed) for seed in options.seeds.split(",")]
    schedules = ["every_step", *(each for each in options.schedules if each != "every_step")]
    settings = [options.ranks, options.steps, options.batch, options.max_length, options.flags]
    runs = {}
    if options.json and options.json.exists():
        kept = json.loads(options.json.read_text())
        if kept["settings"] != settings:
            sys.exit(f"error: {options.json} has runs of other settings; name another file")
        runs = {(each["schedule"], each["seed"]): each["summary"] for each in kept["runs"]}
    for seed in seeds:
        for schedule in schedules:
            if (schedule, seed) in runs:
                continue
            runs[schedule, seed] = summary = run(options, schedule, seed)
            print(f"seed {seed}, {schedule}: F1 {summary['f1']:.2f}, held-out loss {summary['loss_held_out']:.4f}, "
                  f"{summary['reduced_mb']:.0f} MB, step {summary['step_ms']:.0f} ms; load {os.getloadavg()[0]:.1f}", flush=True)
            if options.json:
                rows = [{"schedule": key[0], "seed": key[1], "summary": value} for key, value in runs.items()]
                options.json.write_text(json.dumps({"settings": settings, "runs": rows}, indent=1) + "\n")
    table(runs, schedules, seeds)


if __name__ == "__main__":
    main()
