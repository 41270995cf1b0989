# SPDX-License-Identifier: Apache-2.0
"""alltoall: each rank sends some rows of its tensor to every rank.

Dtypes and all dimensions but the first are the same on every rank. In both functions:
    splits: how many rows go to rank 0, 1, ... of the process set, a list or a tensor of integers; None: equal parts, the result is then
        the tensor alone.
    name: pairs the calls of the ranks, and must not be in flight twice; calls without a name are paired by their order.
    process_set: the ranks that take part.
Raise ValueError for arguments that cannot mean anything; waiting raises HorovodInternalError, in the same words on every rank, where
ranks differ or one is lost.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from rueda import _torch
from rueda.common.process_sets import ProcessSet, global_process_set, native
from rueda.torch.operations.handles import Handle, name_of_gradient, needs_gradient


class _Pending:
    """A handle whose received_splits are a tensor like `splits`."""

    def __init__(self, handle, splits):
        self._handle = handle
        self._like = splits if isinstance(splits, torch.Tensor) else torch.empty(0, dtype=torch.int32)

    def done(self):
        return self._handle.done()

    def wait(self):
        output, received = self._handle.wait()
        return output, torch.tensor(received, dtype=self._like.dtype, device=self._like.device)


class _Alltoall(torch.autograd.Function):
    """Gradients go back to where rows came from."""

    @staticmethod
    def forward(ctx, tensor, splits, name, process_set):
        ctx.arguments = name, process_set
        result = alltoall_async(tensor, splits, name, process_set).wait()
        output, ctx.received = (result, None) if splits is None else result
        if splits is None:
            return output
        ctx.mark_non_differentiable(ctx.received)
        return output, ctx.received

    @staticmethod
    def backward(ctx, gradient, *_):
        name, process_set = ctx.arguments
        result = alltoall(gradient, ctx.received, name_of_gradient(name), process_set)
        return result if ctx.received is None else result[0], None, None, None


def alltoall_async(tensor: torch.Tensor, splits: torch.Tensor | Sequence[int] | None = None, name: str | None = None,
                   process_set: ProcessSet = global_process_set) -> Handle:
    """Begins an alltoall; returns a handle for synchronize() and poll(). Not differentiable."""
    if splits is None:
        return _torch.alltoall_async(tensor, None, name, native(process_set))
    rows = splits.tolist() if isinstance(splits, torch.Tensor) else [int(count) for count in splits]
    return _Pending(_torch.alltoall_async(tensor, rows, name, native(process_set)), splits)


def alltoall(tensor: torch.Tensor, splits: torch.Tensor | Sequence[int] | None = None, name: str | None = None,
             process_set: ProcessSet = global_process_set) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """The rows that came, in the order of ranks; with `splits` also how many came from each rank, a tensor of the type of `splits`
    (int32 for a list). Differentiable."""
    if needs_gradient([tensor]):
        return _Alltoall.apply(tensor, splits, name, process_set)
    return alltoall_async(tensor, splits, name, process_set).wait()
