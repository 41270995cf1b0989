# SPDX-License-Identifier: Apache-2.0
"""An optimizer of which each rank has a part: DistributedOptimizer(sharded=True)."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch

from rueda import _torch
from rueda.common.exceptions import HorovodInternalError
from rueda.common.process_sets import global_process_set
from rueda.torch.functions import settings_of
from rueda.torch.generations import ranks_meet_later

# Optimizers with a step of one element that needs the other elements of its parameter.
_NOT_ELEMENTWISE = ("Adafactor", "LBFGS", "Muon", "SparseAdam")


def check_sharded(optimizer: torch.optim.Optimizer, process_set: Any) -> None:
    """Raises ValueError for an optimizer that cannot be sharded."""
    name = type(optimizer).__name__
    if name in _NOT_ELEMENTWISE or not type(optimizer).__module__.startswith("torch.optim"):
        raise ValueError(f"sharded: {name} is not known to step each element by itself; leave sharded out")
    # Adagrad has state before its first step.
    if any(state.get("step", 1) > 0 for state in optimizer.state.values()):
        raise ValueError(f"sharded: {name} has stepped already, and its state is of whole parameters; make it distributed before")
    if process_set is not global_process_set:
        raise ValueError("sharded: parts are for all ranks; leave process_set out, or sharded")


# The class that the methods below extend.
_Base: Any = object if not TYPE_CHECKING else Any


class Sharded(_Base):
    """The methods that DistributedOptimizer(sharded=True) puts before those of a distributed optimizer. param_groups hold this rank's parts, and the
    copies of other ranks' parts that an elastic job keeps."""

    _part_copies: int

    def _distribute(self, options):
        self._shards = _torch.ParameterShards([group["params"] for group in self.param_groups], self._part_copies, ranks_meet_later())
        self._due_settings: list[dict[str, Any]] = []
        self._take_parts()
        if self.state:
            self.state = torch.optim.Adagrad(self.param_groups).state
        super()._distribute(options)

    def _take_parts(self):
        for group, parts in zip(self.param_groups, self._shards.parts()):
            group["params"] = parts

    @property
    def _step_supports_amp_scaling(self):
        """The property that GradScaler.step() asks for first."""
        raise ValueError("sharded: a GradScaler would look at this rank's part of the gradients only; leave sharded out, or train in bfloat16, "
                         "which needs no scaler")

    def _reduced_parameters(self):
        return self._shards.parameters()

    def _step_on_reduced(self):
        try:
            self._shards.begin_step([group["params"] for group in self.param_groups])
        except HorovodInternalError:
            self._due_settings = self._settings()
            raise
        try:
            super()._step_on_reduced()
        except BaseException:
            self._shards.end_step(False)  # the others wait for this rank, and hear of it
            raise
        self._shards.end_step(True)

    def _settings(self):
        return [settings_of(group) for group in self.param_groups]

    def _set(self, settings):
        for group, of_group in zip(self.param_groups, copy.deepcopy(settings)):
            group.update(of_group)

    def _states(self):
        """The optimizer's state for each of the parts here."""
        leaves = [leaf for group in self.param_groups for leaf in group["params"]]
        return [{name: value for name, value in self.state.get(leaf, {}).items() if value is not None} for leaf in leaves]

    def _divide(self, root):
        """Divides the version that rank `root` has among the present ranks. Collective."""
        self._shards.agree_on_version(root)
        if self._shards.is_step_due():
            settings = self._settings()
            self._set(self._due_settings)
            super()._step_on_reduced()
            self._shards.end_due_step()
            self._set(settings)
        states = self._shards.divide(self._states())
        self._take_parts()
        self.state.clear()
        leaves = [(group, leaf) for group in self.param_groups for leaf in group["params"]]
        for (group, leaf), state in zip(leaves, states):
            if state:
                self.state[leaf] = {name: _on_device_of(leaf, group, name, value) for name, value in state.items()}

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Raises ValueError: parts are made once."""
        raise ValueError("sharded: parts of the parameters are made once; make the optimizer when all groups are known")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Of the model's parameters; else as of other distributed optimizers."""
        if self._own_reducer is not None and not self._own_reducer.before_zero_grad():
            return
        for parameter in self._reduced_parameters():
            if set_to_none:
                parameter.grad = None
            elif parameter.grad is not None:
                parameter.grad.detach_().zero_()

    def shares_parameters(self) -> bool:
        """Whether all ranks have one copy of the parameters (inside a host), or each its own."""
        return self._shards.shared()


def _on_device_of(leaf, group, name, value):
    """As torch's optimizers place it: the number of steps stays in the host's memory, unless a kernel of the device reads it."""
    in_host = name == "step" and not (group.get("capturable") or group.get("fused"))
    return value.to(leaf.device) if isinstance(value, torch.Tensor) and not in_host else value
