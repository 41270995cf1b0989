# SPDX-License-Identifier: Apache-2.0
"""The common part of operations: reductions by name, and waiting."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any, Protocol

import torch

from rueda import _torch
from rueda.common.exceptions import InvalidOperation

ReduceOp = _torch.ReduceOp
Average, Sum, Adasum = ReduceOp.Average, ReduceOp.Sum, ReduceOp.Adasum
Min, Max, Product = ReduceOp.Min, ReduceOp.Max, ReduceOp.Product


class Handle(Protocol):
    """The result of a function that begins an operation, for poll() and synchronize()."""

    def done(self) -> bool: ...

    def wait(self) -> Any: ...


def reduce_op(op: ReduceOp | None, average: bool | None = None) -> ReduceOp:
    """The reduction that `op`, or the older `average`, asks for; Average if neither does."""
    if op is None:
        if average is None:
            return Average
        warnings.warn("`average` is deprecated: give op=hvd.Average or op=hvd.Sum", DeprecationWarning, stacklevel=3)
        return Average if average else Sum
    if average is not None:
        raise ValueError("both op and average are given; give op alone (average is deprecated)")
    if not isinstance(op, ReduceOp):
        raise InvalidOperation(f"op is {op!r}; it must be one of Average, Sum, Adasum, Min, Max and Product")
    return op


def needs_gradient(tensors: Iterable[torch.Tensor]) -> bool:
    """Returns true if autograd records operations on the tensors. Raises TypeError for an object that is no tensor."""
    tensors = tuple(tensors)
    for tensor in tensors:
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"a {type(tensor).__name__} is no torch.Tensor; make one of it, as by torch.as_tensor()")
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


def name_of_gradient(name: str | None) -> str | None:
    """The name of the operation in an operation's backward pass; None if the operation has no name."""
    return None if name is None else f"{name}.gradient"


def poll(handle: Handle) -> bool:
    """Whether the operation is complete, well or not; synchronize() then returns at once."""
    try:
        return handle.done()
    except AttributeError:
        _check(handle)
        raise


def synchronize(handle: Handle) -> Any:
    """Waits for an operation of the kind `..._async`; returns its result: a tensor, of a group a tuple of them, and of an alltoall the
    tensor and how many rows came from each rank.

    Raises HorovodInternalError, in the same words on every rank, if it has failed.
    """
    try:
        return handle.wait()
    except AttributeError:
        _check(handle)
        raise


def _check(handle: Any) -> None:
    if not hasattr(handle, "wait"):
        raise TypeError(f"{handle!r} is no handle; give what a function of the kind ..._async has returned") from None
