# SPDX-License-Identifier: Apache-2.0
"""Gives the data of one rank to all."""

from __future__ import annotations

import collections
import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import cloudpickle
import torch

from rueda import _torch
from rueda.common import basics
from rueda.common.process_sets import ProcessSet, global_process_set, native

T = TypeVar("T")


def named_tensors(params: Mapping[str, Any] | Iterable[Any]) -> list[tuple[str, torch.Tensor]]:
    """(name, tensor) of every tensor in a state_dict(), or in a list of parameters with or without names."""
    if isinstance(params, dict):
        named = sorted(params.items())
    elif isinstance(params, (torch.Tensor, str)):
        raise ValueError(f"broadcast_parameters() takes a dict or a list of tensors, not a {type(params).__name__}")
    else:
        named = [each if isinstance(each, tuple) else (f"parameter.{i}", each) for i, each in enumerate(params)]
    return [(name, tensor.data) for name, tensor in named if isinstance(tensor, torch.Tensor)]


def broadcast_parameters(params: Mapping[str, Any] | Iterable[Any], root_rank: int) -> None:
    """Every tensor gets the values of rank `root_rank`, in place.

    params: model.state_dict(), model.named_parameters(), a dict of tensors, or a list of tensors or (name, tensor). When names, dtypes or
    shapes differ between ranks, every rank raises HorovodInternalError, in the same words, and no tensor has changed.
    """
    _torch.broadcast_parameters(named_tensors(params), root_rank, None)


_NO_LBFGS = "the state of torch.optim.LBFGS cannot be given to other ranks; broadcast the parameters alone"
_TensorSpec = collections.namedtuple("_TensorSpec", "index shape stride dtype")


def _strides(tensor):
    """Those of `tensor`, if no two elements share memory and none of it is left out; else those of a contiguous one."""
    return torch.empty_like(tensor, memory_format=torch.preserve_format).stride()


def _without_tensors(value, tensors):
    """`value` with a _TensorSpec for each tensor in it, which is appended to `tensors`."""
    if isinstance(value, torch.Tensor) and value.layout == torch.strided:  # others are pickled
        tensors.append(value.detach())
        return _TensorSpec(len(tensors) - 1, value.shape, _strides(value), value.dtype)
    if isinstance(value, dict):
        return {key: _without_tensors(each, tensors) for key, each in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_without_tensors(each, tensors) for each in value)
    return value


def _with_tensors(value, tensors):
    """The value that _without_tensors() took apart; new tensors are appended to `tensors`, in the same order."""
    if isinstance(value, _TensorSpec):
        tensors.append(torch.empty_strided(value.shape, value.stride, dtype=value.dtype))
        return tensors[-1]
    if isinstance(value, dict):
        return {key: _with_tensors(each, tensors) for key, each in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_with_tensors(each, tensors) for each in value)
    return value


def zero_gradient(optimizer: torch.optim.Optimizer, parameter: torch.Tensor) -> torch.Tensor:
    """A gradient of zeros such as `optimizer` takes: SparseAdam sparse ones only."""
    zeros = torch.zeros_like(parameter)
    return zeros.to_sparse(1) if isinstance(optimizer, torch.optim.SparseAdam) and zeros.dim() else zeros


def load_in_place(optimizer: torch.optim.Optimizer, load: Callable[[dict[str, Any]], None], state_dict: dict[str, Any]) -> None:
    """load(state_dict), which makes new groups. Their contents then replace those of the old groups, which an earlier scheduler holds."""
    groups = optimizer.param_groups
    load(state_dict)
    if optimizer.param_groups is groups:  # a distributed optimizer does this by itself
        return
    for old, new in zip(groups, optimizer.param_groups):
        old.clear()
        old.update(new)
    optimizer.param_groups = groups


def settings_of(group: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of all that a parameter group has besides its parameters."""
    plain = (int, float, bool, str, type(None))
    return {name: value if type(value) in plain else copy.deepcopy(value) for name, value in group.items() if name != "params"}


def broadcast_optimizer_state(optimizer: torch.optim.Optimizer, root_rank: int, model: Any = None) -> None:
    """Every rank's optimizer gets the state and the settings of that of rank `root_rank`: moments, step counters, learning rates.

    The optimizer makes no step: a root without state gives none (Horovod steps on zero gradients to make one, which moves weights that
    decay). If an optimizer has no state, each of its parameters that is trained and has no .grad gets one of zeros, as in Horovod.
    Of an optimizer with sharded=True the settings alone: each rank has its own part of the state. model: tells which parameters are sparse
    embeddings, whose zeros are sparse, too. Raises ValueError for LBFGS, whose state is no function of its parameters.
    """
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError(_NO_LBFGS)
    if not optimizer.state and not hasattr(optimizer, "shares_parameters"):
        _give_zero_gradients(optimizer, model)
    sync_optimizer_state(optimizer, root_rank)


def sync_optimizer_state(optimizer: torch.optim.Optimizer, root_rank: int) -> None:
    """broadcast_optimizer_state() that gives no gradients."""
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError(_NO_LBFGS)
    is_root = basics.rank() == root_rank
    if hasattr(optimizer, "shares_parameters"):
        settings = [{key: value for key, value in group.items() if key != "params"} for group in optimizer.param_groups]
        for group, values in zip(optimizer.param_groups, broadcast_object(settings, root_rank)):
            group.update(values)
        return
    tensors: list[torch.Tensor] = []
    skeleton = _without_tensors(optimizer.state_dict(), tensors) if is_root else None
    skeleton = broadcast_object(skeleton, root_rank)
    if not is_root:
        state = _with_tensors(skeleton, tensors)
    _torch.broadcast_parameters([(f"state.{i}", tensor) for i, tensor in enumerate(tensors)], root_rank, None)
    if not is_root:
        load_in_place(optimizer, optimizer.load_state_dict, state)


def _give_zero_gradients(optimizer, model):
    sparse = set()
    if model is not None:
        sparse = {id(each.weight) for each in model.modules() if isinstance(each, torch.nn.Embedding) and each.sparse}
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.requires_grad and parameter.grad is None:
                zeros = zero_gradient(optimizer, parameter)
                parameter.grad = zeros.to_sparse(1) if id(parameter) in sparse and not zeros.is_sparse else zeros


def _pack(obj):
    """(bytes, None); or, if `obj` cannot be pickled, (bytes that say so, the exception)."""
    try:
        return b"+" + cloudpickle.dumps(obj), None
    except Exception as error:
        return f"-{type(error).__name__}: {error}".encode(), error


def _unpack(packed, rank, operation):
    if packed[:1] == b"-":
        raise ValueError(f"{operation}: rank {rank} cannot pickle its object: {packed[1:].decode()}")
    return cloudpickle.loads(packed[1:])


def broadcast_object(obj: T, root_rank: int = 0, name: str | None = None, process_set: ProcessSet = global_process_set) -> T:
    """The object of rank `root_rank` on every rank; anything that cloudpickle can take. On the root it is `obj` itself.

    Only for the job's own processes: bytes are unpickled. name: pairs the calls of the ranks; those without one are paired by their order.
    If the root cannot pickle it, that is raised there, and a ValueError that says so on the others.
    """
    is_root = basics.rank() == root_rank
    packed, error = _pack(obj) if is_root else (b"", None)
    packed = _torch.broadcast_object(packed, root_rank, name, native(process_set))
    if error is not None:
        raise error
    return obj if is_root else _unpack(packed, root_rank, "broadcast_object")


def allgather_object(obj: T, name: str | None = None, process_set: ProcessSet = global_process_set) -> list[T]:
    """A list of the objects of all ranks, by rank; anything that cloudpickle can take.

    Only for the job's own processes: bytes are unpickled. name: pairs the calls of the ranks; those without one are paired by their order.
    If a rank cannot pickle its object, that is raised there, and a ValueError that says so on the others.
    """
    packed, error = _pack(obj)
    gathered = _torch.allgather_object(packed, name, native(process_set))
    if error is not None:
        raise error
    return [_unpack(each, rank, "allgather_object") for rank, each in zip(process_set.ranks, gathered)]
