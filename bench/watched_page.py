#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cost of a watched page: train_bert in turns, with somebody who looks at its page and without.

    .venv/bin/python bench/watched_page.py --data train.json --model CHECKPOINT [--pairs 7] [--steps 30]

A pair is two runs, one right after the other, in an order that turns from pair to pair. Both serve the page. The watcher takes all that a browser would
take, on the same machine, so its own time counts, too.
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
    """Takes all that a page sends, as a browser does, to the end of the job."""

    def __init__(self, page):
        host, _, query = page.removeprefix("http://").partition("/")
        name, _, port = host.rpartition(":")
        self.size = 0
        self.connection = socket.create_connection((name, int(port)))
        self.connection.sendall(f"GET /events{query} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        with contextlib.suppress(OSError), self.connection:
            while part := self.connection.recv(1 << 16):
                self.size += len(part)


def run(options, folder, is_watched):
    """The summary of a run."""
    command = train_command(options, ("--page", "0"), (), folder)
    job = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
    words, watcher = "", None
    for line in job.stderr:
        words += line
        page = re.search(r"the page of this job is (\S+)", line)
        if page and is_watched:
            watcher = Watcher(page.group(1))
    if job.wait() != 0 or (is_watched and (watcher is None or watcher.size < 10_000)):
        sys.exit(f"error: {' '.join(command)} ended with status {job.returncode}, or nobody watched it\n{words}")
    return json.loads((Path(folder) / "summary.json").read_text())


def main():
    parser = training_parser(__doc__, steps=30)
    parser.add_argument("--json", help="write a result for bench/performance_page.py")
    options = parser.parse_args()
    pairs = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.pairs):
            order = (False, True) if number % 2 == 0 else (True, False)
            pairs.append({is_watched: run(options, folder, is_watched) for is_watched in order})
            alone, watched = pairs[-1][False], pairs[-1][True]
            print(f"pair {number + 1}: alone {alone['step_ms']:.1f} ms ({alone['cpu_ms']:.1f} of processor), watched {watched['step_ms']:.1f} ms "
                  f"({watched['cpu_ms']:.1f}): {watched['step_ms'] / alone['step_ms']:.4f}", flush=True)
    report(options, pairs)


def report(options, pairs):
    costs = sorted((pair[True]["step_ms"] / pair[False]["step_ms"] - 1) * 100 for pair in pairs)
    alone, watched = (statistics.median(pair[side]["step_ms"] for pair in pairs) for side in (False, True))
    cpu = [statistics.median(pair[side]["cpu_ms"] for pair in pairs) for side in (False, True)]
    cost = statistics.median(costs)
    quarters = statistics.quantiles(costs, n=4) if len(costs) > 1 else [cost] * 3
    spread = f"half of the pairs from {quarters[0]:.1f} to {quarters[2]:.1f} %"
    print(f"a watched page costs {cost:.2f} % of a step (median of {len(pairs)} pairs of {options.steps} steps, {spread}); processor of a step and rank: "
          f"{cpu[0]:.1f} and {cpu[1]:.1f} ms; load {os.getloadavg()[0]:.1f}")
    if options.json:
        performance_page.keep(Path(options.json), "A training step while somebody watches the page", "Training", ".venv/bin/python bench/watched_page.py", "ms",
                              f"Medians of {len(pairs)} pairs of runs in turns, {options.steps} steps each of `train_bert` on {options.ranks} ranks, with and without "
                              "somebody who watches the page on the same machine.",
                              [{"figure": "a step", "peer": round(alone, 1), "value": round(watched, 1), "ratio": round(1 / (1 + cost / 100), 4),
                                "note": f"the median of the pairs: {cost:.2f} % of a step, {spread}"}])


if __name__ == "__main__":
    main()
