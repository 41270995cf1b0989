#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How right the live page is: each fault of one rank, what the page says of it, and the same loop without the fault.

    bench/what_if.py [--faults data,compute,garbage] [--milliseconds 2,8,20] [--ranks 3] [--seconds 20] [--json FILE]

`page`: the job would be so much faster without the rank's lateness. `truth`: it is so much faster without the fault.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import performance_page

ROOT = Path(__file__).parents[1]
RUEDARUN = ROOT / "build/bin/ruedarun"
ENVIRONMENT = {**{name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}, "PYTHONPATH": str(ROOT / "build/python")}


def run(options, fault, milliseconds):
    """Steps a second, and the status at the end."""
    command = [RUEDARUN, "--page", "0", "-np", str(options.ranks), sys.executable, ROOT / "bench/faulty_training.py", fault, "1", "--milliseconds", str(milliseconds)]
    with tempfile.TemporaryFile("w+") as errors:
        job = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=errors, env=ENVIRONMENT)

        def status():
            done = subprocess.run([RUEDARUN, "--status", str(job.pid), "--json"], capture_output=True, text=True, check=True, timeout=30)
            return json.loads(done.stdout)

        def step(told):
            return told["update"].get("progress", {}).get("step", 0)

        try:
            until = time.monotonic() + 60
            before = {"update": {}}
            while step(before) < 100 and time.monotonic() < until:
                time.sleep(0.5)
                before = status()
            began = time.monotonic()
            while time.monotonic() < began + options.seconds:  # somebody watches all the time
                time.sleep(1)
                after = status()
            return (step(after) - step(before)) / (time.monotonic() - began), after
        except (subprocess.CalledProcessError, ValueError, KeyError) as error:
            errors.seek(0)
            raise SystemExit(f"what_if: the job with the fault {fault} does not run: {error}\n{errors.read()}") from error
        finally:
            job.terminate()
            job.wait(timeout=60)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", default="data,compute,garbage")
    parser.add_argument("--milliseconds", default="2,8,20")
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--json", help="write a result for bench/performance_page.py")
    options = parser.parse_args()
    without, slowed = [], []
    for fault in options.faults.split(","):
        for milliseconds in map(float, options.milliseconds.split(",")):
            without.append(run(options, "none", milliseconds)[0])
            slowed.append((fault, milliseconds, *run(options, fault, milliseconds)))
            print(f"{fault}, {milliseconds:g} ms: {slowed[-1][2]:.1f} steps/s, {without[-1]:.1f} without it", file=sys.stderr)
    tell(options, statistics.median(without), slowed)


def tell(options, fast, slowed):
    """`fast`: steps a second of the loop without a fault, the median of runs in turns with the others."""
    figures = []
    print(f"{'fault':8} {'ms':>4} {'steps/s':>8} {'truth':>8} {'page':>8}  of truth  named; {fast:.1f} steps/s without a fault")
    for fault, milliseconds, slow, told in slowed:
        truth = (fast / slow - 1) * 100
        page = next((each["faster_percent"] for each in told["update"].get("late", {}).get("what_if", []) if each["rank"] == 1), 0.0)
        found = re.search(r"waiting for (.*)", told["update"]["line"]["text"])
        named = found.group(1) if found else "nobody"
        print(f"{fault:8} {milliseconds:4.0f} {slow:8.1f} {truth:6.0f} % {page:6.0f} % {page / truth if truth else 0:9.2f}  {named}")
        figures.append({"figure": f"{fault}, {milliseconds:g} ms a step", "peer": round(truth, 1), "value": round(page, 1), "ratio": round(truth / page, 2) if page else 0,
                        "note": f"{slow:.0f} steps/s, {fast:.0f} without the fault; the page names {named}"})
    print(f"load {os.getloadavg()[0]:.1f}")
    if options.json:
        performance_page.keep(Path(options.json), "What a late rank costs, by the live page", "Training", ".venv/bin/python bench/what_if.py", "%",
                              f"So much faster would a loop of {options.ranks} ranks be without the fault of one of them: by the page, and in truth.", figures)


if __name__ == "__main__":
    main()
