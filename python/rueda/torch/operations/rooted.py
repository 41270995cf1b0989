# SPDX-License-Identifier: Apache-2.0
"""reduce, gather and scatter: one rank, the root, gets the data of all, or gives data to all. Horovod has none of them.

In all functions:
    root_rank: the root, by its number in the job, whatever the process set.
    name: pairs the calls of the ranks, and must not be in flight twice; calls without a name are paired by their order.
    process_set: the ranks that take part, of which root_rank is one.
They are not differentiable. They raise ValueError for arguments that cannot mean anything, for a name that is in flight, and for a tensor that needs a
gradient; waiting raises HorovodInternalError, in the same words on every rank, if ranks differ or one is lost.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from rueda import _torch
from rueda.common.exceptions import InvalidOperation
from rueda.common.process_sets import ProcessSet, global_process_set, native
from rueda.torch.operations.handles import Adasum, Average, Handle, ReduceOp, needs_gradient, reduce_op


def _without_gradient(tensor, operation, instead):
    if needs_gradient([tensor]):
        raise ValueError(f"{operation} has no gradient; use {instead}, or give a tensor that needs none (detach())")
    return tensor


def _to_root(op):
    op = reduce_op(op)
    if op == Adasum:
        raise InvalidOperation("reduce has no Adasum; use allreduce, or choose another reduction")
    return op


def reduce_async(tensor: torch.Tensor, root_rank: int, op: ReduceOp = Average, name: str | None = None, prescale_factor: float = 1.0,
                 postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set) -> Handle:
    """Begins a reduce(); returns a handle for synchronize() and poll()."""
    return _torch.reduce_async(_without_gradient(tensor, "reduce", "allreduce"), root_rank, name, _to_root(op), prescale_factor, postscale_factor,
                               native(process_set))


def reduce(tensor: torch.Tensor, root_rank: int, op: ReduceOp = Average, name: str | None = None, prescale_factor: float = 1.0,
           postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set) -> torch.Tensor | None:
    """The reduction of the ranks' tensors, of one shape and dtype, as a new tensor on the root; None on the others.

    op: Average (the default), Sum, Min, Max or Product.
    prescale_factor, postscale_factor: the factors of each tensor before, and of the result after.
    """
    return _torch.reduce(_without_gradient(tensor, "reduce", "allreduce"), root_rank, name, _to_root(op), prescale_factor, postscale_factor,
                         native(process_set))


def reduce_async_(tensor: torch.Tensor, root_rank: int, op: ReduceOp = Average, name: str | None = None, prescale_factor: float = 1.0,
                  postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set) -> Handle:
    """reduce_async() whose result replaces the values of the root's tensor. The others' stay as they are."""
    return _torch.reduce_async_(tensor, root_rank, name, _to_root(op), prescale_factor, postscale_factor, native(process_set))


def reduce_(tensor: torch.Tensor, root_rank: int, op: ReduceOp = Average, name: str | None = None, prescale_factor: float = 1.0,
            postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set) -> torch.Tensor | None:
    """reduce() whose result replaces the values of the root's tensor, and is that tensor there. The others' stay as they are."""
    return _torch.reduce_(tensor, root_rank, name, _to_root(op), prescale_factor, postscale_factor, native(process_set))


def gather_async(tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set) -> Handle:
    """Begins a gather(); returns a handle for synchronize() and poll()."""
    return _torch.gather_async(_without_gradient(tensor, "gather", "allgather"), root_rank, name, native(process_set))


def gather(tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """The ranks' tensors one after another along the first dimension, on the root; on the others a tensor without rows.

    tensor: of at least one dimension. Ranks may differ in the first one; the others and the dtype are the same on every rank.
    """
    return _torch.gather(_without_gradient(tensor, "gather", "allgather"), root_rank, name, native(process_set))


def scatter_async(tensor: torch.Tensor, root_rank: int, splits: Sequence[int] | None = None, name: str | None = None,
                  process_set: ProcessSet = global_process_set) -> Handle:
    """Begins a scatter(); returns a handle for synchronize() and poll()."""
    return _torch.scatter_async(_without_gradient(tensor, "scatter", "alltoall"), root_rank, splits, name, native(process_set))


def scatter(tensor: torch.Tensor, root_rank: int, splits: Sequence[int] | None = None, name: str | None = None,
            process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """This rank's rows of the root's tensor.

    tensor: on the root the rows for all, in the order of ranks; on the others one without rows, of the same dtype and other dimensions, as
        torch.empty(0, 4) where the root's is of shape [n, 4].
    splits: on the root, how many rows go to rank 0, 1, ... of the process set. None: equal parts.
    """
    return _torch.scatter(_without_gradient(tensor, "scatter", "alltoall"), root_rank, splits, name, native(process_set))
