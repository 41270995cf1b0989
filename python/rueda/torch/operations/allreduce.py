# SPDX-License-Identifier: Apache-2.0
"""allreduce: every rank gets the reduction of the tensors of all.

Shapes and dtypes are the same on every rank; strides may differ. All dtypes that Rueda moves: uint8, int8, int16, int32, int64, float16,
bfloat16, float32, float64 and bool; 16-bit floats are added up in float32. Averages of integers are exact, rounded toward
zero; their sums and products wrap. In all functions:
    op: Average (the default), Sum, Min, Max, Product or Adasum; the older `average` (True, False) stands for Average and Sum.
    name: pairs the calls of the ranks, and must not be in flight twice; calls without a name are paired by their order.
    prescale_factor, postscale_factor: the factors of each tensor before, and of the result after.
    process_set: the ranks that take part.
While an operation is in flight its tensors are its own: one that replaces the values of a tensor must be the only one that has it.
Raise ValueError for arguments that cannot mean anything, and for a name that is in flight; waiting raises HorovodInternalError, in the
same words on every rank, if ranks differ or one is lost.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from rueda import _torch
from rueda.common.process_sets import ProcessSet, global_process_set, native
from rueda.torch.compression import Compression, Compressor
from rueda.torch.operations.allgather import allgather
from rueda.torch.operations.handles import Average, Handle, Max, Min, Product, ReduceOp, Sum, name_of_gradient, needs_gradient, reduce_op


class _Allreduce(torch.autograd.Function):
    """The gradient is the same reduction of the gradients, as in Horovod: for a sum or an average that is the derivative, too."""

    @staticmethod
    def forward(ctx, grouped, name, op, prescale_factor, postscale_factor, process_set, *tensors):
        ctx.arguments = name, op, prescale_factor, postscale_factor, process_set
        # The same operation as on a rank whose tensors need no gradient.
        if not grouped:
            return _torch.allreduce(tensors[0], name, op, prescale_factor, postscale_factor, native(process_set))
        return _torch.grouped_allreduce(list(tensors), name, op, prescale_factor, postscale_factor, native(process_set))

    @staticmethod
    def backward(ctx, *gradients):
        name, op, prescale_factor, postscale_factor, process_set = ctx.arguments
        gradients = grouped_allreduce(gradients, None, name_of_gradient(name), Compression.none, op, prescale_factor, postscale_factor,
                                      process_set)
        return None, None, None, None, None, None, *gradients


class _Extreme(torch.autograd.Function):
    """The least, or the greatest: its gradient goes to the ranks that have it, in equal parts."""

    @staticmethod
    def forward(ctx, tensor, name, op, process_set):
        result = allreduce_async(tensor, None, name, op, process_set=process_set).wait()
        ctx.arguments = name, process_set
        ctx.save_for_backward(tensor == result)
        return result

    @staticmethod
    def backward(ctx, gradient):
        name, process_set = ctx.arguments
        mine = ctx.saved_tensors[0].to(gradient.dtype)
        gradient, holders = grouped_allreduce([gradient, mine], name=name_of_gradient(name), op=Sum, process_set=process_set)
        return gradient * mine / holders, None, None, None


class _Product(torch.autograd.Function):
    """The gradient of a factor is the product of the others."""

    @staticmethod
    def forward(ctx, tensor, name, process_set):
        ctx.arguments = name, process_set
        ctx.save_for_backward(tensor)
        return allreduce_async(tensor, None, name, Product, process_set=process_set).wait()

    @staticmethod
    def backward(ctx, gradient):
        name, process_set = ctx.arguments
        name = name_of_gradient(name)
        gradient = allreduce(gradient, name=name, op=Sum, process_set=process_set)
        rows = allgather(ctx.saved_tensors[0].unsqueeze(0), None if name is None else f"{name}.factors", process_set)
        mine = process_set.rank()
        return gradient * torch.cat([rows[:mine], rows[mine + 1:]]).prod(0), None, None


def _with_exact_gradient(tensor, name, op, prescale_factor, postscale_factor, process_set):
    """By Min, Max or Product. Scaled here, so that the gradient knows the compared values."""
    if prescale_factor != 1.0:
        tensor = tensor * prescale_factor
    if not needs_gradient([tensor]):
        result = allreduce_async(tensor, None, name, op, process_set=process_set).wait()
    elif op == Product:
        result = _Product.apply(tensor, name, process_set)
    else:
        result = _Extreme.apply(tensor, name, op, process_set)
    return result if postscale_factor == 1.0 else result * postscale_factor


def allreduce_async(tensor: torch.Tensor, average: bool | None = None, name: str | None = None, op: ReduceOp | None = None,
                    prescale_factor: float = 1.0, postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set) -> Handle:
    """Begins an allreduce into a new tensor, laid out as `tensor` is; returns a handle for synchronize() and poll(). `tensor` must not
    change until then. Not differentiable."""
    # Most calls use the defaults. The test for them is here, because the calls take a tenth of a submission.
    op = Average if op is None and average is None else reduce_op(op, average)
    members = None if process_set is global_process_set else native(process_set)
    return _torch.allreduce_async(tensor, name, op, prescale_factor, postscale_factor, members)


def allreduce(tensor: torch.Tensor, average: bool | None = None, name: str | None = None, compression: type[Compressor] = Compression.none,
              op: ReduceOp | None = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
              process_set: ProcessSet = global_process_set, *, exact_gradient: bool = False) -> torch.Tensor:
    """The reduction, as a new tensor. Differentiable: the gradient is the same reduction of the ranks' gradients, as in Horovod.

    compression: how the tensor travels; of Compression, or a Compressor of your own.
    exact_gradient: True: of Min, Max and Product the derivative of the sum of the ranks' losses. (Of Sum and Average it is that anyway.)
    """
    op = reduce_op(op, average)
    packed, ctx = compression.compress(tensor)
    differentiated = needs_gradient([packed])
    if exact_gradient and op in (Min, Max, Product):
        reduced = _with_exact_gradient(packed, name, op, prescale_factor, postscale_factor, process_set)
    elif differentiated:
        reduced = _Allreduce.apply(False, name, op, prescale_factor, postscale_factor, process_set, packed)
    else:
        reduced = _torch.allreduce(packed, name, op, prescale_factor, postscale_factor, native(process_set))
    return compression.decompress(reduced, ctx)


def allreduce_async_(tensor: torch.Tensor, average: bool | None = None, name: str | None = None, op: ReduceOp | None = None,
                     prescale_factor: float = 1.0, postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set) -> Handle:
    """allreduce_async() whose result replaces the values of `tensor`."""
    op = Average if op is None and average is None else reduce_op(op, average)
    members = None if process_set is global_process_set else native(process_set)
    return _torch.allreduce_async_(tensor, name, op, prescale_factor, postscale_factor, members)


def allreduce_(tensor: torch.Tensor, average: bool | None = None, name: str | None = None, op: ReduceOp | None = None,
               prescale_factor: float = 1.0, postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """allreduce() whose result replaces the values of `tensor`; returns it. Not differentiable."""
    return _torch.allreduce_(tensor, name, reduce_op(op, average), prescale_factor, postscale_factor, native(process_set))


def grouped_allreduce_async(tensors: Iterable[torch.Tensor], average: bool | None = None, name: str | None = None,
                            op: ReduceOp | None = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                            process_set: ProcessSet = global_process_set) -> Handle:
    """Begins an allreduce of each of several tensors, carried out together or failing together; synchronize() returns a tuple. Every rank
    gives as many. Not differentiable."""
    return _torch.grouped_allreduce_async(list(tensors), name, reduce_op(op, average), prescale_factor, postscale_factor,
                                          native(process_set))


def grouped_allreduce(tensors: Iterable[torch.Tensor], average: bool | None = None, name: str | None = None,
                      compression: type[Compressor] = Compression.none, op: ReduceOp | None = None, prescale_factor: float = 1.0,
                      postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set) -> list[torch.Tensor]:
    """allreduce() of several tensors, together; returns a list. Differentiable, as allreduce() is."""
    op = reduce_op(op, average)
    tensors = list(tensors)
    packed, contexts = zip(*map(compression.compress, tensors)) if tensors else ([], [])
    if not needs_gradient(packed):
        reduced = _torch.grouped_allreduce(packed, name, op, prescale_factor, postscale_factor, native(process_set))
    else:
        reduced = _Allreduce.apply(True, name, op, prescale_factor, postscale_factor, process_set, *packed)
    return [compression.decompress(tensor, ctx) for tensor, ctx in zip(reduced, contexts)]


def grouped_allreduce_async_(tensors: Iterable[torch.Tensor], average: bool | None = None, name: str | None = None,
                             op: ReduceOp | None = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                             process_set: ProcessSet = global_process_set) -> Handle:
    """grouped_allreduce_async() whose results replace the values of the tensors."""
    return _torch.grouped_allreduce_async_(list(tensors), name, reduce_op(op, average), prescale_factor, postscale_factor,
                                           native(process_set))


def grouped_allreduce_(tensors: Iterable[torch.Tensor], average: bool | None = None, name: str | None = None, op: ReduceOp | None = None,
                       prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                       process_set: ProcessSet = global_process_set) -> tuple[torch.Tensor, ...]:
    """grouped_allreduce() whose results replace the values of the tensors; returns them as a tuple. Not differentiable."""
    return _torch.grouped_allreduce_(list(tensors), name, reduce_op(op, average), prescale_factor, postscale_factor,
                                     native(process_set))
