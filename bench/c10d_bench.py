#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch.distributed over Rueda against gloo and others, in the same processes and in turns.

    build/bin/ruedarun --no-prefix -np 2 .venv/bin/python bench/c10d_bench.py [--against gloo,mpi,deepspeed,fake,bare] [--operations all_reduce,send_recv]
        [--sizes 4,64K,1M] [--rounds 9]

Before each call its owner writes the buffer anew; the time of that does not count. Each round measures a run of calls with each side, one after
another; the table has medians over rounds of the mean of a run, in microseconds, of rank 0. Sizes are bytes of the input; of
all_gather_into_tensor of the output. mpi: mpi4py on the same buffers. deepspeed: its allreduce in shared memory, inference_all_reduce.
fake: a group of torch's that moves nothing, so the time of torch's own Python and dispatcher. bare: the copies and sums alone, from memory that
all ranks have, so a bound for large sizes. torchrun can start it, too, but without mpi.
"""

import argparse
import datetime
import mmap
import os
import statistics
import tempfile
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
    """Operations of torch.distributed on buffers of that many bytes, by name. write(): its owner writes the operation's input anew."""

    def __init__(self, size, group):
        self.group = group
        ranks = dist.get_world_size()
        count = max(size // 4, 1)
        part = max(count // ranks, 1)
        self.whole, self.other = torch.zeros(count), torch.zeros(part * ranks)
        self.divided, self.part = torch.zeros(part * ranks), torch.zeros(part)
        self.rank = dist.get_rank()

    def write(self, operation):
        if operation == "all_reduce":
            self.whole.fill_(1)
        elif operation == "all_gather_into_tensor":
            self.part.fill_(1)
        elif operation in ("reduce_scatter_tensor", "all_to_all_single"):
            self.divided.fill_(1)
        elif self.rank == 0:
            self.whole.fill_(1)

    def all_reduce(self):
        dist.all_reduce(self.whole, group=self.group)

    def broadcast(self):
        dist.broadcast(self.whole, 0, group=self.group)

    def all_gather_into_tensor(self):
        dist.all_gather_into_tensor(self.divided, self.part, group=self.group)

    def reduce_scatter_tensor(self):
        dist.reduce_scatter_tensor(self.part, self.divided, group=self.group)

    def all_to_all_single(self):
        dist.all_to_all_single(self.other, self.divided, group=self.group)

    def send_recv(self):
        """There and back between ranks 0 and 1; half of the time counts."""
        if self.rank == 0:
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
        self.comm.Allreduce(self.in_place, self.whole_)

    def broadcast(self):
        self.comm.Bcast(self.whole_)

    def all_gather_into_tensor(self):
        self.comm.Allgather(self.part_, self.divided_)

    def reduce_scatter_tensor(self):
        self.comm.Reduce_scatter_block(self.divided_, self.part_)

    def all_to_all_single(self):
        self.comm.Alltoall(self.divided_, self.other_)

    def send_recv(self):
        if self.rank == 0:
            self.comm.Send(self.whole_, 1)
            self.comm.Recv(self.whole_, 1)
        elif self.rank == 1:
            self.comm.Recv(self.whole_, 0)
            self.comm.Send(self.whole_, 0)


class DeepSpeedCalls(Calls):
    """DeepSpeed's allreduce; it has no other operation in shared memory."""

    def all_reduce(self):
        torch.ops.deepspeed.inference_all_reduce_(self.whole)


class BareCalls(Calls):
    """The copies and sums alone: inputs lie in memory that all ranks have. All begin and end together, as the wait of each operation is for others."""

    def __init__(self, size, start):
        super().__init__(size, None)
        self.start, self.ranks = start, dist.get_world_size()
        self.inputs = [self._shared(f"{start.path}-{rank}") for rank in range(self.ranks)]
        self.parts = [each[:self.divided.numel()].chunk(self.ranks) for each in self.inputs]
        self.own = self.divided.chunk(self.ranks)
        start.together()
        os.unlink(f"{start.path}-{self.rank}")

    def _shared(self, path):
        count = max(self.whole.numel(), self.divided.numel())
        return torch.from_file(path, shared=True, size=count)

    def write(self, _):
        self.inputs[self.rank].fill_(1)

    def _sum_own_part(self, into):
        torch.add(self.parts[0][self.rank], self.parts[1][self.rank], out=into)
        for parts in self.parts[2:]:
            into.add_(parts[self.rank])

    def all_reduce(self):
        self.start.together()
        self._sum_own_part(self.parts[0][self.rank])
        self.start.together()
        self.divided.copy_(self.inputs[0][:self.divided.numel()])
        self.start.together()

    def broadcast(self):
        self.start.together()
        if self.rank != 0:
            self.whole.copy_(self.inputs[0][:self.whole.numel()])
        self.start.together()

    def all_gather_into_tensor(self):
        self.start.together()
        for mine, parts in zip(self.own, self.parts):
            mine.copy_(parts[0])
        self.start.together()

    def reduce_scatter_tensor(self):
        self.start.together()
        self._sum_own_part(self.part)
        self.start.together()

    def all_to_all_single(self):
        self.start.together()
        for mine, parts in zip(self.own, self.parts):
            mine.copy_(parts[self.rank])
        self.start.together()

    def send_recv(self):
        for source in (0, 1):
            self.start.together()
            if self.rank == 1 - source:
                self.whole.copy_(self.inputs[source][:self.whole.numel()])
        self.start.together()


OPERATIONS = ["all_reduce", "all_gather_into_tensor", "reduce_scatter_tensor", "all_to_all_single", "broadcast", "send_recv"]


class Start:
    """Lets ranks that share cores begin at one instant: the owner of another buffer would take time from the call. Other ranks do not wait, since
    their cores would be busy when threads of gloo wake up."""

    def __init__(self, share_cores):
        self.waits = share_cores
        names = [None]
        if dist.get_rank() == 0:
            with tempfile.NamedTemporaryFile(prefix="c10d_bench-", dir="/dev/shm", delete=False) as file:
                file.write(bytes(8 * dist.get_world_size()))
            names = [file.name]
        dist.broadcast_object_list(names)
        self.path = names[0]
        with open(self.path, "r+b") as file:
            self.counts = memoryview(mmap.mmap(file.fileno(), 0)).cast("Q")
        dist.barrier()
        if dist.get_rank() == 0:
            os.unlink(self.path)
        self.rank = dist.get_rank()

    def wait(self):
        if self.waits:
            self.together()

    def together(self):
        count = self.counts[self.rank] + 1
        self.counts[self.rank] = count
        while min(self.counts) < count:
            os.sched_yield()


def run(side, operation, calls, start):
    """Mean time of a call in microseconds. One call before does not count: ranks come from the last side at different times."""
    call = getattr(side, operation)
    side.write(operation)
    call()
    total = 0.0
    for _ in range(calls):
        side.write(operation)
        start.wait()
        begin = time.perf_counter()
        call()
        total += time.perf_counter() - begin
    return total / calls * 1e6


def measure(operation, size, rounds, sides, start):
    """Medians by side. sides: from a name to a class of calls and its group."""
    calls = max(4, min(1000, (32 << 20) // max(size, 1)))
    share = 2 if operation == "send_recv" else 1
    made = {name: kind(size, group) for name, (kind, group) in sides.items() if name != "deepspeed" or operation == "all_reduce"}
    series = {name: [] for name in made}
    for side in made.values():
        run(side, operation, max(2, calls // 4), start)
    for _ in range(rounds):
        for name, side in made.items():
            series[name].append(run(side, operation, calls, start) / share)
    return {name: statistics.median(values) for name, values in series.items()}


def make_sides(names, limit, start):
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
        elif name == "fake":
            import torch.testing._internal.distributed.fake_pg  # noqa: F401 - registers the backend
            sides[name] = (Calls, dist.new_group(backend="fake", timeout=limit))
        elif name == "bare":
            sides[name] = (BareCalls, start)
        else:
            raise SystemExit(f"c10d_bench.py: error: --against {name}: choose from gloo, mpi, deepspeed, fake, bare")
    return {**sides, "rueda": (Calls, dist.group.WORLD)}


def keep(arguments, rows):
    """For bench/performance_page.py."""
    figures = [{"figure": f"{row['operation']} of {row['bytes']} bytes, against {name}", "value": round(row["rueda"], 1), "peer": round(median, 1),
                "ratio": round(median / row["rueda"], 1)}
               for row in rows for name, median in row.items() if name not in ("operation", "bytes", "ranks", "rueda")]
    ranks = rows[0]["ranks"]
    binding = " ruedarun binds each rank to its cores, where gloo's thread is, too: without it (`--bind none`) gloo is faster."
    performance_page.keep(Path(arguments.json), f"torch.distributed, {ranks} ranks on one host", "One host",
                          f"build/bin/ruedarun --no-prefix -np {ranks} .venv/bin/python bench/c10d_bench.py", "µs",
                          f"Medians of {arguments.rounds} rounds. The owner writes the buffer before each call; the time of that does not count." + binding * (ranks == 2),
                          figures)


def stay_on_a_core():
    """Where ranks share cores, as many on each; the launcher has done so otherwise. Returns whether they share them."""
    cores = sorted(os.sched_getaffinity(0))
    if int(os.environ["WORLD_SIZE"]) <= len(cores):
        return False
    os.sched_setaffinity(0, {cores[int(os.environ["LOCAL_RANK"]) % len(cores)]})
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", default="gloo")
    parser.add_argument("--operations", default=",".join(OPERATIONS))
    parser.add_argument("--sizes", default="4,64,1K,8K,64K,1M,16M,64M")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", help="keep the figures for bench/performance_page.py")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    share_cores = stay_on_a_core()
    limit = datetime.timedelta(seconds=120)
    dist.init_process_group("rueda", timeout=limit)
    start = Start(share_cores)
    sides = make_sides(arguments.against.split(","), limit, start)
    rows = []
    for operation in arguments.operations.split(","):
        for size in map(bytes_of, arguments.sizes.split(",")):
            medians = measure(operation, size, arguments.rounds, sides, start)
            rows.append({"operation": operation, "bytes": size, "ranks": dist.get_world_size(), **medians})
            if dist.get_rank() == 0:
                peers = "".join(f"  {name} {median:9.1f} us {median / medians['rueda']:6.1f} times" for name, median in medians.items() if name != "rueda")
                print(f"{operation:22} {size:9} B  rueda {medians['rueda']:9.1f} us{peers}", flush=True)
    if arguments.json and dist.get_rank() == 0:
        keep(arguments, rows)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
