# SPDX-License-Identifier: Apache-2.0
"""The state that ranks go on from after a failure: random worlds of several ranks, which are threads of one process, against a training without
failures."""

import copy
import random
import threading
import warnings

import pytest
import torch

import rueda.torch as hvd
from rueda.common.exceptions import InvalidOperation
from rueda.torch.elastic import handlers
from rueda.torch.elastic import state as states
from rueda.torch.elastic.source import Condition, Report, choose

WORLDS = 240


class World:
    """Stands in for a job: its collective operations are meetings of threads."""

    def __init__(self, ranks):
        self.ranks, self.here = ranks, threading.local()
        self.barrier, self.given, self.broadcasts = threading.Barrier(ranks), [None] * ranks, 0

    def run(self, function, states):
        """function(state) by a thread for each rank; returns what each has returned or raised."""
        ends = [None] * self.ranks

        def be(rank):
            self.here.rank = rank
            try:
                ends[rank] = function(states[rank])
            except BaseException as error:
                ends[rank] = error
                if not isinstance(error, hvd.HorovodInternalError):  # that is raised by all
                    self.barrier.abort()

        threads = [threading.Thread(target=be, args=(rank,)) for rank in range(self.ranks)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return ends

    def exchange(self, value):
        self.given[self.here.rank] = value
        self.barrier.wait(20)
        values = list(self.given)
        self.barrier.wait(20)
        return values

    def allgather_object(self, value):
        return self.exchange(copy.deepcopy(value))

    def broadcast_object(self, value, root_rank=0):
        self.broadcasts += 1
        given = copy.deepcopy(self.exchange(copy.deepcopy(value))[root_rank])
        return value if self.here.rank == root_rank else given

    def broadcast_parameters(self, tensors, root_rank):
        roots = self.broadcast_object({name: tensor.clone() for name, tensor in tensors.items()}, root_rank)
        for name, tensor in tensors.items():
            tensor.data.copy_(roots[name])

    def sync_optimizer_state(self, optimizer, root_rank):
        state = self.broadcast_object(optimizer.state_dict(), root_rank)
        if self.here.rank != root_rank:
            optimizer.load_state_dict(state)


@pytest.fixture
def world_of(monkeypatch, rank):
    if rank != 0:
        pytest.skip("rank 0 is all ranks of its worlds")

    def make(ranks):
        world = World(ranks)
        monkeypatch.setattr(states.basics, "rank", lambda: world.here.rank)
        monkeypatch.setattr(states, "allgather_object", world.allgather_object)
        for module in (states, handlers):
            monkeypatch.setattr(module, "broadcast_object", world.broadcast_object)
        monkeypatch.setattr(handlers, "broadcast_parameters", world.broadcast_parameters)
        monkeypatch.setattr(handlers, "sync_optimizer_state", world.sync_optimizer_state)
        return world
    return make


MAKE = {"adamw": lambda parameters: torch.optim.AdamW(parameters, lr=0.05), "sgd": lambda parameters: torch.optim.SGD(parameters, 0.05, 0.9),
        "fused": lambda parameters: torch.optim.SGD(parameters, 0.05, 0.9, fused=True)}


def state_of(seed, kind):
    torch.manual_seed(seed)
    model = torch.nn.Linear(3, 2)
    return hvd.elastic.TorchState(model, MAKE[kind](model.parameters()), batch=0)


def backward(state):
    """The same on all ranks that have the same parameters, and another in each batch."""
    state.optimizer.zero_grad()
    state.model(torch.full((1, 3), state.batch + 1.0)).square().sum().backward()


def step(state):
    backward(state)
    state.optimizer.step()


def finish(state):
    state.batch += 1
    state.commit()


def content(state):
    """All bits of the parameters and the optimizer's state, and the plain values."""
    kept = state.optimizer.state_dict()["state"].values()
    return ([parameter.detach().clone() for parameter in state.model.parameters()] +
            [value.clone() for each in kept for value in each.values() if isinstance(value, torch.Tensor)]), state.batch


def equal(one, other):
    return one[1] == other[1] and len(one[0]) == len(other[0]) and all(torch.equal(a, b) for a, b in zip(one[0], other[0]))


def reference(kind, steps):
    """content() after each number of steps of a training without failures; rank 0's weights are those of seed 0."""
    state, contents = state_of(0, kind), []
    contents.append(content(state))
    for _ in range(steps):
        step(state)
        state.batch += 1
        contents.append(content(state))
    return contents


# How far a rank has come in the step that fails.
BACKWARD, STEPPED, COMMITTED, NEW = "in the backward pass", "stepped", "committed", "another process has taken its place"


def fail(state, how, kind, seed):
    """Returns the rank's state after the failure and restore()."""
    if how == NEW:
        return state_of(seed, kind)
    if how == BACKWARD:
        backward(state)
    else:
        step(state)
    if how == COMMITTED:
        finish(state)
        backward(state)
    state.batch += 5  # what has not been committed
    state.restore()
    return state


def expected(before, hows, light, contents):
    """content() that all ranks have after the failure, and whether rank 0 warns."""
    if COMMITTED in hows:
        return contents[before + 1], False
    if BACKWARD in hows or not light:  # after a full commit a step is undone
        return contents[before], False
    return (contents[before + 1][0], before), True


@pytest.mark.parametrize("first", range(0, WORLDS, 20))
def test_random_worlds(first, world_of):
    for number in range(first, first + 20):
        live(number, world_of)


def live(number, world_of):
    """One world: `number` decides all that happens in it."""
    chance = random.Random(number)
    ranks, kind, before = chance.randint(1, 5), chance.choice(sorted(MAKE)), chance.randint(0, 5)
    world = world_of(ranks)
    members = [state_of(rank, kind) for rank in range(ranks)]
    assert world.run(lambda state: state.sync(), members) == [None] * ranks
    for state in members:
        for _ in range(before):
            step(state)
            finish(state)
    contents = reference(kind, 12)
    assert all(equal(content(state), contents[before]) for state in members)
    for turn in range(2):  # a failure, and one after it
        hows = [chance.choice([BACKWARD, BACKWARD, STEPPED, COMMITTED, NEW]) for _ in members]
        hows[chance.randrange(ranks)] = chance.choice([BACKWARD, STEPPED, COMMITTED])
        light = next(state._light for state, how in zip(members, hows) if how != NEW)
        want, warns = expected(before, hows, light, contents)
        members = [fail(state, how, kind, 100 * turn + rank + 50) for rank, (state, how) in enumerate(zip(members, hows))]
        kept = [content(state) for state in members]
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            assert world.run(lambda state: state.sync(), members) == [None] * ranks
        assert len([each for each in heard if "seen twice" in str(each.message)]) == warns
        assert all(equal(content(state), want) for state in members), (number, hows, light)
        assert any(equal(mine, want) for mine in kept), "the source has changed"
        if warns:
            return
        before = want[1]
        for state in members:
            state.on_reset()
            for _ in range(2):
                step(state)
                finish(state)
        before += 2
        assert all(equal(content(state), contents[before]) for state in members)


def test_nothing_is_broadcast_where_all_have_committed_the_same(world_of):
    world = world_of(3)
    members = [state_of(rank, "adamw") for rank in range(3)]
    world.run(lambda state: state.sync(), members)
    first = world.broadcasts
    for state in members:
        for _ in range(3):
            step(state)
            finish(state)
        backward(state)
        state.restore()
    world.run(lambda state: state.sync(), members)
    assert first > 0 and world.broadcasts == first
    world.run(lambda state: state.sync(), members)  # by the program itself: who knows what it has changed
    assert world.broadcasts > first


def test_a_new_process_commits_as_lightly_as_the_others(world_of):
    world = world_of(2)
    members = [state_of(rank, "adamw") for rank in range(2)]
    world.run(lambda state: state.sync(), members)
    for state in members:
        for _ in range(3):
            step(state)
            finish(state)
    members[1] = state_of(7, "adamw")
    members[0].restore()
    world.run(lambda state: state.sync(), members)
    assert all(state._light and state._commits == 3 for state in members)


def test_after_an_interrupt_what_was_not_committed_is_kept_and_given_to_all(world_of):
    world = world_of(2)
    members = [state_of(rank, "sgd") for rank in range(2)]
    world.run(lambda state: state.sync(), members)
    for state in members:
        step(state)
    members[1].batch = 8
    members[1].keep_uncommitted()  # check_host_updates() has raised there; the other's operation has failed
    want = content(members[1])
    members[0].restore()
    world.run(lambda state: state.sync(), members)
    assert all(equal(content(state), want) for state in members) and want[1] == 8


def test_an_interrupt_of_a_commit_has_kept_all(monkeypatch):
    state = state_of(0, "sgd")
    state.on_hosts_updated(1.0, hvd.elastic.HostUpdateResult.added)
    with pytest.raises(hvd.HostsUpdatedInterrupt):
        state.commit()
    commits = state._commits
    state.keep_uncommitted()
    assert state._commits == commits and state._as_committed


@pytest.mark.parametrize("steps, after_restore", [(3, Condition.torn), (1, Condition.whole)])
def test_a_failure_in_the_midst_of_a_synchronisation(steps, after_restore, world_of, monkeypatch):
    world = world_of(2)
    members = [state_of(rank, "adamw") for rank in range(2)]
    world.run(lambda state: state.sync(), members)
    for state in members:
        for _ in range(steps):
            step(state)
            finish(state)
    committed = content(members[1])
    step(members[0])
    finish(members[0])
    members[1].restore()

    def fails(optimizer, root_rank):
        raise hvd.HorovodInternalError("as if rank 0 were lost")

    with monkeypatch.context() as patch:
        patch.setattr(handlers, "sync_optimizer_state", fails)
        ends = world.run(lambda state: state.sync(), members)
    assert all(isinstance(end, hvd.HorovodInternalError) for end in ends)
    assert members[1]._condition() == Condition.torn
    for state in members:
        state.restore()
    assert [state._condition() for state in members] == [Condition.whole, after_restore]
    assert equal(content(members[1]), committed) == (after_restore == Condition.whole)  # of a full commit there are copies
    world = world_of(2)
    want = content(members[0])
    members.reverse()
    assert world.run(lambda state: state.sync(), members) == [None, None]
    assert all(equal(content(state), want) for state in members)


def test_a_state_that_nobody_has_whole_ends_the_training(world_of):
    world = world_of(2)
    members = [state_of(rank, "adamw") for rank in range(2)]
    members[1]._torn = True
    ends = world.run(lambda state: state.sync(), members)
    assert all(isinstance(end, InvalidOperation) and "from a checkpoint" in str(end) for end in ends)


@pytest.mark.parametrize("reports, source, needed", [
    ([(3, "whole", True), (3, "whole", True)], 0, False),
    ([(3, "whole", True), (4, "whole", True), (4, "whole", True)], 1, True),
    ([(3, "whole", True), (3, "whole", False)], 0, True),
    ([(3, "ahead", False), (3, "whole", True)], 1, True),
    ([(4, "ahead", False), (3, "whole", True)], 1, True),
    ([(3, "ahead", False), (4, "ahead", False)], 1, True),
    ([(9, "fresh", True), (3, "ahead", False)], 1, True),
    ([(0, "fresh", False), (9, "torn", True), (1, "whole", True)], 2, True),
    ([(0, "fresh", False), (0, "fresh", False)], 0, True),
])
def test_the_source(reports, source, needed):
    assert choose([Report(commits, Condition[condition], committed) for commits, condition, committed in reports]) == (source, needed)
