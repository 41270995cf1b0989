# SPDX-License-Identifier: Apache-2.0
"""alltoall: each rank sends some rows of its tensor to every rank.

Dtypes and all dimensions but the first are the same on every rank. In both functions:
    splits: how many rows go to rank 0, 1, ... of the process set: a list, or a tensor of int32 of one dimension. Rows behind them stay.
        None, or none of them: equal parts.
    name: pairs the calls of the ranks, and must not be in flight twice; calls without a name are paired by their order.
    process_set: the ranks that take part.
Raise ValueError for arguments that cannot mean anything, and for a name that is in flight; waiting raises HorovodInternalError, in the
same words on every rank, if ranks differ or one is lost.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from rueda import _torch
from rueda.common.process_sets import ProcessSet, global_process_set, native
from rueda.torch.operations.handles import Handle, name_of_gradient, needs_gradient


class _Pending:
    """A handle whose received splits are a tensor like `splits`."""

    def __init__(self, handle, splits):
        self._handle = handle
        self._like = splits if isinstance(splits, torch.Tensor) else torch.empty(0, dtype=torch.int32)

    def done(self):
        return self._handle.done()

    def wait(self):
        output, received = self._handle.wait()
        return output, torch.tensor(received, dtype=self._like.dtype, device=self._like.device)


class _Alltoall(torch.autograd.Function):
    """Gradients go back to the ranks from which rows came."""

    @staticmethod
    def forward(ctx, tensor, splits, name, process_set):
        ctx.arguments = name, process_set
        output, ctx.received = alltoall_async(tensor, splits, name, process_set).wait()
        ctx.mark_non_differentiable(ctx.received)
        return output, ctx.received

    @staticmethod
    def backward(ctx, gradient, *_):
        name, process_set = ctx.arguments
        return alltoall(gradient, ctx.received, name_of_gradient(name), process_set)[0], None, None, None


def _counts(splits):
    """`splits` as a list of integers; None: equal parts."""
    if splits is None:
        return None
    if not isinstance(splits, torch.Tensor):
        splits = torch.tensor(splits, dtype=torch.int32)
    if splits.dtype != torch.int32:
        raise ValueError(f"alltoall: splits is a tensor of {splits.dtype}; give one of torch.int32, as by splits.to(torch.int32)")
    if splits.dim() != 1:
        raise ValueError(f"alltoall: splits has {splits.dim()} dimensions; give one count for each rank, in one dimension")
    return splits.tolist() or None


def _rows_to_send(tensor, counts):
    """Horovod lets the counts be fewer than the rows there are."""
    if counts is None or not tensor.dim() or min(counts) < 0:
        return tensor  # the operation finds the error
    return tensor[:sum(counts)] if sum(counts) < tensor.shape[0] else tensor


def alltoall_async(tensor: torch.Tensor, splits: torch.Tensor | Sequence[int] | None = None, name: str | None = None,
                   process_set: ProcessSet = global_process_set) -> Handle:
    """Begins an alltoall; returns a handle for synchronize() and poll(). synchronize() returns the rows that came, and how many came from
    each rank, a tensor of the type of `splits` (else int32). Not differentiable."""
    counts = _counts(splits)
    return _Pending(_torch.alltoall_async(_rows_to_send(tensor, counts), counts, name, native(process_set)), splits)


def alltoall(tensor: torch.Tensor, splits: torch.Tensor | Sequence[int] | None = None, name: str | None = None,
             process_set: ProcessSet = global_process_set) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """The rows that came, in the order of ranks; with `splits` also how many came from each rank, a tensor of the type of `splits`
    (int32 for a list). Differentiable."""
    if needs_gradient([tensor]):
        output, received = _Alltoall.apply(_rows_to_send(tensor, _counts(splits)), splits, name, process_set)
    else:
        output, received = alltoall_async(tensor, splits, name, process_set).wait()
    return output if splits is None else (output, received)
