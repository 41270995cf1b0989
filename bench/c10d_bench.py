#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch.distributed over Rueda against gloo, in the same processes and in turns.

    torchrun --standalone --nproc-per-node 2 bench/c10d_bench.py [--operations all_reduce,send_recv] [--sizes 4,64K,1M] [--rounds 9]

Before each call its owner writes the buffer anew. Each round measures a run of calls with one backend and then with the other; the table has
medians over rounds of the mean of a run, in microseconds, of rank 0. Sizes are bytes of the input; of all_gather_into_tensor of the output.
"""

import argparse
import datetime
import json
import statistics
import time

import torch
import torch.distributed as dist

import rueda.torch.distributed  # noqa: F401 - registers the backend

UNITS = {"K": 1 << 10, "M": 1 << 20}


def bytes_of(text):
    return int(text[:-1]) * UNITS[text[-1]] if text[-1] in UNITS else int(text)


class Calls:
    """Operations on buffers of that many bytes, by name."""

    def __init__(self, size):
        ranks = dist.get_world_size()
        count = max(size // 4, 1)
        part = max(count // ranks, 1)
        self.whole, self.other = torch.zeros(count), torch.zeros(part * ranks)
        self.divided, self.part = torch.zeros(part * ranks), torch.zeros(part)
        self.rank = dist.get_rank()

    def all_reduce(self, group):
        self.whole.fill_(1)
        dist.all_reduce(self.whole, group=group)

    def broadcast(self, group):
        if self.rank == 0:
            self.whole.fill_(1)
        dist.broadcast(self.whole, 0, group=group)

    def all_gather_into_tensor(self, group):
        self.part.fill_(1)
        dist.all_gather_into_tensor(self.divided, self.part, group=group)

    def reduce_scatter_tensor(self, group):
        self.divided.fill_(1)
        dist.reduce_scatter_tensor(self.part, self.divided, group=group)

    def all_to_all_single(self, group):
        self.divided.fill_(1)
        dist.all_to_all_single(self.other, self.divided, group=group)

    def send_recv(self, group):
        """There and back between ranks 0 and 1; half of the time counts."""
        if self.rank == 0:
            self.whole.fill_(1)
            dist.send(self.whole, 1, group=group)
            dist.recv(self.whole, 1, group=group)
        elif self.rank == 1:
            dist.recv(self.whole, 0, group=group)
            dist.send(self.whole, 0, group=group)


OPERATIONS = ["all_reduce", "all_gather_into_tensor", "reduce_scatter_tensor", "all_to_all_single", "broadcast", "send_recv"]


def run(call, group, calls):
    dist.barrier()
    begin = time.perf_counter()
    for _ in range(calls):
        call(group)
    return (time.perf_counter() - begin) / calls * 1e6


def measure(operation, size, rounds, groups):
    call = getattr(Calls(size), operation)
    calls = max(2, min(200, (4 << 20) // max(size, 1)))
    share = 2 if operation == "send_recv" else 1
    series = {name: [] for name in groups}
    for name, group in groups.items():
        run(call, group, max(2, calls // 4))
    for _ in range(rounds):
        for name, group in groups.items():
            series[name].append(run(call, group, calls) / share)
    return {name: statistics.median(values) for name, values in series.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operations", default=",".join(OPERATIONS))
    parser.add_argument("--sizes", default="4,64,1K,8K,64K,1M,16M,64M")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", help="also writes the rows there")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    limit = datetime.timedelta(seconds=120)
    dist.init_process_group("rueda", timeout=limit)
    groups = {"gloo": dist.new_group(backend="gloo", timeout=limit), "rueda": dist.group.WORLD}
    rows = []
    for operation in arguments.operations.split(","):
        for size in map(bytes_of, arguments.sizes.split(",")):
            medians = measure(operation, size, arguments.rounds, groups)
            rows.append({"operation": operation, "bytes": size, "ranks": dist.get_world_size(), **medians})
            if dist.get_rank() == 0:
                gloo, rueda = medians["gloo"], medians["rueda"]
                print(f"{operation:24} {size:9} B  gloo {gloo:10.1f} us  rueda {rueda:10.1f} us  {gloo / rueda:7.1f} times", flush=True)
    if arguments.json and dist.get_rank() == 0:
        with open(arguments.json, "w") as file:
            json.dump(rows, file, indent=1)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
