#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cost of a watched page: one run of train_bert, with somebody who looks at its page and without, in turns.

    .venv/bin/python bench/watched_page.py --data train.json --model CHECKPOINT [--pairs 7] [--steps 30]

A pair is about `--steps` steps with a watcher, and as many without, in an order that turns from pair to pair. The watcher takes all that a browser would
take, on the same machine, so its own time counts, too. The times of the steps are those of the trainer's event file.
"""
import argparse
import contextlib
import itertools
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import performance_page
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from train_pairs import ENVIRONMENT, train_command, training_parser

WARM_UP_STEPS = 10  # before the first pair
SCALAR = "train/loss_of_rank_0"  # one a step


class Watcher:
    """Takes all that a page sends, as a browser does, until it is closed."""

    def __init__(self, page):
        host, _, query = page.removeprefix("http://").partition("/")
        name, _, port = host.rpartition(":")
        self.size = 0
        self.connection = socket.create_connection((name, int(port)))
        self.connection.sendall(f"GET /events{query} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        with contextlib.suppress(OSError):
            while part := self.connection.recv(1 << 16):
                self.size += len(part)

    def close(self):
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
        self.reader.join()
        self.connection.close()


class Processor:
    """The processor time of the launcher and its agents."""

    def __init__(self, launcher):
        self.launcher = launcher

    def _processes(self):
        parents = {}
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        family = {self.launcher}
        while more := {each for each, parent in parents.items() if parent in family} - family:
            family |= more
        program = os.readlink(f"/proc/{self.launcher}/exe")
        return [each for each in family if os.readlink(f"/proc/{each}/exe") == program]

    def seconds(self):
        ticks = 0
        for each in self._processes():
            fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")


class Window:
    """A stretch of the run. While it lasts, somebody watches or nobody does."""

    def __init__(self, is_watched, page, seconds, processor):
        self.is_watched = is_watched
        before, self.begin = processor.seconds(), time.time()
        watcher = Watcher(page) if is_watched else None
        time.sleep(seconds)
        if watcher:
            watcher.close()
            if watcher.size < 10_000:
                sys.exit(f"error: the page sent {watcher.size} bytes in {seconds:.0f} s")
        self.end = time.time()
        self.share = (processor.seconds() - before) / (self.end - self.begin)  # of a core, by launcher and agents

    def step_ms(self, ends):
        inside = [each for each in ends if self.begin <= each <= self.end]
        return statistics.median(after - before for before, after in itertools.pairwise(inside)) * 1e3


def run(options, folder):
    """The windows of a run, by pair and in turn, and when its steps ended."""
    steps = 3 * WARM_UP_STEPS + (2 * options.pairs + 2) * options.steps
    command = train_command(argparse.Namespace(**(vars(options) | {"steps": steps})), ("--page", "0"), ("--tensorboard", folder), folder)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT) as job:
        words = []

        def ended():
            reader.join()
            return f"error: {' '.join(command)} ended with status {job.wait()}\n{''.join(words)}"

        page = None
        while page is None and (line := job.stderr.readline()):
            words.append(line)
            found = re.search(r"the page of this job is (\S+)", line)
            page = found and found.group(1)
        reader = threading.Thread(target=words.extend, args=(job.stderr,), daemon=True)
        reader.start()
        while len(ends := ends_of_steps(folder)) < WARM_UP_STEPS:
            if job.poll() is not None:
                sys.exit(ended())
            time.sleep(1)
        seconds = options.steps * (ends[-1] - ends[0]) / (len(ends) - 1)
        processor = Processor(job.pid)
        pairs = [[Window(is_watched, page, seconds, processor) for is_watched in ((False, True), (True, False))[number % 2]]
                 for number in range(options.pairs)]
        if job.wait() != 0:
            sys.exit(ended())
    return pairs, ends_of_steps(folder)


def ends_of_steps(folder):
    if not list(Path(folder).glob("*tfevents*")):
        return []
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0}).Reload()
    return [each.wall_time for each in events.Scalars(SCALAR)] if SCALAR in events.Tags()["scalars"] else []


def main():
    parser = training_parser(__doc__, steps=30)
    parser.add_argument("--json", help="write a result for bench/performance_page.py")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        windows, ends = run(options, folder)
    pairs = []
    for number, pair in enumerate(windows):
        pairs.append({window.is_watched: window.step_ms(ends) for window in pair})
        shares = {window.is_watched: 100 * window.share for window in pair}
        print(f"pair {number + 1}: alone {pairs[-1][False]:.1f} ms, watched {pairs[-1][True]:.1f} ms: {pairs[-1][True] / pairs[-1][False]:.4f}; "
              f"launcher and agents take {shares[False]:.2f} and {shares[True]:.2f} % of a core")
    report(options, pairs, [[100 * window.share for pair in windows for window in pair if window.is_watched == side] for side in (False, True)])


def report(options, pairs, shares):
    costs = [(pair[True] / pair[False] - 1) * 100 for pair in pairs]
    alone, watched = (statistics.median(pair[side] for pair in pairs) for side in (False, True))
    cost = statistics.median(costs)
    quarters = statistics.quantiles(costs, n=4) if len(costs) > 1 else [cost] * 3
    spread = f"half of the pairs from {quarters[0]:.1f} to {quarters[2]:.1f} %"
    shares = [statistics.median(each) for each in shares]
    print(f"a watched page costs {cost:.2f} % of a step (median of {len(pairs)} pairs of {options.steps} steps, {spread}); "
          f"launcher and agents take {shares[0]:.2f} % of a core alone, {shares[1]:.2f} watched; load {os.getloadavg()[0]:.1f}")
    if options.json:
        performance_page.keep(Path(options.json), "A training step while somebody watches the page", "Training", ".venv/bin/python bench/watched_page.py", "ms",
                              f"Medians of {len(pairs)} pairs of about {options.steps} steps in turns, all of one run of `train_bert` on {options.ranks} ranks, with "
                              "and without somebody who watches the page on the same machine.",
                              [{"figure": "a step", "peer": round(alone, 1), "value": round(watched, 1), "ratio": round(1 / (1 + cost / 100), 4),
                                "note": f"the median of the pairs: {cost:.2f} % of a step, {spread}; launcher and agents take {shares[0]:.2f} % of a core while nobody "
                                        f"looks, {shares[1]:.2f} % while somebody does"}])


if __name__ == "__main__":
    main()
