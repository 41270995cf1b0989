# SPDX-License-Identifier: Apache-2.0
"""The objects that an elastic job makes anew in each of its generations."""

from __future__ import annotations

import weakref
from typing import Any

from rueda import _core
from rueda.common import elastic

# Optimizers that were made outside of elastic.run(), in the order in which they were made. Each generation has reducers of its own.
_made_before_run: list[weakref.ref[Any]] = []


def ranks_meet_later() -> bool:
    """Whether ranks come here at different times: in an elastic job, before elastic.run()."""
    return _core.is_elastic() and not elastic.in_run()


def made_before_run(optimizer: Any) -> bool:
    """Whether ranks make this optimizer at different times: in an elastic job, before elastic.run(). Its reducer is then made by the next
    remake_reducers()."""
    if not ranks_meet_later():
        return False
    _made_before_run.append(weakref.ref(optimizer))
    return True


def remake_reducers() -> None:
    """Gives each of these optimizers a new reducer; the state of earlier generations' reductions goes. Collective; does nothing in jobs
    that are not elastic."""
    optimizers = [each for each in (made() for made in _made_before_run) if each is not None]
    _made_before_run[:] = [weakref.ref(each) for each in optimizers]
    for optimizer in optimizers:
        optimizer._forget_reducer()
    for optimizer in optimizers:
        optimizer._begin_reducing()
