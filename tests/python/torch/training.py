# SPDX-License-Identifier: Apache-2.0
"""A small model, its batches, and what it becomes in one process: what tests of optimizers share."""

import torch

import rueda.torch as hvd

ROWS = 4  # of a rank


def model_of(seed=0, dtype=torch.float64):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3)).to(dtype)


def batch(step, ranks, dtype=torch.float64):
    """The rows of those ranks."""
    generator = torch.Generator().manual_seed(100 + step)
    rows = torch.randn(hvd.size() * ROWS, 6, generator=generator, dtype=torch.float64).to(dtype)
    return torch.cat([rows[rank * ROWS:(rank + 1) * ROWS] for rank in ranks])


def loss_of(model, rows):
    return (model(rows) ** 2).mean()


def reference(make, steps, passes=1, dtype=torch.float64):
    model = model_of(dtype=dtype)
    optimizer = make(model.parameters())
    for step in range(steps):
        optimizer.zero_grad()
        for each in range(passes):
            (loss_of(model, batch(step * passes + each, range(hvd.size()), dtype))).backward()
        optimizer.step()
    return model


def same(model, other, atol=1e-9):
    for mine, theirs in zip(model.parameters(), other.parameters()):
        assert torch.allclose(mine, theirs, rtol=0, atol=atol), (mine - theirs).abs().max()


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


OPTIMIZERS = {"SGD": sgd, "Adam": lambda p: torch.optim.Adam(p, lr=0.01), "AdamW": lambda p: torch.optim.AdamW(p, lr=0.01),
              "RMSprop": lambda p: torch.optim.RMSprop(p, lr=0.01), "Adagrad": lambda p: torch.optim.Adagrad(p, lr=0.01),
              "RAdam": lambda p: torch.optim.RAdam(p, lr=0.01)}


def trained(rank, make=sgd, steps=5, passes=1, dtype=torch.float64, **options):
    model = model_of(seed=rank, dtype=dtype)
    optimizer = hvd.DistributedOptimizer(make(model.parameters()), named_parameters=model.named_parameters(),
                                         backward_passes_per_step=passes, **options)
    hvd.broadcast_parameters(model_of(dtype=dtype).state_dict() if rank == 0 else model.state_dict(), root_rank=0)
    if rank == 0:
        model.load_state_dict(model_of(dtype=dtype).state_dict())
    for step in range(steps):
        optimizer.zero_grad()
        for each in range(passes):
            loss_of(model, batch(step * passes + each, [rank], dtype)).backward()
        optimizer.step()
    return model, optimizer


class Doubles(hvd.Compression.none):
    @staticmethod
    def compress(tensor):
        return tensor * 2, tensor.dtype

    @staticmethod
    def decompress(tensor, ctx):
        return (tensor / 2).to(ctx)


class Fails(torch.autograd.Function):
    """What is before it gets no gradient."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        raise KeyError("no memory today")
