# SPDX-License-Identifier: Apache-2.0
"""Some of a job's ranks, among which operations are carried out."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from rueda import _core


class ProcessSet:
    """Some ranks of the job.

    ProcessSet([0, 2]) names ranks, ProcessSet(comm) the processes of a communicator of mpi4py. Give it to init(process_sets=[...]), or to
    add_process_set(); then operations take it as `process_set=`. Ranks ascend, whatever the order in which they are named.
    """

    def __init__(self, ranks_or_comm: Sequence[int] | Any):
        self.ranks: list[int] = sorted(ranks_of(ranks_or_comm))
        self.mpi_comm = ranks_or_comm if hasattr(ranks_or_comm, "Get_group") else None
        self._world_ranks = self.ranks if self.mpi_comm is not None else None
        self._set = None  # _core.ProcessSet; None: not registered, or all ranks

    @property
    def process_set_id(self) -> int | None:
        """The same number on all ranks; None before init() or add_process_set(), and after remove_process_set()."""
        return self._set.id if self._set is not None else None

    def size(self) -> int | None:
        """The number of members; None where the set is not registered."""
        return self._set.size if self._set is not None else None

    def rank(self) -> int | None:
        """This process's index among the members; None where the set is not registered. Raises ValueError on other processes."""
        if self._set is None:
            return None
        if self._set.rank < 0:
            raise ValueError(f"rank {_core.rank()} is not a member of {self}; ask included() first")
        return self._set.rank

    def included(self) -> bool | None:
        """Whether this process is a member; None for a communicator that is not registered. Raises ValueError before init()."""
        if self._set is None and self.mpi_comm is not None:
            return None
        return self._set.rank >= 0 if self._set is not None else _core.rank() in self.ranks

    def __str__(self):
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks}, mpi_comm={self.mpi_comm})"

    __repr__ = __str__

    def __deepcopy__(self, memo):
        return self

    def __getstate__(self):
        return {"ranks": self.ranks, "mpi_comm": None, "_world_ranks": self._world_ranks, "_set": None}


class _AllRanks(ProcessSet):
    """All ranks of the job; the id is 0. Its methods raise ValueError before init()."""

    process_set_id = 0
    mpi_comm = None

    def __init__(self):
        pass

    def __reduce__(self):
        return "global_process_set"

    @property
    def ranks(self):
        return list(range(_core.size())) if _core.is_initialized() else []

    def size(self):
        return _core.size()

    def rank(self):
        return _core.rank()

    def included(self):
        return _core.rank() >= 0


global_process_set = _AllRanks()
_registered: list[ProcessSet] = []
job: dict[str, list[int] | None] = {"ranks": None}  # of those that were started; None: all


def ranks_of(ranks_or_comm):
    """The ranks of the job in a list of ranks, or in a communicator of mpi4py."""
    if hasattr(ranks_or_comm, "Get_group"):
        from mpi4py import MPI
        group = ranks_or_comm.Get_group()
        return MPI.Group.Translate_ranks(group, list(range(group.Get_size())), MPI.COMM_WORLD.Get_group())
    try:
        return [operator.index(rank) for rank in ranks_or_comm]
    except TypeError:
        raise ValueError(f"{ranks_or_comm!r} is no list of ranks, and no communicator of mpi4py") from None


def ranks_in_job(process_set, job):
    """The ranks of `process_set` in a job of these ranks of all that were started (None: of all)."""
    if process_set._world_ranks is None or job is None:
        return process_set._world_ranks or process_set.ranks
    outside = [rank for rank in process_set._world_ranks if rank not in job]
    if outside:
        raise ValueError(f"a process set of a communicator has the ranks {process_set._world_ranks} of those that were started, and "
                         f"{outside} are not in this job of {job}")
    return sorted(job.index(rank) for rank in process_set._world_ranks)


def native(process_set):
    """The argument for the C++ modules: None for all ranks. Raises ValueError for a set that is not registered."""
    if process_set is global_process_set:
        return None
    if not isinstance(process_set, ProcessSet):
        raise ValueError(f"process_set is {process_set!r}; it must be a ProcessSet")
    if process_set._set is None:
        raise ValueError(f"{process_set} is not registered: give it to init(process_sets=[...]) or to add_process_set(), on every rank")
    return process_set._set


def register(process_set, made):
    """`process_set` stands for `made`, of C++, until remove_process_set() or shutdown()."""
    process_set._set = made
    process_set.ranks = made.ranks
    _registered.append(process_set)


def registered():
    """The sets there are, but that of all ranks, in the order in which they were made."""
    return list(_registered)


def forget_all():
    """After shutdown()."""
    for process_set in _registered:
        process_set._set = None
    _registered.clear()


def add_process_set(process_set: ProcessSet | Sequence[int]) -> ProcessSet:
    """Registers a ProcessSet (or a list of ranks) while the job runs; returns it.

    Collective: every rank of the job calls it with the same ranks, members or not. Raises ValueError for no ranks, ranks that do not
    exist, and members that another set has already.
    """
    if not isinstance(process_set, ProcessSet):
        process_set = ProcessSet(process_set)
    if process_set is global_process_set or process_set._set is not None:
        raise ValueError(f"{process_set} is registered already")
    register(process_set, _core.add_process_set(ranks_in_job(process_set, job["ranks"])))
    return process_set


def remove_process_set(process_set: ProcessSet) -> bool:
    """Ends a set. Collective; when its operations are complete. Returns whether it was registered (the set of all ranks is never
    removed)."""
    if process_set is global_process_set or process_set._set is None:
        return False
    _core.remove_process_set(process_set._set)
    process_set._set = None
    _registered.remove(process_set)
    return True
