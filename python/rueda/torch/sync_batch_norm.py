# SPDX-License-Identifier: Apache-2.0
"""Batch normalisation by the statistics of all ranks' batches together."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from rueda import _torch
from rueda.common.process_sets import ProcessSet, global_process_set, native


class SyncBatchNorm(_BatchNorm):
    """torch.nn.BatchNorm of the batch that all ranks have together: outputs, gradients of inputs and running statistics are those of one
    process with the whole batch.

    Inputs have the shape (N, C, ...) with C = num_features; ranks may have different N, also 0. In training it is collective, forward and
    backward; in eval() it communicates nothing. On CPU too (Horovod's raises there). Arguments as of torch.nn.BatchNorm2d, and the ranks
    that normalise together. In training, raises ValueError, on every rank, for an input that any of them cannot normalise.
    """

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
                 track_running_stats: bool = True, *, process_set: ProcessSet = global_process_set):
        super().__init__(num_features, eps, momentum, affine, track_running_stats)
        self.process_set = process_set
        self._made_with: Any = None
        self._normaliser: Any = None  # made when it is needed first: the module may be older than init()

    def _check_input_dim(self, input):
        if input.dim() < 2 or input.size(1) != self.num_features:
            raise ValueError(f"SyncBatchNorm got an input of shape {list(input.shape)}; it must be (N, {self.num_features}, ...)")

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        if not self.training:
            return super().forward(input)
        if self._normaliser is None or self._made_with != (self.eps, self.momentum):
            self._made_with = self.eps, self.momentum
            self._normaliser = _torch.SyncBatchNorm(self.num_features, self.eps, self.momentum, native(self.process_set))
        return self._normaliser.forward(input, self.weight, self.bias, self.running_mean, self.running_var, self.num_batches_tracked)

    def __getstate__(self):
        return {**self.__dict__, "_normaliser": None}

    @classmethod
    def convert_sync_batchnorm(cls, module: torch.nn.Module, process_set: ProcessSet = global_process_set) -> torch.nn.Module:
        """`module`, with a SyncBatchNorm of the same parameters and statistics in the place of every BatchNorm1d, 2d and 3d."""
        if isinstance(module, _BatchNorm) and not isinstance(module, cls):
            made = cls(module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats, process_set=process_set)
            for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
                setattr(made, name, getattr(module, name))
            return made.train(module.training)
        for name, child in module.named_children():
            setattr(module, name, cls.convert_sync_batchnorm(child, process_set))
        return module
