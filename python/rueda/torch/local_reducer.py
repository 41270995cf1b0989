# SPDX-License-Identifier: Apache-2.0
"""Gradients that stay this rank's own."""

import torch

from rueda import _core


def check_passes(passes):
    """Raises ValueError for a number of passes that cannot be."""
    if not isinstance(passes, int) or passes < 1:
        raise ValueError(f"backward_passes_per_step is {passes}; it must be a whole number of at least 1")


class LocalReducer:
    """Has the functions of _torch.GradientReducer, and reduces nothing: for an optimizer outside of its process set.

    Purpose: also the base of reducers in Python, with all that needs no other rank. Used by the thread that steps.
    """

    def __init__(self, parameters):
        self._parameters = list({id(each): each for each in parameters}.values())
        self._given = [id(each) for each in parameters]
        self._wait_seconds = 0.0

    def synchronize(self):
        return True

    def before_step(self):
        return True

    def after_step(self):
        _core.end_step()

    def end_generation(self):
        pass

    def before_zero_grad(self):
        return True

    def enter_skip(self):
        pass

    def leave_skip(self):
        pass

    def enter_no_sync(self):
        pass

    def leave_no_sync(self):
        pass

    def check_parameters(self, parameters):
        if [id(each) for each in parameters] != self._given:
            raise ValueError("this optimizer was made for other parameters; make it when all have been added")

    def check_flushed(self, action):
        pass

    def grad_norm(self):
        self.synchronize()
        return torch.nn.utils.get_total_norm([each.grad for each in self._parameters if each.grad is not None]).item()

    def clip_grad_norm_(self, max_norm):
        self.synchronize()
        return torch.nn.utils.clip_grad_norm_(self._parameters, max_norm).item()

    def flush(self, max_norm=None):
        return False

    def sync_interval(self):
        return 1

    def wait_seconds(self):
        return self._wait_seconds
