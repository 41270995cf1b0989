#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Disturbs an elastic job again and again, and measures how soon it goes on.

    .venv/bin/python bench/fault_campaign.py --faults 20 --ranks 2,4 --parameters 1M,22M [--kinds kill,root,two] [--hosts 4] [--spares 1] \
        [--program c++] [--sharded] [--against torchrun,torchft,torchft-tuned] [--json FILE]

The job runs bench/elastic_steps.py, or its twin in C++. A fault comes at a random moment of a step:
  kill         SIGKILL for a random rank
  root         for rank 0
  two          for two ranks at once
  joining      for a random rank, and for the process that is started in its place, before it has joined
  spare        for a process that waits; needs --spares
  agent        for the agent of a host, with which its ranks end; needs --hosts
  start        for a random rank of a job that starts, before it has made its first steps; each is a job of its own
  end          for a random rank of a job that ends; each is a job of its own
  stop         SIGSTOP for a random rank, and SIGCONT after 0.3 s: nobody is lost
  slow         a host's network goes down to 1 Mbit/s for 0.3 s: nobody is lost; needs --hosts
  cable        a host is cut off until the others go on without it; needs --hosts
A row for each kind, number of ranks and number of parameters, in milliseconds from the fault:
  named        ruedarun has named the first rank
  failed       a call has failed in all others: until then each may be in a computation of its own
  generation   all others have formed the next generation
  step         all others have completed a step of it
  again        all ranks have completed a step at the full number of ranks
  ended        ruedarun has ended
and a step without a failure. The job counts how often each sample is applied. Its parameters must be those of an undisturbed run with as many ranks in each
step. --hosts: virtual hosts, which need root.
--against: peers that lose a rank by SIGKILL in the same run: `step` is that of the others, `again` that of all ranks. torchrun begins anew each time."""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

BENCH = Path(__file__).resolve().parent
sys.path[:0] = [str(BENCH), str(BENCH / "peers")]
import fault_peers  # noqa: E402
import performance_page  # noqa: E402
from disturbed_job import SLOWED, STOPPED, Job, Measured, Stuck  # noqa: E402

PULL, MOMENTUM, TARGETS = 0.01, 0.9, (1.0, 2.0, 3.0, 4.0)  # as in bench/elastic_steps
KINDS = {"kill": "kill", "root": "kill of rank 0", "two": "kill of two", "joining": "kill of one and of the next", "spare": "kill of a spare",
         "start": "kill of one at the start", "end": "kill of one at the end", "agent": "kill of an agent", "stop": f"stop for {STOPPED} s",
         "slow": f"{SLOWED} for {STOPPED} s", "cable": "cut off"}
NEEDS_HOSTS = {"agent", "slow", "cable"}
OF_A_JOB = {"start", "end"}  # once in its life


def undisturbed(history: str) -> list[float]:
    """The parameter `exact` after so many steps of so many ranks each: "2:310,1:4"."""
    values, momenta = [0.0] * len(TARGETS), [0.0] * len(TARGETS)
    for ranks, steps in (map(int, each.split(":")) for each in history.split(",")):
        for _ in range(steps):
            for i, target in enumerate(TARGETS):
                momenta[i] = MOMENTUM * momenta[i] + ranks * PULL * (values[i] - target)
                values[i] -= momenta[i]
    return values


def number_of(text: str) -> int:
    return int(float(text.rstrip("KM")) * {"K": 1e3, "M": 1e6}.get(text[-1], 1))


@contextlib.contextmanager
def started(options: argparse.Namespace, kind: str, ranks: int, size: str):
    """A job, which is over at the end."""
    with tempfile.TemporaryDirectory() as folder:
        job = Job(options, kind, ranks, number_of(size), Path(folder) / "stop")
        try:
            yield job
        finally:
            if job.process.poll() is None:
                job.process.kill()


def campaign(options: argparse.Namespace, kind: str, ranks: int, size: str) -> dict[str, Any]:
    if kind in OF_A_JOB:
        return campaign_of_jobs(options, kind, ranks, size)
    with started(options, kind, ranks, size) as job:
        for _ in range(options.faults):
            job.disturb(kind, job.wait_for_steps())
        found = job.end_well()
    # Where the samples that are left cannot be divided, the sampler repeats some, as Horovod's does.
    padding = options.faults * (3 if kind == "joining" else 2) * (ranks - 1)
    print(f"{kind}, {ranks} ranks, {size} parameters: {options.faults} faults, {check(found, padding)}; load {os.getloadavg()[0]:.1f}", flush=True)
    return summarised(vars(job.measured))


def campaign_of_jobs(options: argparse.Namespace, kind: str, ranks: int, size: str) -> dict[str, Any]:
    """A fault in each of so many jobs."""
    measured = Measured()
    began = time.monotonic()
    with started(options, kind, ranks, size) as job:
        job.wait_for_steps()
        until_steps = time.monotonic() - began
    for _ in range(options.faults):
        with started(options, kind, ranks, size) as job:
            if kind == "start":
                job.disturb_start(until_steps)
                check(job.end_well(), 2 * (ranks - 1))
            else:
                found = job.disturb_end(job.wait_for_steps())
                measured.ended += job.measured.ended
                if found:
                    check(found, 2 * (ranks - 1))
    print(f"{kind}, {ranks} ranks, {size} parameters: {options.faults} jobs with a fault, all as they have to be; load {os.getloadavg()[0]:.1f}", flush=True)
    return summarised(vars(measured))


def check(found: list[str], padding: int) -> str:
    """The words of the event that ends a job, in a sentence. Throws Stuck if they are not those of training without a fault."""
    epochs, lost, repeated, uniform, exact, history = found
    off = max(abs(one - other) for one, other in zip(map(float, exact.split(",")), undisturbed(history)))
    if int(lost) or int(repeated) > padding:
        raise Stuck(f"samples were lost ({lost}) or repeated ({repeated})")
    if uniform != "uniform" or off > 1e-9:
        raise Stuck(f"the parameters are {uniform} and off by {off:.1g}: not those of an undisturbed run")
    return (f"{epochs} epochs; samples lost {lost}, repeated {repeated} (to fill a last step at most {padding}); "
            f"parameters {uniform}, and off by {off:.1g}")


def summarised(measured: dict[str, list[float]]) -> dict[str, tuple[float, float]]:
    """The median of each, and its 99th percentile, which are printed, too."""
    row = {}
    for name, values in measured.items():
        if not values:
            continue
        values.sort()
        row[name] = (statistics.median(values), values[min(len(values) - 1, int(0.99 * len(values)))])
        print(f"    {name:12} median {row[name][0]:9.1f} ms   p99 {row[name][1]:9.1f} ms", flush=True)
    return row


def against(peer: str, faults: int, ranks: int, size: str) -> tuple[dict[str, Any], int]:
    """Its row, and after how many faults training had not come back."""
    measured, not_back = fault_peers.campaign(peer, ranks, number_of(size), faults)
    print(f"{peer}, {ranks} ranks, {size} parameters: {faults} faults, has not come back {not_back} times; load {os.getloadavg()[0]:.1f}", flush=True)
    return summarised(measured), not_back


def keep(options: argparse.Namespace, rows: dict[tuple[str, int, str], dict[str, Any]], peers: dict[tuple[str, int, str], tuple[dict[str, Any], int]]) -> None:
    words = {"named": "{} to its name", "failed": "{} to a failed call in all others", "generation": "{} to the next generation", "step": "{} to the next step",
             "again": "{} to a step of all ranks again", "ended": "{} to the end of the job", "undisturbed": "a step without a failure"}
    figures = [{"figure": f"{words[name].format(KINDS[kind])}, {ranks} ranks, {size} parameters", "value": round(median, 2), "note": f"p99 {most:.1f} ms"}
               for (kind, ranks, size), row in rows.items() for name, (median, most) in row.items()]
    for (peer, ranks, size), (row, not_back) in peers.items():
        for name, (median, most) in row.items():
            figures.append({"figure": f"{words[name].format('kill')}, {ranks} ranks, {size} parameters, against {peer}", "peer": round(median, 1),
                            "note": f"{peer}: p99 {most:.0f} ms; not back within {fault_peers.PATIENCE} s after {not_back} of {options.faults} faults"})
            if name in (own := rows.get(("kill", ranks, size), {})):
                figures[-1] |= {"value": round(own[name][0], 2), "ratio": round(median / own[name][0], 1)}
    where = f"{options.hosts} virtual hosts" if options.hosts else "one host"
    if options.program == "c++":
        where += ", in C++"
    if options.sharded:
        where += ", with a sharded optimizer"
    if options.spares:
        where += f", with {options.spares} spare{'s' if options.spares > 1 else ''}"
    performance_page.keep(options.json, f"Ranks killed in an elastic job, {where}", "Failures", ".venv/bin/python bench/fault_campaign.py", "ms",
                          f"Medians of {options.faults} faults a row, each at a random moment of a step. No sample was lost.", figures)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=10, help="in each row [10]")
    parser.add_argument("--kinds", default="kill", help="of faults, with commas between [kill]")
    parser.add_argument("--ranks", default="2", help="numbers, with commas between [2]")
    parser.add_argument("--parameters", default="1M", help="numbers, as 22M, with commas between [1M]")
    parser.add_argument("--hosts", type=int, default=0, help="virtual hosts [none]")
    parser.add_argument("--spares", type=int, default=0, help="processes that wait [0]")
    parser.add_argument("--program", default="python", choices=["python", "c++"], help="that trains [python]")
    parser.add_argument("--sharded", action="store_true", help="each rank has a part of the optimizer")
    parser.add_argument("--against", default="", help="peers, with commas between [none]")
    parser.add_argument("--json", type=Path, help="keep the figures for bench/performance_page.py")
    options = parser.parse_args()
    peers = [peer for peer in options.against.split(",") if peer]
    if missing := [words for words in map(fault_peers.missing, peers) if words]:
        parser.error("; ".join(missing))
    kinds = options.kinds.split(",")
    if unknown := set(kinds) - KINDS.keys():
        parser.error(f"--kinds {','.join(sorted(unknown))}: choose from {', '.join(KINDS)}")
    if not options.hosts and (needs := NEEDS_HOSTS.intersection(kinds)):
        parser.error(f"--kinds {','.join(sorted(needs))} needs --hosts")
    if not options.spares and "spare" in kinds:
        parser.error("--kinds spare needs --spares")
    rows, found = {}, {}
    try:
        for kind in kinds:
            for ranks in map(int, options.ranks.split(",")):
                for size in options.parameters.split(","):
                    rows[kind, ranks, size] = campaign(options, kind, ranks, size)
        for peer in peers:
            for ranks in map(int, options.ranks.split(",")):
                for size in options.parameters.split(","):
                    found[peer, ranks, size] = against(peer, options.faults, ranks, size)
    except (Stuck, fault_peers.Broken) as error:
        print(f"fault_campaign.py: error: {error}", file=sys.stderr)
        return 1
    if options.json:
        keep(options, rows, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
