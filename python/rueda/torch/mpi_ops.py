# SPDX-License-Identifier: Apache-2.0
"""All collective operations, under the name that scripts written for Horovod import them from."""

from __future__ import annotations

from rueda import _core
from rueda.common.basics import (barrier, ccl_built, cross_rank, cross_size, cuda_built, ddl_built, gloo_built, gloo_enabled, init,
                                 is_homogeneous, is_initialized, local_rank, local_size, mpi_built, mpi_enabled, mpi_threads_supported,
                                 nccl_built, rank, rocm_built, shutdown, size, start_timeline, stop_timeline)
from rueda.common.process_sets import global_process_set
from rueda.torch.operations.allgather import allgather, allgather_async, grouped_allgather, grouped_allgather_async
from rueda.torch.operations.allreduce import (allreduce, allreduce_, allreduce_async, allreduce_async_, grouped_allreduce,
                                              grouped_allreduce_, grouped_allreduce_async, grouped_allreduce_async_)
from rueda.torch.operations.alltoall import alltoall, alltoall_async
from rueda.torch.operations.broadcast import broadcast, broadcast_, broadcast_async, broadcast_async_
from rueda.torch.operations.handles import Adasum, Average, Max, Min, Product, Sum, poll, synchronize
from rueda.torch.operations.messages import recv, recv_async, send, send_async
from rueda.torch.operations.reducescatter import (grouped_reducescatter, grouped_reducescatter_async, reducescatter,
                                                  reducescatter_async)
from rueda.torch.operations.rooted import (gather, gather_async, reduce, reduce_, reduce_async, reduce_async_, scatter,
                                           scatter_async)
from rueda.torch.operations.sparse import sparse_allreduce_async

__all__ = ["Adasum", "Average", "Max", "Min", "Product", "Sum", "allgather", "allgather_async", "allreduce", "allreduce_",
           "allreduce_async", "allreduce_async_", "alltoall", "alltoall_async", "barrier", "broadcast", "broadcast_",
           "broadcast_async", "broadcast_async_", "ccl_built", "cross_rank", "cross_size", "cuda_built", "ddl_built", "gather",
           "gather_async", "global_process_set", "gloo_built", "gloo_enabled", "grouped_allgather", "grouped_allgather_async",
           "grouped_allreduce", "grouped_allreduce_", "grouped_allreduce_async", "grouped_allreduce_async_", "grouped_reducescatter",
           "grouped_reducescatter_async", "init", "is_homogeneous", "is_initialized", "join", "local_rank", "local_size", "mpi_built",
           "mpi_enabled", "mpi_threads_supported", "nccl_built", "poll", "rank", "recv", "recv_async", "reduce", "reduce_", "reduce_async", "reduce_async_",
           "reducescatter", "reducescatter_async", "rocm_built", "scatter", "scatter_async", "send", "send_async", "shutdown", "size",
           "sparse_allreduce_async", "start_timeline", "stop_timeline", "synchronize"]


def join(device: int = -1) -> int:
    """Says that this rank has no more data; others go on. Returns, when every rank has joined, the last that did.

    Until then joined ranks take part in allreduce (with zeros for a sum or average, which still divides by the number of all ranks; minima,
    maxima and products leave them out; Horovod counts zeros) and barrier; any other operation fails on the ranks that call it.
    device: not used; Horovod's name for the GPU.
    """
    return _core.join()
