# SPDX-License-Identifier: Apache-2.0
"""Training that goes on after a failure, with what was committed last."""

import random

import pytest
import torch

import rueda.torch as hvd


def training(rank):
    torch.manual_seed(rank)
    model = torch.nn.Linear(2, 1)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    return model, optimizer


def step(model, optimizer):
    optimizer.zero_grad()
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()


def test_state_commit_restore_and_sync(rank):
    model, optimizer = training(rank)
    state = hvd.elastic.TorchState(model, optimizer, epoch=rank, log=[])
    assert state.model is model and state.optimizer is optimizer
    state.sync()
    assert state.epoch == 0
    step(model, optimizer)
    state.epoch, kept = 3, model.weight.detach().clone()
    state.log.append("a")
    state.commit()
    step(model, optimizer)
    state.epoch = 4
    state.log.append("b")
    state.restore()
    assert state.epoch == 3 and state.log == ["a"] and torch.equal(model.weight, kept)


def test_restoring_twice_gives_the_same(rank):
    model, optimizer = training(rank)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    state = hvd.elastic.TorchState(model, optimizer, scheduler=scheduler)
    state.sync()
    step(model, optimizer)
    state.commit()
    buffers = []
    for _ in range(2):
        step(model, optimizer)
        scheduler.step()
        state.restore()
        buffers.append(optimizer.state_dict()["state"][0]["momentum_buffer"].clone())
    assert torch.equal(*buffers) and state.scheduler is scheduler and scheduler.last_epoch == 0


def test_run_restores_after_a_failure(rank, size):
    model, optimizer = training(rank)
    state = hvd.elastic.TorchState(model=model, optimizer=optimizer, batch=0)
    calls, resets = [], []
    state.register_reset_callbacks([lambda: resets.append(1)])

    @hvd.elastic.run
    def train(state, until):
        calls.append(state.batch)
        while state.batch < until:
            hvd.allreduce(torch.ones(1), name="step", op=hvd.Sum)
            state.batch += 1
            if state.batch == 3:
                state.commit()
            if state.batch == 4 and len(calls) == 1:
                raise hvd.HorovodInternalError("as if an operation had failed")
        return state.batch

    assert train(state, 5) == 5
    assert calls == [0, 3] and resets == [1]


@pytest.mark.parametrize("in_backward", [True, False])
def test_run_goes_on_after_a_failure_in_the_midst_of_backward(in_backward, rank, size):
    models = [torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)]
    optimizers = [hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), synchronize_in_backward=in_backward)
                  for model in models]
    state = hvd.elastic.TorchState(first=models[0], second=models[1], one=optimizers[0], other=optimizers[1], batch=0)
    calls = []

    def fail(gradient):
        if len(calls) == 1 and state.batch == 2:
            raise hvd.HorovodInternalError("as if a reduction in the backward pass had failed")

    @hvd.elastic.run
    def train(state):
        calls.append(state.batch)
        while state.batch < 4:
            hidden = models[0](torch.full((1, 2), rank + 1.0))
            hidden.register_hook(fail)
            models[1](hidden).sum().backward()
            for optimizer in optimizers:
                optimizer.step()
            for optimizer in optimizers:
                optimizer.zero_grad()
            state.batch += 1
            state.commit()
        return state.batch

    assert train(state) == 4 and calls == [0, 2]
    weight = models[0].weight.detach()
    assert torch.allclose(hvd.allreduce(weight), weight)


@pytest.mark.parametrize("commits, calls", [(0, 3), (2, 4)])
def test_run_gives_up_when_it_fails_without_a_commit(commits, calls):
    state = hvd.elastic.TorchState(model=torch.nn.Linear(1, 1), calls=0)
    begun = []

    @hvd.elastic.run
    def train(state):
        begun.append(1)
        if len(begun) <= commits:
            state.commit()
        raise hvd.HorovodInternalError("as if ranks had asked for different things")

    with pytest.raises(hvd.HorovodInternalError, match="as if ranks .*\nelastic.run has tried 3 times, and no commit came between"):
        train(state)
    assert len(begun) == calls


def test_run_keeps_the_state_when_hosts_change(rank):
    state = hvd.elastic.ObjectState(batch=0)
    calls = []

    @hvd.elastic.run
    def train(state):
        calls.append(state.batch)
        if len(calls) == 1:
            state.batch = 7
            raise hvd.HostsUpdatedInterrupt(skip_sync=False)

    train(state)
    assert calls == [0, 7]


def test_run_does_not_repeat_what_cannot_work(rank):
    calls = []

    @hvd.elastic.run
    def train(state):
        calls.append(1)
        hvd.alltoall(torch.ones(3), splits=[7] * hvd.size())

    with pytest.raises(ValueError):
        train(hvd.elastic.ObjectState())
    assert calls == [1]


def test_sampler(rank, size):
    sampler = hvd.elastic.ElasticSampler(list(range(10)), shuffle=True, seed=1)
    order = list(range(10))
    random.Random(1).shuffle(order)  # of the seed plus the epoch
    everything = hvd.allgather_object(list(sampler))
    mine = order[rank::size]
    assert len(everything[rank]) == len(sampler) == -(-10 // size) and everything[rank][:len(mine)] == mine
    sampler.record_batch(0, 2)
    assert sampler.state_dict() == {"epoch": 0, "processed_num": 2 * size}
    assert list(sampler) == everything[rank]  # until a reset
    state = hvd.elastic.TorchState(sampler=sampler)
    state.sync()
    rest = hvd.allgather_object(list(sampler))
    assert set(sum(rest, [])) == set(order[2 * size:]) and len({len(each) for each in rest}) == 1
    sampler.set_epoch(1)
    assert sampler.epoch == 1 and sampler.processed_num == 0 and len(sampler) == -(-10 // size)
