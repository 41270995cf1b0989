# SPDX-License-Identifier: Apache-2.0
"""The elastic functions that scripts for Horovod use, each rank by itself: a small fake stands in for the job where workers come and go."""

import importlib
import random

import pytest
import torch

import rueda.torch as hvd
from rueda import _core
from rueda.common import basics, elastic
from rueda.common.exceptions import InvalidOperation
from rueda.torch import generations, optimizer
from rueda.torch.elastic import HostUpdateResult


class Recorded(hvd.elastic.State):
    """Writes down what is called."""

    def __init__(self, events=None, **kwargs):
        super().__init__(**kwargs)
        self.events = [] if events is None else events

    def save(self):
        self.events.append("save")

    def restore(self):
        self.events.append("restore")

    def sync(self):
        self.events.append("sync")

    def reset(self):
        self.events.append("reset")

    def keep_uncommitted(self):
        self.events.append("keep")


@pytest.fixture
def job(monkeypatch):
    """A fake elastic job: init() raises what is in `inits`, one each time, and newer_generation() returns `newer`."""

    class Job:
        def __init__(self):
            self.events, self.inits, self.newer, self.noted = [], [], None, []

        def init(self):
            self.events.append("init")
            if self.inits:
                raise self.inits.pop(0)

    job = Job()
    monkeypatch.setattr(_core, "is_elastic", lambda: True)
    monkeypatch.setattr(_core, "newer_generation", lambda: job.newer)
    monkeypatch.setattr(_core, "note_training_state", lambda: job.noted.append(job.events[-1:]))
    monkeypatch.setattr(basics, "init", job.init)
    monkeypatch.setattr(basics, "shutdown", lambda: job.events.append("shutdown"))
    return job


@pytest.mark.parametrize("arguments", [{}, {"bcast_object": hvd.broadcast_object, "get_rank": hvd.rank}])
def test_on_reset_empties_the_queue_resets_and_calls_back_in_order(arguments):
    state = Recorded(**arguments)
    state.register_reset_callbacks([lambda: state.events.append(1), lambda: state.events.append(2)])
    state.register_reset_callbacks([lambda: state.events.append(3)])
    state.on_hosts_updated(5.0, HostUpdateResult.added)
    state.on_reset()
    assert state.events == ["reset", 1, 2, 3]
    state.check_host_updates()


@pytest.mark.parametrize("results, skip_sync", [([1], True), ([1, 1], True), ([2], False), ([3], False), ([1, 2], False), ([0], False)])
def test_check_host_updates_raises_and_skips_sync_only_where_workers_have_left(results, skip_sync):
    state = Recorded()
    state.check_host_updates()
    for index, result in enumerate(results):
        state.on_hosts_updated(1.0 + index, HostUpdateResult(result))
    with pytest.raises(hvd.HostsUpdatedInterrupt) as raised:
        state.check_host_updates()
    assert raised.value.skip_sync is skip_sync
    state.check_host_updates()  # the queue is empty


def test_check_host_updates_ignores_what_is_older_than_the_last_update():
    state = Recorded()
    state._last_updated_timestamp = 7.0
    state.on_hosts_updated(6.0, HostUpdateResult.added)
    state.check_host_updates()
    state.on_hosts_updated(8.0, HostUpdateResult.added)
    with pytest.raises(hvd.HostsUpdatedInterrupt):
        state.check_host_updates()
    assert state._last_updated_timestamp == 8.0


def test_commit_saves_before_it_looks_for_updates():
    state = Recorded()
    state.on_hosts_updated(1.0, HostUpdateResult.added)
    with pytest.raises(hvd.HostsUpdatedInterrupt):
        state.commit()
    assert state.events == ["save"]


def test_check_host_updates_is_not_collective(rank):
    state = Recorded()
    for _ in range(rank):
        state.check_host_updates()


@pytest.mark.parametrize("bits, skip_sync", [(1, True), (2, False), (3, False)])
def test_a_newer_generation_is_heard_once(bits, skip_sync, job):
    state = Recorded()
    state.check_host_updates()
    job.newer = 100.0, bits
    with pytest.raises(hvd.HostsUpdatedInterrupt) as raised:
        state.check_host_updates()
    assert raised.value.skip_sync is skip_sync
    state.check_host_updates()


def test_a_newer_generation_is_heard_though_the_clock_was_set_back(job):
    state = Recorded()
    for job.newer in [(100.0, 2), (50.0, 2)]:
        with pytest.raises(hvd.HostsUpdatedInterrupt):
            state.check_host_updates()
        state.on_reset()


def test_host_update_result_is_a_flag():
    assert HostUpdateResult.removed | HostUpdateResult.added == HostUpdateResult.mixed == 3 and HostUpdateResult.no_update == 0


def test_object_state_takes_horovods_arguments_and_keywords_alone():
    calls = []

    def broadcast(value):
        calls.append(value)
        return {"epoch": 9}

    state = hvd.elastic.ObjectState(broadcast, hvd.rank, epoch=1)
    state.sync()
    assert state.epoch == 9 and calls == [{"epoch": 1}]
    state.epoch = 10
    state.restore()
    assert state.epoch == 9
    assert hvd.elastic.ObjectState(epoch=2).epoch == 2
    hvd.elastic.ObjectState(broadcast, hvd.rank).sync()
    assert len(calls) == 1  # nothing to broadcast


def trained(events, raises):
    """A training function that raises each of `raises` in turn, then returns."""

    def train(state, *args, **kwargs):
        assert elastic.in_run()
        events.append("train")
        if raises:
            raise raises.pop(0)
        return args, kwargs

    return train


def test_run_fn_restores_resets_and_synchronises_after_a_failure():
    events = []
    train = elastic.run_fn(trained(events, [hvd.HorovodInternalError("lost")]), lambda: events.append("again"))
    assert train(Recorded(events), 1, two=2) == ((1,), {"two": 2}) and not elastic.in_run()
    assert events == ["sync", "train", "again", "restore", "reset", "sync", "train"]


@pytest.mark.parametrize("skip_sync", [False, True])
def test_run_fn_keeps_the_state_after_an_update_and_skips_sync_as_told(skip_sync):
    events = []
    raises = [hvd.HostsUpdatedInterrupt(skip_sync), hvd.HorovodInternalError("lost")]
    elastic.run_fn(trained(events, raises), lambda: events.append("again"))(Recorded(events))
    assert events == ["sync", "train", "again", "keep", "reset", *(["train"] if skip_sync else ["sync", "train"]), "again", "restore", "reset", "sync", "train"]


@pytest.mark.parametrize("error", [InvalidOperation("no"), KeyError("mine")])
def test_run_fn_leaves_other_errors_to_the_program(error):
    events = []
    with pytest.raises(type(error)):
        elastic.run_fn(trained(events, [error]), lambda: events.append("again"))(Recorded(events))
    assert events == ["sync", "train"] and not elastic.in_run()


def test_run_fn_goes_on_after_a_failure_of_sync():
    class Fails(Recorded):
        def sync(self):
            super().sync()
            if self.events.count("sync") == 1:
                raise hvd.HorovodInternalError("lost")

    events = []
    elastic.run_fn(trained(events, []), lambda: events.append("again"))(Fails(events))
    assert events == ["sync", "again", "restore", "reset", "sync", "train"]


def test_run_in_an_elastic_job_ends_when_no_generation_can_be_formed_here(job):
    job.inits[:] = [hvd.HorovodInternalError("no shared memory")]  # init() has tried again by itself
    with pytest.raises(hvd.HorovodInternalError, match="no shared memory"):
        hvd.elastic.run(trained(job.events, [hvd.HorovodInternalError("lost")]))(Recorded(job.events))
    assert job.events == ["sync", "train", "shutdown", "init"]


@pytest.mark.parametrize("error", [InvalidOperation("the job has gone on without this process"), SystemExit(0)])
def test_run_in_an_elastic_job_ends_when_the_job_goes_on_without_this_process(job, error):
    job.inits[:] = [error]
    with pytest.raises(type(error)):
        hvd.elastic.run(trained(job.events, [hvd.HorovodInternalError("lost")]))(Recorded(job.events))
    assert job.events == ["sync", "train", "shutdown", "init"]


def test_a_program_may_wait_for_host_messages(job):
    state = hvd.elastic.ObjectState(count=0)
    assert state._host_messages.empty()
    job.newer = (12.0, 2)
    assert not state._host_messages.empty() and not state._host_messages.empty()
    with pytest.raises(hvd.HostsUpdatedInterrupt):
        state.check_host_updates()
    assert state._host_messages.empty()


def test_run_in_an_elastic_job_synchronises_whatever_skip_sync_says(job):
    hvd.elastic.run(trained(job.events, [hvd.HostsUpdatedInterrupt(True)]))(Recorded(job.events))
    assert job.events == ["sync", "train", "shutdown", "init", "keep", "reset", "sync", "train"]


def test_run_in_an_elastic_job_says_that_it_has_the_state_when_it_is_synchronised(job):
    hvd.elastic.run(trained(job.events, [hvd.HorovodInternalError("lost")]))(Recorded(job.events))
    assert job.noted == [["sync"], ["sync"]]


def test_run_in_an_elastic_job_goes_on_after_a_failure_of_shutdown(job, monkeypatch):
    def fails():
        raise hvd.HorovodInternalError("rank 1 is lost")

    monkeypatch.setattr(basics, "shutdown", fails)
    hvd.elastic.run(trained(job.events, [hvd.HorovodInternalError("lost")]))(Recorded(job.events))
    assert job.events == ["sync", "train", "init", "restore", "reset", "sync", "train"]


@pytest.mark.parametrize("elastic", [False, True])
def test_a_new_process_imports_what_is_slow_before_the_others_wait_for_it(elastic, monkeypatch):
    events = []
    monkeypatch.setattr(_core, "is_elastic", lambda: elastic)
    monkeypatch.setattr(_core, "is_initialized", lambda: False)
    monkeypatch.setattr(_core, "init", lambda *arguments: events.append("init"))
    monkeypatch.setattr(importlib, "import_module", events.append)
    hvd.init()
    assert events == ["torch._dynamo"] * elastic + ["init"]


class Reducer:
    """Stands in for what reduces gradients."""

    def __init__(self, made):
        made.append(self)
        self.ended = 0

    def end_generation(self):
        self.ended += 1

    def before_zero_grad(self):
        return True

    def check_flushed(self, action):
        pass

    def check_parameters(self, parameters):
        pass

    def before_step(self):
        return True

    def after_step(self):
        pass


@pytest.fixture
def made(monkeypatch):
    """The reducers that are made."""
    made = []
    monkeypatch.setattr(optimizer, "make_reducer", lambda *arguments: Reducer(made))
    monkeypatch.setattr(generations, "_made_before_run", [])
    return made


def test_optimizers_of_an_elastic_job_make_their_reducers_with_the_other_ranks(job, made):
    model = torch.nn.Linear(2, 1)
    first, second = (hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1)) for _ in range(2))
    state = hvd.elastic.TorchState(model, first)
    first.zero_grad()
    state.commit()
    state.restore()
    assert made == []  # a new process must come to elastic.run() without the others
    hvd.elastic.run(trained(job.events, [hvd.HorovodInternalError("lost")]))(Recorded(job.events))
    assert len(made) == 4 and [first._reducer, second._reducer] == made[2:]


def test_optimizers_that_are_made_inside_run_make_their_reducers_at_once(job, made):
    def train(state):
        return hvd.DistributedOptimizer(torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1))

    distributed = hvd.elastic.run(train)(Recorded())
    assert made == [distributed._reducer]
    generations.remake_reducers()
    assert len(made) == 1


def test_an_optimizer_of_an_elastic_job_without_run_makes_its_reducer_in_the_first_step(job, made):
    parameter = torch.nn.Parameter(torch.ones(1))
    distributed = hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=0.1), leave_unused=True)
    parameter.sum().backward()
    assert not made
    distributed.step()
    assert len(made) == 1


def test_a_new_generation_has_no_half_finished_reduction(job, made):
    distributed = hvd.DistributedOptimizer(torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1))
    generations.remake_reducers()
    before, distributed._synchronized = distributed._reducer, True
    generations.remake_reducers()
    assert distributed._reducer is not before and not distributed._synchronized
    assert before.ended == 1 and distributed._reducer.ended == 0


def test_distributed_data_parallel_of_an_elastic_job_is_made_inside_run(job, monkeypatch):
    with pytest.raises(ValueError, match="in the function given to elastic.run"):
        hvd.DistributedDataParallel(torch.nn.Linear(2, 1))


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("length, before, after, batches", [(24, 3, 2, 2), (10, 2, 4, 1), (7, 1, 3, 2), (3, 1, 5, 0), (6, 2, 3, 3)])
def test_sampler_shares_out_what_is_left_over_other_ranks(length, before, after, batches, shuffle, monkeypatch):
    def samplers_of(size):
        monkeypatch.setattr(basics, "size", lambda: size)
        for rank in range(size):
            monkeypatch.setattr(basics, "rank", lambda rank=rank: rank)
            yield hvd.elastic.ElasticSampler(list(range(length)), shuffle=shuffle, seed=5)

    read, saved = [], None
    for sampler in samplers_of(before):
        for batch in range(batches):
            read += sampler.get_indices(batch, 1)
            sampler.record_batch(batch, 1)
        saved = sampler.state_dict()
        assert saved == {"epoch": 0, "processed_num": batches * before}
    assert sampler.processed_indices == set(read)
    rest, lengths = [], set()
    order = list(range(length))
    if shuffle:
        random.Random(5).shuffle(order)
    left = order[batches * before:]
    padded = left + (left * after)[:-len(left) % after]  # as Horovod's
    for sampler in samplers_of(after):
        sampler.load_state_dict(saved)
        rest += list(sampler)
        lengths.add(len(list(sampler)))
        assert list(sampler) == padded[sampler.rank::after]
        assert len(sampler) == sampler.num_samples and sampler.total_size == after * sampler.num_samples
    assert set(read) | set(rest) == set(range(length)) and not set(read) & set(rest)
    assert len(lengths) == 1 and len(rest) - len(set(rest)) < after


def test_sampler_order_is_that_of_the_seed_and_the_epoch(monkeypatch):
    monkeypatch.setattr(basics, "size", lambda: 1)
    monkeypatch.setattr(basics, "rank", lambda: 0)
    sampler = hvd.elastic.ElasticSampler(list(range(20)), seed=3)
    for epoch in (0, 1, 0):
        sampler.set_epoch(epoch)
        order = list(range(20))
        random.Random(3 + epoch).shuffle(order)
        assert list(sampler) == order and sampler.processed_num == 0
    sampler.record_indices([order[0], order[1]])
    assert sampler.processed_indices == {order[0], order[1]} and list(sampler) == order
