# SPDX-License-Identifier: Apache-2.0
"""The loop around a training function."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

from rueda import _core
from rueda.common import basics, elastic
from rueda.common.exceptions import HorovodInternalError
from rueda.torch.agreement import restart_prefixes
from rueda.torch.elastic.restarts import Handover, by_torchrun, remedy
from rueda.torch.elastic.state import TorchState
from rueda.torch.functions import broadcast_object
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
    """_begin_again() of one call of run(). In a job that is not elastic it gives up after failures between which nothing was committed."""

    def __init__(self, state: Any):
        self._state, self._commits, self._in_vain = state, -1, 0

    def __call__(self, error: BaseException) -> None:
        if isinstance(error, HorovodInternalError) and isinstance(self._state, TorchState) and not _core.is_elastic():
            self._in_vain = self._in_vain + 1 if self._state._commits == self._commits else 1
            self._commits = self._state._commits
            if self._in_vain == _MOST_IN_VAIN:
                raise HorovodInternalError(f"{error}\nelastic.run has tried {_MOST_IN_VAIN} times, and no commit came between the failures. Mend the "
                                           "cause, or commit more often.") from error
        _begin_again(error)


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """func(state, ...), called again after an operation has failed, and when workers come or go.

    HorovodInternalError makes all ranks restore the last commit; HostsUpdatedInterrupt leaves the state as it is. Then the ranks form the job
    anew, reset callbacks run, the state is synchronised, and func is called. In an elastic job (ruedarun --min-np) the new job has the workers
    that are left, and those that wait to be let in. There every rank synchronises, whatever skip_sync says: another rank may have
    come by an error.

    Under torchrun a lost rank ends the process, and torchrun starts all of them again. A TorchState then goes on from the last commit, which the
    hosts have kept in memory. SIGTERM takes effect at the next commit there, unless the program has a handler for it.

    Collective. Raises InvalidOperation when the job has gone on without this process. In a job that is not elastic it raises HorovodInternalError
    when a rank is lost, and when operations fail three times and a TorchState was not committed in between. It raises all else that func raises:
    an operation that cannot mean anything (InvalidOperation) would fail again.
    """
    @functools.wraps(func)
    def wrapper(state, *args, **kwargs):
        reset = _Reset(state)
        if not by_torchrun():
            return elastic.loop(func, reset, remake_reducers)(state, *args, **kwargs)
        with Handover(state) as handover:
            return elastic.loop(handover.after_sync(func), reset, handover.before_sync)(state, *args, **kwargs)

    return wrapper
