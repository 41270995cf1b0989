# SPDX-License-Identifier: Apache-2.0
"""The loop around a training function."""

from __future__ import annotations

import functools
import importlib
import itertools
from collections.abc import Callable
from typing import Any

from rueda import _core
from rueda.common import basics, elastic
from rueda.common.exceptions import HorovodInternalError
from rueda.torch.agreement import restart_prefixes
from rueda.torch.elastic.restarts import Handover, by_torchrun, remedy
from rueda.torch.functions import allgather_object, broadcast_object
from rueda.torch.generations import remake_reducers

elastic.State._default_broadcast = staticmethod(broadcast_object)


def _import_early() -> None:
    """In an elastic job the others wait for a new process from its init() on. The first optimizer of a process imports this module, which takes
    0.6 s and more."""
    if _core.is_elastic():
        importlib.import_module("torch._dynamo")


basics.before_init(_import_early)


def _begin_again(error: BaseException) -> None:
    """All ranks leave the job and form a new one: in an elastic job that of the newest generation; else of the same ranks and process sets,
    and raises where that cannot be."""
    if _core.is_elastic():
        return elastic.begin_next_generation(restart_prefixes)
    try:
        basics.begin_again()
    except HorovodInternalError as final:
        raise HorovodInternalError(f"{error}\nTraining cannot go on with the ranks that are left: {remedy()}") from final


_MOST_IN_VAIN = 3


class _Reset:
    """_begin_again() of one call of run(). It gives up after failures between which nothing was committed, and no worker came or went."""

    def __init__(self, state: Any):
        self._state, self._in_vain = state, 0
        self._last: tuple[int, int] | None = None  # commits, and changes of workers, at the last failure

    def __call__(self, error: BaseException) -> None:
        elastic_job = _core.is_elastic()
        if elastic_job:
            _begin_again(error)
        if isinstance(error, HorovodInternalError):
            now = getattr(self._state, "_commits", 0), _core.workers_changed() if elastic_job else 0
            self._in_vain = self._in_vain + 1 if now == self._last else 1
            self._last = now
            if self._in_vain == _MOST_IN_VAIN:
                raise HorovodInternalError(f"{error}\nelastic.run has tried {_MOST_IN_VAIN} times, and no commit came between the failures. Mend the "
                                           "cause, or commit more often.") from error
        if not elastic_job:
            _begin_again(error)


_runs = itertools.count()  # calls of run() in this process


class _RunIsOver(Exception):
    """The other ranks are in a later call of run()."""


def _agree_on_run(number: int) -> None:
    """In an elastic job the ranks find out in which of their calls of run() they are. A new worker comes to the first one: if the others have
    ended that, it raises _RunIsOver, and they wait for it in theirs."""
    if not _core.is_elastic():
        return
    while True:
        numbers = allgather_object(number)
        if number < max(numbers):
            raise _RunIsOver
        if min(numbers) == number:
            return


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """func(state, ...), called again after an operation has failed, and when workers come or go.

    HorovodInternalError makes all ranks restore the last commit; HostsUpdatedInterrupt leaves the state as it is. Then the ranks form the job
    anew, reset callbacks run, the state is synchronised, and func is called. In an elastic job (ruedarun --min-np) the new job has the workers
    that are left, and those that wait to be let in. There every rank synchronises, whatever skip_sync says: another rank may have
    come by an error.

    Under torchrun a lost rank ends the process, and torchrun starts all of them again. A TorchState then goes on from the last commit, which the
    hosts have kept in memory. SIGTERM takes effect at the next commit there, unless the program has a handler for it.

    A script may call several such functions one after another. A worker that joins when the others have ended the first one returns from it at once,
    with None. So no collective operation comes between the calls.

    Collective. Raises InvalidOperation when the job has gone on without this process. In a job that is not elastic it raises HorovodInternalError
    when a rank is lost. In every job it does so when operations fail three times, and meanwhile nothing was committed and no worker came or went. It
    raises all else that func raises: an operation that cannot mean anything (InvalidOperation) would fail again.
    """
    @functools.wraps(func)
    def wrapper(state, *args, **kwargs):
        reset, number = _Reset(state), next(_runs)
        if by_torchrun():
            with Handover(state) as handover:
                return elastic.loop(handover.after_sync(func), reset, handover.before_sync)(state, *args, **kwargs)

        def begin():
            _agree_on_run(number)
            remake_reducers()

        try:
            return elastic.loop(func, reset, begin)(state, *args, **kwargs)
        except _RunIsOver:
            return None

    return wrapper
