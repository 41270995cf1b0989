# SPDX-License-Identifier: Apache-2.0
"""Rueda as a backend of torch.distributed, for tensors of the host and of CUDA devices.

    import rueda.torch.distributed

    torch.distributed.init_process_group("rueda")

DistributedDataParallel, FSDP2, DTensor and all that is written for torch.distributed then communicate by Rueda. Each group is a job of
its own. Its ranks find one another by the store of torch.distributed, so torchrun, ruedarun and every init_method work.
"""

import atexit
import functools
import multiprocessing.util
import os
import sys

import rueda_backend
import torch

import rueda.torch  # noqa: F401 - checks the version of torch
from rueda import _torch
from rueda.torch import automatic_marks

__all__ = ["create_process_group", "flight_record", "in_order", "share_buckets"]


def create_process_group(options, backend_options=None, *, name=rueda_backend.NAME):
    """The backend of one group, as Backend.register_backend(..., extended_api=True) wants it.

    name: under which the program has registered it, for profilers and messages.
    """
    _end_groups_with_child()
    return _torch.ProcessGroup(options.store, options.group_rank, options.group_size, name, options.group_id, options.global_ranks_in_group,
                               options.timeout)


def share_buckets(model):
    """Reduces the gradients of a DistributedDataParallel where they lie, in memory that the ranks of a host share.

    model: the DistributedDataParallel, before its first backward pass. Each bucket moves there once, and gradients that look into it
    (gradient_as_bucket_view) move with it; those that NumPy looks at stay. It takes the place of a communication hook. Raises ValueError
    if the model's group is not of Rueda or a parameter is on a device, and RuntimeError if it has a communication hook.
    """
    devices = sorted({str(parameter.device) for parameter in model.parameters() if parameter.device.type != "cpu"})
    if devices:
        raise ValueError(f"share_buckets(): the model has parameters on {', '.join(devices)}, and ranks share memory of the host; leave it out: "
                         "buckets on a device are reduced where they lie")
    group = model.process_group._get_backend(torch.device("cpu"))
    if not isinstance(group, _torch.ProcessGroup):
        raise ValueError(f"share_buckets(): the model's process group is of backend {group.name()!r}; it must be {rueda_backend.NAME!r}")
    _torch.share_buckets(model.reducer, group)
    model.logger._set_comm_hook_name(share_buckets.__qualname__)


def in_order(hook):
    """A communication hook of DistributedDataParallel whose operations have one order on all ranks.

        model.register_comm_hook(state, in_order(powerSGD_hook))

    hook: one that calls operations in callbacks of Futures. These run when an earlier operation is complete, which is at another time on
    each rank; with several buckets the operations of one bucket then meet those of the next. In the returned hook a Future is complete when
    get_future() returns, and callbacks run at once. So the backward pass waits for each operation of the hook.
    """
    @functools.wraps(hook)
    def ordered(state, bucket):
        before = _torch.complete_futures_in_calls(True)
        try:
            return hook(state, bucket)
        finally:
            _torch.complete_futures_in_calls(before)

    return ordered


def flight_record():
    """The last operations of this process's groups, as torch's flight recorder keeps them: bytes for pickle.loads().

    TORCH_FR_BUFFER_SIZE says how many; 0 and unset: none. Write each rank's bytes to a file PREFIX<rank> of one folder, and `torchfrtrace FOLDER`
    names the ranks whose operations differ or are missing. With TORCH_FR_DUMP_TEMP_FILE=PREFIX a rank writes that file by itself when an
    operation fails or takes longer than its timeout.
    """
    return _torch.flight_record()


def _has_failed():
    """Whether the process ends by an exception. In a child of multiprocessing it is one that is handled now, and sys.exit() counts by its status."""
    failure = sys.exc_info()[1]
    if isinstance(failure, SystemExit):
        return failure.code not in (None, 0)
    return failure is not None or getattr(sys, "last_value", None) is not None


def _end_groups():
    """Waits for the other ranks, since a rank that ends before them counts as lost. After a failure it is one: the launcher has to hear of it."""
    _torch.end_process_groups(_has_failed())


_child = None  # the process that has called _end_groups_with_child()


def _end_groups_with_child():
    """For a child of multiprocessing: it calls no exit handlers (fork), or does so after it has forgotten its exception (spawn)."""
    global _child
    if multiprocessing.parent_process() is None or _child == os.getpid():
        return
    _child = os.getpid()
    multiprocessing.util.Finalize(None, _end_groups, exitpriority=0)


# Threads that complete Futures take Python's lock, which the interpreter's end does not give them any more.
automatic_marks.begin_steps_of_groups()
atexit.register(_end_groups)
rueda_backend.register()
