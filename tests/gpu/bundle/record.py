# SPDX-License-Identifier: Apache-2.0
"""The results of a check: lines of JSON while it runs, a table at its end."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any


class Record:
    """Results of steps, each written to a file when it is known, so that a check that is cut off has told what it found."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8")
        self._steps: list[dict[str, Any]] = []
        self._figures: list[dict[str, Any]] = []

    def _write(self, line: dict[str, Any]) -> None:
        print(json.dumps(line), file=self._file, flush=True)

    def about(self, **facts: Any) -> None:
        """Facts on the machine and the programs."""
        self._write({"about": facts, "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())})

    def figure(self, step: str, name: str, value: float, unit: str, *, beside: tuple[str, float] | None = None, goal: str = "", met: bool | None = None) -> None:
        """One number; beside it its bound or a peer of the same run, and whether a goal in words is met."""
        line = {"step": step, "figure": name, "value": value, "unit": unit, "beside": beside and {"name": beside[0], "value": beside[1]}, "goal": goal, "met": met}
        self._figures.append(line)
        self._write(line)

    def step(self, name: str, outcome: str, seconds: float, why: str = "") -> None:
        """How a step ended: passed, failed, cut off or left out."""
        line = {"step": name, "outcome": outcome, "seconds": round(seconds, 1), "why": why}
        self._steps.append(line)
        self._write(line)

    def failed(self) -> bool:
        return any(step["outcome"] in ("failed", "cut off") for step in self._steps)

    def missed(self) -> int:
        """Goals that are not met."""
        return sum(figure["met"] is False for figure in self._figures)

    def table(self) -> str:
        """Of all steps, with their figures below each."""
        lines = []
        for step in self._steps:
            lines.append(f"{step['step']:<24} {step['outcome']:<9} {step['seconds']:7.1f} s  {step['why']}".rstrip())
            for figure in self._figures:
                if figure["step"] != step["step"]:
                    continue
                beside = f"   {figure['beside']['name']} {figure['beside']['value']:.6g}" if figure["beside"] else ""
                goal = f"   goal {figure['goal']}: {'met' if figure['met'] else 'MISSED'}" if figure["goal"] else ""
                lines.append(f"    {figure['figure']:<44} {figure['value']:>12.6g} {figure['unit']}{beside}{goal}")
        return "\n".join(lines)
