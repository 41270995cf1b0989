# SPDX-License-Identifier: Apache-2.0
"""run_under_both.py FOLDER: runs all programs of four_ranks.py and two_ranks.py under Rueda and under gloo.

Rank R leaves what they return in FOLDER/R, by backend and program. Ranks are forked, so torch is imported once."""

import datetime
import inspect
import multiprocessing
import os
import sys
import traceback
from pathlib import Path

import four_ranks
import torch
import torch.distributed as dist
import two_ranks

import rueda.torch.distributed  # noqa: F401 - registers the backend

BACKENDS = ("rueda", "gloo")
LIMIT = datetime.timedelta(seconds=40)


def programs_of(module):
    return [each for name, each in vars(module).items() if inspect.isfunction(each) and each.__module__ == module.__name__ and not name.startswith("_")]


def returned_by(program, backend, store, rank, size, folder):
    """The tensors that the program returns, its words if it cannot run here, or those of its error."""
    store = dist.PrefixStore(f"{backend} {program.__name__}", store)
    try:
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=LIMIT)
        assert dist.get_backend() == backend
        values = program(rank, folder / f"files of {backend}")
        if not isinstance(values, str):
            values = [each.detach().clone() for each in values]  # waits for those of functional collectives
        dist.barrier()
        return values
    except Exception:  # noqa: BLE001 - the test tells it
        return {"failed": traceback.format_exc()}
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


def run_rank(rank, port, folder):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), GLOO_SOCKET_IFNAME="lo")
    store = dist.TCPStore("127.0.0.1", port, is_master=False, timeout=LIMIT)
    results = {}
    for size, module in ((4, four_ranks), (2, two_ranks)):
        for backend in BACKENDS:
            for program in programs_of(module) if rank < size else ():
                print(f"rank {rank} runs {program.__name__} under {backend}", flush=True)
                results[backend, program.__name__] = returned_by(program, backend, store, rank, size, folder)
    torch.save(results, folder / str(rank))


if __name__ == "__main__":
    server = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    fork = multiprocessing.get_context("fork")
    ranks = [fork.Process(target=run_rank, args=(rank, server.port, Path(sys.argv[1]))) for rank in range(4)]
    for each in ranks:
        each.start()
    for each in ranks:
        each.join()
    if any(each.exitcode for each in ranks):
        sys.exit(f"statuses of ranks: {[each.exitcode for each in ranks]}")
