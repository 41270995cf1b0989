# SPDX-License-Identifier: Apache-2.0
"""The sum or average of sparse tensors."""

from __future__ import annotations

from collections.abc import Callable

import torch

from rueda.common.process_sets import ProcessSet, global_process_set
from rueda.torch.operations.allgather import allgather_async
from rueda.torch.operations.handles import Average, ReduceOp, Sum, reduce_op


def sparse_allreduce_async(tensor: torch.Tensor, name: str, op: ReduceOp,
                           process_set: ProcessSet = global_process_set) -> Callable[[], torch.Tensor]:
    """Begins an allreduce of a sparse COO tensor; returns a function that waits, and returns the coalesced result.

    op: Average or Sum. Ranks may have different numbers of elements, also none; size and dtype are the same on every rank. Travels as two
    allgathers, NAME.indices and NAME.values.
    """
    op = reduce_op(op)
    if op not in (Average, Sum):
        raise ValueError(f"sparse tensors cannot be reduced by {op.name}; choose Average or Sum")
    if not tensor.is_sparse:
        raise ValueError(f"tensor '{name}' is not sparse (layout {tensor.layout}); use allreduce_async")
    tensor = tensor.coalesce()
    indices = allgather_async(tensor.indices().t().contiguous(), f"{name}.indices", process_set)
    values = allgather_async(tensor.values(), f"{name}.values", process_set)

    def wait():
        summed = torch.sparse_coo_tensor(indices.wait().t(), values.wait(), tensor.size(), check_invariants=False).coalesce()
        if op == Average:
            sums = summed.values()
            sums.copy_(sums / process_set.size() if sums.is_floating_point() else sums // process_set.size())
        return summed

    return wait
