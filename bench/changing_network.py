#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Allreduces between four virtual hosts of one rank whose network is uneven, or changes while they run.

    sudo .venv/bin/python bench/changing_network.py rails     # cards of 200 and 100 Mbit/s, against the faster one alone
    sudo .venv/bin/python bench/changing_network.py slowed    # one host goes down to a quarter while they run

The bound is that of a ring: 2 (n-1)/n times the bytes over the slowest host's cards.
"""
import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

BIN = Path(__file__).resolve().parents[1] / "build" / "bin"
HOSTS, MBIT, BYTES, STEPS = 4, 200, 4 << 20, 24
BOUND_MS = 2 * (HOSTS - 1) / HOSTS * BYTES * 8 / (MBIT * 1e3)


def be_a_rank():
    """Prints the milliseconds of each allreduce, slowest rank."""
    import rueda.torch as hvd
    import torch
    hvd.init()
    tensor = torch.ones(BYTES // 4)
    for step in range(2 * STEPS):
        start = time.perf_counter()
        hvd.allreduce_(tensor, op=hvd.Average, name="changing")
        took = hvd.allreduce(torch.tensor((time.perf_counter() - start) * 1e3), op=hvd.Max, name=f"took.{step}")
        if hvd.rank() == 0:
            print(f"took {took.item():.2f}", flush=True)
    hvd.shutdown()


def times_of(rails, changes):
    """Of the steps before, and of those after `changes`: (host, card, rate), made when half of the steps are over."""
    command = [BIN / "ruedarun", "--no-prefix", "--virtual-hosts", str(HOSTS), "--rails", str(rails), "--rate", f"{MBIT}mbit", "-np",
               str(HOSTS), sys.executable, __file__, "rank"]
    took = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          env=dict(os.environ, OMP_NUM_THREADS="1")) as job:
        for line in job.stdout:
            if not line.startswith("took "):
                continue
            took.append(float(line.split()[1]))
            if len(took) == STEPS:
                for change in changes:
                    subprocess.run([BIN / "rueda-hosts", "of", str(job.pid), "rate", *change], check=True, stdout=subprocess.DEVNULL)
    if job.returncode != 0 or len(took) != 2 * STEPS:
        sys.exit(f"error: the job ended with status {job.returncode} after {len(took)} allreduces")
    return took[:STEPS], took[STEPS:]


def rails():
    both, uneven = times_of(2, [(f"h{host}", "1", f"{MBIT // 2}mbit") for host in range(HOSTS)])
    alone, _ = times_of(1, [])
    alone, both, uneven = statistics.median(alone), statistics.median(both), statistics.median(uneven[2:])
    print(f"one card of {MBIT} Mbit/s: {alone:.1f} ms; with another of {MBIT}: {both:.1f}, {alone / both:.2f} times as fast; with another of "
          f"{MBIT // 2}: {uneven:.1f}, {alone / uneven:.2f} times as fast")


def slowed():
    before, after = times_of(1, [("h2", "0", f"{MBIT // 4}mbit")])
    print(f"{MBIT} Mbit/s: {statistics.median(before):.1f} ms, {100 * BOUND_MS / statistics.median(before):.1f} % of the bound")
    shares = [400 * BOUND_MS / took for took in after]
    print(f"h2 at {MBIT // 4}: from the third on {statistics.median(after[2:]):.1f} ms, {statistics.median(shares[2:]):.1f} % of the new bound, at least "
          f"{min(shares[2:]):.1f}; the first two {after[0]:.1f} and {after[1]:.1f} ms")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["rails", "slowed", "rank"], help="rank: what each rank runs")
    {"rails": rails, "slowed": slowed, "rank": be_a_rank}[parser.parse_args().what]()
