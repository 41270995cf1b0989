# SPDX-License-Identifier: Apache-2.0
"""Images per second of a residual network on random data: ruedarun -np 2 python synthetic_benchmark.py

Written for Horovod, after the pattern of its documentation; the import is all that differs.
"""

import argparse
import statistics
import timeit

import torch
import torch.nn.functional as F
from residual_net import ResidualNet

import rueda.torch as hvd  # was: import horovod.torch as hvd


def log(words):
    if hvd.rank() == 0:
        print(words, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fp16-allreduce", action="store_true")
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--image-size", type=int, default=64)
    parser.add_argument("--num-warmup-batches", type=int, default=3)
    parser.add_argument("--num-batches-per-iter", type=int, default=5)
    parser.add_argument("--num-iters", type=int, default=5)
    args = parser.parse_args()

    hvd.init()
    torch.set_num_threads(1)
    model = ResidualNet(classes=1000)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01 * hvd.size())
    compression = hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(), compression=compression)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    images = torch.randn(args.batch_size, 3, args.image_size, args.image_size)
    labels = torch.randint(1000, (args.batch_size,))

    def benchmark_step():
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()

    timeit.timeit(benchmark_step, number=args.num_warmup_batches)
    rates = []
    for i in range(args.num_iters):
        seconds = timeit.timeit(benchmark_step, number=args.num_batches_per_iter)
        rates.append(args.batch_size * args.num_batches_per_iter / seconds)
        log(f"iteration {i}: {rates[-1]:.1f} images/s a rank")
    mean, spread = statistics.mean(rates), 1.96 * statistics.pstdev(rates)
    log(f"images/s a rank: {mean:.1f} +- {spread:.1f}; on {hvd.size()} ranks: {hvd.size() * mean:.1f}")


if __name__ == "__main__":
    main()
