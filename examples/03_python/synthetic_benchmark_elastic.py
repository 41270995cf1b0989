# SPDX-License-Identifier: Apache-2.0
"""Images per second on random data while ranks come and go: ruedarun -np 2 --min-np 1 python synthetic_benchmark_elastic.py

The learning rate follows the number of ranks by a reset callback, and a commit comes once in some batches. Written for Horovod, after the pattern of its
documentation; the import is all that differs.
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
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--image-size", type=int, default=64)
    parser.add_argument("--num-warmup-batches", type=int, default=3)
    parser.add_argument("--num-batches-per-iter", type=int, default=5)
    parser.add_argument("--num-batches-per-commit", type=int, default=2)
    parser.add_argument("--num-iters", type=int, default=5)
    args = parser.parse_args()

    hvd.init()
    torch.set_num_threads(1)
    lr = 0.01
    model = ResidualNet(classes=1000)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=lr * hvd.size()), named_parameters=model.named_parameters())
    images = torch.randn(args.batch_size, 3, args.image_size, args.image_size)
    labels = torch.randint(1000, (args.batch_size,))

    def benchmark_step(state):
        state.optimizer.zero_grad()
        F.cross_entropy(state.model(images), labels).backward()
        state.optimizer.step()
        state.batch += 1
        if state.batch % args.num_batches_per_commit == 0:
            state.commit()

    def on_state_reset():
        log(f"the ranks are {hvd.size()} now")
        for group in optimizer.param_groups:
            group["lr"] = lr * hvd.size()

    @hvd.elastic.run
    def run_benchmark(state):
        if not state.warm:
            timeit.timeit(lambda: benchmark_step(state), number=args.num_warmup_batches)
            state.warm = True
            state.commit()
        while state.iter < args.num_iters:
            seconds = timeit.timeit(lambda: benchmark_step(state), number=args.num_batches_per_iter)
            state.rates.append(args.batch_size * args.num_batches_per_iter / seconds)
            log(f"iteration {state.iter}: {state.rates[-1]:.1f} images/s a rank")
            state.iter += 1
            state.commit()
        mean, spread = statistics.mean(state.rates), 1.96 * statistics.pstdev(state.rates)
        log(f"images/s a rank: {mean:.1f} +- {spread:.1f}; on {hvd.size()} ranks: {hvd.size() * mean:.1f}; "
            f"learning rate {optimizer.param_groups[0]['lr']:.4f}, {state.batch} batches")

    state = hvd.elastic.TorchState(model, optimizer, warm=False, iter=0, batch=0, rates=[])
    state.register_reset_callbacks([on_state_reset])
    run_benchmark(state)


if __name__ == "__main__":
    main()
