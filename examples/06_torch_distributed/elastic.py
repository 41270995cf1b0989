# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel over Rueda that goes on after a failure: torchrun starts all ranks again, and they load the last checkpoint.

    torchrun --standalone --nproc-per-node 2 --max-restarts 3 examples/06_torch_distributed/elastic.py checkpoint.pt [STEPS]

On several hosts the checkpoint must be on a file system that they share.
"""

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import rueda.torch.distributed  # noqa: F401 - not needed if Rueda is installed by pip

EVERY = 100  # steps from checkpoint to checkpoint
checkpoint, steps = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 300

dist.init_process_group("rueda")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(1)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
begin = 0
if checkpoint.exists():
    state = torch.load(checkpoint)
    begin = state["step"]
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
print(f"rank {rank}: begins at step {begin}", flush=True)

replica = DistributedDataParallel(model)
for step in range(begin, steps):
    generator = torch.Generator().manual_seed(step * size + rank)  # a step has the same data in each life
    data = torch.randn(32, 8, generator=generator)
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(replica(data), data.sum(1, keepdim=True)).backward()
    optimizer.step()
    if rank == 0 and (step + 1) % EVERY == 0:
        whole = {"step": step + 1, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(whole, f"{checkpoint}.new")
        os.replace(f"{checkpoint}.new", checkpoint)  # a failure now leaves the old one or the new one
        print(f"saved step {step + 1}", flush=True)
print(f"rank {rank}: sum of the weights {model.weight.sum().item():.4f}", flush=True)
dist.destroy_process_group()
