# SPDX-License-Identifier: Apache-2.0
"""Rueda as a backend of torch.distributed, for tensors of the host.

    import rueda.torch.distributed

    torch.distributed.init_process_group("rueda")                  # or, with GPUs: "cpu:rueda,cuda:nccl"

DistributedDataParallel, FSDP2, DTensor and all that is written for torch.distributed then communicate by Rueda. Each group is a job of
its own. Its ranks find one another by the store of torch.distributed, so torchrun, ruedarun and every init_method work.
"""

import atexit

import rueda_backend

import rueda.torch  # noqa: F401 - checks the version of torch
from rueda import _torch

__all__ = ["create_process_group"]


def create_process_group(options, backend_options=None, *, name=rueda_backend.NAME):
    """The backend of one group, as Backend.register_backend(..., extended_api=True) wants it.

    name: under which the program has registered it, for profilers and messages.
    """
    return _torch.ProcessGroup(options.store, options.group_rank, options.group_size, name, options.group_id, options.timeout)


# Threads that complete Futures take Python's lock, which the interpreter's end does not give them any more.
atexit.register(_torch.end_process_groups)
rueda_backend.register()
