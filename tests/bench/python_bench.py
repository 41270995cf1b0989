#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What rueda.torch costs a Python program.

python_bench.py [latency|tensors|train|import]... [--ranks 2] [--pairs 7] [--steps 12]

latency   a synchronous hvd.allreduce of 4 bytes: median, microseconds
tensors   160 tensors of 4 KiB by allreduce_async_ and synchronize, rewritten before: median, milliseconds
train     a step of a small BERT, batch 4 x 128, SGD with momentum: with rueda.torch, with DistributedDataParallel over gloo, without
          communication, and without it but for a barrier, which is what keeping step alone costs; in alternation; medians, and the
          median of the paired ratios with its spread
import    seconds of `import rueda.torch` beyond `import torch`
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("RUEDA_BIN", ROOT / "build/bin"))


def launch(options, *arguments):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29613"}
    command = [BIN / "ruedarun", "--no-prefix", "-np", options.ranks, sys.executable, __file__, "--inside", *arguments]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=600, env=environment)
    if done.returncode:
        sys.exit(f"error: {arguments[0]} ended with status {done.returncode}\n{done.stderr}")
    return [float(number) for number in done.stdout.split()]


def timed(action, times, warmup):
    seconds = []
    for _ in range(warmup + times):
        begin = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds[warmup:])


def small_operations(what):
    import torch

    import rueda.torch as hvd
    hvd.init()
    torch.set_num_threads(1)
    if what == "latency":
        tensor = torch.zeros(1)
        return timed(lambda: hvd.allreduce(tensor, name="latency"), 3000, 500)
    tensors = [torch.zeros(1024) for _ in range(160)]

    def step():
        for handle in [hvd.allreduce_async_(tensor, name=f"tensor.{i}") for i, tensor in enumerate(tensors)]:
            hvd.synchronize(handle)

    seconds = []
    for _ in range(220):
        for tensor in tensors:
            tensor.fill_(hvd.rank())
        hvd.barrier()
        seconds.append(timed(step, 1, 0))
    return statistics.median(seconds[20:])


def make_bert():
    import torch

    class Bert(torch.nn.Module):
        def __init__(self, words=30522, hidden=384, layers=6):
            super().__init__()
            self.words, self.places = torch.nn.Embedding(words, hidden), torch.nn.Embedding(512, hidden)
            layer = torch.nn.TransformerEncoderLayer(hidden, 6, 4 * hidden, dropout=0.0, activation="gelu", batch_first=True)
            self.encoder = torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
            self.head = torch.nn.Sequential(torch.nn.Linear(hidden, hidden), torch.nn.GELU(), torch.nn.LayerNorm(hidden))
            torch.nn.init.normal_(self.words.weight, std=0.02)

        def forward(self, x):
            hidden = self.encoder(self.words(x) + self.places(torch.arange(x.shape[1])))
            return torch.nn.functional.linear(self.head(hidden), self.words.weight)

    torch.manual_seed(0)
    return Bert()


def train(way, steps):
    """The median time of a step, of the slowest rank."""
    import torch

    torch.set_num_threads(1)
    rank, size = int(os.environ["RUEDA_RANK"]), int(os.environ["RUEDA_SIZE"])
    model = net = make_bert()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    if way == "ddp":
        torch.distributed.init_process_group("gloo", rank=rank, world_size=size)
        net = torch.nn.parallel.DistributedDataParallel(model)
    elif way in ("rueda", "meet"):
        import rueda.torch as hvd
        hvd.init()
    if way == "rueda":
        optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    samples = torch.Generator().manual_seed(rank)
    x, y = (torch.randint(0, 30522, (4, 128), generator=samples) for _ in range(2))

    def step():
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(x).view(-1, 30522), y.view(-1)).backward()
        if way == "meet":
            hvd.barrier()
        optimizer.step()

    median = timed(step, steps, 3)
    if way == "ddp":
        torch.distributed.destroy_process_group()
    return median


def inside(arguments):
    what, *rest = arguments
    seconds = train(rest[0], int(rest[1])) if what == "train" else small_operations(what)
    print(seconds, flush=True)


def compare_training(options):
    ways = ("none", "rueda", "ddp", "meet")
    runs = {way: [] for way in ways}
    for pair in range(options.pairs):
        for way in ways if pair % 2 == 0 else ways[::-1]:
            runs[way].append(max(launch(options, "train", way, options.steps)))
        print(f"pair {pair + 1}: " + ", ".join(f"{way} {runs[way][-1] * 1e3:.0f} ms" for way in ways), flush=True)
    for way in ways[1:]:
        ratios = [none / mine for none, mine in zip(runs["none"], runs[way])]
        print(f"train, {way}: {statistics.median(runs[way]) * 1e3:.0f} ms; of the speed without communication {statistics.median(ratios):.3f} "
              f"({min(ratios):.3f} to {max(ratios):.3f}); load {os.getloadavg()[0]:.1f}", flush=True)


def import_time():
    code = "import time, torch; t = time.perf_counter(); import rueda.torch; print(time.perf_counter() - t)"
    seconds = [float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout) for _ in range(5)]
    print(f"import rueda.torch, beyond torch: {statistics.median(seconds):.3f} s", flush=True)


def main():
    if sys.argv[1:2] == ["--inside"]:
        return inside(sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=["latency", "tensors", "import", "train"])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--steps", type=int, default=12)
    options = parser.parse_args()
    for what in options.what:
        if what == "train":
            compare_training(options)
        elif what == "import":
            import_time()
        else:
            runs = [max(launch(options, what)) for _ in range(3)]
            scale, unit = (1e6, "us") if what == "latency" else (1e3, "ms")
            print(f"{what}: " + " ".join(f"{seconds * scale:.2f}" for seconds in runs) + f" {unit}; load {os.getloadavg()[0]:.1f}", flush=True)


if __name__ == "__main__":
    main()
