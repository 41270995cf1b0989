# SPDX-License-Identifier: Apache-2.0
"""torchft_steps.py PARAMETERS REPLICA: the training of bench/elastic_steps.py with torchft over gloo, one replica of it. TORCHFT_LIGHTHOUSE names the lighthouse. It
goes on until it is killed, and prints its process, and each step with the time."""

import os
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torchft

PARAMETERS, REPLICA = int(sys.argv[1]), sys.argv[2]


def tell(event: str, *more: object) -> None:
    line = " ".join(map(str, ["event", event, REPLICA, f"{time.time():.6f}", *more]))
    os.write(1, f"{line}\n".encode())  # at once: this process may be killed


class Product(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.others = torch.nn.Parameter(torch.zeros(PARAMETERS))

    def forward(self, coefficients: torch.Tensor) -> torch.Tensor:
        return (self.others * coefficients).sum()


def load(state: dict) -> None:
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])


tell("process", os.getpid())
coefficients = torch.rand(PARAMETERS)
model = Product()
optimizer = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.9)
store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
manager = torchft.Manager(
    pg=torchft.ProcessGroupGloo(timeout=timedelta(seconds=10)), load_state_dict=load,
    state_dict=lambda: {"model": model.state_dict(), "optimizer": optimizer.state_dict()},
    min_replica_size=1, replica_id=f"replica_{REPLICA}_", store_addr="127.0.0.1", store_port=store.port, rank=0, world_size=1,
    hostname="127.0.0.1", timeout=timedelta(seconds=10))
wrapped = torchft.DistributedDataParallel(manager, model)
managed = torchft.Optimizer(manager, optimizer)
while True:
    managed.zero_grad()
    wrapped(coefficients).backward()
    before = manager.current_step()
    managed.step()
    if manager.current_step() > before:
        tell("step", os.getpid(), manager.num_participants())
