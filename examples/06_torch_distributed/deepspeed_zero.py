# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed's ZeRO-1 over Rueda: of each rank a part of the optimizer's state.

    DS_ACCELERATOR=cpu torchrun --standalone --nproc-per-node 2 examples/06_torch_distributed/deepspeed_zero.py
"""

import deepspeed
import torch

import rueda.torch.distributed  # noqa: F401 - not needed if Rueda is installed by pip

deepspeed.init_distributed(dist_backend="rueda")
torch.manual_seed(1)
model = torch.nn.Linear(8, 1)
engine, *_ = deepspeed.initialize(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), config={
    "train_micro_batch_size_per_gpu": 32, "zero_optimization": {"stage": 1}, "zero_allow_untested_optimizer": True})
torch.manual_seed(torch.distributed.get_rank())  # each rank has its own data
for _ in range(100):
    data = torch.randn(32, 8)
    loss = torch.nn.functional.mse_loss(engine(data), data.sum(1, keepdim=True))
    engine.backward(loss)
    engine.step()
print(f"rank {torch.distributed.get_rank()}: sum of the weights {model.weight.sum().item():.4f}", flush=True)
torch.distributed.destroy_process_group()
