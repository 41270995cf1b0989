# SPDX-License-Identifier: Apache-2.0
"""send and recv: a message from one rank to another. Horovod has none of them.

In all functions:
    name: pairs one send() with one recv(), and must not be in flight twice in one direction; messages without a name are paired by their order.
    process_set: the ranks of which both are members. Ranks are given by their number in the job, whatever the process set.
A message begins when both ranks have called, so two ranks that send to each other begin with send_async() and recv_async(). No other rank takes
part. A tensor may have any strides. A captured graph cannot have messages. They are not differentiable. They raise ValueError for a rank that is this one or is no
member, for a name that is in flight, and for a tensor that needs a gradient; waiting raises HorovodInternalError, in the same words on both ranks, if
the tensors differ in shape or dtype, or if the other rank is lost.
"""

from __future__ import annotations

import torch

from rueda import _torch
from rueda.common.process_sets import ProcessSet, global_process_set, native
from rueda.torch.operations.handles import Handle, needs_gradient


def _without_gradient(tensor, operation):
    if needs_gradient([tensor]):
        raise ValueError(f"{operation} has no gradient; give a tensor that needs none (detach())")
    return tensor


def send_async(tensor: torch.Tensor, rank: int, name: str | None = None, process_set: ProcessSet = global_process_set) -> Handle:
    """Begins a send(); returns a handle for synchronize() and poll(). Leave the tensor as it is until then."""
    return _torch.send_async(_without_gradient(tensor, "send"), rank, name, native(process_set))


def send(tensor: torch.Tensor, rank: int, name: str | None = None, process_set: ProcessSet = global_process_set) -> None:
    """Sends the tensor to `rank`. Returns after that rank has called recv(), when the tensor may be changed."""
    _torch.send(_without_gradient(tensor, "send"), rank, name, native(process_set))


def recv_async(tensor: torch.Tensor, rank: int, name: str | None = None, process_set: ProcessSet = global_process_set) -> Handle:
    """Begins a recv(); returns a handle for synchronize() and poll()."""
    return _torch.recv_async(_without_gradient(tensor, "recv"), rank, name, native(process_set))


def recv(tensor: torch.Tensor, rank: int, name: str | None = None, process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """Receives into the tensor, which has the shape and dtype of the one that `rank` gives to send(). Returns that tensor."""
    return _torch.recv(_without_gradient(tensor, "recv"), rank, name, native(process_set))
