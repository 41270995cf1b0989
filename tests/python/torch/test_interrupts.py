# SPDX-License-Identifier: Apache-2.0
"""Signal handlers of Python run while a rank waits for others, in every operation. Rank 0 waits; the others come when its handler has run."""

import contextlib
import signal
import tempfile
import threading
import time
from pathlib import Path

import pytest
import torch

import rueda.torch as hvd


class Stop(Exception):
    """What a handler raises."""


class Flag:
    """A file by which rank 0 says that its handler has run."""

    def __init__(self):
        folder = hvd.broadcast_object(tempfile.mkdtemp() if hvd.rank() == 0 else None)
        self.file = Path(folder) / "ran"
        hvd.barrier()

    def say(self):
        self.file.touch()

    def wait(self):
        end = time.monotonic() + 20
        while not self.file.exists() and time.monotonic() < end:
            time.sleep(0.01)


@contextlib.contextmanager
def alarm(handler):
    """A signal after 0.2 s, and again until it comes inside of rueda or torch; handler() is called then."""

    def handle(number, frame):
        if not any(f"/{package}/" in frame.f_code.co_filename for package in ("rueda", "torch")):
            signal.setitimer(signal.ITIMER_REAL, 0.05)
        else:
            handler()

    before = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def model_of():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1))


def ones(*shape):
    return torch.ones(*(shape or (3,)))


# Each prepares something on all ranks, and returns what waits.


def synchronize():
    return lambda: hvd.synchronize(hvd.allreduce_async(ones(), name="one", op=hvd.Sum))


def broadcast_parameters():
    model = model_of()
    return lambda: hvd.broadcast_parameters(model.state_dict(), root_rank=0)


def broadcast_optimizer_state():
    optimizer = torch.optim.SGD(model_of().parameters(), lr=0.1)
    return lambda: hvd.broadcast_optimizer_state(optimizer, root_rank=hvd.size() - 1)


def remove_process_set():
    members = hvd.add_process_set([0])
    return lambda: hvd.remove_process_set(members)


def make_optimizer():
    model = model_of()
    return lambda: hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))


def backward_pass(**options):
    model = model_of()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), **options)

    def step():
        model(ones(5, 3)).sum().backward()
        optimizer.step()

    return step


def step_of_an_optimizer():
    return backward_pass(synchronize_in_backward=False)


def step_of_a_sharded_optimizer():
    return backward_pass(sharded=True)


def factors():
    return backward_pass(compression=hvd.Compression.powersgd(rank=1))


def synchronize_of_an_optimizer():
    model = model_of()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), synchronize_in_backward=False)

    def step():
        model(ones(5, 3)).sum().backward()
        optimizer.synchronize()

    return step


def make_data_parallel():
    model = model_of()
    return lambda: hvd.DistributedDataParallel(model)


def data_parallel():
    model = hvd.DistributedDataParallel(model_of(), broadcast_buffers=False)
    return lambda: model(ones(5, 3)).sum().backward()


def buffers_of_data_parallel():
    model = hvd.DistributedDataParallel(model_of())
    return lambda: model(ones(5, 3))


def sync_batch_norm():
    norm = hvd.SyncBatchNorm(3)
    return lambda: norm(ones(5, 3)).sum().backward()


def now(action):
    return lambda: action


OPERATIONS = {
    "allreduce": now(lambda: hvd.allreduce(ones(), op=hvd.Sum)),
    "allreduce_": now(lambda: hvd.allreduce_(ones(), op=hvd.Sum)),
    "grouped_allreduce": now(lambda: hvd.grouped_allreduce([ones(), ones()], op=hvd.Sum)),
    "allgather": now(lambda: hvd.allgather(ones())),
    "broadcast": now(lambda: hvd.broadcast(ones(), root_rank=hvd.size() - 1)),
    "broadcast_": now(lambda: hvd.broadcast_(ones(), root_rank=hvd.size() - 1)),
    "alltoall": now(lambda: hvd.alltoall(ones(hvd.size()))),
    "reducescatter": now(lambda: hvd.reducescatter(ones(hvd.size()))),
    "reduce": now(lambda: hvd.reduce(ones(), root_rank=hvd.size() - 1)),
    "gather": now(lambda: hvd.gather(ones(), root_rank=hvd.size() - 1)),
    "scatter": now(lambda: hvd.scatter(ones(hvd.size() if hvd.rank() == 0 else 0), root_rank=0)),
    "barrier": now(lambda: hvd.barrier()),
    "join": now(lambda: hvd.join()),
    "broadcast_object": now(lambda: hvd.broadcast_object({"epoch": 3}, root_rank=hvd.size() - 1)),
    "allgather_object": now(lambda: hvd.allgather_object("text " * 100)),
    "add_process_set": now(lambda: hvd.remove_process_set(hvd.add_process_set([0]))),
    "in_a_gradient": now(lambda: hvd.allreduce(ones().requires_grad_()).sum().backward()),
    **{prepare.__name__: prepare for prepare in (
        synchronize, broadcast_parameters, broadcast_optimizer_state, remove_process_set, make_optimizer, backward_pass, step_of_an_optimizer,
        step_of_a_sharded_optimizer, factors, synchronize_of_an_optimizer, make_data_parallel, data_parallel, buffers_of_data_parallel,
        sync_batch_norm)},
}


@pytest.fixture(autouse=True)
def several_ranks(size):
    if size == 1:
        pytest.skip("one rank waits for nobody")


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_handler_runs_and_the_wait_goes_on(name, rank):
    act = OPERATIONS[name]()
    flag, runs = Flag(), []

    def handler():
        runs.append(threading.current_thread() is threading.main_thread())
        flag.say()

    if rank == 0:
        with alarm(handler):
            act()
        assert runs == [True]
    else:
        flag.wait()
        act()
        assert flag.file.exists()


@pytest.mark.parametrize("name", OPERATIONS)
def test_what_a_handler_raises_leaves_the_call(name, rank):
    act = OPERATIONS[name]()
    flag = Flag()

    def handler():
        flag.say()
        raise Stop

    if rank == 0:
        with alarm(handler), pytest.raises(Stop):
            act()
    else:
        flag.wait()
        try:
            act()
        except hvd.HorovodInternalError as error:
            assert "rank 0" in str(error)
    hvd.shutdown()  # rank 0 leaves, and whoever still needs it is told
    hvd.init()


def test_a_handle_stays_valid(rank, size):
    flag = Flag()
    tensor = torch.full((1000,), float(rank + 1))

    def handler():
        flag.say()
        raise Stop

    if rank > 0:
        flag.wait()
    handle = hvd.allreduce_async_(tensor, name="kept", op=hvd.Sum)
    if rank == 0:
        with alarm(handler), pytest.raises(Stop):
            hvd.synchronize(handle)
        assert not hvd.poll(handle) or torch.all(tensor == size * (size + 1) / 2)
    assert torch.all(hvd.synchronize(handle) == size * (size + 1) / 2) and torch.all(tensor == size * (size + 1) / 2)


def test_memory_of_an_operation_that_is_given_up_stays_alive(rank, size):
    """Of 40 tensors in a row, of which nobody knows any more; what comes after in their place is not written."""
    flag, given_up = Flag(), []

    def handler():
        given_up.append(True)
        if len(given_up) == 40:
            flag.say()
        raise Stop

    if rank > 0:
        flag.wait()
    for i in range(40):
        tensor = torch.full((5000,), float(rank))
        if rank == 0:
            with alarm(handler), pytest.raises(Stop):
                signal.setitimer(signal.ITIMER_REAL, 0.01)
                hvd.allreduce_(tensor, name=f"given up {i}", op=hvd.Sum)
        else:
            assert torch.all(hvd.allreduce_(tensor, name=f"given up {i}", op=hvd.Sum) == size * (size - 1) / 2)
        del tensor
    others = [torch.full((5000,), -1.0) for _ in range(200)] if rank == 0 else []
    hvd.barrier()
    assert all(torch.all(other == -1) for other in others)


def test_timers_tick_while_a_rank_waits(rank):
    flag, ticks = Flag(), []

    def tick(number, frame):
        ticks.append(time.monotonic())
        if len(ticks) == 20:
            flag.say()

    if rank == 0:
        before = signal.signal(signal.SIGALRM, tick)
        signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
        try:
            hvd.barrier()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        assert len(ticks) >= 20
    else:
        flag.wait()
        hvd.barrier()


def test_another_thread_that_waits_runs_no_handler(rank):
    flag, runs = Flag(), []

    def handler(number, frame):
        runs.append(threading.current_thread() is threading.main_thread())
        flag.say()

    if rank == 0:
        before = signal.signal(signal.SIGALRM, handler)
        waits = threading.Thread(target=hvd.barrier)
        waits.start()
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        waits.join()
        signal.signal(signal.SIGALRM, before)
        assert runs == [True]
    else:
        flag.wait()
        hvd.barrier()


@pytest.mark.parametrize("raises", [False, True])
def test_shutdown_and_init(raises, rank):
    first, second = Flag(), Flag()

    def handler():
        first.say()
        if raises:
            raise Stop

    if rank == 0:
        with alarm(handler), pytest.raises(Stop) if raises else contextlib.nullcontext():
            hvd.shutdown()
        assert hvd.is_initialized() == raises
    else:
        first.wait()
    hvd.shutdown()
    assert first.file.exists()
    if rank == 0:
        with alarm(second.say):
            hvd.init()
    else:
        second.wait()
        hvd.init()
    assert second.file.exists()
