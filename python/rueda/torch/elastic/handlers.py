# SPDX-License-Identifier: Apache-2.0
"""How each kind of object in a TorchState is saved, restored and given to other ranks.

A handler has save(), restore() and sync(), as in Horovod. Those of Rueda have three methods more:
    note(): saves all but the tensors that an optimizer of the state changes, and parameters that have not changed. Of these it notes which they are,
        and their versions.
    sync_from(root): sync() from another rank than 0.
    committed(): the state_dict() of the last save() or note(). After note() nothing that was noted has changed.
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch

from rueda import _core
from rueda.common import basics
from rueda.torch.elastic.sampler import ElasticSampler
from rueda.torch.functions import broadcast_object, broadcast_parameters, settings_of, sync_optimizer_state
from rueda.torch.generations import ranks_meet_later

# A larger buffer is copied only after it has changed.
_SMALL_BUFFER = 1 << 16


class StateHandler:
    """Saves, restores and synchronises one object, self.value; for kinds of a program's own (set_handler_registry)."""

    def __init__(self, value: Any):
        self.value = value

    def save(self) -> None:
        """Keeps the value as it is now."""
        raise NotImplementedError

    def restore(self) -> None:
        """Goes back to the state that save() kept."""
        raise NotImplementedError

    def sync(self) -> None:
        """Gives rank 0's value to all ranks."""
        raise NotImplementedError

    def set_value(self, value: Any) -> None:
        """Another object takes the place of the value, and is saved."""
        self.value = value
        self.save()


def own_or(handler: StateHandler, better: str, plain: str) -> Callable[..., Any] | None:
    """The method `better` of a handler of Rueda; None where it has none, or where a program's class has overridden `plain`."""
    for cls in type(handler).__mro__:
        if better in cls.__dict__:
            return getattr(handler, better)
        if plain in cls.__dict__:
            return None
    return None


def _has_changed(tensor: torch.Tensor, version: int, address: int) -> bool:
    """Whether it has another version, or lies elsewhere. (Changes by .data have no version.)"""
    return tensor._version != version or tensor.data_ptr() != address


class NotedTensors:
    """Tensors, with their versions and addresses at that time."""

    def __init__(self, tensors: Iterable[torch.Tensor]):
        self._noted = [(tensor, tensor._version, tensor.data_ptr()) for tensor in tensors]

    def changed(self) -> bool:
        return any(_has_changed(*noted) for noted in self._noted)


def _keep_first(handler: ModelStateHandler | OptimizerStateHandler) -> None:
    """save(); or note() where the first sync() of elastic.run() gives the values, and the other ranks wait for this one meanwhile."""
    note = own_or(handler, "note", "save") if ranks_meet_later() else None
    (note or handler.save)()


class StateDictHandler(StateHandler):
    """Of objects with state_dict() and load_state_dict(): learning rate schedulers, scalers, samplers."""

    def __init__(self, value: Any):
        super().__init__(value)
        self.save()

    def save(self) -> None:
        self._saved = copy.deepcopy(self.value.state_dict())

    def note(self) -> None:
        """The same as save(), because the state is small."""
        self.save()

    def restore(self) -> None:
        self.value.load_state_dict(copy.deepcopy(self._saved))  # an object may change the given dict

    def committed(self) -> dict[str, Any]:
        return self._saved

    def sync(self) -> None:
        self.sync_from(0)

    def sync_from(self, root: int) -> None:
        state = broadcast_object(self.value.state_dict(), root_rank=root)
        self.value.load_state_dict(state)


class SamplerStateHandler(StateDictHandler):
    """Of an ElasticSampler."""


class _Held(NamedTuple):
    """A tensor of a module at the last note(). copy: None for one that has not changed since, as far as versions tell."""

    owner: dict[str, torch.Tensor | None]  # parameters, or buffers, of a module by name
    name: str
    tensor: torch.Tensor
    version: int
    address: int  # of its memory
    copy: torch.Tensor | None

    def changed(self) -> bool:
        return _has_changed(self.tensor, self.version, self.address)

    def restore(self) -> None:
        """The module has the same tensor again. A large one, which has not changed as far as versions tell, stays as it is."""
        self.owner[self.name] = self.tensor
        if self.copy is None or (self.tensor.numel() >= _SMALL_BUFFER and not self.changed()):
            return
        if self.tensor.shape == self.copy.shape:
            with torch.no_grad():
                self.tensor.copy_(self.copy)
        else:
            self.tensor.data = self.copy.clone()


class ModelStateHandler(StateHandler):
    """Of a module: after save() copies of all tensors. After note() copies of buffers, of extra states, and of parameters that the program changes
    without an optimizer of the state."""

    def __init__(self, model: torch.nn.Module):
        super().__init__(model)
        self.stepped: set[int] = set()  # ids of the parameters that optimizers change; TorchState says it before note()
        self._held: list[_Held] | None = None
        self._extra: list[tuple[torch.nn.Module, Any]] = []
        self._versions: dict[int, int] = {}  # of parameters at the last save() or note(), by id
        self._left_out: set[int] = set()
        _keep_first(self)

    def leave_out(self, parameters: Iterable[torch.Tensor]) -> None:
        """From now on another handler keeps these parameters."""
        self._left_out = {id(parameter) for parameter in parameters}
        _keep_first(self)

    def _state_dict(self):
        state = self.value.state_dict()
        if self._left_out:
            for name, parameter in self.value.named_parameters(remove_duplicate=False):
                if id(parameter) in self._left_out:
                    state.pop(name, None)
        return state

    def save(self) -> None:
        self._held, self._extra = None, []
        self._saved = copy.deepcopy(self._state_dict())
        self._versions = {id(parameter): parameter._version for parameter in self.value.parameters()}

    def note(self) -> None:
        former = {id(held.tensor): held for held in self._held or () if held.copy is not None}
        before, self._versions, self._saved, self._held = self._versions, {}, None, []
        modules = _modules_of(self.value)
        for module in modules:
            for name, parameter in module._parameters.items():
                if parameter is None or id(parameter) in self._left_out:
                    continue
                self._versions[id(parameter)] = parameter._version
                steady = id(parameter) in self.stepped or before.get(id(parameter), parameter._version) == parameter._version
                self._hold(module._parameters, name, parameter, steady, former)
            for name, buffer in module._buffers.items():
                if buffer is not None:
                    self._hold(module._buffers, name, buffer, False, former)
        self._extra = [(module, copy.deepcopy(module.get_extra_state())) for module in modules if _has_extra_state(module)]

    def _hold(self, owner, name, tensor, steady, former):
        kept = None
        if not steady:
            last = former.get(id(tensor))
            same = last is not None and tensor.numel() >= _SMALL_BUFFER and not last.changed()
            kept = last.copy if same else tensor.detach().clone()
        self._held.append(_Held(owner, name, tensor, tensor._version, tensor.data_ptr(), kept))

    def ahead(self) -> bool:
        """Whether parameters have changed since note() of which there is no copy."""
        return any(held.copy is None and held.changed() for held in self._held or ())

    def restore(self) -> None:
        if self._held is None:
            self.value.load_state_dict(self._saved, strict=not self._left_out)
            return
        for held in self._held:
            held.restore()
        for module, value in self._extra:
            module.set_extra_state(copy.deepcopy(value))

    def committed(self) -> dict[str, Any]:
        if self._held is None:
            return self._saved
        kept = {(id(held.owner), held.name): held.tensor.detach() if held.copy is None else held.copy for held in self._held}
        extra = {id(module): value for module, value in self._extra}
        state = self.value.state_dict()
        for prefix, module in self.value.named_modules(remove_duplicate=False):
            for owner in (module._parameters, module._buffers):
                for name in owner:
                    key = f"{prefix}.{name}" if prefix else name
                    if key in state and (id(owner), name) in kept:
                        state[key] = kept[id(owner), name]
            if id(module) in extra:
                state[_extra_key(prefix)] = extra[id(module)]
        return state

    def sync(self) -> None:
        self.sync_from(0)

    def sync_from(self, root: int) -> None:
        state = self._state_dict()
        extra = {_extra_key(prefix): module for prefix, module in self.value.named_modules() if _has_extra_state(module)}
        values = {key: state.pop(key) for key in extra if key in state}
        broadcast_parameters(state, root_rank=root)
        if values:
            received = broadcast_object(values, root_rank=root)
            if basics.rank() != root:
                for key, value in received.items():
                    extra[key].set_extra_state(value)


def _has_extra_state(module):
    return type(module).get_extra_state is not torch.nn.Module.get_extra_state


def _extra_key(prefix):
    """In a state_dict()."""
    return f"{prefix}._extra_state" if prefix else "_extra_state"


def _modules_of(model):
    """Each module in it once. (Faster than modules(), which makes names.)"""
    found, seen, modules = [], set(), [model]
    while modules:
        module = modules.pop()
        if module is None or id(module) in seen:
            continue
        seen.add(id(module))
        found.append(module)
        modules += module._modules.values()
    return found


class OptimizerStateHandler(StateHandler):
    """Of an optimizer: after save() a copy of its state, after note() its settings alone. Counts the steps since then."""

    def __init__(self, optimizer: torch.optim.Optimizer):
        super().__init__(optimizer)
        self._hook = self._count_steps()
        self._check_whole()
        _keep_first(self)

    def _count_steps(self):
        self.steps, self._ended_at_first = 0, None
        mine = weakref.ref(self)

        def count(*_):
            handler = mine()
            if handler is not None:
                handler._stepped()

        return self.value.register_step_post_hook(count)

    def _stepped(self):
        self.steps += 1
        if self.steps == 1:
            self._ended_at_first = _core.operations_ended()

    def steps_alone(self) -> bool:
        """Whether there was one step since the last save() or note(), and no operation of this rank has ended after it."""
        return self.steps == 1 and self._ended_at_first == _core.operations_ended()

    def save(self) -> None:
        self._check_whole()
        self.steps, self._noted = 0, None
        self._saved = copy.deepcopy(self.value.state_dict())

    def _check_whole(self):
        if is_sharded(self.value) and _core.is_elastic():
            raise ValueError("TorchState: of an optimizer with sharded=True each rank has a part of the state, which is lost with the rank. "
                             "ShardedOptimizerStateHandler keeps it recoverable: derive a handler of your own from that.")

    def note(self) -> None:
        self.steps, self._saved = 0, None
        states = self.value.state.values()
        self._noted = NotedTensors(each for state in states for each in state.values() if isinstance(each, torch.Tensor))
        self._settings = [settings_of(group) for group in self.value.param_groups]

    def ahead(self) -> bool:
        """Whether the optimizer has stepped since note(), or its state has changed. (Fused kernels leave versions as they are.)"""
        return self._noted is not None and (self.steps > 0 or self._noted.changed())

    def restore(self) -> None:
        """Goes back to the state that save() kept; after note() to the settings. The gradients of the step that failed go."""
        if self._noted is None:
            self.value.load_state_dict(copy.deepcopy(self._saved))  # an optimizer goes on in the tensors that it is given
            self.steps = 0
        else:
            for group, settings in zip(self.value.param_groups, copy.deepcopy(self._settings)):
                group.update(settings)
        for group in self.value.param_groups:
            for parameter in group["params"]:
                parameter.grad = None

    def committed(self) -> dict[str, Any]:
        if self._noted is None:
            return self._saved
        state = self.value.state_dict()
        for group, settings in zip(state["param_groups"], self._settings):
            group.update(settings)
        return state

    def sync(self) -> None:
        self.sync_from(0)

    def sync_from(self, root: int) -> None:
        sync_optimizer_state(self.value, root)

    def set_value(self, value: torch.optim.Optimizer) -> None:
        self._hook.remove()
        self.value = value
        self._hook = self._count_steps()
        self.save()


class ShardedOptimizerStateHandler(StateHandler):
    """Of an optimizer with sharded=True in an elastic job: the parts that this rank has of it and of its parameters. Other ranks have copies of
    them. restore() restores the settings alone: sync() divides the committed state among the ranks."""

    divides = True

    def __init__(self, optimizer: Any):
        super().__init__(optimizer)
        self._begin()

    def _begin(self):
        self.value._shards.keep_copies()
        self.save()

    def owned(self) -> list[torch.Tensor]:
        """The parameters, which models leave out."""
        return self.value._shards.parameters()

    def steps_alone(self) -> bool:
        """As of OptimizerStateHandler."""
        return self.value._shards.stepped_alone()

    def save(self) -> None:
        self._settings = self.value._settings()
        self.value._shards.save(self.value._states())

    def note(self) -> None:
        self._settings = self.value._settings()
        self.value._shards.note()

    def ahead(self) -> bool:
        """Whether the optimizer has stepped since note()."""
        return self.value._shards.is_ahead()

    def restore(self) -> None:
        self.value._shards.restore()
        self.value._set(self._settings)
        for parameter in self.owned():
            parameter.grad = None

    def check(self) -> None:
        """Raises the failure of a step that had to be completed before its commit."""
        self.value._shards.throw_kept_back()

    def sync(self) -> None:
        self.sync_from(0)

    def sync_from(self, root: int) -> None:
        self.value._divide(root)
        sync_optimizer_state(self.value, root)

    def set_value(self, value: Any) -> None:
        self.value = value
        self._begin()


def is_sharded(optimizer: Any) -> bool:
    """Whether each rank has a part of the state of this optimizer."""
    return hasattr(optimizer, "shares_parameters")


_handler_registry: list[tuple[type, Callable[[Any], Any]]] = [
    (torch.nn.Module, ModelStateHandler),
    (torch.optim.Optimizer, OptimizerStateHandler),
    (ElasticSampler, SamplerStateHandler),
]


def get_handler_registry() -> list[tuple[type, Callable[[Any], Any]]]:
    """Pairs of a type and the class of its handler; the first that fits an object of a TorchState is used."""
    return _handler_registry


def set_handler_registry(registry: list[tuple[type, Callable[[Any], Any]]]) -> None:
    """Other pairs, for states that are made from now on."""
    global _handler_registry
    _handler_registry = registry


def make_handler(value: Any) -> Any:
    """A handler for `value`: of the registry, else by state_dict() and load_state_dict(); None where it has none of these."""
    for kind, handler in _handler_registry:
        if isinstance(value, kind):
            divided = handler is OptimizerStateHandler and is_sharded(value) and _core.is_elastic()
            return ShardedOptimizerStateHandler(value) if divided else handler(value)
    if callable(getattr(value, "state_dict", None)) and callable(getattr(value, "load_state_dict", None)) and not isinstance(value, type):
        return StateDictHandler(value)
    return None
