# SPDX-License-Identifier: Apache-2.0
"""allgather: every rank gets the tensors of all, one after another along the first dimension, in which they may differ.

Dtypes and the other dimensions are the same on every rank; a scalar counts as one row. In all functions:
    name: pairs the calls of the ranks, and must not be in flight twice; calls without a name are paired by their order.
    process_set: the ranks that take part.
Raise ValueError for arguments that cannot mean anything, and for a name that is in flight; waiting raises HorovodInternalError, in the
same words on every rank, if ranks differ or one is lost.

In those that are differentiable:
    exact_gradient: False: the gradient of a rank's rows is the average over ranks of those of these rows, as in Horovod. True: their sum,
        which is the derivative of the sum of the ranks' losses.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from rueda import _torch
from rueda.common.process_sets import ProcessSet, global_process_set, native
from rueda.torch.operations.handles import Average, Handle, Sum, name_of_gradient, needs_gradient


class _Allgather(torch.autograd.Function):
    """Each rank's rows get the reduction of the gradients that the ranks have of them."""

    @staticmethod
    def forward(ctx, grouped, name, process_set, op, *tensors):
        ctx.arguments = name, process_set, op
        ctx.sizes = [tensor.size() for tensor in tensors]
        # The same operation as on a rank whose tensors need no gradient.
        if not grouped:
            return allgather_async(tensors[0], name, process_set).wait()
        return grouped_allgather_async(tensors, name, process_set).wait()

    @staticmethod
    def backward(ctx, *gradients):
        from rueda.torch.operations.allreduce import grouped_allreduce
        name, process_set, op = ctx.arguments
        name = name_of_gradient(name)
        mine = torch.tensor([size[0] if size else 1 for size in ctx.sizes])
        rows = allgather(mine.unsqueeze(0), None if name is None else f"{name}.rows", process_set)
        begins = rows[:process_set.rank()].sum(0).tolist()
        wholes = grouped_allreduce(gradients, name=name, op=op, process_set=process_set)
        parts = (whole.narrow(0, begin, count).reshape(size)
                 for whole, begin, count, size in zip(wholes, begins, mine.tolist(), ctx.sizes))
        return None, None, None, None, *parts


def _rows(tensor):
    return tensor if tensor.dim() else tensor.unsqueeze(0)


def allgather_async(tensor: torch.Tensor, name: str | None = None, process_set: ProcessSet = global_process_set) -> Handle:
    """Begins an allgather; returns a handle for synchronize() and poll(). Not differentiable."""
    return _torch.allgather_async(_rows(tensor), name, native(process_set))


def allgather(tensor: torch.Tensor, name: str | None = None, process_set: ProcessSet = global_process_set, *,
              exact_gradient: bool = False) -> torch.Tensor:
    """The tensors of all ranks, as a new one. Differentiable."""
    if needs_gradient([tensor]):
        return _Allgather.apply(False, name, process_set, Sum if exact_gradient else Average, tensor)
    return allgather_async(tensor, name, process_set).wait()


def grouped_allgather_async(tensors: Iterable[torch.Tensor], name: str | None = None,
                            process_set: ProcessSet = global_process_set) -> Handle:
    """Begins an allgather of each of several tensors, carried out together or failing together; synchronize() returns a tuple. Every rank
    gives as many. Not differentiable."""
    return _torch.grouped_allgather_async([_rows(tensor) for tensor in tensors], name, native(process_set))


def grouped_allgather(tensors: Iterable[torch.Tensor], name: str | None = None, process_set: ProcessSet = global_process_set, *,
                      exact_gradient: bool = False) -> tuple[torch.Tensor, ...]:
    """allgather() of several tensors, together; returns a tuple. Differentiable."""
    tensors = list(tensors)
    if needs_gradient(tensors):
        return _Allgather.apply(True, name, process_set, Sum if exact_gradient else Average, *tensors)
    return grouped_allgather_async(tensors, name, process_set).wait()
