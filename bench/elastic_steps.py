# SPDX-License-Identifier: Apache-2.0
"""elastic_steps.py PARAMETERS STOP: the training that bench/fault_campaign.py disturbs, on each rank. It goes on until the file STOP is there, to the end of an
epoch. Each rank prints what happens with the time; in the end rank 0 prints how many samples were lost, and how many applied too often."""

import os
import sys
import time
from pathlib import Path

import torch

import rueda.torch as hvd

SAMPLES = 480  # of an epoch; any number of ranks up to 6 divides them
PARAMETERS, STOP = int(sys.argv[1]), Path(sys.argv[2])
WORKER = os.environ["RUEDA_WORKER"]


def tell(event: str, *more: object) -> None:
    line = " ".join(map(str, ["event", event, WORKER, f"{time.time():.6f}", *more]))
    os.write(1, f"{line}\n".encode())  # at once: this process may be killed


tell("process", os.getpid())
# Before init(), in which a spare waits. A step takes 1 from the parameter of each sample that it has seen. The others have a gradient, too, of which nothing is known.
counts = torch.nn.Parameter(torch.zeros(SAMPLES, dtype=torch.float64))
others = torch.nn.Parameter(torch.zeros(PARAMETERS))
coefficients = torch.rand(PARAMETERS)
model = torch.nn.ParameterList([counts, others])
hvd.init()
optimizer = hvd.DistributedOptimizer(torch.optim.SGD([{"params": [counts], "momentum": 0}, {"params": [others], "momentum": 0.9}], lr=1.0),
                                     named_parameters=[("counts", counts), ("others", others)], op=hvd.Sum)
state = hvd.elastic.TorchState(model, optimizer, sampler=hvd.elastic.ElasticSampler(range(SAMPLES)), epoch=0, repeated=0)
state.register_reset_callbacks([lambda: tell("generation", hvd.size())])


@hvd.elastic.run
def train(state):
    tell("begins", hvd.size())
    while True:
        for sample in torch.utils.data.DataLoader(range(SAMPLES), batch_size=1, sampler=state.sampler):
            optimizer.zero_grad()
            (counts[sample].sum() + (others * coefficients).sum()).backward()
            optimizer.step()
            state.sampler.record_batch(0, len(sample))
            state.commit()
            tell("step", hvd.size())
        over = hvd.broadcast_object(STOP.exists(), root_rank=0)
        state.epoch += 1
        state.sampler.set_epoch(state.epoch)
        state.commit()
        if over:
            return


train(state)
if hvd.rank() == 0:
    times = (-counts.detach() - state.epoch).long()
    tell("end", state.epoch, int(-times.clamp(max=0).sum()), int(times.clamp(min=0).sum()))
