# SPDX-License-Identifier: Apache-2.0
"""Backward passes of a DistributedOptimizer: several in a step, of several optimizers, inside of others, and those that fail."""

import pytest
import torch
from training import Doubles, Fails, batch, loss_of, model_of, sgd

import rueda.torch as hvd


def test_two_optimizers_of_one_backward_pass_of_which_a_rank_needs_one(rank):
    head, trunk = torch.nn.Linear(3, 1), torch.nn.Linear(2, 3)
    optimizers = [hvd.DistributedOptimizer(torch.optim.SGD(each.parameters(), lr=0.1)) for each in (head, trunk)]
    hidden = trunk(torch.ones(1, 2))
    (head(hidden).sum() if rank == 0 else hidden.sum()).backward()
    for optimizer in optimizers:
        optimizer.step()


def test_a_reduction_between_backward_and_step_where_a_rank_has_no_pass(rank, size):
    parameter = torch.nn.Parameter(torch.ones(1))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=1.0), synchronize_in_backward=False)
    if rank == 0:
        parameter.sum().backward()
    assert hvd.allreduce(torch.ones(1), name="loss", op=hvd.Sum).item() == size
    optimizer.step()
    assert abs(parameter.item() - (1 - 1 / size)) < 1e-6


@pytest.mark.parametrize("compression", [hvd.Compression.none, Doubles])
@pytest.mark.parametrize("op", [hvd.Average, hvd.Sum])
def test_a_further_pass_adds_to_what_is_reduced(op, compression, rank, size):
    model, plain = model_of(), model_of()
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), op=op, compression=compression)
    for step in range(2):
        loss_of(model, batch(step, [rank])).backward()
        loss_of(plain, batch(step, range(size))).backward()
    for mine, expected in zip(model.parameters(), plain.parameters()):
        assert torch.allclose(mine.grad, expected.grad * (size if op == hvd.Sum else 1), rtol=0, atol=1e-12)
    optimizer.step()


@pytest.mark.parametrize("compression", [hvd.Compression.none, Doubles])
def test_no_sync(compression, rank, size):
    model, plain = model_of(), model_of()
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), compression=compression)
    with optimizer.no_sync():
        loss_of(model, batch(0, [rank])).backward()
    loss_of(model, batch(1, [rank])).backward()
    for step in range(2):
        loss_of(plain, batch(step, range(size))).backward()
    for mine, expected in zip(model.parameters(), plain.parameters()):
        assert torch.allclose(mine.grad, expected.grad, rtol=0, atol=1e-12)
    optimizer.step()


@pytest.mark.parametrize("compression", [hvd.Compression.none, Doubles])
@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointing(reentrant, compression, rank, size):
    def loss_with(model, rows):
        hidden = model[0](rows)
        for _ in range(2):
            hidden = torch.utils.checkpoint.checkpoint(torch.nn.Tanh(), hidden, use_reentrant=reentrant)
        middle = torch.utils.checkpoint.checkpoint(model[1], hidden, use_reentrant=reentrant)
        return (model[2](middle) ** 2).mean()

    def deep():
        torch.manual_seed(3)
        return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Linear(8, 8), torch.nn.Linear(8, 3)).double()

    model, plain = deep(), deep()
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), compression=compression)
    loss_with(model, batch(0, [rank])).backward()
    loss_with(plain, batch(0, range(size))).backward()
    for mine, expected in zip(model.parameters(), plain.parameters()):
        assert torch.allclose(mine.grad, expected.grad, rtol=0, atol=1e-12)
    optimizer.step()


@pytest.mark.parametrize("compression", [hvd.Compression.none, Doubles])
def test_a_failure_comes_out_of_backward_and_the_next_step_works(compression, rank, size):
    if size == 1:
        pytest.skip("needs ranks that differ")
    model = torch.nn.ParameterList([torch.ones(2), torch.ones(2)])
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model, lr=1.0), compression=compression)
    model[0].data = torch.ones(2, dtype=torch.float64 if rank == 0 else torch.float32)
    optimizer.zero_grad()
    with pytest.raises(hvd.HorovodInternalError, match="0"):
        model[0].sum().backward()
    optimizer.zero_grad()
    model[0].data = torch.ones(2)
    model[1].sum().backward()
    assert torch.equal(model[1].grad, torch.ones(2))
    optimizer.step()


@pytest.mark.parametrize("compression", [hvd.Compression.none, Doubles])
@pytest.mark.parametrize("passes", [1, 2])
def test_after_a_pass_that_failed_the_next_step_is_reduced(passes, compression, rank, size):
    model, plain = model_of(), model_of()
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), compression=compression, backward_passes_per_step=passes)
    with pytest.raises(KeyError):
        (model[2](Fails.apply(model[0](batch(0, [rank]))[:, :8])) ** 2).mean().backward()
    optimizer.synchronize()
    optimizer.zero_grad()
    for step in range(passes):
        loss_of(model, batch(step, [rank])).backward()
        loss_of(plain, batch(step, range(size))).backward()
    for mine, expected in zip(model.parameters(), plain.parameters()):
        assert torch.allclose(mine.grad, expected.grad, rtol=0, atol=1e-12)
    optimizer.step()
