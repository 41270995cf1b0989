# SPDX-License-Identifier: Apache-2.0
"""Updates of the ranks' optimizers, combined by Adasum."""

import time

import torch

from rueda import _core
from rueda.common.exceptions import OutOfTurn
from rueda.torch.agreement import check_agreed, next_prefix
from rueda.torch.local_reducer import LocalReducer
from rueda.torch.operations.allreduce import allreduce_async_
from rueda.torch.operations.handles import Adasum


class AdasumReducer(LocalReducer):
    """Reduces the change that a step makes to each parameter, as _torch.GradientReducer does gradients; like Horovod's.

    Purpose: each rank steps on its own gradients; then every parameter becomes its old value plus the Adasum of the ranks' changes. So the
    state of the optimizer (momentum, say) is each rank's own. Used by the thread that steps.
    """

    def __init__(self, parameters, names, compression, process_set, passes):
        super().__init__(parameters)
        prefix = next_prefix("adasum", process_set)
        self._trained = [each for each in self._parameters if each.requires_grad]
        self._names = [f"{prefix}.{names[each]}" for each in self._trained]
        self._compression, self._process_set = compression, process_set
        self._before = None
        described = [f"op Adasum of updates, backward_passes_per_step {passes}"]
        described += [f"'{names[each]}' {each.dtype} {list(each.shape)}" for each in self._trained]
        check_agreed(described, process_set)
        for each in self._trained:
            if each.grad is None:
                each.grad = torch.zeros_like(each)

    def enter_skip(self):
        raise OutOfTurn("skip_synchronize() means nothing with op=Adasum, which combines what step() does; leave it out")

    @torch.no_grad()
    def before_step(self):
        self._before = [each.clone() for each in self._trained]
        return True

    @torch.no_grad()
    def after_step(self):
        begin = time.perf_counter()
        with _core.PhaseContext("wait"):
            self._combine()
        self._before = None
        self._wait_seconds += time.perf_counter() - begin
        super().after_step()

    def _combine(self):
        flying = []
        for parameter, before, name in zip(self._trained, self._before, self._names):
            packed, ctx = self._compression.compress(parameter - before)
            flying.append((allreduce_async_(packed, name=name, op=Adasum, process_set=self._process_set), ctx))
        for parameter, before, (handle, ctx) in zip(self._trained, self._before, flying):
            parameter.copy_(before + self._compression.decompress(handle.wait(), ctx))
