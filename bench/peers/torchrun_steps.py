# SPDX-License-Identifier: Apache-2.0
"""torchrun_steps.py PARAMETERS: the training of bench/elastic_steps.py with DistributedDataParallel over gloo, under torchrun. It goes on until it is killed.
Each rank prints its process, and each step with the time."""

import os
import sys
import time

import torch
import torch.distributed as dist

PARAMETERS = int(sys.argv[1])
RANK = os.environ["RANK"]


def tell(event: str, *more: object) -> None:
    line = " ".join(map(str, ["event", event, RANK, f"{time.time():.6f}", *more]))
    os.write(1, f"{line}\n".encode())  # at once: this process may be killed


class Product(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.others = torch.nn.Parameter(torch.zeros(PARAMETERS))

    def forward(self, coefficients: torch.Tensor) -> torch.Tensor:
        return (self.others * coefficients).sum()


tell("process", os.getpid())
dist.init_process_group("gloo")
coefficients = torch.rand(PARAMETERS)
model = torch.nn.parallel.DistributedDataParallel(Product())
optimizer = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.9)
while True:
    optimizer.zero_grad()
    model(coefficients).backward()
    optimizer.step()
    tell("step", os.getpid(), dist.get_world_size())
