# SPDX-License-Identifier: Apache-2.0
"""broadcast: every rank gets the tensor of one.

Shapes and dtypes are the same on every rank. In all functions:
    root_rank: whose tensor it is, by its number in the job, whatever the process set.
    name: pairs the calls of the ranks, and must not be in flight twice; calls without a name are paired by their order.
    process_set: the ranks that take part, of which root_rank is one.
Raise ValueError for arguments that cannot mean anything; waiting raises HorovodInternalError, in the same words on every rank, where
ranks differ or one is lost.
"""

from __future__ import annotations

import torch

from rueda import _torch
from rueda.common import basics
from rueda.common.process_sets import ProcessSet, global_process_set, native
from rueda.torch.operations.handles import Handle, Sum, name_of_gradient, needs_gradient


class _Broadcast(torch.autograd.Function):
    """The gradient of the root's tensor is the sum of those of all results; that of the others' is zero."""

    @staticmethod
    def forward(ctx, tensor, root_rank, name, process_set):
        ctx.arguments = root_rank, name, process_set
        return _torch.broadcast(tensor, root_rank, name, native(process_set))

    @staticmethod
    def backward(ctx, gradient):
        from rueda.torch.operations.allreduce import allreduce
        root_rank, name, process_set = ctx.arguments
        gradient = allreduce(gradient, name=name_of_gradient(name), op=Sum, process_set=process_set)
        return gradient if basics.rank() == root_rank else torch.zeros_like(gradient), None, None, None


def broadcast_async(tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set) -> Handle:
    """Begins a broadcast into a new tensor; returns a handle for synchronize() and poll(). Not differentiable."""
    return _torch.broadcast_async(tensor, root_rank, name, native(process_set))


def broadcast(tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """The root's tensor, as a new one. Differentiable."""
    if needs_gradient([tensor]):
        return _Broadcast.apply(tensor, root_rank, name, process_set)
    return _torch.broadcast(tensor, root_rank, name, native(process_set))


def broadcast_async_(tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set) -> Handle:
    """broadcast_async() whose result replaces the values of `tensor`."""
    return _torch.broadcast_async_(tensor, root_rank, name, native(process_set))


def broadcast_(tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """broadcast() whose result replaces the values of `tensor`; returns it. Not differentiable."""
    return _torch.broadcast_(tensor, root_rank, name, native(process_set))
