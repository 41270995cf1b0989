# SPDX-License-Identifier: Apache-2.0
"""elastic_sharded.py SAMPLES EPOCHS SECONDS: elastic_training.cc with SHARDED, in Python, and with AdamW. A second optimizer, which is not sharded,
steps the parameter that counts. TORN: the number of a worker that is killed in the midst of step 12, when its parts are half written."""
import collections
import os
import signal
import sys
import time

import torch

import rueda.torch as hvd

SAMPLES, EPOCHS, WORK = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
UNTIL = int(os.environ.get("UNTIL_WORKER", "0"))
HIDDEN = 2000

WORKER = os.environ.get("RUEDA_WORKER")
if WORKER is None:  # the job is not elastic
    hvd.init()
WORKER = hvd.rank() if WORKER is None else int(WORKER)
print(f"worker {WORKER} is process {os.getpid()}", flush=True)
hvd.init()

inputs = torch.sin(torch.arange(SAMPLES * 3, dtype=torch.float64) * 1.7).reshape(SAMPLES, 3)
targets = torch.sin(torch.arange(SAMPLES, dtype=torch.float64) * 2.3).reshape(SAMPLES, 1)
network = torch.nn.Sequential(torch.nn.Linear(3, HIDDEN), torch.nn.Tanh(), torch.nn.Linear(HIDDEN, 1)).double()
with torch.no_grad():
    for seed, each in enumerate(network.parameters(), 1):
        each.copy_(torch.cos(torch.arange(each.numel(), dtype=torch.float64) + seed).reshape(each.shape) * 0.02)
parameters = list(network.parameters())
counts = torch.nn.Parameter(torch.zeros(SAMPLES, dtype=torch.float64))
network.register_parameter("counts", counts)


class Torn(torch.optim.AdamW):
    """Is killed when it has written a part of its part."""

    def step(self, closure=None):
        if os.environ.get("TORN") == str(WORKER) and state.steps == 12:
            for leaf in self.param_groups[0]["params"]:
                leaf.fill_(float("nan"))
            os.kill(os.getpid(), signal.SIGKILL)
        return super().step(closure)


Torn.__module__ = "torch.optim"  # as one that is known to step each element by itself
optimizer = hvd.DistributedOptimizer(Torn(parameters, lr=0.001), op=hvd.Sum, sharded=True, part_copies=int(os.environ.get("PART_COPIES", "1")))
counter = hvd.DistributedOptimizer(torch.optim.SGD([counts], lr=1.0), op=hvd.Sum)
sampler = hvd.elastic.ElasticSampler(range(SAMPLES))
state = hvd.elastic.TorchState(network, optimizer, counter=counter, sampler=sampler, epoch=0, steps=0, highest=0, light=0)


def step(batch):
    optimizer.zero_grad()
    counter.zero_grad()
    loss = torch.nn.functional.mse_loss(network(inputs[batch]), targets[batch], reduction="sum")
    (loss + counts[batch].sum()).backward()
    time.sleep(WORK)
    optimizer.step()
    counter.step()


@hvd.elastic.run
def train(state):
    print(f"worker {WORKER} begins as rank {hvd.rank()} of {hvd.size()} at step {state.steps}", flush=True)
    highest = int(hvd.allreduce(torch.tensor([WORKER]), op=hvd.Max)[0])
    while state.epoch < EPOCHS or state.highest < UNTIL:
        for number, batch in enumerate(torch.utils.data.DataLoader(range(SAMPLES), batch_size=4, sampler=state.sampler)):
            step(batch)
            state.sampler.record_batch(number, len(batch))
            state.steps += 1
            state.light += state._light
            state.commit()
            if state.steps % 5 == 0:
                print(f"worker {WORKER} step {state.steps}", flush=True)
        state.epoch += 1
        state.highest = max(state.highest, highest)
        state.sampler.set_epoch(state.epoch)
        state.commit()


train(state)
if hvd.rank() == 0:
    times = collections.Counter(round(-value) for value in counts.tolist())
    total = sum((each.detach().flatten() * torch.arange(1, each.numel() + 1, dtype=torch.float64).sqrt() * (2 + index)).sum().item()
                for index, each in enumerate(parameters))
    print(f"epochs: {state.epoch}, applied: {dict(sorted(times.items()))}", flush=True)
    print(f"sum: {total:.17g}, steps: {state.steps}, light commits: {state.light}", flush=True)
