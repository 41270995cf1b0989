# SPDX-License-Identifier: Apache-2.0
"""docs/tutorials/from-horovod.md: a small training script after the change."""
import torch

import rueda.torch as hvd  # was: import horovod.torch as hvd

hvd.init()
torch.manual_seed(hvd.rank())
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05 * hvd.size())
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)

for step in range(50):
    inputs = torch.randn(32, 8)
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(inputs), inputs.sum(1, keepdim=True)).backward()
    optimizer.step()
print(f"rank {hvd.rank()}: sum of the weights {sum(p.sum().item() for name, p in model.named_parameters() if name.endswith('weight')):.6f}")
