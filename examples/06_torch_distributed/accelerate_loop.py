# SPDX-License-Identifier: Apache-2.0
"""Accelerate over Rueda. Accelerate itself knows gloo and MPI only for tensors of the host, so the group is made before.

    torchrun --standalone --nproc-per-node 2 examples/06_torch_distributed/accelerate_loop.py
"""

import torch
from accelerate import Accelerator

import rueda.torch.distributed  # noqa: F401 - not needed if Rueda is installed by pip

torch.distributed.init_process_group("rueda")
accelerator = Accelerator(cpu=True)
torch.manual_seed(1)
model = torch.nn.Linear(8, 1)
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(6400, 8)), batch_size=32, shuffle=True)
model, optimizer, data = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), data)
for values, in data:
    optimizer.zero_grad()
    accelerator.backward(torch.nn.functional.mse_loss(model(values), values.sum(1, keepdim=True)))
    optimizer.step()
weights = accelerator.unwrap_model(model).weight
print(f"rank {accelerator.process_index}: sum of the weights {weights.sum().item():.4f}", flush=True)
torch.distributed.destroy_process_group()
