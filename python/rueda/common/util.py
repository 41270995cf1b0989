# SPDX-License-Identifier: Apache-2.0
"""Small things that scripts written for Horovod ask for."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import Any, TypeVar

T = TypeVar("T")


def extension_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Whether Rueda has the extension for a framework: "torch"."""
    found = importlib.util.find_spec(f"rueda._{ext_base_name}") is not None
    if verbose:
        print(f"rueda: the extension for {ext_base_name} is {'there' if found else 'not there'}")
    return found


def check_extension(ext_name: str, ext_env_var: str, pkg_path: str, *args: Any) -> None:
    """Raises ImportError when Rueda was built without the framework of `ext_name` ("rueda.torch")."""
    framework = ext_name.rsplit(".", 1)[-1]
    if not extension_available(framework):
        raise ImportError(f"Rueda was built without {framework}: install it, then install rueda again with {ext_env_var}=1")


def gpu_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Whether tensors on GPUs can be given to Rueda as it was built."""
    from rueda.common import basics
    return bool(basics.cuda_built())


def num_rank_is_power_2(num_rank: int) -> bool:
    """Whether `num_rank` is a power of two. (Adasum takes any number of ranks here.)"""
    return num_rank > 0 and num_rank & (num_rank - 1) == 0


def split_list(items: Sequence[T], num_parts: int) -> list[Sequence[T]]:
    """`items` in `num_parts` lists, in order, as equal in length as can be: the first ones have one more."""
    count, rest = divmod(len(items), num_parts)
    ends = [(i + 1) * count + min(i + 1, rest) for i in range(num_parts)]
    return [items[begin:end] for begin, end in zip([0, *ends], ends)]
