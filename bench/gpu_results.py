#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Keeps the results of build/gpu-bundle/check, and writes docs/gpu.md from all that are kept.

gpu_results.py gpu-check.jsonl    keeps the file as bench/results/gpu/DATE-CARD.json, and writes the page
gpu_results.py                    writes the page
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LONGEST = 1 << 22  # bytes of a file of results
HEAD = """# On GPUs

`bench/gpu_results.py` writes this page from `bench/results/gpu`. [The bundle](../tests/gpu/README.md) measures.
"""


class Unusable(Exception):
    """Why a file is no result of a check on a device."""


def read(path: Path) -> list[dict[str, Any]]:
    """The lines of a check."""
    if path.stat().st_size > LONGEST:
        raise Unusable(f"{path} is longer than {LONGEST} bytes; it is no file of check")
    try:
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise Unusable(f"{path} has no lines of JSON: {error}; give the file that check has written") from None
    if not all(isinstance(line, dict) for line in lines):
        raise Unusable(f"{path} has lines that are no objects; give the file that check has written")
    return lines


def summary(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """{"date", "device", "about", "steps", "figures"} of a check on a device. Raises Unusable where there was none."""
    facts: dict[str, Any] = {}
    for line in lines:
        facts |= line.get("about", {})
    if "device" not in facts:
        raise Unusable(f"the check has found no device ({facts.get('no_device', 'it was cut off before')}); run it on a machine with one")
    date = next(line["time"] for line in lines if "about" in line)[:10]
    return {"date": date, "device": facts["device"], "about": facts, "steps": [line for line in lines if "outcome" in line], "figures": [line for line in lines if "figure" in line]}


def name_of(result: dict[str, Any]) -> str:
    gpu = result["device"].split(",")[0]
    return f"{result['date']}-{re.sub(r'[^A-Za-z0-9]+', '-', gpu).strip('-')}"


def section(result: dict[str, Any]) -> str:
    """What was measured on one GPU: steps, then figures beside their bound or peer."""
    lines = [f"## {result['device'].split(',')[0]}, {result['date']}", "", f"torch {result['about'].get('torch', '?')}; {result['device']}", ""]
    outcomes = [f"{step['step']} {step['outcome']}" + (f" ({step['why']})" if step["why"] else "") for step in result["steps"]]
    lines += ["Steps: " + "; ".join(outcomes) + ".", "", "| figure | value | beside | goal |", "|---|---|---|---|"]
    for figure in result["figures"]:
        beside = f"{figure['beside']['name']} {figure['beside']['value']:.4g}" if figure["beside"] else ""
        goal = f"{figure['goal']}: {'met' if figure['met'] else 'missed'}" if figure["goal"] else ""
        lines.append(f"| {figure['figure']} | {figure['value']:.4g} {figure['unit']} | {beside} | {goal} |")
    return "\n".join(lines) + "\n"


def page(folder: Path) -> str:
    """All results, the newest first."""
    results = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"), reverse=True)]
    return "\n".join([HEAD, *(section(result) for result in results)] if results else [HEAD, "No GPU has been measured yet.\n"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="?", type=Path, help="the file that check has written")
    parser.add_argument("--folder", type=Path, default=ROOT / "bench/results/gpu", help="where results are kept")
    parser.add_argument("--page", type=Path, default=ROOT / "docs/gpu.md", help="the page to write")
    arguments = parser.parse_args()
    try:
        if arguments.results:
            result = summary(read(arguments.results))
            arguments.folder.mkdir(parents=True, exist_ok=True)
            kept = arguments.folder / f"{name_of(result)}.json"
            kept.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
            print(f"kept as {kept}")
        arguments.page.write_text(page(arguments.folder), encoding="utf-8")
    except (Unusable, OSError) as error:
        print(f"gpu_results.py: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
