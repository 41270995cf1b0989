# SPDX-License-Identifier: Apache-2.0
"""broadcast: every rank gets the tensor of one.

Shapes and dtypes are the same on every rank. In all functions:
    root_rank: the rank that has the tensor, by its number in the job, whatever the process set.
    name: pairs the calls of the ranks, and must not be in flight twice; calls without a name are paired by their order.
    process_set: the ranks that take part, of which root_rank is one.
Raise ValueError for arguments that cannot mean anything, and for a name that is in flight; waiting raises HorovodInternalError, in the
same words on every rank, if ranks differ or one is lost.
"""

from __future__ import annotations

import torch

from rueda import _torch
from rueda.common import basics
from rueda.common.process_sets import ProcessSet, global_process_set, native
from rueda.torch.operations.handles import Average, Handle, Sum, name_of_gradient, needs_gradient


class _Broadcast(torch.autograd.Function):
    """The gradient of the root's tensor is the reduction of those of all results; that of the others' is zero."""

    @staticmethod
    def forward(ctx, tensor, root_rank, name, process_set, op):
        ctx.arguments = root_rank, name, process_set, op
        return _torch.broadcast(tensor, root_rank, name, native(process_set))

    @staticmethod
    def backward(ctx, gradient):
        from rueda.torch.operations.allreduce import allreduce
        root_rank, name, process_set, op = ctx.arguments
        gradient = allreduce(gradient, name=name_of_gradient(name), op=op, process_set=process_set)
        # A product, so that a further backward pass reduces on every rank.
        return gradient if basics.rank() == root_rank else gradient * 0, None, None, None, None


def broadcast_async(tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set) -> Handle:
    """Begins a broadcast into a new tensor; returns a handle for synchronize() and poll(). Not differentiable."""
    return _torch.broadcast_async(tensor, root_rank, name, native(process_set))


def broadcast(tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set, *,
              exact_gradient: bool = False) -> torch.Tensor:
    """The root's tensor, as a new one. Differentiable.

    exact_gradient: False: the gradient on the root is the average over ranks, as in Horovod. True: the sum, which is the derivative of the
        sum of the ranks' losses. On the other ranks it is zero.
    """
    if needs_gradient([tensor]):
        return _Broadcast.apply(tensor, root_rank, name, process_set, Sum if exact_gradient else Average)
    return _torch.broadcast(tensor, root_rank, name, native(process_set))


def broadcast_async_(tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set) -> Handle:
    """broadcast_async() whose result replaces the values of `tensor`."""
    return _torch.broadcast_async_(tensor, root_rank, name, native(process_set))


def broadcast_(tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """broadcast() whose result replaces the values of `tensor`; returns it. Not differentiable."""
    return _torch.broadcast_(tensor, root_rank, name, native(process_set))
