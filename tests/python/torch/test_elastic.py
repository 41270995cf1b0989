# SPDX-License-Identifier: Apache-2.0
"""Training that goes on after a failure, with what was committed last."""

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
    everything = sorted(sum(hvd.allgather_object(list(sampler)), []))
    assert set(everything) == set(range(10)) and len(sampler) == -(-10 // size)
    sampler.record_batch(0, 2)
    state = hvd.elastic.TorchState(sampler=sampler)
    state.sync()
    read = set(sampler.processed_indices)
    assert len(read) == 2 * size
    rest = set(sum(hvd.allgather_object(list(sampler)), []))
    assert rest == set(range(10)) - read
    sampler.set_epoch(1)
    assert sampler.epoch == 1 and not sampler.processed_indices
