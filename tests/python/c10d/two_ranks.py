# SPDX-License-Identifier: Apache-2.0
"""Programs of two ranks. Each function is one: run_under_both.py calls it with a group of each backend, and compares what it returns."""

import threading

import torch
import torch.distributed as dist
from torch._dynamo.utils import counters
from torch._inductor.cpp_builder import get_cpp_compiler
from torch._inductor.exc import InvalidCxxCompiler
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint


class _Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(2)
        self.first, self.left, self.right = (torch.nn.Linear(8, 8) for _ in range(3))

    def forward(self, values, use=("left", "right")):
        values = self.first(values).relu()
        for name in use:
            values = checkpoint(getattr(self, name), values, use_reentrant=False)
        return values


def _numbers(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _wrapped(**options):
    model = DistributedDataParallel(_Network(), bucket_cap_mb=0.0002, **options)  # several buckets
    return model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def _backward(model, seed, **more):
    model(_numbers(seed, 6, 8), **more).square().mean().backward()


def no_sync(rank, folder):
    values = []
    for views in (False, True):
        model, optimizer = _wrapped(gradient_as_bucket_view=views)
        for step in range(4):
            with model.no_sync():
                _backward(model, 4 * step + rank)
            if step % 2 == 0:
                _backward(model, 4 * step + 2 + rank)
                optimizer.step()
                optimizer.zero_grad()
        values += model.parameters()
    return values


def static_graph(rank, folder):
    """A layer that is called twice, and one that is never called."""
    model, optimizer = _wrapped(static_graph=True)
    for step in range(4):
        optimizer.zero_grad()
        _backward(model, 2 * step + rank, use=("left", "left"))
        optimizer.step()
    return list(model.parameters())


def unused_parameters(rank, folder):
    """Each step and each rank uses other layers."""
    model, optimizer = _wrapped(find_unused_parameters=True)
    for step in range(6):
        optimizer.zero_grad(set_to_none=False)
        _backward(model, 2 * step + rank, use=[(), ("left",), ("right",), ("right", "left")][(step + rank * (step // 2)) % 4])
        optimizer.step()
    return list(model.parameters())


def join(rank, folder):
    """One rank has more data than the other."""
    model, optimizer = _wrapped()
    with model.join():
        for step in range(3 + 3 * rank):
            optimizer.zero_grad()
            _backward(model, 2 * step + rank)
            optimizer.step()
    return list(model.parameters())


def sparse_gradients(rank, folder):
    """Of an embedding. One rank has rows that the other has not, and more of them."""
    torch.manual_seed(3)
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Embedding(50, 4, sparse=True), torch.nn.Linear(4, 2)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for step in range(3):
        optimizer.zero_grad()
        words = torch.tensor([[1, 2, 2, 7], list(range(5 + step, 25, 2))][rank])
        model(words).square().sum().backward()
        assert model.module[0].weight.grad.is_sparse
        optimizer.step()
    return [*model.parameters(), model.module[0].weight.grad.to_dense()]


def detail_of_debugging(rank, folder):
    """With TORCH_DISTRIBUTED_DEBUG=DETAIL torch compares the calls of all ranks before each operation."""
    level = dist.get_debug_level()
    dist.set_debug_level(dist.DebugLevel.DETAIL)
    try:
        group = dist.new_group()
        tensor = _numbers(rank, 3)
        dist.all_reduce(tensor, group=group)
        # torch 2.11 crashes in DistributedDataParallel over such a group of gloo.
        model, optimizer = _wrapped(process_group=dist.group.WORLD if dist.get_backend() == "gloo" else group)
        _backward(model, rank)
        optimizer.step()
        words = ""
        try:
            dist.all_reduce(torch.ones(2 + rank), group=group)
        except RuntimeError as error:
            words = str(error)
        assert "Detected mismatch between collectives on ranks" in words, words
        after = _numbers(10 + rank, 3)
        dist.broadcast(after, 1, group=group)
    finally:
        dist.set_debug_level(level)
    return [tensor, after, *model.parameters()]


def threads_with_groups_of_their_own(rank, folder):
    results = {}

    def work(name, group):
        tensor = _numbers(rank, 40)
        for step in range(200):
            dist.all_reduce(tensor, group=group)
            tensor /= 2 + name
            if step % 50 == name:
                dist.broadcast(tensor, name, group=group)
        results[name] = tensor

    groups = [dist.new_group() for _ in range(2)]
    threads = [threading.Thread(target=work, args=each) for each in enumerate(groups)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [results[0], results[1]]


def compiled(rank, folder):
    try:
        get_cpp_compiler()
    except InvalidCxxCompiler:
        return "torch.compile finds no C++ compiler"

    @torch.compile(fullgraph=True)
    def step(values):
        total = values.sin()
        dist.all_reduce(total)
        gathered = total.new_empty(2 * total.numel())
        dist.all_gather_into_tensor(gathered, total * values)
        return gathered.cos() + 1

    torch._dynamo.reset()
    counters.clear()
    values = [step(_numbers(seed + rank, 12)) for seed in range(0, 6, 2)]
    assert counters["stats"]["unique_graphs"] == 1, counters
    return values
