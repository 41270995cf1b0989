# SPDX-License-Identifier: Apache-2.0
from typing import Any

class ProcessSet:
    id: int
    ranks: list[int]
    size: int
    rank: int

def __getattr__(name: str) -> Any: ...
