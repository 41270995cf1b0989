# SPDX-License-Identifier: Apache-2.0
"""Commits of a TorchState: when they copy, what they restore, and what restore() cannot undo. Each rank by itself."""

import copy
import random

import numpy
import pytest
import torch

import rueda.torch as hvd
from rueda.torch.elastic import handlers
from rueda.torch.elastic import state as states
from rueda.torch.elastic.source import Condition


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=0.01, foreach=True)


def fused(parameters):
    return torch.optim.AdamW(parameters, lr=0.01, fused=True)


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def fused_sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, fused=True)  # leaves all versions as they are


class Trained:
    """A model with buffers and dropout, an optimizer, a scheduler and a state of them."""

    def __init__(self, make=adamw, seed=0, distribute=False):
        torch.manual_seed(seed)
        self.model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 1))
        self.optimizer = make(self.model.parameters())
        if distribute:
            self.optimizer = hvd.DistributedOptimizer(self.optimizer)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 2, 0.5)
        self.state = hvd.elastic.TorchState(self.model, self.optimizer, scheduler=self.scheduler, batch=0, log=[])

    def backward(self):
        self.optimizer.zero_grad()
        self.model(torch.randn(8, 3)).square().mean().backward()

    def step(self):
        self.backward()
        self.optimizer.step()
        self.scheduler.step()
        self.state.batch += 1
        self.state.log.append(self.state.batch)

    def train(self, steps):
        for _ in range(steps):
            self.step()
            self.state.commit()
        return self

    def everything(self):
        """Copies of all that a commit keeps."""
        state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "scheduler": self.scheduler.state_dict(),
                 "batch": self.state.batch, "log": self.state.log, "torch": torch.get_rng_state(), "python": random.getstate(),
                 "numpy": numpy.random.get_state()}
        return copy.deepcopy(state)


def differing(one, other, path=""):
    """The first path where two of everything() differ in a bit; None where there is none."""
    if isinstance(one, (torch.Tensor, numpy.ndarray)):
        one, other = torch.as_tensor(one), torch.as_tensor(other)
        return None if one.dtype == other.dtype and torch.equal(one, other) else path
    if isinstance(one, dict):
        assert one.keys() == other.keys(), path
        pairs = [(key, one[key], other[key]) for key in one]
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other), path
        pairs = list(zip(range(len(one)), one, other))
    else:
        return None if one == other else path
    return next((found for found in (differing(a, b, f"{path}.{key}") for key, a, b in pairs) if found), None)


def light(trained):
    """Whether the last commit has copied no parameters."""
    models = [handler for handler in trained.state._handlers.values() if isinstance(handler, handlers.ModelStateHandler)]
    kept = {handler._saved is None for handler in models}
    assert kept == {trained.state._light}
    return kept.pop()


def draw():
    return torch.rand(1).item(), random.random(), numpy.random.rand()


@pytest.mark.parametrize("make", [adamw, fused, sgd])
@pytest.mark.parametrize("distribute", [False, True])
def test_a_program_that_commits_after_each_step_gets_light_commits_from_the_second_on(make, distribute):
    trained, kinds = Trained(make, distribute=distribute), []
    for _ in range(5):
        trained.train(1)
        kinds.append(light(trained))
    assert kinds == [False, True, True, True, True]


@pytest.mark.parametrize("steps", [0, 2, 3])
def test_commits_after_several_steps_or_none_are_full(steps):
    trained = Trained().train(3)
    assert light(trained)
    for _ in range(steps):
        trained.step()
    trained.state.commit()
    assert not light(trained)
    trained.train(1)
    assert not light(trained)
    trained.train(1)
    assert light(trained)


def test_commits_are_full_where_one_of_two_optimizers_has_not_stepped():
    trained = Trained()
    other = torch.nn.Linear(2, 1)
    optimizer = sgd(other.parameters())
    trained.state = hvd.elastic.TorchState(trained.model, trained.optimizer, other=other, second=optimizer, batch=0, log=[])
    trained.train(4)
    assert not light(trained)
    for _ in range(2):
        trained.step()
        other(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        trained.state.commit()
    assert light(trained)


def test_commits_are_full_without_an_optimizer():
    state = hvd.elastic.TorchState(torch.nn.Linear(2, 1))
    for _ in range(4):
        state.commit()
    assert not state._light


def test_commits_are_full_where_an_operation_lies_between_step_and_commit():
    trained = Trained(distribute=True).train(4)
    assert light(trained)
    trained.step()
    hvd.allreduce(torch.ones(1), name="metric")
    trained.state.commit()
    assert not light(trained)
    trained.train(1)
    assert not light(trained)


def test_operations_before_the_step_leave_commits_light():
    trained = Trained()
    for _ in range(4):
        hvd.allreduce(torch.ones(1), name="metric")
        trained.train(1)
    assert light(trained)


def test_commits_are_full_where_the_schedule_changes_parameters_after_the_step():
    trained = Trained()
    distributed = hvd.DistributedOptimizer(sgd(trained.model.parameters()), sync_schedule="local_sgd:1")
    trained.optimizer = trained.state.optimizer = distributed
    trained.train(4)
    assert not light(trained) and not states._can_be_light(trained.state._handlers["optimizer"])


@pytest.mark.parametrize("make", [adamw, fused, sgd])
@pytest.mark.parametrize("steps", [1, 5])
def test_restore_after_a_failure_in_the_backward_pass_is_exact(make, steps):
    trained = Trained(make).train(steps)
    assert light(trained) == (steps > 1)
    committed, numbers = trained.everything(), draw()
    trained.backward()  # changes buffers and random generators
    trained.state.batch, trained.state.log = 77, None
    trained.optimizer.param_groups[0]["lr"] = 5.0
    trained.scheduler.last_epoch = 99
    assert differing(committed, trained.everything())
    for _ in range(2):
        trained.state.restore()
        assert differing(committed, trained.everything()) is None
    assert draw() == numbers and trained.state._condition() != Condition.ahead
    assert all(parameter.grad is None for parameter in trained.model.parameters())


@pytest.mark.parametrize("make", [adamw, fused, sgd])
def test_restore_after_a_full_commit_undoes_steps(make):
    trained = Trained(make).train(1)
    committed = trained.everything()
    trained.step()
    trained.step()
    trained.state.restore()
    assert differing(committed, trained.everything()) is None and not trained.state._ahead


def test_training_after_restore_has_the_bits_of_training_without_failure():
    ends = []
    for fails in (False, True):
        random.seed(3)
        numpy.random.seed(3)
        trained = Trained().train(4)
        if fails:
            trained.backward()
            trained.state.restore()
        ends.append(trained.train(3).everything())
    assert differing(*ends) is None


@pytest.mark.parametrize("make", [adamw, fused, sgd, fused_sgd])
def test_a_step_after_a_light_commit_makes_the_state_ahead(make):
    trained = Trained(make).train(4)
    trained.state._fresh = False
    trained.step()
    stepped = copy.deepcopy(trained.model.state_dict())
    trained.state.restore()
    assert trained.state._condition() == Condition.ahead
    assert trained.state.batch == 4 and torch.equal(trained.model[0].weight, stepped["0.weight"])
    trained.state.commit()
    assert trained.state._condition() == Condition.whole


def test_a_parameter_that_changes_without_a_step_makes_the_state_ahead():
    trained = Trained().train(4)
    with torch.no_grad():
        trained.model[0].weight.mul_(2)
    trained.state.restore()
    assert trained.state._ahead


def test_a_parameter_that_moves_to_other_memory_makes_the_state_ahead():
    trained = Trained().train(4)
    trained.model[0].weight.data = torch.ones(4, 3)
    trained.state.restore()
    assert trained.state._ahead


def copy_of(trained, name):
    """The copy of a tensor of the model that the last light commit has."""
    return next(held.copy for held in trained.state._handlers["model"]._held if held.name == name)


def test_large_buffers_are_copied_only_when_they_have_changed():
    trained = Trained()
    trained.model.register_buffer("mask", torch.ones(1 << 17), persistent=False)
    trained.train(4)
    kept = copy_of(trained, "mask")
    trained.train(1)
    assert copy_of(trained, "mask") is kept
    trained.model.mask[3] = 0
    trained.train(1)
    assert copy_of(trained, "mask") is not kept
    trained.model.mask[3] = 7
    trained.state.restore()
    assert trained.model.mask[3] == 0
    trained.train(1)
    trained.model.mask[4] = 7
    trained.state.restore()
    assert trained.model.mask[3] == 0 and trained.model.mask[4] == 1


def test_a_change_of_a_large_buffer_that_has_no_version_brings_no_old_values_back():
    trained = Trained()
    trained.model.register_buffer("codes", torch.zeros(1 << 16))
    trained.train(4)
    for _ in range(3):
        trained.model.codes.data.add_(1)
        trained.train(1)
    trained.state.restore()
    assert trained.model.codes[0] == 3


@pytest.mark.parametrize("steps", [1, 4])
def test_restore_brings_back_tensors_that_the_program_has_replaced(steps):
    trained = Trained()
    trained.model.register_buffer("seen", torch.zeros(()))
    trained.model.codes = torch.nn.Parameter(torch.zeros(3), requires_grad=False)

    def look():
        trained.model.seen = trained.model.seen + 1
        trained.model.codes = torch.nn.Parameter(trained.model.codes + 1, requires_grad=False)

    for _ in range(steps):
        look()
        trained.train(1)
    assert light(trained) == (steps > 1)
    look()
    trained.backward()
    trained.state.restore()
    assert trained.model.seen == steps and trained.model.codes.tolist() == [steps] * 3
    trained.train(1)
    assert trained.state._condition() != Condition.ahead


def test_a_model_that_the_program_averages_is_copied_and_restored():
    trained = Trained()
    average = copy.deepcopy(trained.model).requires_grad_(False)
    trained.state = hvd.elastic.TorchState(trained.model, trained.optimizer, average=average, batch=0, log=[])

    def look():
        with torch.no_grad():
            for mean, parameter in zip(average.parameters(), trained.model.parameters()):
                mean.lerp_(parameter, 0.5)

    for _ in range(4):
        look()
        trained.train(1)
    assert light(trained)
    want = copy.deepcopy(average.state_dict())
    look()
    trained.backward()
    trained.state.restore()
    assert differing(want, average.state_dict()) is None and trained.state._condition() != Condition.ahead


def test_frozen_parameters_are_not_copied_by_light_commits():
    trained = Trained()
    trained.state = hvd.elastic.TorchState(trained.model, trained.optimizer, frozen=torch.nn.Linear(3, 3), batch=0, log=[])
    trained.train(4)
    assert light(trained) and [held.copy for held in trained.state._handlers["frozen"]._held] == [None, None]


class CountingLayer(torch.nn.Linear):
    """A module with an extra state."""

    def __init__(self):
        super().__init__(2, 1)
        self.calls = {"forward": 0}

    def forward(self, inputs):
        self.calls["forward"] += 1
        return super().forward(inputs)

    def get_extra_state(self):
        return self.calls

    def set_extra_state(self, state):
        self.calls = state


@pytest.mark.parametrize("steps", [1, 4])
def test_extra_states_of_modules_are_kept(steps):
    model = torch.nn.Sequential(CountingLayer())
    optimizer = sgd(model.parameters())
    state = hvd.elastic.TorchState(model, optimizer)
    for _ in range(steps):
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        state.commit()
    assert state._light == (steps > 1)
    model(torch.ones(1, 2)).sum().backward()
    for _ in range(2):
        state.restore()
        assert model[0].calls == {"forward": steps}
    assert state._handlers["model"].committed()["0._extra_state"] == {"forward": steps}


def test_extra_states_of_modules_are_given_to_all(rank):
    model = torch.nn.Sequential(CountingLayer())
    model[0].calls["forward"] = 5 + rank
    hvd.elastic.TorchState(model).sync()
    assert model[0].calls == {"forward": 5}


def test_before_elastic_run_nothing_is_copied_that_other_ranks_will_give(monkeypatch):
    monkeypatch.setattr(handlers, "ranks_meet_later", lambda: True)
    trained = Trained()
    kept = trained.state._handlers
    assert kept["model"]._saved is None and kept["optimizer"]._saved is None
    before = trained.everything()
    trained.state.restore()
    assert differing(before, trained.everything()) is None
    monkeypatch.undo()
    trained.state.sync()
    assert kept["model"]._saved is not None and kept["optimizer"]._saved is not None
    trained.step()
    trained.state.restore()
    assert differing(before, trained.everything()) is None


def test_several_models_and_optimizers_have_handlers():
    models = [torch.nn.Linear(2, 1) for _ in range(2)]
    optimizers = [sgd(model.parameters()) for model in models]
    state = hvd.elastic.TorchState(first=models[0], second=models[1], one=optimizers[0], other=optimizers[1], epoch=1)
    assert set(state._handlers) == {"first", "second", "one", "other"} and state.first is models[0] and state.model is None
    kept = [model.weight.detach().clone() for model in models]
    for model in models:
        model.weight.data.zero_()
    state.epoch = 2
    state.restore()
    assert state.epoch == 1 and all(torch.equal(model.weight, each) for model, each in zip(models, kept))


def test_assigning_a_model_saves_it_again():
    state = hvd.elastic.TorchState(torch.nn.Linear(2, 1))
    state.model = torch.nn.Linear(2, 1)
    kept = state.model.weight.detach().clone()
    state.model.weight.data.zero_()
    state.restore()
    assert torch.equal(state.model.weight, kept)


def test_assigning_an_optimizer_counts_the_steps_of_the_new_one_alone():
    trained = Trained().train(4)
    old = trained.optimizer
    trained.optimizer = trained.state.optimizer = adamw(trained.model.parameters())
    trained.backward()
    old.step()
    assert trained.state._handlers["optimizer"].steps == 0
    trained.optimizer.step()
    assert trained.state._handlers["optimizer"].steps == 1


def test_assigning_another_kind_of_object_changes_how_it_is_kept():
    state = hvd.elastic.TorchState(thing=torch.nn.Linear(2, 1))
    state.thing = [1]
    state.save()
    state.thing.append(2)
    state.restore()
    assert state.thing == [1]


class Counter:
    def __init__(self):
        self.calls = []


class CounterHandler(hvd.elastic.StateHandler):
    def save(self):
        self.value.calls.append("save")

    def restore(self):
        self.value.calls.append("restore")

    def sync(self):
        self.value.calls.append("sync")


def test_a_registered_handler_is_used():
    registry = hvd.elastic.get_handler_registry()
    hvd.elastic.set_handler_registry([(Counter, CounterHandler), *registry])
    try:
        state = hvd.elastic.TorchState(counter=Counter())
    finally:
        hvd.elastic.set_handler_registry(registry)
    state.save()
    state.restore()
    state.sync()
    assert state.counter.calls == ["save", "restore", "sync", "save"]


class OwnSave(hvd.elastic.ModelStateHandler):
    saves = 0

    def save(self):
        super().save()
        self.saves += 1


def test_a_handler_that_overrides_save_is_called_in_light_commits():
    trained = Trained()
    trained.state._handlers["model"] = handler = OwnSave(trained.model)
    before = handler.saves
    trained.train(4)
    assert trained.state._light and handler.saves == before + 4


def test_horovods_modules_have_horovods_names():
    from rueda.common.elastic import ObjectState, State, run_fn  # noqa: F401
    from rueda.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt  # noqa: F401
    from rueda.torch.elastic.state import (ModelStateHandler, OptimizerStateHandler, SamplerStateHandler, StateHandler, TorchState,  # noqa: F401
                                           get_handler_registry, set_handler_registry)
    from rueda.torch.elastic.sampler import ElasticSampler  # noqa: F401
    assert issubclass(SamplerStateHandler, StateHandler) and issubclass(TorchState, ObjectState)


def test_commits_of_a_sharded_optimizer(monkeypatch):
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), sharded=True)

    def train(state, steps):
        for _ in range(steps):
            model(torch.arange(8.0).reshape(4, 2)).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            state.commit()
        return state

    # In a job that is not elastic commits are full.
    assert not train(hvd.elastic.TorchState(model, optimizer), 4)._light
    monkeypatch.setattr("rueda._core.is_elastic", lambda: True)
    with pytest.raises(ValueError, match="ShardedOptimizerStateHandler keeps it recoverable"):
        hvd.elastic.OptimizerStateHandler(optimizer)
    state = train(hvd.elastic.TorchState(model, optimizer), 4)
    assert state._light and isinstance(state._handlers["optimizer"], hvd.elastic.ShardedOptimizerStateHandler)
    assert set(state._handlers["model"]._state_dict()) == {"1.running_mean", "1.running_var", "1.num_batches_tracked"}
    kept, mean = [each.detach().clone() for each in model.parameters()], model[1].running_mean.clone()
    optimizer.param_groups[0]["lr"] = 7.0
    model(torch.arange(8.0).reshape(4, 2))
    state.restore()
    assert optimizer.param_groups[0]["lr"] != 7.0 and torch.equal(model[1].running_mean, mean)
    assert all(torch.equal(*each) for each in zip(kept, model.parameters()))


def test_part_copies_are_of_a_sharded_optimizer():
    model = torch.nn.Linear(2, 1)
    with pytest.raises(ValueError, match="part_copies is 2, and sharded is not given"):
        hvd.DistributedOptimizer(sgd(model.parameters()), part_copies=2)
    with pytest.raises(ValueError, match="part_copies is -1; it must be 0 or more"):
        hvd.DistributedOptimizer(sgd(model.parameters()), sharded=True, part_copies=-1)
