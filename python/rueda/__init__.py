# SPDX-License-Identifier: Apache-2.0
"""Rueda: collective communication for distributed training.

Training scripts use `import rueda.torch as hvd`. This module needs no framework: it tells the rank of this process among all.
"""

from rueda.common.basics import (barrier, cross_rank, cross_size, describe_training, end_step, init, is_homogeneous, is_initialized, local_rank,
                                 local_size, log, metrics, phase, rank, report, shutdown, size, start_timeline, stop_timeline)
from rueda.common import stacks
from rueda.common.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set
from rueda.runner import run

__all__ = ["ProcessSet", "add_process_set", "barrier", "cross_rank", "cross_size", "describe_training", "end_step", "global_process_set", "init",
           "is_homogeneous", "is_initialized", "local_rank", "local_size", "log", "metrics", "phase", "rank", "remove_process_set", "report",
           "run", "shutdown", "size", "start_timeline", "stop_timeline"]

stacks.begin()
