#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What low-rank gradients save of a backward pass between hosts, and what they cost.

ruedarun -np N [--virtual-hosts N --rate 200mbit] low_rank.py [--steps 12] [WAY]...     WAY: whole, fp16, or a rank (1, 4, ...)

The matrices of two layers of BERT-base (14 million parameters), eight rows a rank, one torch thread: milliseconds of backward(), which
returns when gradients are reduced, on rank 0. WAYs are taken one after another, so give one twice to see what else the machine does.
"""

import argparse
import statistics
import time

import torch

import rueda.torch as hvd

HIDDEN, INNER, LAYERS = 768, 3072, 2


def compression_of(way):
    return {"whole": hvd.Compression.none, "fp16": hvd.Compression.fp16}.get(way) or hvd.Compression.powersgd(int(way))


def measure(model, rows, way, steps):
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1e-4), compression=compression_of(way))
    times = []
    for _ in range(steps + 2):
        optimizer.zero_grad()
        loss = model(rows).square().mean()
        begin = time.perf_counter()
        loss.backward()
        times.append(1e3 * (time.perf_counter() - begin))
        optimizer.step()
    return times[2:]  # the first find their memory


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ways", nargs="*", default=["whole", "fp16", "4", "1"], metavar="WAY")
    parser.add_argument("--steps", type=int, default=12)
    options = parser.parse_args()
    torch.set_num_threads(1)
    hvd.init()
    torch.manual_seed(0)
    sizes = ([(HIDDEN, HIDDEN)] * 4 + [(HIDDEN, INNER), (INNER, HIDDEN)]) * LAYERS
    model = torch.nn.Sequential(*(torch.nn.Linear(*size) for size in sizes))
    rows = torch.randn(8, HIDDEN)
    for way in options.ways:
        times = measure(model, rows, way, options.steps)
        if hvd.rank() == 0:
            print(f"{way:>6}: {statistics.median(times):8.1f} ms, from {min(times):.1f} to {max(times):.1f}", flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
