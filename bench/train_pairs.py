#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cost of synchronising, or of being elastic, in a training step: train_bert in turns with and without.

    .venv/bin/python bench/train_pairs.py --data train.json --model CHECKPOINT [--pairs 7] [--steps 20] [-- FLAGS]
    .venv/bin/python bench/train_pairs.py --data train.json --model CHECKPOINT --elastic

Each pair is a run of every kind, one right after the other, in an order that turns from pair to pair.

Without --elastic the kinds are never, every_step and barrier, as for --sync: never and barrier train each
rank by itself, with barrier they wait for each other before each update. So never / barrier of the median step is
the best that any synchronous training could reach here, and barrier / every_step what the reduction costs beyond that. FLAGS go
to the runs with --sync every_step.

With --elastic they are fixed and elastic: a job of fixed membership against one that goes on without a lost rank.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import performance_page

BIN = Path(__file__).resolve().parents[1] / "build" / "bin"


@dataclass(frozen=True)
class Kind:
    """A kind of run, by its flags."""

    sync: str
    launcher: tuple[str, ...] = ()
    trainer: tuple[str, ...] = ()


def kinds(options):
    """The kinds by name, and the pairs of names that are compared: the slower one, and the faster one."""
    if options.elastic:
        return ({"fixed": Kind("every_step", trainer=tuple(options.flags)),
                 "elastic": Kind("every_step", ("--min-np", "1"), ("--elastic", "yes", *options.flags))},
                [("elastic", "fixed")])
    return ({"never": Kind("never"), "every_step": Kind("every_step", trainer=tuple(options.flags)), "barrier": Kind("barrier")},
            [("every_step", "never"), ("barrier", "never"), ("every_step", "barrier")])


ENVIRONMENT = dict(os.environ, OMP_NUM_THREADS="1")


def train_command(options, launcher, trainer, folder):
    """A run of train_bert, whose summary goes into the folder."""
    return list(map(str, [BIN / "ruedarun", "-np", options.ranks, *launcher, BIN / "train_bert", "--data", options.data, "--model", options.model,
                          "--steps", options.steps, "--batch", options.batch, "--max-length", options.max_length, "--stride", "32", "--held-out", "1",
                          "--eval-first", "no", "--save", "no", "--output", folder, *trainer]))


def run(options, kind, folder):
    command = train_command(options, kind.launcher, ("--sync", kind.sync, *kind.trainer), folder)
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT)
    if done.returncode != 0:
        sys.exit(f"error: {' '.join(command)} ended with status {done.returncode}\n{done.stderr}")
    return json.loads((Path(folder) / "summary.json").read_text())


def training_parser(description, steps):
    """Has the arguments of train_command()."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="SQuAD v1.1 JSON")
    parser.add_argument("--model", required=True, help="checkpoint folder")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--max-length", type=int, default=128)
    return parser


def parse():
    parser = training_parser(__doc__, steps=20)
    parser.add_argument("--elastic", action="store_true", help="compare an elastic job with one of fixed membership")
    parser.add_argument("--json", help="write all figures here; with --elastic those for bench/performance_page.py")
    parser.add_argument("flags", nargs="*", help="after --: for the runs with --sync every_step")
    return parser.parse_args()


def main():
    options = parse()
    compared, ratios_of = kinds(options)
    names = list(compared)
    pairs = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.pairs):
            turn = number % len(names)
            pairs.append({name: run(options, compared[name], folder) for name in names[turn:] + names[:turn]})
            print(f"pair {number + 1}: " + ", ".join(
                f"{name} {found['step_ms']:.1f} ms ({found['cpu_ms']:.0f} of processor, {found['wait_ms']:.1f} waited)"
                for name, found in ((name, pairs[-1][name]) for name in names)), flush=True)
    medians = {}
    for slower, faster in ratios_of:
        ratios = sorted(pair[faster]["step_ms"] / pair[slower]["step_ms"] for pair in pairs)
        medians[f"{faster}/{slower}"] = statistics.median(ratios)
        print(f"{faster} / {slower}: median ratio {statistics.median(ratios):.3f}, from {ratios[0]:.3f} to {ratios[-1]:.3f}")
    cpu = {name: statistics.median(pair[name]["cpu_ms"] for pair in pairs) / 1e3 for name in names}
    print(f"{options.pairs} pairs of {options.steps} steps; processor seconds a step and rank: "
          + ", ".join(f"{name} {cpu[name]:.3f}" for name in names) + f"; load {os.getloadavg()[0]:.1f}")
    if options.json and options.elastic:
        keep_elastic(options, pairs, medians["fixed/elastic"])
    elif options.json:
        Path(options.json).write_text(json.dumps({"medians": medians, "cpu_s": cpu, "pairs": pairs}, indent=2) + "\n")


def keep_elastic(options, pairs, ratio):
    """A result for bench/performance_page.py."""
    steps = {name: [pair[name]["step_ms"] for pair in pairs] for name in ("fixed", "elastic")}
    performance_page.keep(Path(options.json), "A training step of an elastic job", "Failures", ".venv/bin/python bench/train_pairs.py", "ms",
                          f"Medians of {len(pairs)} pairs of runs in turns, {options.steps} steps each on {options.ranks} ranks, of `train_bert` with and without "
                          "`--elastic yes`.",
                          [{"figure": "a step of a job of fixed membership, and of an elastic one", "peer": round(statistics.median(steps["fixed"]), 1),
                            "value": round(statistics.median(steps["elastic"]), 1), "ratio": round(ratio, 3),
                            "note": "fixed / elastic: the median of the pairs' ratios"}])


if __name__ == "__main__":
    main()
