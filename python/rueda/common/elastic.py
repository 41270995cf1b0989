# SPDX-License-Identifier: Apache-2.0
"""Training that goes on while workers come and go: states of objects, and the loop around a training function. Knows nothing of torch."""

from __future__ import annotations

import copy
import enum
import functools
import math
import queue
from collections.abc import Callable, Iterable
from typing import Any

from rueda import _core
from rueda.common import basics
from rueda.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt, InvalidOperation

__all__ = ["HorovodInternalError", "HostUpdateResult", "HostsUpdatedInterrupt", "ObjectState", "State", "in_run", "run_fn"]


class HostUpdateResult(enum.IntFlag):
    """How the workers of a job have changed."""

    no_update = 0
    removed = 1
    added = 2
    mixed = removed | added


class _HostMessages(queue.Queue):
    """The messages of on_hosts_updated(). A program may wait for them by empty(), as with Horovod, which has a thread for it."""

    def __init__(self, hear: Callable[[], None]):
        super().__init__()
        self._hear = hear

    def empty(self) -> bool:
        self._hear()
        return super().empty()


class State:
    """A program keeps it from one commit to the next. A class of one's own defines save(), restore() and sync().

    bcast_object: gives an object of rank 0 to all ranks. get_rank: the number of this process. None: those of the frontend that is imported.
    """

    _default_broadcast: Callable[..., Any] | None = None  # a frontend sets it
    _at_commit: Callable[[], None] | None = None  # run() may set it: check_host_updates() begins with it
    _commits = 0  # their number

    def __init__(self, bcast_object: Callable[..., Any] | None = None, get_rank: Callable[[], int] | None = None):
        self._bcast_object = bcast_object or State._default_broadcast
        self._rank = get_rank or basics.rank
        self._host_messages: queue.Queue[tuple[float, int]] = _HostMessages(self._hear)
        self._last_updated_timestamp: float = 0
        self._heard_at: float | None = None
        self._reset_callbacks: list[Callable[[], Any]] = []

    def register_reset_callbacks(self, callbacks: Iterable[Callable[[], Any]]) -> None:
        """Functions without arguments. They run after the ranks of the job have changed, or an operation has failed, before training begins
        again. They call no collective operation."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        """run() calls it before training begins again: forgets messages, calls reset(), then the callbacks in their order."""
        self._host_messages = _HostMessages(self._hear)
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def on_hosts_updated(self, timestamp: float, update_res: int) -> None:
        """Says that the workers have changed; update_res is a HostUpdateResult. Any thread may call it."""
        self._host_messages.put((timestamp, update_res))

    def commit(self) -> None:
        """save(), then check_host_updates(): restore() goes back to this moment."""
        self.save()
        self._commits += 1
        self.check_host_updates()

    def check_host_updates(self) -> None:
        """Raises HostsUpdatedInterrupt when workers wait to be let in, or have left. Not collective, and cheap: each rank hears of the change
        by itself, and the first that raises ends the operations of the others."""
        if self._at_commit is not None:
            self._at_commit()
        latest, update = self._last_updated_timestamp, HostUpdateResult.no_update
        while not self._host_messages.empty():
            timestamp, result = self._host_messages.get()
            if timestamp > latest:
                latest = timestamp
                update |= HostUpdateResult(result)
        if latest > self._last_updated_timestamp:
            self._last_updated_timestamp = latest
            raise HostsUpdatedInterrupt(skip_sync=update == HostUpdateResult.removed)

    def _hear(self) -> None:
        newer = _core.newer_generation()
        if newer is None or newer[0] == self._heard_at:
            return
        self._heard_at = newer[0]
        # A clock that was set back hides nothing.
        self.on_hosts_updated(max(newer[0], math.nextafter(self._last_updated_timestamp, math.inf)), HostUpdateResult(newer[1]))

    def save(self) -> None:
        """Keeps the state as it is now."""
        raise NotImplementedError

    def restore(self) -> None:
        """Goes back to the state that was kept last."""
        raise NotImplementedError

    def sync(self) -> None:
        """Gives the state of rank 0 to all."""
        raise NotImplementedError

    def reset(self) -> None:
        """Prepares anything else before training begins again: nothing here."""

    def _raise_kept_back(self) -> None:
        """run() calls it when its function has ended: raises the failure of a step that had to be completed first. Nothing here."""

    def keep_uncommitted(self) -> None:
        """run() calls it after HostsUpdatedInterrupt: the state stays as it is. Nothing here."""


class ObjectState(State):
    """Values that can be pickled, by name: ObjectState(epoch=0, batch=0). They are attributes."""

    def __init__(self, bcast_object: Callable[..., Any] | None = None, get_rank: Callable[[], int] | None = None, **kwargs: Any):
        super().__init__(bcast_object, get_rank)
        self._names = list(kwargs)
        for name, value in kwargs.items():
            setattr(self, name, value)
        self._saved_state: dict[str, Any] = {}
        ObjectState.save(self)

    def _values(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._names}

    def _set_values(self, values: dict[str, Any]) -> None:
        for name, value in values.items():
            setattr(self, name, value)

    def save(self) -> None:
        self._saved_state = copy.deepcopy(self._values())

    def restore(self) -> None:
        self._set_values(copy.deepcopy(self._saved_state))

    def sync(self) -> None:
        if self._names:
            assert self._bcast_object is not None, "no frontend is imported, so give bcast_object"
            self._set_values(self._bcast_object(self._values()))
        ObjectState.save(self)


_running: list[Callable[..., Any]] = []


def in_run() -> bool:
    """Whether a function that run() was given is running: then all ranks of an elastic job are at one point of the program."""
    return bool(_running)


def _call(func, state, args, kwargs):
    _running.append(func)
    try:
        return func(state, *args, **kwargs)
    finally:
        _running.pop()


def loop(func: Callable[..., Any], reset: Callable[[BaseException], None], begin: Callable[[], None] = lambda: None) -> Callable[..., Any]:
    """run_fn() with a reset that gets the error. begin: comes before each sync(). In an elastic job skip_sync has no effect."""

    @functools.wraps(func)
    def wrapper(state, *args, **kwargs):
        skip_sync = False
        while True:
            try:
                begin()
                if not skip_sync or _core.is_elastic():
                    state.sync()
                if _core.is_elastic():
                    _core.note_training_state()
                result = _call(func, state, args, kwargs)
                if isinstance(state, State):
                    state._raise_kept_back()
                return result
            except InvalidOperation:
                raise
            except HorovodInternalError as error:
                reset(error)  # before restore(): operations in flight may write into the state until the job has ended
                state.restore()
                skip_sync = False
            except HostsUpdatedInterrupt as interrupt:
                reset(interrupt)
                if isinstance(state, State):
                    state.keep_uncommitted()
                skip_sync = interrupt.skip_sync
            state.on_reset()

    return wrapper


def run_fn(func: Callable[..., Any], reset: Callable[[], Any]) -> Callable[..., Any]:
    """func(state, ...), called again after HorovodInternalError and HostsUpdatedInterrupt, each time after reset().

    Before a call the state is synchronised, unless skip_sync of the interrupt says that there is no need. After HorovodInternalError the
    state is restored. InvalidOperation and all other errors leave the loop.
    """
    return loop(func, lambda error: reset())


def begin_next_generation(after_shutdown: Callable[[], None] = lambda: None) -> None:
    """Leaves the present generation of an elastic job, and waits until this process is in the newest one. Raises InvalidOperation when
    the job has gone on without this process, HorovodInternalError when no generation can be formed here. Process sets end: make them in the function that run() was given."""
    try:
        basics.shutdown()
    except InvalidOperation:
        raise
    except HorovodInternalError:
        pass  # of the generation that has failed
    after_shutdown()
    basics.init()
