# SPDX-License-Identifier: Apache-2.0
"""Compression.powersgd: gradients that travel as two factors, given by Python; what they become is tested in C++."""

import pytest
import torch
from training import sgd

import rueda.torch as hvd


def model_of():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(30, 40), torch.nn.Tanh(), torch.nn.Linear(40, 20))


def rows_of(step, rank):
    return torch.randn(16, 30, generator=torch.Generator().manual_seed(100 * step + rank))


def target_of(rows):
    return torch.sin(rows[:, :20] + rows[:, 10:])


def train(model, optimizer, rank, steps=80):
    for step in range(steps):
        optimizer.zero_grad()
        rows = rows_of(step, rank)
        torch.nn.functional.mse_loss(model(rows), target_of(rows)).backward()
        optimizer.step()


def loss_of(model):
    with torch.no_grad():
        return sum(torch.nn.functional.mse_loss(model(rows_of(1000 + i, 0)), target_of(rows_of(1000 + i, 0))).item() for i in range(8)) / 8


@pytest.mark.parametrize("compression", [hvd.Compression.powersgd(rank=2), hvd.Compression.powersgd,
                                         hvd.Compression.powersgd(3, factors=hvd.Compression.bf16)], ids=["2", "class", "bf16"])
def test_trains_nearly_as_the_whole_does(compression, rank):
    losses = {}
    for name, chosen in (("whole", hvd.Compression.none), ("factors", compression)):
        model = model_of()
        before = loss_of(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
        train(model, hvd.DistributedOptimizer(optimizer, model.named_parameters(), compression=chosen), rank)
        losses[name] = loss_of(model)
        everywhere = hvd.allgather_object([each.sum().item() for each in model.parameters()])
        assert all(each == everywhere[0] for each in everywhere)
    assert losses["whole"] < 0.7 * before
    assert losses["factors"] < losses["whole"] + 0.1 * (before - losses["whole"])


def test_a_parameter_left_out_travels_whole(rank, size):
    if size == 1:
        pytest.skip("needs ranks that differ")
    first, other = (torch.nn.Parameter(torch.zeros(30, 40)) for _ in range(2))
    optimizer = hvd.DistributedOptimizer(sgd([first, other]), compression=hvd.Compression.powersgd(2, without=[other]))
    values = [torch.randn(30, 40, generator=torch.Generator().manual_seed(each)) for each in range(size)]
    ((first + other) * values[rank]).sum().backward()
    mean = sum(values) / size
    assert torch.allclose(other.grad, mean, atol=1e-6) and not torch.allclose(first.grad, mean, atol=0.1)
    assert torch.linalg.matrix_rank(first.grad, rtol=1e-4) == 2
    optimizer.step()


def test_distributed_data_parallel(rank, size):
    model = hvd.DistributedDataParallel(torch.nn.Linear(30, 40), compression=hvd.Compression.powersgd(2))
    model(rows_of(0, rank)).square().sum().backward()
    gradient = model.module.weight.grad
    assert torch.linalg.matrix_rank(gradient, rtol=1e-4) == 2
    assert all(torch.equal(each, gradient) for each in hvd.allgather_object(gradient))


def test_inside_of_autocast(rank):
    weight = torch.nn.Parameter(torch.zeros(30, 40))
    optimizer = hvd.DistributedOptimizer(sgd([weight]), compression=hvd.Compression.powersgd(2), synchronize_in_backward=False)
    thin = torch.randn(30, 2, generator=torch.Generator().manual_seed(1)) @ torch.randn(2, 40, generator=torch.Generator().manual_seed(2))
    with torch.autocast("cpu", torch.bfloat16):
        (weight * thin).sum().backward()
        optimizer.synchronize()
    assert torch.allclose(weight.grad, thin, atol=1e-4)
    optimizer.step()


def test_misuse(rank, size):
    for wrong in (0, -1, 2.0, True):
        with pytest.raises(ValueError, match=f"powersgd: rank is {wrong}; it must be a whole number"):
            hvd.Compression.powersgd(rank=wrong)
    with pytest.raises(ValueError, match="none, fp16 or bf16"):
        hvd.Compression.powersgd(factors=hvd.Compression.powersgd)
    with pytest.raises(ValueError, match="is of the gradients of a DistributedOptimizer"):
        hvd.allreduce(torch.ones(3), compression=hvd.Compression.powersgd(2))
    weight = torch.nn.Parameter(torch.ones(30, 40))
    with pytest.raises(ValueError, match="cannot be together with groups"):
        hvd.DistributedOptimizer(sgd([weight]), num_groups=1, compression=hvd.Compression.powersgd(2))
    with pytest.raises(ValueError, match="low_rank.without has a tensor that is no parameter"):
        hvd.DistributedOptimizer(sgd([weight]), compression=hvd.Compression.powersgd(2, without=[torch.ones(2)]))
    if size > 1:
        with pytest.raises(hvd.HorovodInternalError, match=r"low_rank 1.*low_rank 2"):
            hvd.DistributedOptimizer(sgd([weight]), compression=hvd.Compression.powersgd(1 + (rank > 0)))
