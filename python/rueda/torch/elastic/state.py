# SPDX-License-Identifier: Apache-2.0
"""The state of a training, that it goes back to when an operation has failed."""

from __future__ import annotations

import time
import warnings
from typing import Any

import cloudpickle
import torch

from rueda.common import basics
from rueda.common.elastic import ObjectState, State
from rueda.common.exceptions import InvalidOperation
from rueda.torch.elastic.handlers import (ModelStateHandler, OptimizerStateHandler, SamplerStateHandler, ShardedOptimizerStateHandler, StateHandler,
                                          get_handler_registry, is_sharded, make_handler, own_or, set_handler_registry)
from rueda.torch.elastic.random_state import random_states, set_random_states
from rueda.torch.elastic.sampler import ElasticSampler
from rueda.torch.elastic.source import Condition, Report, choose
from rueda.torch.functions import allgather_object, broadcast_object, load_in_place

__all__ = ["ModelStateHandler", "ObjectState", "OptimizerStateHandler", "SamplerStateHandler", "State", "StateHandler", "TorchState",
           "get_handler_registry", "set_handler_registry"]

# Intervals in a row with one step each, after which a commit copies no parameters.
_REGULAR_INTERVALS = 2


class TorchState(ObjectState):
    """A model, an optimizer, samplers (ElasticSampler), and values that can be pickled: TorchState(model, optimizer, epoch=0).

    An object with a state_dict() (a module, an optimizer, a scheduler, a sampler) is kept by that; all else by a copy. All are attributes. The random
    generators of torch, Python and numpy are kept, too; gradients are not.

    A commit is full or light. A full one copies everything. A light one copies all that is small, and of parameters and optimizer state notes
    the versions: it takes as good as no time. It is used when the last two commits came after one step() of each optimizer, and no operation
    of Rueda's lay between that step and the commit. Then a failure cannot come between a step and its commit, and nothing needs undoing. If an
    optimizer has stepped after a light commit all the same, restore() leaves parameters as they are, and sync() takes the state from a rank that has
    not stepped; if all have, they go on with that step, and rank 0 warns. Change parameters between steps under torch.no_grad(), not by
    .data, which versions do not show. A state that is made before elastic.run() in an elastic job is copied when all ranks have it.
    """

    def __init__(self, model: torch.nn.Module | None = None, optimizer: torch.optim.Optimizer | None = None, **kwargs: Any):
        things = {"model": model, "optimizer": optimizer, **kwargs}
        handlers = {name: make_handler(value) for name, value in things.items()}
        self._handlers = {name: handler for name, handler in handlers.items() if handler is not None}
        for name, handler in self._handlers.items():
            object.__setattr__(self, name, handler.value)
        self._commits, self._regular, self._born = 0, 0, 0.0  # _born: when the first ranks began to train
        self._light = self._ahead = self._torn = self._as_committed = False
        self._fresh = True
        self._leave_out()
        self._random = random_states()
        super().__init__(**{name: value for name, value in things.items() if name not in self._handlers})

    def __setattr__(self, name, value):
        """A model, optimizer or sampler that takes the place of another is saved, and kept from then on."""
        handler = self.__dict__.get("_handlers", {}).get(name)
        if handler is not None and value is not handler.value:
            self._replace(name, handler, value)
        super().__setattr__(name, value)

    def _replace(self, name, handler, value):
        other = make_handler(value)
        if type(other) is type(handler):
            handler.set_value(value)
        elif other is not None:
            self._handlers[name] = other
        else:
            del self._handlers[name]
            self._names.append(name)
        self._leave_out()

    def _divided(self):
        """The handlers of things that each rank has a part of."""
        return [handler for handler in self._handlers.values() if isinstance(handler, ShardedOptimizerStateHandler)]

    def _leave_out(self):
        owned = [parameter for handler in self._divided() for parameter in handler.owned()]
        for handler in self._handlers.values():
            if owned and isinstance(handler, ModelStateHandler):
                handler.leave_out(owned)

    def commit(self) -> None:
        """Keeps the state as it is now, and raises HostsUpdatedInterrupt when workers wait to be let in, or have left. Not collective. Raises the
        HorovodInternalError of a step of a sharded optimizer that lost a rank: that step is complete, and is kept."""
        self.save()
        self._as_committed = True
        self._raise_kept_back()
        self.check_host_updates()
        self._as_committed = False

    def _raise_kept_back(self):
        for handler in self._divided():
            handler.check()

    def save(self) -> None:
        """Keeps the state as it is now: all of it, or by a light commit."""
        steps_alone = self._steps_alone()
        self._regular = self._regular + 1 if steps_alone else 0
        self._save(light=self._regular >= _REGULAR_INTERVALS)
        self._commits += 1

    def _steps_alone(self):
        """Whether every optimizer has stepped once since the last commit, and no operation has ended since."""
        optimizers = [handler for handler in self._handlers.values() if isinstance(handler.value, torch.optim.Optimizer)]
        return bool(optimizers) and all(_can_be_light(handler) and handler.steps_alone() for handler in optimizers)

    def _save(self, light):
        if light:
            self._tell_models_of_steps()
        for handler in self._handlers.values():
            note = own_or(handler, "note", "save") if light else None
            (note or handler.save)()
        self._random = random_states()
        super().save()
        self._light, self._ahead, self._torn = light, False, False

    def _tell_models_of_steps(self):
        optimizers = [handler.value for handler in self._handlers.values() if isinstance(handler.value, torch.optim.Optimizer)]
        stepped = {id(parameter) for optimizer in optimizers for group in optimizer.param_groups for parameter in group["params"]}
        for handler in self._handlers.values():
            if isinstance(handler, ModelStateHandler):
                handler.stepped = stepped

    def restore(self) -> None:
        """Goes back to the last commit. After a light one parameters and optimizer state stay: they are as committed, or sync() gets them from
        a rank where they are."""
        self._ahead = self._light and any(_is_ahead(handler) for handler in self._handlers.values())
        if not self._light:
            self._torn = False
        for handler in self._handlers.values():
            handler.restore()
        super().restore()
        set_random_states(self._random)
        self._as_committed = not self._ahead

    def keep_uncommitted(self) -> None:
        """After HostsUpdatedInterrupt: commits the state as it is, if that was not raised by commit() itself."""
        if not self._as_committed:
            self.save()

    def sync(self) -> None:
        """Gives all ranks the state of the rank that has committed most; does nothing where all have the same. Collective."""
        mine = Report(self._commits, self._condition(), self._as_committed)
        reports = [Report(*each) for each in allgather_object(tuple(mine))]
        source, needed = choose(reports)
        self._as_committed = False
        if not needed and not self._divided():
            return
        if reports[source].condition == Condition.ahead and basics.rank() == 0:
            warnings.warn("elastic: on every rank an optimizer had stepped after the last commit, or parameters had changed, and no copy was kept. That "
                          "step stays applied, so its samples are seen twice. Commit after each step, with no operation of Rueda's between the two.",
                          stacklevel=3)
        if reports[source].condition == Condition.fresh:
            self._born = time.time()
        same = reports[basics.rank()][:2] == reports[source][:2]
        self._torn = self._torn or not same
        self._receive(source)
        self._fresh = False
        self._save(light=self._regular >= _REGULAR_INTERVALS and self._steps_can_be_light())

    def _condition(self):
        if self._torn:
            return Condition.torn
        if self._fresh:
            return Condition.fresh
        return Condition.ahead if self._ahead else Condition.whole

    def _receive(self, source):
        for handler in self._handlers.values():
            sync_from = own_or(handler, "sync_from", "sync")
            sync_from(source) if sync_from else handler.sync()
        mine = self._commits, self._regular, self._born, self._values()
        self._commits, self._regular, self._born, values = broadcast_object(mine, root_rank=source)
        if basics.rank() != source:
            self._set_values(values)

    def committed(self) -> dict[str, Any]:
        """The last commit, for load_committed() in a process that takes the place of this one. The state stays as it is. Raises InvalidOperation
        where this process has none."""
        if self._fresh or self._torn:
            raise InvalidOperation("this rank has not been given the state of the job")
        if self._light and any(_is_ahead(handler) for handler in self._handlers.values()):
            raise InvalidOperation("an optimizer has stepped since the last commit, of which there is no copy")
        parts = {}
        for name, handler in self._handlers.items():
            committed = None if is_sharded(handler.value) else own_or(handler, "committed", "save")
            if committed is None:
                raise InvalidOperation(f"state.{name} is sharded, or has a handler of the program's")
            parts[name] = committed()
        values = cloudpickle.dumps(self._saved_state)
        return {"parts": parts, "values": values, "commits": self._commits, "regular": self._regular, "born": self._born}

    def load_committed(self, committed: dict[str, Any]) -> None:
        """Goes back to a commit of another process."""
        for name, handler in self._handlers.items():
            value, part = handler.value, committed["parts"][name]
            if isinstance(value, torch.optim.Optimizer):
                load_in_place(value, value.load_state_dict, part)
            else:
                value.load_state_dict(part)
        self._set_values(cloudpickle.loads(committed["values"]))
        self._commits, self._regular, self._born = committed["commits"], committed["regular"], committed["born"]
        self._fresh = False
        self._save(light=False)
        self._as_committed = True

    def _steps_can_be_light(self):
        return all(_can_be_light(handler) for handler in self._handlers.values() if isinstance(handler.value, torch.optim.Optimizer))

    def reset(self) -> None:
        """Shares the samples out over the ranks that there are now."""
        for handler in self._handlers.values():
            if isinstance(handler.value, ElasticSampler):
                handler.value.reset()


def _can_be_light(handler):
    """Of an optimizer: whether its step changes all ranks alike, at once, and a handler of Rueda's counts it."""
    options = getattr(handler.value, "_options", {"schedule": "every_step"})
    divided = isinstance(handler, ShardedOptimizerStateHandler)
    counted = divided or (isinstance(handler, OptimizerStateHandler) and not is_sharded(handler.value))
    return counted and own_or(handler, "note", "save") is not None and options["schedule"] == "every_step"


def _is_ahead(handler):
    ahead = getattr(handler, "ahead", None)
    return ahead is not None and ahead()
