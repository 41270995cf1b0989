# SPDX-License-Identifier: Apache-2.0
"""Marks of the training loop that no program has to make: batches of a DataLoader, collections of garbage, steps of torch.distributed."""

from __future__ import annotations

import functools
import gc
import os
import threading
from typing import Any

from torch.optim import optimizer
from torch.utils.data import dataloader

from rueda import _core, _torch

_OLDEST_GENERATION = 2
_collections: list[Any] = []  # that run; one at most


def begin() -> None:
    """Begins to mark, once, in a process that ruedarun has started."""
    iterator = dataloader._BaseDataLoaderIter
    if "RUEDA_AGENT_LINE" not in os.environ or hasattr(iterator.__next__, "__wrapped__"):
        return
    iterator.__next__ = _marked(iterator.__next__)
    gc.callbacks.append(_mark_collection)


def begin_steps_of_groups() -> None:
    """Begins to mark the steps of programs that train by groups of torch.distributed."""
    if "RUEDA_AGENT_LINE" not in os.environ:
        return
    optimizer.register_optimizer_step_pre_hook(lambda *_: _torch.mark_step_begin())
    optimizer.register_optimizer_step_post_hook(lambda each, *_: _torch.mark_step_end(hasattr(each, "_own_reducer")))


def _marked(next_batch):
    @functools.wraps(next_batch)
    def marked(iterator):
        if not _is_training_loop():
            return next_batch(iterator)
        with _core.PhaseContext("data"):
            return next_batch(iterator)
    return marked


def _is_training_loop() -> bool:
    """Other threads load ahead, and collect garbage while the main thread waits."""
    return threading.current_thread() is threading.main_thread()


def _mark_collection(moment: str, facts: dict[str, int]) -> None:
    if facts["generation"] != _OLDEST_GENERATION or not _is_training_loop():
        return
    if moment == "start":
        _collections.append(_core.PhaseContext("garbage").__enter__())
    elif _collections:
        _collections.pop().__exit__(None, None, None)
