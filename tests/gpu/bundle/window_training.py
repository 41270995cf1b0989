# SPDX-License-Identifier: Apache-2.0
"""window_training.py [DEVICE]: on each rank of a job, a training step whose gradients have slots in a device window beside the same without, in
alternation. Rank 0 prints "WINDOW_US PLAIN_US DIFFERENCE"; the last is the largest of the parameters in the end."""

from __future__ import annotations

import statistics
import sys
import time

import torch

import rueda.torch as hvd

STEPS, SETTLE = 40, 5
WIDTH, LAYERS = 1024, 8  # 32 MiB of gradients


class Training:
    def __init__(self, device: torch.device, window: bool) -> None:
        torch.manual_seed(0)
        self.model = torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))).to(device)
        self.optimizer = hvd.DistributedOptimizer(torch.optim.SGD(self.model.parameters(), lr=0.1), named_parameters=[
            (f"{'window' if window else 'plain'}.{name}", parameter) for name, parameter in self.model.named_parameters()], device_window=window)
        self.times: list[float] = []

    def step(self, rows: torch.Tensor) -> None:
        finish(rows.device)
        began = time.perf_counter()
        self.optimizer.zero_grad(set_to_none=False)
        self.model(rows).square().mean().backward()
        self.optimizer.step()
        finish(rows.device)
        self.times.append(1e6 * (time.perf_counter() - began))


def finish(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def main() -> None:
    hvd.init()
    device = torch.device(sys.argv[1] if len(sys.argv) > 1 else "cuda:0")  # the ranks share it
    if device.type == "cuda":
        torch.cuda.set_device(device)
    both = [Training(device, window) for window in (True, False)]
    torch.manual_seed(1 + hvd.rank())
    for _ in range(STEPS):
        rows = torch.randn(16, WIDTH, device=device)
        for each in both:
            each.step(rows)
    apart = max(float((a - b).detach().abs().max()) for a, b in zip(both[0].model.parameters(), both[1].model.parameters(), strict=True))
    if hvd.rank() == 0:
        print(*(f"{statistics.median(each.times[SETTLE:]):.2f}" for each in both), f"{apart:.3g}", flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
