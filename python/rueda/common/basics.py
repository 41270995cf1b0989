# SPDX-License-Identifier: Apache-2.0
"""A job's beginning and end, its ranks, and its reports."""

from __future__ import annotations

import atexit
import contextlib
import operator
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rueda import _core
from rueda.common import process_sets as sets
from rueda.common.children import check_no_worker
from rueda.common.process_sets import ProcessSet, global_process_set, native


def init(comm: Any = None, process_sets: str | Sequence[ProcessSet | Sequence[int]] | None = None, *, store: Any = None,
         rank: int | None = None, size: int | None = None) -> None:
    """Starts Rueda on this process, with the ranks that the launcher has started (ruedarun, mpiexec, srun); without one, as one rank.

    comm: None: all of them. Else those that make up the job, a list or a communicator of mpi4py: they are numbered in its order, and each
        of them gives the same. The others may make jobs of their own; MPI begins when all have called init(), or mpi4py has begun it.
    process_sets: ProcessSets (or lists of ranks of the job), the same on every rank; or "dynamic", which says that add_process_set() will be called,
        and that is always possible here.
    store, rank, size: this process is rank `rank` of `size`, whatever a launcher says, and the ranks find one another by the store. That is a
        TCPStore, FileStore or PrefixStore of torch.distributed, or any object with set(key, value), get(key) and wait([key], timedelta).
        Threads of init() call it one at a time, and nobody once init() has returned.
    A second call does nothing. After shutdown() it may be called again, until a rank has been lost. Raises ValueError for arguments that
    cannot mean anything, HorovodInternalError when ranks do not come, and RuntimeError in a worker that multiprocessing has started.
    """
    numbers = None if store is None and rank is None and size is None else _checked(store, rank, size, comm)
    if numbers is None:
        check_no_worker()
    if isinstance(process_sets, str) and process_sets != "dynamic":
        raise ValueError(f"init: process_sets is {process_sets!r}; it must be a list of process sets, or \"dynamic\"")
    given: Sequence[Any] = [] if process_sets is None or isinstance(process_sets, str) else process_sets
    wanted = [each if isinstance(each, ProcessSet) else ProcessSet(each) for each in given]
    wanted = [each for each in wanted if each is not global_process_set]
    ranks = None if comm is None else sets.ranks_of(comm)
    if ranks is not None and not (ranks and 0 <= min(ranks) and max(ranks) < 2**31):
        raise ValueError(f"init: comm is {ranks}; name ranks that were started, or leave it out for all")
    if not _core.is_initialized():
        for action in _before_init:
            action()
        sets.job["ranks"] = ranks
        _given_store.clear()
        if numbers is not None:
            _given_store.update(store=store, rank=numbers[0], size=numbers[1])
    lists = [sets.ranks_in_job(each, sets.job["ranks"]) for each in wanted]
    if numbers is not None:
        _core.init_with_store(lists, store, *numbers)
    else:
        _core.init(lists, ranks or [])
    for process_set, made in zip(wanted, _core.process_sets()):
        if process_set.process_set_id is None:
            sets.register(process_set, made)


_before_init: list[Callable[[], None]] = []


def before_init(action: Callable[[], None]) -> None:
    """Registers an action that each init() that begins a job runs first."""
    _before_init.append(action)


_given_store: dict[str, Any] = {}  # store, rank and size of the job, for begin_again()


def _checked(store, rank, size, comm):
    """rank and size as numbers. Raises ValueError where the arguments of a store make no sense."""
    if store is None:
        raise ValueError("init: rank and size are for a store; give store=, too, or leave them to the launcher")
    if comm is not None:
        raise ValueError("init: comm names ranks that a launcher has started, and store makes a job without one; give one of them")
    missing = [name for name in ("set", "get", "wait") if not callable(getattr(store, name, None))]
    if missing:
        raise ValueError(f"init: the store {store!r} has no {', '.join(missing)}; give a Store of torch.distributed, or an object with set, get and wait")
    try:
        numbers = operator.index(rank), operator.index(size)
    except TypeError:
        raise ValueError(f"init: a store needs rank and size as whole numbers; they are {rank!r} and {size!r}") from None
    if not 0 <= numbers[0] < numbers[1] < 2**31:
        raise ValueError(f"init: rank {rank} is none of {size} ranks, which count from 0")
    return numbers


def shutdown() -> None:
    """Ends Rueda on this process, once every rank has called it and all operations are complete. Does nothing before init(). Called when
    the interpreter ends."""
    for action in _before_shutdown:
        action()
    _core.shutdown()
    sets.forget_all()


_before_shutdown: list[Callable[[], None]] = []


def before_shutdown(action: Callable[[], None]) -> None:
    """Registers an action that each shutdown() begins with."""
    _before_shutdown.append(action)


def begin_again() -> None:
    """shutdown(), then init() as it was called before, with the process sets that there are. Collective."""
    registered = sets.registered()
    shutdown()
    init(sets.job["ranks"], registered, **_given_store)


_CTRL_C_REACHES_ALL_IN = 0.2  # seconds; operations of the others fail when this rank leaves, and would hide theirs


def _end_at_exit() -> None:
    """shutdown(). A signal whose handler raises ends the wait for the others."""
    try:
        if issubclass(getattr(sys, "last_type", None) or Exception, KeyboardInterrupt):
            time.sleep(_CTRL_C_REACHES_ALL_IN)
        shutdown()
    except BaseException as raised:
        _core.end_without_others()
        if not isinstance(raised, KeyboardInterrupt):
            raise


atexit.register(_end_at_exit)


def is_initialized() -> bool:
    """Whether init() has returned, and shutdown() not yet."""
    return _core.is_initialized()


def rank() -> int:
    """This process's number among all ranks, 0 to size() - 1. Raises ValueError before init()."""
    return _core.rank()


def size() -> int:
    """How many ranks there are. Raises ValueError before init()."""
    return _core.size()


def local_rank() -> int:
    """This process's number among the ranks of its host. Raises ValueError before init()."""
    return _core.local_rank()


def local_size() -> int:
    """How many ranks this host has. Raises ValueError before init()."""
    return _core.local_size()


def cross_rank() -> int:
    """This process's number among the ranks of equal local_rank(), one a host. Raises ValueError before init()."""
    return _core.cross_rank()


def cross_size() -> int:
    """How many ranks have this local_rank(). Raises ValueError before init()."""
    return _core.cross_size()


def is_homogeneous() -> bool:
    """Whether every host has the same number of ranks. Raises ValueError before init()."""
    return _core.is_homogeneous()


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Returns when every rank of the set has called it."""
    _core.barrier(native(process_set))


def start_timeline(file_path: str | os.PathLike[str], mark_cycles: bool = False) -> None:
    """Writes the job's events to `file_path`, as a Chrome trace (Perfetto, chrome://tracing). Called by every rank; rank 0 writes the file.

    mark_cycles: also a mark for each round of the background thread. Raises ValueError when the file cannot be written, and while a timeline
    is being written.
    """
    _core.start_timeline(str(file_path), mark_cycles)


def stop_timeline() -> None:
    """Ends the timeline of start_timeline(); the file, of all ranks if rank 0 can reach theirs, is then complete."""
    _core.stop_timeline()


def metrics() -> str:
    """The work of this rank so far, in numbers: text in the format of Prometheus."""
    return _core.metrics()


def report() -> str:
    """The present work of this rank, in several lines."""
    return _core.report()


# Marks of the training loop, for the live page of ruedarun. Each may be called before init(), too.


def log(scalars: Mapping[str, Any], step: int | None = None) -> None:
    """Adds a point to the curve of each tag, as in log({"loss": 0.3, "learning rate": 1e-4}).

    Values are numbers, or tensors of one element, which are read at once. step: the point's; None: the present one. The page keeps 64 tags,
    by their first 64 bytes, and up to 512 points of each: of a longer curve each 2nd, 4th, 8th.
    """
    number = -1 if step is None else operator.index(step)
    for tag, value in scalars.items():
        _core.log_scalar(tag, float(value.item() if hasattr(value, "item") else value), number)


def phase(name: str) -> contextlib.AbstractContextManager[Any]:
    """A context in which this process is in a phase of the training loop: "data", "forward", "backward", "wait", "step", "evaluation",
    "checkpoint", "garbage" or "other". The optimizers of Rueda mark backward, wait and step, and DataLoaders data. Code between these parts of
    a step is "other". Raises ValueError for another name."""
    return _core.PhaseContext(name)


def describe_training(total_steps: int = 0, samples_per_step: int = 0, steps_done: int | None = None) -> None:
    """The length of the run, and this rank's samples in each step; 0: unknown. steps_done: so many have ended, for a training that goes on
    from a checkpoint. Raises ValueError for negative numbers."""
    if steps_done is not None and steps_done < 0:
        raise ValueError(f"describe_training: steps_done is {steps_done}; it is 0 or more, or None")
    _core.describe_training(total_steps, samples_per_step, -1 if steps_done is None else steps_done)


def end_step() -> None:
    """Counts a step. For loops without hvd.DistributedOptimizer, whose step() does it."""
    _core.end_step()


# Functions by which scripts written for Horovod ask how it was built.


def mpi_built() -> bool:
    """Whether ranks can run over MPI."""
    return _core.MPI_BUILT


def mpi_enabled() -> bool:
    """Whether ranks run over MPI where there are several."""
    return _core.MPI_BUILT


def mpi_threads_supported() -> bool:
    """Whether other threads of this process may use MPI beside Rueda: it asks for MPI_THREAD_MULTIPLE, and refuses to start with less.
    Raises ValueError before init()."""
    _core.rank()
    return _core.MPI_BUILT


def gloo_built() -> bool:
    """False: Rueda does not use Gloo."""
    return False


def gloo_enabled() -> bool:
    """False: Rueda does not use Gloo."""
    return False


def nccl_built() -> int:
    """The version of NCCL that Rueda was built with, as NCCL numbers it; 0 without."""
    return _core.NCCL_VERSION


def ddl_built() -> bool:
    """False: Rueda does not use DDL."""
    return False


def ccl_built() -> bool:
    """False: Rueda does not use oneCCL."""
    return False


def cuda_built() -> bool:
    """Whether Rueda was built for tensors on GPUs of NVIDIA."""
    return _core.CUDA_BUILT


def rocm_built() -> bool:
    """False: Rueda was not built for GPUs of AMD."""
    return False
