#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What rueda.torch costs a Python program.

python_bench.py [latency|tensors|train|import]... [--ranks 2] [--rounds 16] [--steps 4]

latency   a synchronous hvd.allreduce of 4 bytes: median, microseconds
tensors   160 tensors of 4 KiB by allreduce_async_ and synchronize, rewritten before: median, milliseconds; then, in the same
          processes, in turns with the same by torch.distributed over gloo in one bucket: copied in, reduced, copied out
train     a step of a small BERT, batch 4 x 128, SGD with momentum: with rueda.torch, with DistributedDataParallel over gloo, without
          communication, and without it but for a barrier, which is what keeping step alone costs; four models in the same processes, a
          few steps of each in turn, so that what else the machine does meets all alike; medians of the slowest rank, and of the ratios
          of each round
import    seconds of `import rueda.torch` beyond `import torch`
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(os.environ.get("RUEDA_BIN", ROOT / "build/bin"))
WAYS = ("none", "rueda", "ddp", "barrier")


def launch(options, *arguments):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29613"}
    command = [BIN / "ruedarun", "--no-prefix", "-np", options.ranks, sys.executable, __file__, "--inside", *arguments]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=1800, env=environment)
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


def latency():
    import torch

    import rueda.torch as hvd
    hvd.init()
    torch.set_num_threads(1)
    tensor = torch.zeros(1)
    return timed(lambda: hvd.allreduce(tensor, name="latency"), 3000, 500)


def many_tensors():
    """Seconds by rueda, and then, in turns, by rueda and by gloo."""
    import torch

    import rueda.torch as hvd
    hvd.init()
    torch.set_num_threads(1)
    tensors = [torch.zeros(1024) for _ in range(160)]
    bucket = torch.zeros(160 * 1024)
    parts = list(bucket.split(1024))

    def by_rueda():
        for handle in [hvd.allreduce_async_(tensor, name=f"tensor.{i}") for i, tensor in enumerate(tensors)]:
            hvd.synchronize(handle)

    def by_gloo():
        torch._foreach_copy_(parts, tensors)
        torch.distributed.all_reduce(bucket)
        torch._foreach_copy_(tensors, parts)

    def medians(*steps):
        seconds = [[] for _ in steps]
        for _ in range(220):
            for step, measured in zip(steps, seconds):
                for tensor in tensors:
                    tensor.fill_(hvd.rank())
                hvd.barrier()
                measured.append(timed(step, 1, 0))
        return [statistics.median(measured[20:]) for measured in seconds]

    alone = medians(by_rueda)
    torch.distributed.init_process_group("gloo", rank=hvd.rank(), world_size=hvd.size())
    beside = medians(by_rueda, by_gloo)
    torch.distributed.destroy_process_group()
    return alone + beside


def make_bert():
    import torch

    class Bert(torch.nn.Module):
        def __init__(self, words=30522, hidden=384, layers=6):
            super().__init__()
            self.words, self.positions = torch.nn.Embedding(words, hidden), torch.nn.Embedding(512, hidden)
            layer = torch.nn.TransformerEncoderLayer(hidden, 6, 4 * hidden, dropout=0.0, activation="gelu", batch_first=True)
            self.encoder = torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
            self.head = torch.nn.Sequential(torch.nn.Linear(hidden, hidden), torch.nn.GELU(), torch.nn.LayerNorm(hidden))
            torch.nn.init.normal_(self.words.weight, std=0.02)

        def forward(self, x):
            hidden = self.encoder(self.words(x) + self.positions(torch.arange(x.shape[1])))
            return torch.nn.functional.linear(self.head(hidden), self.words.weight)

    torch.manual_seed(0)
    return Bert()


class Training:
    """A model that is trained in one of the WAYS."""

    def __init__(self, way):
        import torch

        import rueda.torch as hvd
        self.way, self.model = way, make_bert()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)
        if way == "ddp":
            torch.distributed.init_process_group("gloo", rank=hvd.rank(), world_size=hvd.size())
            self.model = torch.nn.parallel.DistributedDataParallel(self.model)
        elif way == "rueda":
            self.optimizer = hvd.DistributedOptimizer(self.optimizer, named_parameters=self.model.named_parameters())
            hvd.broadcast_parameters(self.model.state_dict(), root_rank=0)
        samples = torch.Generator().manual_seed(hvd.rank())
        self.words, self.targets = (torch.randint(0, 30522, (4, 128), generator=samples) for _ in range(2))

    def step(self):
        import torch

        import rueda.torch as hvd
        self.optimizer.zero_grad()
        torch.nn.functional.cross_entropy(self.model(self.words).view(-1, 30522), self.targets.view(-1)).backward()
        if self.way == "barrier":
            hvd.barrier()
        self.optimizer.step()

    def seconds(self, steps):
        """Of some steps that all ranks begin at the same time."""
        import rueda.torch as hvd
        hvd.barrier()
        begin = time.perf_counter()
        for _ in range(steps):
            self.step()
        return time.perf_counter() - begin


def train(rounds, steps):
    """Seconds of each way in each round."""
    import torch

    import rueda.torch as hvd
    torch.set_num_threads(1)
    hvd.init()
    trainings = [Training(way) for way in WAYS]
    for training in trainings:
        training.seconds(3)
    for turn in range(rounds):
        order = trainings[turn % len(WAYS):] + trainings[:turn % len(WAYS)]
        seconds = {training.way: training.seconds(steps) for training in order}
        print(*(seconds[way] for way in WAYS), flush=True)
    torch.distributed.destroy_process_group()


def inside(arguments):
    what, *rest = arguments
    if what == "train":
        train(*map(int, rest))
    elif what == "tensors":
        print(*many_tensors(), flush=True)
    else:
        print(latency(), flush=True)


def compare_tensors(options):
    for _ in range(3):
        numbers = launch(options, "tensors")
        alone, rueda, gloo = (max(numbers[i::3]) * 1e3 for i in range(3))
        print(f"tensors: {alone:.2f} ms; in turns with gloo {rueda:.2f} ms, gloo in one bucket {gloo:.2f} ms: "
              f"{rueda / gloo:.2f} of that; load {os.getloadavg()[0]:.1f}", flush=True)


def compare_training(options):
    ranks = options.ranks
    numbers = launch(options, "train", options.rounds, options.steps)
    # Lines of the ranks come in any order, but those of a round come before those of the next.
    lines = [numbers[i:i + len(WAYS)] for i in range(0, len(numbers), len(WAYS))]
    rounds = [[max(seconds) / options.steps for seconds in zip(*lines[i:i + ranks])] for i in range(0, len(lines), ranks)]
    seconds = dict(zip(WAYS, zip(*rounds)))
    for way in WAYS:
        ratios = sorted(none / mine for none, mine in zip(seconds["none"], seconds[way]))
        print(f"train, {way}: {statistics.median(seconds[way]) * 1e3:.0f} ms; of the speed without communication "
              f"{statistics.median(ratios):.3f} (middle half {ratios[len(ratios) // 4]:.3f} to {ratios[-1 - len(ratios) // 4]:.3f})", flush=True)
    print(f"{len(rounds)} rounds of {options.steps} steps each; load {os.getloadavg()[0]:.1f}", flush=True)


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
    parser.add_argument("--rounds", type=int, default=16)
    parser.add_argument("--steps", type=int, default=4)
    options = parser.parse_args()
    for what in options.what:
        if what == "train":
            compare_training(options)
        elif what == "import":
            import_time()
        elif what == "tensors":
            compare_tensors(options)
        else:
            runs = [max(launch(options, what)) for _ in range(3)]
            print(f"{what}: " + " ".join(f"{seconds * 1e6:.2f}" for seconds in runs) + f" us; load {os.getloadavg()[0]:.1f}", flush=True)


if __name__ == "__main__":
    main()
