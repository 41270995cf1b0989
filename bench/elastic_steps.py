# SPDX-License-Identifier: Apache-2.0
"""elastic_steps.py PARAMETERS STOP: the training that bench/fault_campaign.py disturbs, on each rank. It goes on until the file STOP is there, to the end of an
epoch. Each rank prints events with their times. At the end rank 0 prints the epochs, how many samples were lost, how many were applied too often, whether the
large parameter is uniform, the values of a small one, and how many steps were made by how many ranks. SHARDED in the environment: of each rank a part of the optimizer."""

import os
import sys
import time
from pathlib import Path

import torch

import rueda.torch as hvd

SAMPLES = 480  # of an epoch; any number of ranks up to 6 divides them
PULL = 0.01
PARAMETERS, STOP = int(sys.argv[1]), Path(sys.argv[2])
WORKER = os.environ["RUEDA_WORKER"]


def tell(event: str, *more: object) -> None:
    line = " ".join(map(str, ["event", event, WORKER, f"{time.time():.6f}", *more]))
    os.write(1, f"{line}\n".encode())  # at once: this process may be killed


tell("process", os.getpid(), os.environ["HOROVOD_HOSTNAME"])
# Before init(), in which a spare waits. A step takes 1 from the count of each sample that it has seen. It pulls `exact` to `targets`, by n times as much on n
# ranks. All elements of `others` have the same gradient, so they stay equal.
counts = torch.nn.Parameter(torch.zeros(SAMPLES, dtype=torch.float64))
exact = torch.nn.Parameter(torch.zeros(4, dtype=torch.float64))
others = torch.nn.Parameter(torch.zeros(PARAMETERS))
targets, coefficients = torch.arange(1, 5, dtype=torch.float64), torch.ones(PARAMETERS)
model = torch.nn.ParameterList([counts, exact, others])
tell("waits")
hvd.init()
optimizer = hvd.DistributedOptimizer(torch.optim.SGD([{"params": [counts], "momentum": 0}, {"params": [exact, others], "momentum": 0.9}], lr=1.0), op=hvd.Sum,
                                     named_parameters=[("counts", counts), ("exact", exact), ("others", others)], sharded="SHARDED" in os.environ)
state = hvd.elastic.TorchState(model, optimizer, sampler=hvd.elastic.ElasticSampler(range(SAMPLES)), epoch=0, history=[])
state.register_reset_callbacks([lambda: tell("generation", hvd.size())])


def epochs():
    while True:
        for sample in torch.utils.data.DataLoader(range(SAMPLES), batch_size=1, sampler=state.sampler):
            optimizer.zero_grad()
            (counts[sample].sum() + 0.5 * PULL * (exact - targets).square().sum() + (others * coefficients).sum()).backward()
            optimizer.step()
            state.sampler.record_batch(0, len(sample))
            if not state.history or state.history[-1][0] != hvd.size():
                state.history.append([hvd.size(), 0])
            state.history[-1][1] += 1
            tell("step", hvd.size())
            state.commit()
        over = hvd.broadcast_object(STOP.exists(), root_rank=0)
        if over:
            tell("over")
        state.epoch += 1
        state.sampler.set_epoch(state.epoch)
        state.commit()
        if over:
            return


@hvd.elastic.run
def train(state):
    tell("begins", hvd.size())
    try:
        epochs()
    except hvd.HorovodInternalError:
        tell("fails")
        raise


train(state)
if hvd.rank() == 0:
    times = (-counts.detach() - state.epoch).round().long()
    tell("end", state.epoch, int(-times.clamp(max=0).sum()), int(times.clamp(min=0).sum()), "uniform" if (others == others[0]).all() else "torn",
         ",".join(map(repr, exact.tolist())), ",".join(f"{ranks}:{steps}" for ranks, steps in state.history))
