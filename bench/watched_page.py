#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cost of a watched page: in one run of train_bert somebody opens the page and closes it again, in turns.

    .venv/bin/python bench/watched_page.py --data train.json --model CHECKPOINT [--pairs 7] [--steps 60]

A pair is a run. After each line of its progress the watcher comes or goes. The steps between are those with and without a watched page, so both have the same memory,
the same samples on average and the same moment of the machine. The first step after a change counts, too: it has the page's whole history.
"""
import contextlib
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import performance_page
from train_pairs import ENVIRONMENT, train_command, training_parser


class Watcher:
    """Takes all that a page sends, as a browser does, from `come` to `go`."""

    def __init__(self, page):
        self.host, _, query = page.removeprefix("http://").partition("/")
        self.request = f"GET /events{query} HTTP/1.1\r\nHost: {self.host}\r\n\r\n".encode()
        self.size = 0
        self.connection = None

    def come(self):
        name, _, port = self.host.rpartition(":")
        self.connection = socket.create_connection((name, int(port)))
        self.connection.sendall(self.request)
        threading.Thread(target=self._read, args=(self.connection,), daemon=True).start()

    def go(self):
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
        self.connection = None

    def _read(self, connection):
        with contextlib.suppress(OSError), connection:
            while part := connection.recv(1 << 16):
                self.size += len(part)


def run(options, folder):
    """Milliseconds of the steps: those without a watcher, and those with one."""
    command = train_command(options, ("--page", "0"), (), folder)
    with tempfile.TemporaryFile("w+") as errors:
        job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=ENVIRONMENT)
        watched, watcher = [], None
        for line in job.stdout:
            told = re.search(r"\bstep (\d+)/", line)
            if not told:
                continue
            if watcher is None:
                errors.seek(0)
                watcher = Watcher(re.search(r"the page of this job is (\S+)", errors.read()).group(1))
            watched += [watcher.connection is not None] * (int(told.group(1)) - len(watched))
            watcher.go() if watcher.connection is not None else watcher.come()
        errors.seek(0)
        if job.wait() != 0 or watcher is None or watcher.size < 10_000:
            sys.exit(f"error: {' '.join(command)} ended with status {job.returncode}, or nobody watched it\n{errors.read()}")
    summary = json.loads((Path(folder) / "summary.json").read_text())
    times = [summary["samples_per_step"] / point["samples_per_s"] * 1e3 for point in summary["curve"]]
    kept = list(zip(times, watched))[options.warm_up:]
    return [time for time, seen in kept if not seen], [time for time, seen in kept if seen]


def main():
    parser = training_parser(__doc__, steps=60)
    parser.add_argument("--warm-up", type=int, default=4, help="first steps that do not count")
    parser.add_argument("--json", help="write a result for bench/performance_page.py")
    options = parser.parse_args()
    pairs = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.pairs):
            pairs.append(run(options, folder))
            alone, watched = map(statistics.median, pairs[-1])
            print(f"pair {number + 1}: alone {alone:.1f} ms ({len(pairs[-1][0])} steps), watched {watched:.1f} ms ({len(pairs[-1][1])} steps): {watched / alone:.4f}",
                  flush=True)
    ratios = sorted(statistics.median(watched) / statistics.median(alone) for alone, watched in pairs)
    everything = [statistics.median(time for pair in pairs for time in pair[side]) for side in (0, 1)]
    cost = (statistics.median(ratios) - 1) * 100
    print(f"a watched page costs {cost:.2f} % of a step (median of {len(pairs)} pairs, from {(ratios[0] - 1) * 100:.2f} to {(ratios[-1] - 1) * 100:.2f} %); "
          f"of all steps: {(everything[1] / everything[0] - 1) * 100:.2f} %; load {os.getloadavg()[0]:.1f}")
    if options.json:
        performance_page.keep(Path(options.json), "A training step while somebody watches the page", "Training", ".venv/bin/python bench/watched_page.py", "ms",
                              f"{len(pairs)} runs of {options.steps} steps of `train_bert` on {options.ranks} ranks. In each, somebody opens the page and closes it in turns.",
                              [{"figure": "a step", "peer": round(everything[0], 1), "value": round(everything[1], 1),
                                "ratio": round(1 / statistics.median(ratios), 4), "note": f"the median of the runs: {cost:.2f} % of a step"}])


if __name__ == "__main__":
    main()
