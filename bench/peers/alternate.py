#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""rueda-bench against other libraries, whose ranks cannot live beside ours: each side in runs of its own, in alternation.

`rueda-bench MODE --against LIBRARY ...` starts this. In each alternation our ranks run, then those of each library, with
the same sizes and numbers of steps; next time in the opposite order. A ratio is the library's median over ours in the
same alternation; told is the median of the ratios, and the least and largest. "best" is every library that is installed,
and for each size that with the least time.
"""
import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from installed import PEERS, Missing

LONGEST_RUN = 1800  # seconds


def arguments_of(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     allow_abbrev=False)
    parser.add_argument("--rueda-bench", type=Path, required=True)
    parser.add_argument("--against", required=True, choices=[*PEERS, "best"])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--alternations", type=int, default=5)
    parser.add_argument("--json", type=Path)
    return parser.parse_known_args(words)


def run(name, command, environment):
    """What it prints. It ends with this program, unless that is killed by SIGKILL: then at the end of its run."""
    job = subprocess.Popen([str(word) for word in command], env={**os.environ, **environment}, text=True,
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        printed, said = job.communicate(timeout=LONGEST_RUN)
    except BaseException:  # also when this program is to end
        job.terminate()
        job.wait()
        raise
    if job.returncode != 0:
        words = (said.strip() or printed.strip())[-1500:]
        raise RuntimeError(f"{name} ended with status {job.returncode}: {words}")
    return printed


def list_in(name, printed):
    """The numbers that a library's program has printed, perhaps after words of the library."""
    begin = printed.find('[{"bytes"')
    if begin < 0:
        raise RuntimeError(f"{name} has printed no numbers, but: {printed.strip()[-600:]}")
    return json.JSONDecoder().raw_decode(printed[begin:])[0]


class Ours:
    """rueda-bench under ruedarun."""

    name = "rueda"

    def __init__(self, program, ranks, words, folder):
        self.file = folder / "ours.json"
        self.command = [program.parent / "ruedarun", "--no-prefix", "-np", ranks, program, *words, "--json", self.file]

    def measured(self):
        """The first line that it prints, and the numbers of one run, by bytes."""
        printed = run(self.name, self.command, {})
        rows = json.loads(self.file.read_text())
        if isinstance(rows, dict):  # of tensors
            rows = [{**rows, "bytes": rows["bytes_in_all"]}]
        return printed.splitlines()[0], {row["bytes"]: row for row in rows}


class Theirs:
    """One library, and how it has been measured so far."""

    def __init__(self, peer, ranks):
        self.peer, self.ranks, self.name = peer, ranks, peer.name

    def measured(self, ours):
        works = ",".join(f"{row['bytes']}:{row.get('steps', row['count'])}:{row['warmup']}" for row in ours.values())
        command, environment = self.peer.command(self.ranks, works)
        rows = {row["bytes"]: row for row in list_in(self.name, run(self.name, command, environment))}
        wrong = sum(row["wrong"] for row in rows.values())
        if wrong:
            raise RuntimeError(f"{self.name}: {wrong} elements are wrong")
        return rows


def peers_of(wanted, programs, folder, ranks):
    """Those that are installed; what is missing is an error if it was asked for by name."""
    found = []
    for name, peer in PEERS.items():
        if wanted not in (name, "best"):
            continue
        try:
            found.append(Theirs(peer(programs, folder), ranks))
        except Missing as reason:
            if wanted == name:
                raise
            print(f"skipped: {name}: {reason}", file=sys.stderr, flush=True)
    if not found:
        raise Missing("no library to compare with is installed")
    return found


def alternate(ours, peers, alternations, must):
    """The first line of ours, our rows and, by name, those of the peers: a dictionary for each alternation."""
    all_ours, of_peers, line = [], {peer.name: [] for peer in peers}, ""
    shape = None  # the sizes and steps, of our first run
    for number in range(alternations):
        sides = [ours, *peers] if number % 2 == 0 else [*reversed(peers), ours]
        for side in sides:
            if side is ours:
                line, rows = ours.measured()
                all_ours.append(rows)
                shape = shape or rows
            elif side.name in of_peers:
                try:
                    of_peers[side.name].append(side.measured(shape))
                except (RuntimeError, subprocess.TimeoutExpired) as problem:
                    if side.name == must:
                        raise
                    del of_peers[side.name]
                    print(f"skipped: {problem}", file=sys.stderr, flush=True)
    if not of_peers:
        raise RuntimeError("no library could be measured")
    return line, all_ours, of_peers


def compared(size, all_ours, rows_of_peer):
    def ratios_to(key):
        return [theirs[size]["median_us"] / ours[size][key] for ours, theirs in zip(all_ours, rows_of_peer)]

    ratios = ratios_to("median_us")
    result = {"median_us": statistics.median(rows[size]["median_us"] for rows in rows_of_peer),
              "ratio": statistics.median(ratios), "ratio_min": min(ratios), "ratio_max": max(ratios)}
    if "limit_us" in all_ours[0][size]:
        result["limit_ratio"] = statistics.median(ratios_to("limit_us"))
    return result


def numbers_of(size, all_ours, of_peers):
    """One row of the result: ours over all alternations, each library, and the best of them."""
    rows = [ours[size] for ours in all_ours]
    result = {**rows[0], "alternations": len(rows)}
    for key in ("median_us", "p99_us", "limit_us"):
        if key in result:
            result[key] = statistics.median(row[key] for row in rows)
    result["min_us"] = min(row["min_us"] for row in rows)
    for key in ("algbw_gbs", "busbw_gbs"):
        if key in result:
            result[key] = rows[0][key] * rows[0]["median_us"] / result["median_us"]
    if "wrong" in result:
        result["wrong"] = max(row["wrong"] for row in rows)
    peers = {name: compared(size, all_ours, rows) for name, rows in of_peers.items()}
    best = min(peers, key=lambda name: peers[name]["median_us"])
    result["against"] = {"name": best, **peers[best]}
    if len(peers) > 1:
        result["peers"] = peers
    return result


def print_table(line, rows, names):
    print(f"{line}, the last of {rows[0]['alternations']} alternations")
    heads = "".join(f" {name:>12}" for name in names)
    best = f" {'best':>12}" if len(names) > 1 else ""
    limit = f" {'limit':>11} {'its ratio':>9}" if "limit_us" in rows[0] else ""
    print(f"{'bytes':>11}{'rueda':>11}{heads}{best} {'ratio':>8} {'least':>8} {'most':>8}{limit}")
    for row in rows:
        against = row["against"]
        medians = "".join(f" {row.get('peers', {against['name']: against})[name]['median_us']:>12.1f}" for name in names)
        best = f" {against['name']:>12}" if len(names) > 1 else ""
        limit = f" {row['limit_us']:>11.1f} {against['limit_ratio']:>9.2f}" if "limit_us" in row else ""
        print(f"{row['bytes']:>11}{row['median_us']:>11.1f}{medians}{best} {against['ratio']:>8.2f}"
              f" {against['ratio_min']:>8.2f} {against['ratio_max']:>8.2f}{limit}")


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    arguments, words = arguments_of(sys.argv[1:])
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        peers = peers_of(arguments.against, arguments.rueda_bench.parent, folder, arguments.ranks)
        ours = Ours(arguments.rueda_bench, arguments.ranks, words, folder)
        line, all_ours, of_peers = alternate(ours, peers, arguments.alternations, arguments.against)
    rows = [numbers_of(size, all_ours, of_peers) for size in all_ours[0]]
    print_table(line, rows, list(of_peers))
    if arguments.json:
        arguments.json.write_text(json.dumps(rows if "op" in rows[0] else rows[0], indent=2) + "\n")


if __name__ == "__main__":
    try:
        main()
    except (Missing, RuntimeError, OSError, subprocess.TimeoutExpired) as problem:
        sys.exit(f"error: {problem}")
    except KeyboardInterrupt:
        sys.exit(130)
