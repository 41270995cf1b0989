# SPDX-License-Identifier: Apache-2.0
"""A module that every rank trains on its own data, for scripts written for torch.nn.parallel.DistributedDataParallel."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from rueda import _core, _torch
from rueda.common import elastic
from rueda.common.process_sets import ProcessSet, global_process_set, native
from rueda.torch.agreement import next_prefix
from rueda.torch.compression import Compression, Compressor, PowerSGD, TopkCompressor
from rueda.torch.functions import named_tensors
from rueda.torch.operations.broadcast import broadcast_async_
from rueda.torch.operations.handles import Average, ReduceOp
from rueda.torch.reducers import native_compression

_NOT_NEEDED = ("bucket_cap_mb", "check_reduction", "dim", "find_unused_parameters", "gradient_as_bucket_view", "static_graph")


class DistributedDataParallel(torch.nn.Module):
    """Wraps `module`. Its gradients are averages over all ranks when backward() returns.

        model = hvd.DistributedDataParallel(Net())
        optimizer = torch.optim.AdamW(model.parameters())  # any optimizer of torch, as it is

    Collective: every rank of the process set makes it, with the same module; then all have the parameters and buffers of the first.
    backward() is collective, and raises its error: ranks run as many passes. A parameter without a gradient on some ranks counts as zeros
    there, on all ranks has none; nothing need be said about it. module: as `.module`; state_dict() has its names after "module.".
    device_ids, output_device: None, or empty; tensors are in host memory.
    broadcast_buffers: a forward pass in training begins with the buffers of the first rank on all; passes in eval() and under no_grad()
        communicate nothing (those of torch do).
    init_sync: False leaves parameters and buffers as they are; they are the same then already.
    process_set: the ranks that train together (process_group in torch).
    op: Average, Sum or Adasum. compression, gradient_predivide_factor: as of hvd.DistributedOptimizer.
    Of torch's other arguments bucket_cap_mb, check_reduction, dim, find_unused_parameters, gradient_as_bucket_view and static_graph may be
    given: nothing of the kind is needed here.
    Copies (copy.deepcopy, torch.optim.swa_utils.AveragedModel, pickle, torch.save and torch.load) communicate nothing, and need no job: a
        copy's forward() runs its own copy of the module, its gradients stay this rank's, and repr() says so. state_dict() has the same
        names. To train a copy with all ranks make a DistributedDataParallel of its `.module`. (torch's goes on reducing.)

    Raises ValueError for arguments that cannot mean anything, and HorovodInternalError where ranks differ in them.
    """

    def __init__(self, module: torch.nn.Module, device_ids: None = None, output_device: None = None, *, broadcast_buffers: bool = True,
                 init_sync: bool = True, process_set: ProcessSet = global_process_set, op: ReduceOp = Average,
                 compression: type[Compressor] | PowerSGD | TopkCompressor = Compression.none, gradient_predivide_factor: float = 1.0,
                 **not_needed: Any):
        super().__init__()
        unknown = sorted(set(not_needed) - set(_NOT_NEEDED))
        if unknown:
            remedy = "; give the ranks as process_set" if "process_group" in unknown else ""
            raise TypeError(f"DistributedDataParallel does not take {', '.join(unknown)}{remedy}")
        if device_ids or output_device is not None:
            raise ValueError(f"device_ids is {device_ids} and output_device {output_device}; leave them out: tensors are in host memory")
        travels = native_compression(compression)
        if travels is None:
            raise ValueError(f"compression is {compression}; DistributedDataParallel takes those of hvd.Compression")
        if not any(parameter.requires_grad for parameter in module.parameters()):
            raise ValueError("DistributedDataParallel of a module with no parameter that requires a gradient; use the module itself")
        if _core.is_elastic() and not elastic.in_run():
            raise ValueError("DistributedDataParallel is collective, and in an elastic job (ruedarun --min-np) ranks come to this place at different "
                             "times: make it in the function given to elastic.run; the module and its optimizer go into the TorchState before")
        self.module = module
        self.broadcast_buffers = broadcast_buffers
        self._process_set, self._joins, self._pauses = process_set, False, 0
        self._root = 0 if process_set is global_process_set else process_set.ranks[0]
        self._name = next_prefix("data_parallel", process_set)
        if init_sync:
            self._give_state(self._root)
        named = list(module.named_parameters())
        self._wrapped = [id(parameter) for _, parameter in named]
        self._reducer = _torch.GradientReducer(
            parameters=[parameter for _, parameter in named], named_parameters=named, groups=[], op=op, backward_passes_per_step=1,
            sum_passes=True, schedule="every_step", sparse=_torch.SparseGradients.as_sparse, **travels,
            gradient_predivide_factor=gradient_predivide_factor, device_window=False, measure_norm=False, synchronize_in_backward=True,
            sharded=False, process_set=native(process_set))

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        if self._reducer is None:
            return self.module(*inputs, **kwargs)
        if self.broadcast_buffers and self.training and torch.is_grad_enabled() and not self._pauses and not self._joins:
            self._give_buffers()
        if torch.is_grad_enabled():
            if self._wrapped != [id(parameter) for parameter in self.module.parameters()]:
                raise ValueError("the module has other parameters than when DistributedDataParallel was made of it, and those would not be "
                                 "reduced; make it again")
            self._reducer.refresh_hooks()
        return self.module(*inputs, **kwargs)

    def _give_state(self, root):
        tensors = named_tensors([*self.module.named_parameters(), *self.module.named_buffers()])
        _torch.broadcast_parameters(tensors, root, native(self._process_set))

    def _give_buffers(self):
        handles = [broadcast_async_(buffer.data, self._root, f"{self._name}.{name}", self._process_set)
                   for name, buffer in self.module.named_buffers()]
        for handle in handles:
            handle.wait()

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Backward passes in this context only add to .grad; the sum there is reduced with the next pass outside of it. (The call of
        backward() counts; in torch the forward pass does.)"""
        if self._reducer is None:
            yield
            return
        self._reducer.enter_no_sync()
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            self._reducer.leave_no_sync()

    @contextlib.contextmanager
    def join(self, divide_by_initial_world_size: bool = True, enable: bool = True) -> Iterator[None]:
        """For ranks with different numbers of batches: `with model.join():` around the loop over them, on every rank.

        A rank that leaves the context takes part in the passes of the others with gradients of zero until all have left; then all have
        the parameters and buffers of one that left last. Averages stay those over all ranks. In it buffers are each rank's own.
        divide_by_initial_world_size: True only. enable: False makes the context do nothing.
        """
        if not divide_by_initial_world_size:
            raise ValueError("join: averages are over all ranks; scale the loss for others, and leave divide_by_initial_world_size out")
        if not enable or self._reducer is None:
            yield
            return
        self._joins = True
        try:
            yield
        finally:
            self._joins = False
        last = _core.join(native(self._process_set))
        self._give_state(last)

    def __getstate__(self):
        """Of a copy, which is this process's own: to join the ranks would be collective."""
        own = {"_process_set": None, "_reducer": None, "_wrapped": [], "_joins": False, "_pauses": 0}
        return {**self.__dict__, **own}

    def extra_repr(self) -> str:
        return "a copy: gradients are not reduced" if self._reducer is None else ""
