# SPDX-License-Identifier: Apache-2.0
"""Tensors that the ranks of a host work on without a copy."""

from __future__ import annotations

from typing import Any

import torch

from rueda import _torch


def empty(*size: Any, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A tensor of zeroes in memory that the ranks of this host share: if every rank allreduces such a tensor, it is reduced in
    place. An ordinary tensor in all else. For tensors that live long: getting one costs some milliseconds a MiB."""
    if len(size) == 1 and not isinstance(size[0], int):
        size = tuple(size[0])
    return _torch.empty(list(size), dtype)
