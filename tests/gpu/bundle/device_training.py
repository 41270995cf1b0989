# SPDX-License-Identifier: Apache-2.0
"""On each rank of a job: SyncBatchNorm, a captured step and an optimizer on the device give what they give on the host. Ranks share the GPU."""

from __future__ import annotations

import torch

import rueda.torch as hvd


def trained(device: str) -> list[torch.Tensor]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), hvd.SyncBatchNorm(32), torch.nn.ReLU(), torch.nn.Linear(32, 4)).to(device, torch.float64)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    torch.manual_seed(1 + hvd.rank())
    for _ in range(5):
        rows, wanted = torch.randn(8, 16, dtype=torch.float64).to(device), torch.randn(8, 4, dtype=torch.float64).to(device)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(rows), wanted).backward()
        optimizer.step()
    return [value.detach().cpu() for value in model.state_dict().values()]


def main() -> None:
    hvd.init()
    torch.cuda.set_device(0)
    apart = max(float((a.double() - b.double()).abs().max()) for a, b in zip(trained("cpu"), trained("cuda"), strict=True))
    print(f"apart {apart:.3g}")
    assert apart < 1e-9, apart
    values = torch.full((1000,), float(hvd.rank()), device="cuda")
    summed = hvd.allreduce(values, op=hvd.Sum)
    assert summed.is_cuda and bool((summed == sum(range(hvd.size()))).all())
    for kind in (torch.float16, torch.bfloat16, torch.int32, torch.uint8):
        gathered = hvd.allgather(torch.full((2, 3), hvd.rank(), dtype=kind, device="cuda"))
        assert gathered.shape == (2 * hvd.size(), 3) and bool((gathered[-1] == hvd.size() - 1).all()), kind
    if hvd.size() == 1:
        buffer = torch.ones(1 << 20, device="cuda")

        def step() -> torch.Tensor:
            hvd.allreduce_(buffer, op=hvd.Sum, name="captured")
            return buffer.mul_(2)

        captured = hvd.capture(step)
        before = float(buffer[0])
        captured()
        torch.cuda.synchronize()
        assert float(buffer[0]) == 2 * before, (before, float(buffer[0]))
        print("captured")
    hvd.shutdown()


if __name__ == "__main__":
    main()
