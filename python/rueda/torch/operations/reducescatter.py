# SPDX-License-Identifier: Apache-2.0
"""reducescatter: each rank gets some rows of the reduction of the tensors of all; the first ranks get the remainder.

Shapes and dtypes are the same on every rank; a scalar has no rows and is refused. In all functions:
    op: Average (the default), Sum, Min, Max or Product. Adasum raises InvalidOperation.
    name: pairs the calls of the ranks, and must not be in flight twice; calls without a name are paired by their order.
    prescale_factor, postscale_factor: the factors of each tensor before, and of the result after.
    process_set: the ranks that take part.
Raise ValueError for arguments that cannot mean anything, and for a name that is in flight; waiting raises HorovodInternalError, in the
same words on every rank, if ranks differ or one is lost.

In those that are differentiable:
    exact_gradient: False: the gradient is that of all rows, gathered, times the factors, and for Sum times the number of ranks, as in
        Horovod. True: the derivative of the sum of the ranks' losses, an n-th of that for n ranks.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from rueda import _torch
from rueda.common.exceptions import InvalidOperation
from rueda.common.process_sets import ProcessSet, global_process_set, native
from rueda.torch.compression import Compression, Compressor
from rueda.torch.operations.allgather import grouped_allgather
from rueda.torch.operations.handles import Adasum, Average, Handle, ReduceOp, Sum, name_of_gradient, needs_gradient, reduce_op


class _Reducescatter(torch.autograd.Function):
    """Each rank's tensor has the gradients of all rows, times a factor."""

    @staticmethod
    def forward(ctx, name, factor, arguments, *tensors):
        ctx.name, ctx.factor, ctx.process_set = name, factor, arguments[1]
        op, process_set, prescale_factor, postscale_factor = arguments
        return _torch.grouped_reducescatter(list(tensors), name, op, prescale_factor, postscale_factor, native(process_set))

    @staticmethod
    def backward(ctx, *gradients):
        wholes = grouped_allgather(gradients, name_of_gradient(ctx.name), ctx.process_set)
        return None, None, None, *(whole * ctx.factor for whole in wholes)


def _scattering(op):
    op = reduce_op(op)
    if op == Adasum:
        raise InvalidOperation("reducescatter has no Adasum, which is of whole tensors; use allreduce and take the rows, or choose Average or Sum")
    return op


def _differentiable(tensors, op, name, process_set, prescale_factor, postscale_factor, exact_gradient):
    if op not in (Average, Sum):
        raise ValueError(f"reducescatter by {op.name} has no gradient; choose Average or Sum, or give a tensor that needs none (detach())")
    # Of the sum of the ranks' losses it is the product of the factors, and an average divides it; Horovod's is `size` times that.
    factor = prescale_factor * postscale_factor
    if exact_gradient and op == Average:
        factor /= process_set.size()
    elif not exact_gradient and op == Sum:
        factor *= process_set.size()
    return _Reducescatter.apply(name, factor, (op, process_set, prescale_factor, postscale_factor), *tensors)


def reducescatter_async(tensor: torch.Tensor, name: str | None = None, op: ReduceOp = Average, process_set: ProcessSet = global_process_set,
                        prescale_factor: float = 1.0, postscale_factor: float = 1.0) -> Handle:
    """Begins a reducescatter; returns a handle for synchronize() and poll(). Not differentiable."""
    return _torch.reducescatter_async(tensor, name, _scattering(op), prescale_factor, postscale_factor, native(process_set))


def reducescatter(tensor: torch.Tensor, name: str | None = None, compression: type[Compressor] = Compression.none, op: ReduceOp = Average,
                  process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                  postscale_factor: float = 1.0, *, exact_gradient: bool = False) -> torch.Tensor:
    """This rank's rows of the reduction. Differentiable for Average and Sum.

    compression: how the tensor travels; of Compression, or a Compressor of your own.
    """
    return grouped_reducescatter([tensor], name, compression, op, process_set, prescale_factor, postscale_factor,
                                 exact_gradient=exact_gradient)[0]


def grouped_reducescatter_async(tensors: Iterable[torch.Tensor], name: str | None = None, op: ReduceOp = Average,
                                process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                                postscale_factor: float = 1.0) -> Handle:
    """Begins a reducescatter of each of several tensors, carried out together or failing together; synchronize() returns a tuple. Every
    rank gives as many. Not differentiable."""
    return _torch.grouped_reducescatter_async(list(tensors), name, _scattering(op), prescale_factor, postscale_factor, native(process_set))


def grouped_reducescatter(tensors: Iterable[torch.Tensor], name: str | None = None, compression: type[Compressor] = Compression.none,
                          op: ReduceOp = Average, process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                          postscale_factor: float = 1.0, *, exact_gradient: bool = False) -> list[torch.Tensor]:
    """reducescatter() of several tensors, together; returns a list. Differentiable for Average and Sum."""
    op = _scattering(op)
    tensors = list(tensors)
    packed, contexts = zip(*map(compression.compress, tensors)) if tensors else ([], [])
    if needs_gradient(packed):
        parts = _differentiable(packed, op, name, process_set, prescale_factor, postscale_factor, exact_gradient)
    else:
        parts = _torch.grouped_reducescatter(packed, name, op, prescale_factor, postscale_factor, native(process_set))
    return [compression.decompress(part, ctx) for part, ctx in zip(parts, contexts)]
