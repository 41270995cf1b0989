# SPDX-License-Identifier: Apache-2.0
"""Learning-rate schedulers, made before or after an optimizer is distributed."""

import copy

import pytest
import torch
from training import batch, loss_of, model_of, sgd

import rueda.torch as hvd


def halving(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)


def chained(optimizer):
    return torch.optim.lr_scheduler.ChainedScheduler([torch.optim.lr_scheduler.ConstantLR(optimizer, 1.0, 1), halving(optimizer)])


def sequential(optimizer):
    return torch.optim.lr_scheduler.SequentialLR(optimizer, [halving(optimizer), halving(optimizer)], milestones=[10])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("make", [halving, chained, sequential])
@pytest.mark.parametrize("sharded", [False, True])
@pytest.mark.parametrize("first", ["scheduler", "wrapper"])
def test_learning_rate_schedulers(first, sharded, make, rank):
    model = model_of()
    plain = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = make(plain) if first == "scheduler" else None
    optimizer = hvd.DistributedOptimizer(plain, sharded=sharded)
    scheduler = scheduler or make(optimizer)
    for _ in range(2):
        optimizer.zero_grad()
        loss_of(model, batch(0, [rank])).backward()
        optimizer.step()
        scheduler.step()
    assert optimizer.param_groups[0]["lr"] == 0.025


@pytest.mark.parametrize("first", ["scheduler", "wrapper"])
def test_a_scheduler_that_steps_first_is_told_of(first, rank):
    plain = torch.optim.SGD(model_of().parameters(), lr=0.1)
    scheduler = halving(plain) if first == "scheduler" else None
    optimizer = hvd.DistributedOptimizer(plain)
    scheduler = scheduler or halving(optimizer)
    with pytest.warns(UserWarning, match="before `optimizer.step"):
        scheduler.step()


def test_a_scheduler_made_before_goes_on_after_load_state_dict(rank):
    plain = sgd(model_of().parameters())
    scheduler = halving(plain)
    optimizer = hvd.DistributedOptimizer(plain)
    optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    optimizer.step()
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] == 0.05


@pytest.mark.filterwarnings("error")
def test_schedulers_and_hooks_survive_broadcast_optimizer_state(rank):
    model = model_of()
    plain = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(plain, 1, 0.5)
    calls = []
    plain.register_step_pre_hook(lambda *_: calls.append(1))
    optimizer = hvd.DistributedOptimizer(plain)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    for step in range(2):
        loss_of(model, batch(step, [rank])).backward()
        optimizer.step()
        scheduler.step()
    assert optimizer.param_groups[0]["lr"] == 0.025 and len(calls) == 2
