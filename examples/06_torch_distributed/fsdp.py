# SPDX-License-Identifier: Apache-2.0
"""FSDP2 over Rueda: of each rank a part of the parameters.

    torchrun --standalone --nproc-per-node 2 examples/06_torch_distributed/fsdp.py
"""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import rueda.torch.distributed  # noqa: F401 - not needed if Rueda is installed by pip

dist.init_process_group("rueda")  # was: "gloo"
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(8, 8, bias=False), torch.nn.Linear(8, 1))
fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
model.set_allocate_memory_from_process_group_for_comm(True)  # if you like: in memory that ranks share
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(dist.get_rank())  # each rank has its own data
for _ in range(100):
    data = torch.randn(32, 8)
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(data), data.sum(1, keepdim=True)).backward()
    optimizer.step()
weights = (model[1].weight.full_tensor() @ model[0].weight.full_tensor()).sum()
print(f"rank {dist.get_rank()}: sum of the weights {weights.item():.4f}", flush=True)
dist.destroy_process_group()
