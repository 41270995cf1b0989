# SPDX-License-Identifier: Apache-2.0
"""Ray Train over Rueda.

    python examples/06_torch_distributed/ray_train.py
"""

import ray.train
import torch
from ray.train.torch import TorchConfig, TorchTrainer


def train():
    torch.manual_seed(1)
    model = ray.train.torch.prepare_model(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rank = ray.train.get_context().get_world_rank()
    torch.manual_seed(rank)  # each rank has its own data
    for _ in range(100):
        data = torch.randn(32, 8)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(data), data.sum(1, keepdim=True)).backward()
        optimizer.step()
    ray.train.report({"sum": model.module.weight.sum().item()})
    print(f"rank {rank}: sum of the weights {model.module.weight.sum().item():.4f}", flush=True)


def use_rueda():
    import rueda.torch.distributed  # noqa: F401 - in each worker; not needed if Rueda is installed by pip


ray.init(num_cpus=2, include_dashboard=False, runtime_env={"worker_process_setup_hook": use_rueda})
TorchTrainer(train, torch_config=TorchConfig(backend="rueda"), scaling_config=ray.train.ScalingConfig(num_workers=2)).fit()
