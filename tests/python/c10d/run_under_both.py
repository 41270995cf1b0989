# SPDX-License-Identifier: Apache-2.0
"""run_under_both.py FOLDER: runs all programs of four_ranks.py and two_ranks.py under Rueda and under gloo.

Rank R leaves what a program returns in `FOLDER/BACKEND PROGRAM R`. Each program has ranks of its own, forked by a server that has imported torch once. This
process itself cannot fork them: its stores have threads, whose locks a child would find taken for ever."""

import datetime
import faulthandler
import inspect
import multiprocessing
import os
import sys
import time
import traceback
from pathlib import Path

import four_ranks
import torch
import torch.distributed as dist
import two_ranks

import rueda.torch.distributed  # noqa: F401 - registers the backend

LIMIT = datetime.timedelta(seconds=120)


def programs_of(module):
    return [each for name, each in vars(module).items() if inspect.isfunction(each) and each.__module__ == module.__name__ and not name.startswith("_")]


def returned_by(program, backend, folder):
    """The tensors that the program returns, its words if it cannot run here, or those of its error."""
    try:
        assert dist.get_backend() == backend
        values = program(dist.get_rank(), folder / f"files of {backend}")
        if not isinstance(values, str):
            values = [each.detach().clone() for each in values]  # waits for those of functional collectives
        dist.barrier()
        return values
    except Exception:  # noqa: BLE001 - the test tells it
        return {"failed": traceback.format_exc()}


def run_rank(program, backend, rank, size, port, folder):
    faulthandler.enable()
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), GLOO_SOCKET_IFNAME="lo")
    store = dist.TCPStore("127.0.0.1", port, is_master=False, timeout=LIMIT)
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=LIMIT)
    torch.save(returned_by(program, backend, folder), folder / f"{backend} {program.__name__} {rank}")
    dist.destroy_process_group()


def run(program, backend, size, folder):
    server = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    forkserver = multiprocessing.get_context("forkserver")
    ranks = [forkserver.Process(target=run_rank, args=(program, backend, rank, size, server.port, folder)) for rank in range(size)]
    for each in ranks:
        each.start()
    end = time.monotonic() + 6 * LIMIT.total_seconds()  # to compile a model takes 20 s of two cores
    for each in ranks:
        each.join(max(0, end - time.monotonic()))
        each.kill()
        each.join()
    print(program.__name__, backend, [each.exitcode for each in ranks], flush=True)
    return not any(each.exitcode for each in ranks)


if __name__ == "__main__":
    good = [run(program, backend, size, Path(sys.argv[1]))
            for size, module in ((4, four_ranks), (2, two_ranks)) for program in programs_of(module) for backend in ("rueda", "gloo")]
    sys.exit(0 if all(good) else "a rank has ended with another status than 0")
