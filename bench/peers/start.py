#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The start and the end of a job: `rueda-bench start` runs this.

A job is one allreduce of 4 bytes. In each turn ruedarun starts ours, then mpiexec the same by MPI; next time in the
opposite order. Told are medians in milliseconds: from the start of the launcher to the end of the first allreduce on all
ranks, from the end of the last rank to that of the launcher, and from start to end. With --hosts the ranks are on virtual
hosts (root only), which are made before.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

LONGEST_RUN = 120  # seconds
PEERS = Path(__file__).resolve().parent


def arguments_of(words):
    parser = argparse.ArgumentParser(prog="rueda-bench start", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rueda-bench", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--mpiexec", type=Path, help="MPICH's mpiexec; without one ours is measured alone")
    parser.add_argument("--ranks", default="2,16,64", help="numbers of ranks, by commas; default: 2,16,64")
    parser.add_argument("--turns", type=int, default=9, help="how often each side runs; default: 9")
    parser.add_argument("--hosts", type=int, default=0, help="virtual hosts; default: none, all ranks are here")
    parser.add_argument("--json", type=Path, help="a file for the numbers")
    return parser.parse_args(words)


def measured(command, ranks, environment):
    """Milliseconds: to the first allreduce, from the last rank to the end, all."""
    begin = time.monotonic_ns()
    done = subprocess.run([str(word) for word in command], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=LONGEST_RUN, check=False)
    end = time.monotonic_ns()
    times = {"first": [], "end": []}
    for line in done.stdout.splitlines():
        word, _, number = line.partition(" ")
        if word in times and number.isdigit():
            times[word].append(int(number))
    if done.returncode != 0 or any(len(each) != ranks for each in times.values()):
        raise RuntimeError(f"{command[0]} ended with status {done.returncode}: {(done.stderr or done.stdout).strip()[-1000:]}")
    return [number / 1e6 for number in (max(times["first"]) - begin, end - max(times["end"]), end - begin)]


class Hosts:
    """Virtual hosts, for the time of a with-statement; none where their number is 0."""

    def __init__(self, program, count):
        self.program, self.count = program, count
        self.environment = dict(os.environ, RUEDA_BED=f"start-{os.getpid()}")

    def call(self, *words):
        done = subprocess.run([self.program, *words], env=self.environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip())

    def __enter__(self):
        if self.count:
            self.call("up", str(self.count))
        return self

    def __exit__(self, *_):
        if self.count:
            self.call("down")

    def names(self, ranks):
        return ",".join(f"h{host}:{ranks // self.count + (host < ranks % self.count)}" for host in range(self.count))

    def ours(self, ruedarun, ranks, program):
        if not self.count:
            return [ruedarun, "--no-prefix", "-np", ranks, program]
        return [self.program, "exec", "h0", ruedarun, "--no-prefix", "-H", self.names(ranks), "--remote-shell", self.program, "-np", ranks, program]

    def theirs(self, mpiexec, ranks, program):
        if not self.count:
            return [mpiexec, "-np", ranks, program]
        return [self.program, "exec", "h0", mpiexec, "-launcher", "ssh", "-launcher-exec", self.program, "-iface", "eth0", "-hosts",
                self.names(ranks), "-np", ranks, program]


def compare(hosts, sides, ranks, turns):
    """{side: medians}."""
    series = {side: [] for side in sides}
    for turn in range(turns + 1):  # the first one warms caches of files
        for side in list(sides)[::1 if turn % 2 else -1]:
            numbers = measured(sides[side](hosts, ranks), ranks, hosts.environment)
            if turn > 0:
                series[side].append(numbers)
    return {side: [statistics.median(column) for column in zip(*rows)] for side, rows in series.items()}


def main(words):
    given = arguments_of(words)
    folder = given.rueda_bench.parent
    sides = {"ruedarun": lambda hosts, ranks: hosts.ours(folder / "ruedarun", ranks, folder / "start_rueda")}
    if given.mpiexec and (folder / "start_mpi").exists():
        sides["mpiexec"] = lambda hosts, ranks: hosts.theirs(given.mpiexec, ranks, folder / "start_mpi")
    rows = []
    load = os.getloadavg()[0]  # before the ranks raise it
    print(f"{os.cpu_count()} cores, load {load:.1f}; {given.turns} turns; milliseconds")
    print(f"{'ranks':>5} {'side':>9} {'to the first allreduce':>23} {'from the last rank':>19} {'start to end':>13}")
    with Hosts(folder / "rueda-hosts", given.hosts) as hosts:
        for ranks in map(int, given.ranks.split(",")):
            for side, (first, last, whole) in compare(hosts, sides, ranks, given.turns).items():
                print(f"{ranks:>5} {side:>9} {first:>23.1f} {last:>19.1f} {whole:>13.1f}", flush=True)
                rows.append({"ranks": ranks, "side": side, "first_ms": first, "end_ms": last, "whole_ms": whole})
    if given.json:
        given.json.write_text(json.dumps({"mode": "start", "hosts": given.hosts or 1, "turns": given.turns, "load": load, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (RuntimeError, OSError, ValueError, subprocess.TimeoutExpired) as error:
        sys.exit(f"error: {error}")
