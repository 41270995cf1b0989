# SPDX-License-Identifier: Apache-2.0
"""device_groups.py [DEVICE]: on each rank of a job, torch.distributed over Rueda gives on the device [cuda:0] what it gives on the host. Ranks share
the GPU."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import rueda.torch.distributed

Tensors = list[torch.Tensor]


def of_rank(device: torch.device, *shape: int, kind: torch.dtype = torch.float32) -> torch.Tensor:
    count = int(torch.tensor(shape).prod())
    return (torch.arange(count) % 7 + 3 * dist.get_rank() + 1).reshape(shape).to(kind).to(device)


def reductions(device: torch.device) -> Tensors:
    tensors = []
    for kind, op in ((torch.float32, dist.ReduceOp.SUM), (torch.float64, dist.ReduceOp.AVG), (torch.bfloat16, dist.ReduceOp.MAX), (torch.int16, dist.ReduceOp.BXOR),
                     (torch.uint16, dist.ReduceOp.MIN), (torch.complex64, dist.ReduceOp.SUM)):
        values = of_rank(device, 5, 4, kind=kind)
        dist.all_reduce(values, op)
        tensors.append(values)
    strided = of_rank(device, 5, 4).t()
    dist.all_reduce(strided)
    dist.reduce(root := of_rank(device, 6), 0)
    part = torch.zeros(2, 3, device=device)
    dist.reduce_scatter_tensor(part, of_rank(device, 2 * dist.get_world_size(), 3))
    return [*tensors, strided, root, part]


def movements(device: torch.device) -> Tensors:
    rank, size = dist.get_rank(), dist.get_world_size()
    lists = [torch.zeros(3, 2, device=device) for _ in range(size)]
    dist.all_gather(lists, of_rank(device, 3, 2))
    whole = torch.zeros(size * 4, device=device)
    whole[4 * rank:4 * rank + 4] = of_rank(device, 4)
    dist.all_gather_into_tensor(whole, whole[4 * rank:4 * rank + 4])
    dist.broadcast(given := of_rank(device, 4, 3).t(), size - 1)
    splits = [1 + (rank + other) % 3 for other in range(size)]
    rows = torch.zeros(sum(splits), 2, device=device)
    dist.all_to_all_single(rows, of_rank(device, sum(splits), 2), splits, splits)
    gathered = [torch.zeros(2, device=device) for _ in range(size)] if rank == 0 else []
    dist.gather(of_rank(device, 2), gathered or None, 0)
    dist.scatter(scattered := torch.zeros(2, device=device), [torch.full((2,), float(other), device=device) for other in range(size)] if rank == 0 else None, 0)
    return [*lists, whole, given, rows, *gathered, scattered, *messages(device)]


def messages(device: torch.device) -> Tensors:
    rank, size = dist.get_rank(), dist.get_world_size()
    if size == 1:
        return []
    received = torch.zeros(7, device=device)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, of_rank(device, 7), (rank + 1) % size), dist.P2POp(dist.irecv, received, (rank - 1) % size)]):
        work.wait()
    return [received]


def model_on(device: torch.device) -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 4)).to(device, torch.float64)


def trained(model: torch.nn.Module, device: torch.device) -> list[float]:
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), []
    torch.manual_seed(1 + dist.get_rank())
    for _ in range(6):
        rows, wanted = torch.randn(8, 16, dtype=torch.float64).to(device), torch.randn(8, 4, dtype=torch.float64).to(device)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(rows), wanted)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def replicated(device: torch.device) -> Tensors:
    return [torch.tensor(trained(DistributedDataParallel(model_on(device), bucket_cap_mb=0.002), device))]


def sharded(device: torch.device) -> Tensors:
    mesh = dist.init_device_mesh(device.type, (dist.get_world_size(),))
    model = model_on(device)
    for layer in model:
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer, mesh=mesh)
    return [torch.tensor(trained(fully_shard(model, mesh=mesh), device))]


def objects(device: torch.device) -> Tensors:
    rank, size = dist.get_rank(), dist.get_world_size()
    given = [{"rank": 5}] if rank == 0 else [None]
    dist.broadcast_object_list(given, 0, device=device)
    everyone: list[object] = [None] * size
    dist.all_gather_object(everyone, rank)
    assert given == [{"rank": 5}] and everyone == list(range(size)), (given, everyone)
    return []


def kept_memory(device: torch.device) -> Tensors:
    """Memory of tensors that nobody holds any more becomes others' only when the device is through with it."""
    works, sums = [], []
    for step in range(50):
        values = torch.full((1 << 16,), float(step), device=device)
        lists = [torch.empty_like(values) for _ in range(dist.get_world_size())]
        works.append(dist.all_gather(lists, values, async_op=True))
        sums.append(lists[-1])
        del values, lists
        torch.full((1 << 16,), -1.0, device=device)
    for work in works:
        work.wait()
    return [torch.stack([each.min() for each in sums]), torch.stack([each.max() for each in sums])]


def streams(device: torch.device) -> None:
    """work.wait() makes the current stream wait, not the host; a Future's callback runs behind the result; a barrier keeps the host."""
    size, long = dist.get_world_size(), 1_000_000_000
    values = torch.zeros(1 << 20, device=device)
    torch.cuda.synchronize()
    torch.cuda._sleep(long)
    values += 1
    work = dist.all_reduce(values, async_op=True)
    future = dist.all_reduce(torch.ones(4, device=device), async_op=True).get_future().then(lambda reduced: reduced.value()[0] * 2)
    other = torch.cuda.Stream()
    with torch.cuda.stream(other):
        work.wait()
        twice = values * 2
    if size == 1:
        assert not work.is_completed(), "the host has waited for the device"
    assert float(future.wait()[3]) == 2.0 * size
    other.synchronize()
    assert work.is_completed() and float(twice[-1]) == 2.0 * size, twice[-1]
    torch.cuda._sleep(long)
    ended = torch.cuda.Event()
    ended.record()
    dist.barrier(device_ids=[device.index])
    assert ended.query(), "a barrier has not waited for the device"


def main() -> None:
    device = torch.device(sys.argv[1] if len(sys.argv) > 1 else "cuda:0")
    dist.init_process_group("rueda", timeout=datetime.timedelta(seconds=60))
    if device.type == "cuda":
        torch.cuda.set_device(device)
    parts: list[Callable[[torch.device], Tensors]] = [reductions, movements, replicated, sharded, objects, kept_memory]
    for part in parts:
        found, wanted = part(device), part(torch.device("cpu"))
        for one, other in zip(found, wanted, strict=True):
            torch.testing.assert_close(one.cpu(), other, rtol=1e-9, atol=1e-12, msg=lambda words, part=part: f"{part.__name__}: {words}")
    if device.type == "cuda":
        streams(device)
    dist.barrier()
    print(f"rank {dist.get_rank()} of {dist.get_world_size()}: as on the host", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
