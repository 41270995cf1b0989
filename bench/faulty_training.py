#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A training loop in which one rank has a fault, for what_if.py and for tests of the live page.

    ruedarun -np 3 faulty_training.py FAULT RANK [--milliseconds 8] [--after 60] [--sample 0.5] [--steps 1000000] [--mean-loss]

FAULT: none; data (the loader is slow), compute (the forward pass), garbage (now and then Python collects it), stuck (for ever, in a lock), mismatch (another shape),
card (the network cards of the host carry 20 Mbit/s; needs root and --virtual-hosts).
It begins after so many steps, and takes about that many milliseconds a step.
"""

import argparse
import contextlib
import gc
import socket
import subprocess
import threading
import time

import torch

import rueda.torch as hvd


class Samples(torch.utils.data.Dataset):
    """Each takes some time, and more where the loader is slow."""

    delay = 0.0

    def __init__(self, milliseconds):
        self.usual = milliseconds * 1e-3

    def __len__(self):
        return 1 << 30

    def __getitem__(self, index):
        time.sleep(self.usual + Samples.delay)
        return torch.randn(64), torch.randn(1)


def spin(seconds):
    """Work for the processor that no other rank has."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


def seconds_of_a_collection():
    """Of garbage, with all the objects of this program."""
    began = time.perf_counter()
    gc.collect()
    return time.perf_counter() - began


def slow_down_cards():
    """Those of this host, a network namespace."""
    for _, card in socket.if_nameindex():
        if card != "lo":
            subprocess.run(["tc", "qdisc", "replace", "dev", card, "root", "tbf", "rate", "20mbit", "burst", "32kb", "latency", "400ms"], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fault", choices=["none", "data", "compute", "garbage", "stuck", "mismatch", "card"])
    parser.add_argument("rank", type=int)
    parser.add_argument("--milliseconds", type=float, default=8)
    parser.add_argument("--after", type=int, default=60, help="steps without a fault")
    parser.add_argument("--sample", type=float, default=0.5, help="milliseconds that the loader takes for each of 4")
    parser.add_argument("--width", type=int, default=256, help="of the model")
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--mean-loss", action="store_true", help="ranks average their losses in each step, before the gradients")
    options = parser.parse_args()
    hvd.init()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    is_faulty = hvd.rank() == options.rank
    model = torch.nn.Sequential(torch.nn.Linear(64, options.width), torch.nn.ReLU(), torch.nn.Linear(options.width, 1))
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.01), named_parameters=model.named_parameters())
    steps_of_a_collection = max(1, round(seconds_of_a_collection() * 1e3 / options.milliseconds))
    loader = iter(torch.utils.data.DataLoader(Samples(options.sample), batch_size=4))
    for step in range(options.steps):
        fault = options.fault if is_faulty and step >= options.after else "none"
        Samples.delay = options.milliseconds / 4e3 if fault == "data" else 0.0
        inputs, targets = next(loader)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        if fault == "compute":
            spin(options.milliseconds / 1e3)
        if fault == "garbage" and step % steps_of_a_collection == 0:
            gc.collect()
        if fault == "stuck":
            lock = threading.Lock()
            lock.acquire()
            lock.acquire()
        if fault == "card" and step == options.after:
            slow_down_cards()
        if options.fault == "mismatch" and step == options.after:
            with contextlib.suppress(hvd.HorovodInternalError, ValueError, RuntimeError):
                hvd.allreduce(torch.ones(3 if is_faulty else 4), name="sum")
        mean = hvd.allreduce(loss.detach(), name="mean loss") if options.mean_loss else loss
        loss.backward()
        optimizer.step()
        hvd.log({"loss": mean})


if __name__ == "__main__":
    main()
