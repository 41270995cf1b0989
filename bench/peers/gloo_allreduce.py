#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch.distributed's gloo: allreduce in place of one flat float32 tensor, measured as rueda-bench measures ours.

    gloo_allreduce.py --ranks 2 BYTES:STEPS:WARMUP,...

The ranks are children of this program, on loopback; each stays with all its threads on one core. Before each step every
rank writes its tensor anew, then all meet in memory that they share, since gloo's own barrier lets them go at different
times. Prints a list of {bytes, count, median_us, min_us, p99_us, wrong}; microseconds, slowest rank.
"""
import argparse
import ctypes
import datetime
import json
import mmap
import os
import signal
import sys
import time
import traceback


class Meeting:
    """A barrier, one number that rank 0 gives to all, and an instant at which all begin (as start_line.h has it), in
    memory of all ranks: two words for each rank and one more."""

    AHEAD = 20_000  # ns

    def __init__(self, ranks):
        self.ranks = ranks
        self.words = memoryview(mmap.mmap(-1, 8 * (2 * ranks + 1))).cast("q")
        self.together = ranks <= os.cpu_count()

    def wait(self, rank):
        self.words[rank] += 1
        round_ = self.words[rank]
        looks = 0
        while min(self.words[:self.ranks]) < round_:
            looks += 1
            if looks > 200:
                os.sched_yield()  # there may be more ranks than cores

    def begin_together(self, rank):
        self.words[self.ranks + 1 + rank] = time.perf_counter_ns() + self.AHEAD if self.together else 0
        self.wait(rank)
        instant = max(self.words[self.ranks + 1:])
        while time.perf_counter_ns() < instant:
            pass

    def give(self, number):
        self.words[self.ranks] = number

    def take(self):
        while self.words[self.ranks] == 0:
            time.sleep(0.001)
        return self.words[self.ranks]


def start_gloo(rank, ranks, meeting):
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    limit = datetime.timedelta(seconds=60)
    if rank == 0:
        store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=limit)
        meeting.give(store.port)
    else:
        store = dist.TCPStore("127.0.0.1", meeting.take(), is_master=False, timeout=limit)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks, timeout=limit)
    return torch, dist


def measure(torch, dist, meeting, rank, ranks, work):
    """Microseconds of each step on this rank, and how many elements were wrong."""
    size, steps, warmup = work
    pattern = torch.arange(size // 4) % 3
    given = ((pattern + rank) % 3).float()
    wanted = sum(((pattern + each) % 3).float() for each in range(ranks))
    values = torch.empty_like(given)
    series, wrong = [], 0
    for step in range(-warmup, steps):
        values.copy_(given)
        meeting.begin_together(rank)
        begin = time.perf_counter_ns()
        dist.all_reduce(values)
        end = time.perf_counter_ns()
        meeting.wait(rank)
        if step >= 0:
            series.append((end - begin) / 1000)
        wrong += int((values != wanted).sum())
    return series, wrong


def row(torch, dist, series, wrong, size):
    numbers = torch.tensor([wrong, *series], dtype=torch.float64)
    dist.all_reduce(numbers, op=dist.ReduceOp.MAX)
    wrong, *slowest = numbers.tolist()
    slowest.sort()
    return {"bytes": size, "count": len(slowest), "median_us": slowest[(len(slowest) - 1) // 2], "min_us": slowest[0],
            "p99_us": slowest[int(0.99 * (len(slowest) - 1))], "wrong": int(wrong)}


def end_with(parent):
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it has ended already
        os._exit(1)


def be_rank(rank, ranks, meeting, works):
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})
    torch, dist = start_gloo(rank, ranks, meeting)
    rows = []
    for work in works:
        series, wrong = measure(torch, dist, meeting, rank, ranks, work)
        rows.append(row(torch, dist, series, wrong, work[0]))
    if rank == 0:
        print(json.dumps(rows), flush=True)
    dist.destroy_process_group()


def fork_rank(*arguments):
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        end_with(parent)
        try:
            be_rank(*arguments)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        os._exit(1)
    return child


def all_end_well(children):
    """Waits for all; when one fails the others, who would wait for it, are ended."""
    good = True
    while children:
        child, status = os.wait()
        children.discard(child)
        if status != 0 and good:
            good = False
            for other in children:
                os.kill(other, signal.SIGKILL)
    return good


def work_of(text):
    try:
        size, steps, warmup = (int(part) for part in text.split(":"))
    except ValueError:
        size = steps = warmup = 0
    if size < 4 or steps < 1 or warmup < 0:
        raise argparse.ArgumentTypeError(f"'{text}' is not BYTES:STEPS:WARMUP")
    return size, steps, warmup


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("works", type=lambda text: [work_of(each) for each in text.split(",")])
    arguments = parser.parse_args()
    meeting = Meeting(arguments.ranks)
    children = {fork_rank(rank, arguments.ranks, meeting, arguments.works) for rank in range(arguments.ranks)}
    sys.exit(0 if all_end_well(children) else 1)


if __name__ == "__main__":
    main()
