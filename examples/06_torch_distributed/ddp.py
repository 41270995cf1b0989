# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel over Rueda.

    torchrun --standalone --nproc-per-node 2 examples/06_torch_distributed/ddp.py
"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import rueda.torch.distributed

dist.init_process_group("rueda")  # was: "gloo"
torch.manual_seed(1)
model = DistributedDataParallel(torch.nn.Linear(8, 1))
rueda.torch.distributed.share_buckets(model)  # if you like: gradients are reduced where they lie
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(dist.get_rank())  # each rank has its own data
for _ in range(100):
    data = torch.randn(32, 8)
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(data), data.sum(1, keepdim=True)).backward()
    optimizer.step()
print(f"rank {dist.get_rank()}: sum of the weights {model.module.weight.sum().item():.4f}", flush=True)
dist.destroy_process_group()
