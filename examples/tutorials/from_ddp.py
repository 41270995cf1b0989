# SPDX-License-Identifier: Apache-2.0
"""docs/tutorials/from-ddp.md: a small training script after the change."""
import torch

import rueda.torch as hvd  # was: import torch.distributed

hvd.init()  # was: torch.distributed.init_process_group("gloo")
torch.manual_seed(hvd.rank())
model = hvd.DistributedDataParallel(torch.nn.Linear(8, 1))  # was: torch.nn.parallel.DistributedDataParallel
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

for step in range(50):
    inputs = torch.randn(32, 8)
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(inputs), inputs.sum(1, keepdim=True)).backward()
    optimizer.step()
print(f"rank {hvd.rank()}: sum of the weights {sum(p.sum().item() for name, p in model.named_parameters() if name.endswith('weight')):.6f}")
