# SPDX-License-Identifier: Apache-2.0
"""What a job goes back to when an operation has failed."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterable
from typing import Any

import torch

from rueda.common import basics
from rueda.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt, InvalidOperation
from rueda.torch.elastic.sampler import ElasticSampler
from rueda.torch.functions import broadcast_object, broadcast_optimizer_state, broadcast_parameters


class State:
    """What a program keeps from one commit to the next; a class of one's own says how, in save(), restore() and sync()."""

    def __init__(self) -> None:
        self._reset_callbacks: list[Callable[[], Any]] = []

    def register_reset_callbacks(self, callbacks: Iterable[Callable[[], Any]]) -> None:
        """Functions without arguments that are called when training begins again after a failure."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        """What run() calls before training begins again."""
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def commit(self) -> None:
        """What the state is now is what restore() goes back to. As often as work that would be lost is worth the copy."""
        self.save()
        self.check_host_updates()

    def check_host_updates(self) -> None:
        """Horovod raises HostsUpdatedInterrupt here when hosts come or go. Rueda's ranks are those that were started: nothing to do."""

    def save(self) -> None:
        """Keeps what the state is now."""
        raise NotImplementedError

    def restore(self) -> None:
        """Goes back to what was kept."""
        raise NotImplementedError

    def sync(self) -> None:
        """Gives rank 0's state to all."""
        raise NotImplementedError

    def reset(self) -> None:
        """What else has to be done before training begins again."""


class ObjectState(State):
    """Values that can be pickled, by name: ObjectState(epoch=0, batch=0). They are attributes."""

    def __init__(self, **kwargs: Any):
        super().__init__()
        self._names = list(kwargs)
        for name, value in kwargs.items():
            setattr(self, name, value)
        self._saved: dict[str, Any] = {}
        ObjectState.save(self)

    def save(self) -> None:
        self._saved = copy.deepcopy({name: getattr(self, name) for name in self._names})

    def restore(self) -> None:
        for name, value in copy.deepcopy(self._saved).items():
            setattr(self, name, value)

    def sync(self) -> None:
        for name, value in broadcast_object({name: getattr(self, name) for name in self._names}, root_rank=0).items():
            setattr(self, name, value)
        ObjectState.save(self)


class _ModelHandler:
    def __init__(self, model):
        self.value = model
        self.save()

    def save(self) -> None:
        self._saved = copy.deepcopy(self.value.state_dict())

    def restore(self) -> None:
        self.value.load_state_dict(copy.deepcopy(self._saved))  # an optimizer goes on in the tensors that it is given

    def sync(self) -> None:
        broadcast_parameters(self.value.state_dict(), root_rank=0)
        self.save()


class _OptimizerHandler(_ModelHandler):
    def sync(self) -> None:
        broadcast_optimizer_state(self.value, root_rank=0)
        self.save()


class _OtherHandler(_ModelHandler):
    def sync(self) -> None:
        self.value.load_state_dict(broadcast_object(self.value.state_dict(), root_rank=0))
        self.save()


def _handler_for(value):
    for kind, handler in ((torch.nn.Module, _ModelHandler), (torch.optim.Optimizer, _OptimizerHandler)):
        if isinstance(value, kind):
            return handler(value)
    if hasattr(value, "state_dict") and hasattr(value, "load_state_dict"):
        return _OtherHandler(value)
    return None


class TorchState(ObjectState):
    """A model, an optimizer, samplers (ElasticSampler), and values that can be pickled: TorchState(model, optimizer, epoch=0).

    What has a state_dict() (a module, an optimizer, a scheduler, a sampler) is kept by that; all else by a copy. All are attributes.
    """

    def __init__(self, model: torch.nn.Module | None = None, optimizer: torch.optim.Optimizer | None = None, **kwargs: Any):
        things = {"model": model, "optimizer": optimizer, **kwargs}
        handlers = {name: _handler_for(value) for name, value in things.items()}
        self._handlers = {name: handler for name, handler in handlers.items() if handler is not None}
        for name, handler in self._handlers.items():
            object.__setattr__(self, name, handler.value)
        super().__init__(**{name: value for name, value in things.items() if name not in self._handlers})

    def __setattr__(self, name, value):
        """A model, optimizer or sampler that takes the place of another is kept from then on."""
        if name in self.__dict__.get("_handlers", {}):
            self._handlers[name] = _handler_for(value)
        super().__setattr__(name, value)

    def save(self) -> None:
        for handler in self._handlers.values():
            handler.save()
        super().save()

    def restore(self) -> None:
        for handler in self._handlers.values():
            handler.restore()
        super().restore()

    def sync(self) -> None:
        for handler in self._handlers.values():
            handler.sync()
        super().sync()

    def reset(self) -> None:
        for handler in self._handlers.values():
            if isinstance(handler.value, ElasticSampler):
                handler.value.reset()


def _begin_again(error):
    """All ranks leave the job and form a new one, of the same ranks and process sets; raises where that cannot be."""
    try:
        basics.begin_again()
    except HorovodInternalError as final:
        raise HorovodInternalError(f"{error}\nTraining cannot go on with the ranks that are left: elastic.run restores a job of the ranks "
                                   "that were started, so start it again, from a checkpoint.") from final


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """func(state, ...), called again after an operation has failed: HorovodInternalError makes all ranks restore what they last committed,
    HostsUpdatedInterrupt leaves what they have.

    Collective. Raises HorovodInternalError when a rank is lost, and what func raises else: an operation that cannot mean anything
    (InvalidOperation) would fail again.
    """

    @functools.wraps(func)
    def wrapper(state, *args, **kwargs):
        skip_sync = False
        while True:
            try:
                if not skip_sync:
                    state.sync()
                return func(state, *args, **kwargs)
            except InvalidOperation:
                raise
            except HorovodInternalError as error:
                _begin_again(error)
                state.restore()
                skip_sync = False
            except HostsUpdatedInterrupt as interrupt:
                _begin_again(interrupt)
                skip_sync = interrupt.skip_sync
            state.on_reset()

    return wrapper
