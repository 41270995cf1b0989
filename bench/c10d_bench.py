#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch.distributed over Rueda against gloo and others, in the same processes and in turns.

    build/bin/ruedarun --no-prefix -np 2 .venv/bin/python bench/c10d_bench.py [--against gloo,mpi,deepspeed] [--operations all_reduce,send_recv]
        [--sizes 4,64K,1M] [--rounds 9]

Before each call its owner writes the buffer anew. Each round measures a run of calls with each side, one after another; the table has
medians over rounds of the mean of a run, in microseconds, of rank 0. Sizes are bytes of the input; of all_gather_into_tensor of the output.
mpi: mpi4py on the same buffers. deepspeed: its allreduce in shared memory, inference_all_reduce. torchrun can start it, too, but without mpi.
"""

import argparse
import datetime
import os
import statistics
import time
from pathlib import Path

import performance_page
import torch
import torch.distributed as dist

import rueda.torch.distributed  # noqa: F401 - registers the backend

UNITS = {"K": 1 << 10, "M": 1 << 20}


def bytes_of(text):
    return int(text[:-1]) * UNITS[text[-1]] if text[-1] in UNITS else int(text)


class Calls:
    """Operations of torch.distributed on buffers of that many bytes, by name."""

    def __init__(self, size, group):
        self.group = group
        ranks = dist.get_world_size()
        count = max(size // 4, 1)
        part = max(count // ranks, 1)
        self.whole, self.other = torch.zeros(count), torch.zeros(part * ranks)
        self.divided, self.part = torch.zeros(part * ranks), torch.zeros(part)
        self.rank = dist.get_rank()

    def all_reduce(self):
        self.whole.fill_(1)
        dist.all_reduce(self.whole, group=self.group)

    def broadcast(self):
        if self.rank == 0:
            self.whole.fill_(1)
        dist.broadcast(self.whole, 0, group=self.group)

    def all_gather_into_tensor(self):
        self.part.fill_(1)
        dist.all_gather_into_tensor(self.divided, self.part, group=self.group)

    def reduce_scatter_tensor(self):
        self.divided.fill_(1)
        dist.reduce_scatter_tensor(self.part, self.divided, group=self.group)

    def all_to_all_single(self):
        self.divided.fill_(1)
        dist.all_to_all_single(self.other, self.divided, group=self.group)

    def send_recv(self):
        """There and back between ranks 0 and 1; half of the time counts."""
        if self.rank == 0:
            self.whole.fill_(1)
            dist.send(self.whole, 1, group=self.group)
            dist.recv(self.whole, 1, group=self.group)
        elif self.rank == 1:
            dist.recv(self.whole, 0, group=self.group)
            dist.send(self.whole, 0, group=self.group)


class MpiCalls(Calls):
    """The same by mpi4py."""

    def __init__(self, size, _):
        super().__init__(size, None)
        from mpi4py import MPI
        self.comm, self.in_place = MPI.COMM_WORLD, MPI.IN_PLACE
        self.whole_, self.other_, self.divided_, self.part_ = (each.numpy() for each in (self.whole, self.other, self.divided, self.part))

    def all_reduce(self):
        self.whole.fill_(1)
        self.comm.Allreduce(self.in_place, self.whole_)

    def broadcast(self):
        if self.rank == 0:
            self.whole.fill_(1)
        self.comm.Bcast(self.whole_)

    def all_gather_into_tensor(self):
        self.part.fill_(1)
        self.comm.Allgather(self.part_, self.divided_)

    def reduce_scatter_tensor(self):
        self.divided.fill_(1)
        self.comm.Reduce_scatter_block(self.divided_, self.part_)

    def all_to_all_single(self):
        self.divided.fill_(1)
        self.comm.Alltoall(self.divided_, self.other_)

    def send_recv(self):
        if self.rank == 0:
            self.whole.fill_(1)
            self.comm.Send(self.whole_, 1)
            self.comm.Recv(self.whole_, 1)
        elif self.rank == 1:
            self.comm.Recv(self.whole_, 0)
            self.comm.Send(self.whole_, 0)


class DeepSpeedCalls(Calls):
    """DeepSpeed's allreduce; it has no other operation in shared memory."""

    def all_reduce(self):
        self.whole.fill_(1)
        torch.ops.deepspeed.inference_all_reduce_(self.whole)


OPERATIONS = ["all_reduce", "all_gather_into_tensor", "reduce_scatter_tensor", "all_to_all_single", "broadcast", "send_recv"]


def run(call, calls):
    dist.barrier()
    begin = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - begin) / calls * 1e6


def measure(operation, size, rounds, sides):
    """Medians by side. sides: from a name to a class of calls and its group."""
    calls = max(4, min(1000, (32 << 20) // max(size, 1)))
    share = 2 if operation == "send_recv" else 1
    methods = {name: getattr(kind(size, group), operation) for name, (kind, group) in sides.items() if name != "deepspeed" or operation == "all_reduce"}
    series = {name: [] for name in methods}
    for call in methods.values():
        run(call, max(2, calls // 4))
    for _ in range(rounds):
        for name, call in methods.items():
            series[name].append(run(call, calls) / share)
    return {name: statistics.median(values) for name, values in series.items()}


def make_sides(names, limit):
    """Peers first, and Rueda."""
    sides = {}
    for name in names:
        if name == "gloo":
            sides[name] = (Calls, dist.new_group(backend="gloo", timeout=limit))
        elif name == "mpi":
            from mpi4py import MPI
            if MPI.COMM_WORLD.size != dist.get_world_size():
                raise SystemExit("c10d_bench.py: error: MPI has other ranks; ruedarun starts ranks that MPI knows, too")
            sides[name] = (MpiCalls, None)
        elif name == "deepspeed":
            os.environ["LOCAL_SIZE"] = str(dist.get_world_size())  # without it DeepSpeed crashes
            os.environ.setdefault("DS_ACCELERATOR", "cpu")
            import deepspeed
            deepspeed.init_distributed(dist_backend="gloo", auto_mpi_discovery=False, verbose=False)
            sides[name] = (DeepSpeedCalls, None)
        else:
            raise SystemExit(f"c10d_bench.py: error: --against {name}: choose from gloo, mpi, deepspeed")
    return {**sides, "rueda": (Calls, dist.group.WORLD)}


def keep(arguments, rows):
    """For bench/performance_page.py."""
    figures = [{"figure": f"{row['operation']} of {row['bytes']} bytes, against {name}", "value": round(row["rueda"], 1), "peer": round(median, 1),
                "ratio": round(median / row["rueda"], 1)}
               for row in rows for name, median in row.items() if name not in ("operation", "bytes", "ranks", "rueda")]
    ranks = rows[0]["ranks"]
    performance_page.keep(Path(arguments.json), f"torch.distributed, {ranks} ranks on one host", "One host",
                          f"build/bin/ruedarun --no-prefix -np {ranks} .venv/bin/python bench/c10d_bench.py", "µs",
                          f"Medians of {arguments.rounds} rounds. The owner writes the buffer before each call.", figures)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", default="gloo")
    parser.add_argument("--operations", default=",".join(OPERATIONS))
    parser.add_argument("--sizes", default="4,64,1K,8K,64K,1M,16M,64M")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", help="keep the figures for bench/performance_page.py")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    limit = datetime.timedelta(seconds=120)
    dist.init_process_group("rueda", timeout=limit)
    sides = make_sides(arguments.against.split(","), limit)
    rows = []
    for operation in arguments.operations.split(","):
        for size in map(bytes_of, arguments.sizes.split(",")):
            medians = measure(operation, size, arguments.rounds, sides)
            rows.append({"operation": operation, "bytes": size, "ranks": dist.get_world_size(), **medians})
            if dist.get_rank() == 0:
                peers = "".join(f"  {name} {median:9.1f} us {median / medians['rueda']:6.1f} times" for name, median in medians.items() if name != "rueda")
                print(f"{operation:22} {size:9} B  rueda {medians['rueda']:9.1f} us{peers}", flush=True)
    if arguments.json and dist.get_rank() == 0:
        keep(arguments, rows)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
