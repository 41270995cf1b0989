# SPDX-License-Identifier: Apache-2.0
"""Distributed training with PyTorch.

    import rueda.torch as hvd

    hvd.init()
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

Names, arguments and defaults are those of horovod.torch; if Rueda does otherwise, the docstring says so.
"""

import torch as _pytorch

from rueda import _build


def _minor(version):
    return version.split("+")[0].split(".")[:2]


if _minor(_pytorch.__version__) != _minor(_build.TORCH_VERSION):
    raise ImportError(f"rueda.torch was built for torch {_build.TORCH_VERSION}, and torch {_pytorch.__version__} is installed, whose C++ "
                      f"interface is another: install torch {'.'.join(_minor(_build.TORCH_VERSION))}, or install rueda again")

from rueda.common.basics import describe_training, end_step, log, phase
from rueda.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt
from rueda.common.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set
from rueda.common.util import check_extension, gpu_available, num_rank_is_power_2
from rueda.torch.capture import CapturedStep, capture
from rueda.torch.compression import Compression
from rueda.torch.distributed_data_parallel import DistributedDataParallel
from rueda.torch import automatic_marks
from rueda.torch.functions import allgather_object, broadcast_object, broadcast_optimizer_state, broadcast_parameters
from rueda.torch.mpi_ops import *  # noqa: F403 - its own list of names
from rueda.torch.mpi_ops import __all__ as _operations
from rueda.torch.optimizer import DistributedOptimizer
from rueda.torch import elastic
from rueda.torch.sync_batch_norm import SyncBatchNorm
from rueda.torch.tensors import empty

__all__ = [*_operations, "CapturedStep", "Compression", "DistributedDataParallel", "DistributedOptimizer", "HorovodInternalError", "HostsUpdatedInterrupt", "ProcessSet", "SyncBatchNorm",
           "add_process_set", "allgather_object", "broadcast_object", "broadcast_optimizer_state", "broadcast_parameters",
           "capture", "check_extension", "describe_training", "elastic", "empty", "end_step", "global_process_set", "gpu_available", "log",
           "num_rank_is_power_2", "phase", "remove_process_set"]

automatic_marks.begin()
