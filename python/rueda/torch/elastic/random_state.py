# SPDX-License-Identifier: Apache-2.0
"""The random generators of a process."""

from __future__ import annotations

import random
import sys
from typing import Any

import torch


def random_states() -> dict[str, Any]:
    """The states of the generators of torch (CPU, and the current CUDA device if CUDA is in use), of Python, and of numpy if it is imported."""
    states: dict[str, Any] = {"torch": torch.get_rng_state(), "python": random.getstate()}
    if torch.cuda.is_initialized():
        device = torch.cuda.current_device()
        states["cuda"] = device, torch.cuda.get_rng_state(device)
    if "numpy" in sys.modules:
        states["numpy"] = sys.modules["numpy"].random.get_state()
    return states


def set_random_states(states: dict[str, Any]) -> None:
    """Goes back to the result of random_states()."""
    torch.set_rng_state(states["torch"])
    random.setstate(states["python"])
    if "cuda" in states:
        device, state = states["cuda"]
        torch.cuda.set_rng_state(state, device)
    if "numpy" in states:
        sys.modules["numpy"].random.set_state(states["numpy"])
