# SPDX-License-Identifier: Apache-2.0
"""On each rank of a job: an allreduce in a captured graph beside the same as it is, in alternation. Rank 0 prints "BYTES CAPTURED_US PLAIN_US".
Both sum the same tensor, whose value tells how often that has happened."""

from __future__ import annotations

import math
import statistics

import torch

import rueda.torch as hvd

STEPS = 50


def microseconds(act: object) -> float:
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    act()  # type: ignore[operator]
    end.record()
    end.synchronize()
    return 1000 * begin.elapsed_time(end)


def main() -> None:
    hvd.init()
    torch.cuda.set_device(0)  # the ranks share it
    for elements in (1, 1 << 10, 1 << 18, 1 << 22, 1 << 26):
        values = torch.ones(elements, device="cuda")

        def plain(values: torch.Tensor = values, name: str = f"plain.{elements}") -> None:
            hvd.allreduce_(values, op=hvd.Sum, name=name)

        def inside(values: torch.Tensor = values, name: str = f"captured.{elements}") -> None:
            hvd.allreduce_(values, op=hvd.Sum, name=name)

        captured = hvd.capture(inside)
        before = float(values[0])
        times: dict[str, list[float]] = {"captured": [], "plain": []}
        for step in range(STEPS):
            for kind, act in (("captured", captured), ("plain", plain)):
                took = microseconds(act)
                if step >= 5:
                    times[kind].append(took)
        wanted = before * math.prod([hvd.size()] * 2 * STEPS)
        assert bool((values == wanted).all()), f"{4 * elements} bytes: {float(values[0])} where {wanted} is right"
        if hvd.rank() == 0:
            print(4 * elements, *(f"{statistics.median(times[kind]):.2f}" for kind in ("captured", "plain")), flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
