# SPDX-License-Identifier: Apache-2.0
"""allgather: every rank gets the tensors of all, one after another along the first dimension, in which they may differ.

Dtypes and the other dimensions are the same on every rank; a scalar counts as one row. In all functions:
    name: pairs the calls of the ranks, and must not be in flight twice; calls without a name are paired by their order.
    process_set: the ranks that take part.
Raise ValueError for arguments that cannot mean anything; waiting raises HorovodInternalError, in the same words on every rank, where
ranks differ or one is lost.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from rueda import _torch
from rueda.common.process_sets import ProcessSet, global_process_set, native
from rueda.torch.operations.handles import Handle, Sum, name_of_gradient, needs_gradient


class _Allgather(torch.autograd.Function):
    """The gradient of a rank's rows is the sum over ranks of those of these rows."""

    @staticmethod
    def forward(ctx, grouped, name, process_set, *tensors):
        ctx.arguments = name, process_set
        ctx.sizes = [tensor.size() for tensor in tensors]
        # The same operation as on a rank whose tensors need no gradient.
        if not grouped:
            return allgather_async(tensors[0], name, process_set).wait()
        return tuple(grouped_allgather_async(tensors, name, process_set).wait())

    @staticmethod
    def backward(ctx, *gradients):
        from rueda.torch.operations.allreduce import grouped_allreduce
        name, process_set = ctx.arguments
        name = name_of_gradient(name)
        mine = torch.tensor([size[0] if size else 1 for size in ctx.sizes])
        rows = allgather(mine.unsqueeze(0), None if name is None else f"{name}.rows", process_set)
        begins = rows[:process_set.rank()].sum(0).tolist()
        sums = grouped_allreduce(gradients, name=name, op=Sum, process_set=process_set)
        parts = (whole.narrow(0, begin, count).reshape(size) for whole, begin, count, size in zip(sums, begins, mine.tolist(), ctx.sizes))
        return None, None, None, *parts


def _rows(tensor):
    return tensor if tensor.dim() else tensor.unsqueeze(0)


def allgather_async(tensor: torch.Tensor, name: str | None = None, process_set: ProcessSet = global_process_set) -> Handle:
    """Begins an allgather; returns a handle for synchronize() and poll(). Not differentiable."""
    return _torch.allgather_async(_rows(tensor), name, native(process_set))


def allgather(tensor: torch.Tensor, name: str | None = None, process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """The tensors of all ranks, as a new one. Differentiable."""
    if needs_gradient([tensor]):
        return _Allgather.apply(False, name, process_set, tensor)
    return allgather_async(tensor, name, process_set).wait()


def grouped_allgather_async(tensors: Iterable[torch.Tensor], name: str | None = None,
                            process_set: ProcessSet = global_process_set) -> Handle:
    """Begins an allgather of each of several tensors, carried out together or failing together; synchronize() returns a list. Every rank
    gives as many. Not differentiable."""
    return _torch.grouped_allgather_async([_rows(tensor) for tensor in tensors], name, native(process_set))


def grouped_allgather(tensors: Iterable[torch.Tensor], name: str | None = None,
                      process_set: ProcessSet = global_process_set) -> list[torch.Tensor]:
    """allgather() of several tensors, together; returns a list. Differentiable."""
    tensors = list(tensors)
    if needs_gradient(tensors):
        return list(_Allgather.apply(True, name, process_set, *tensors))
    return grouped_allgather_async(tensors, name, process_set).wait()
