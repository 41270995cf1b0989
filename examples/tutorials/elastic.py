# SPDX-License-Identifier: Apache-2.0
"""docs/tutorials/elastic.md: training that goes on when ranks are killed, and lets others in. elastic.py [MILLISECONDS]: of work in a step."""
import sys
import time

import torch

import rueda.torch as hvd

WORK = float(sys.argv[1]) / 1000 if len(sys.argv) > 1 else 0

hvd.init()
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
dataset = torch.randn(2048, 8, generator=torch.Generator().manual_seed(0))
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
sampler = hvd.elastic.ElasticSampler(dataset)
state = hvd.elastic.TorchState(model, optimizer, sampler=sampler, epoch=0)


@hvd.elastic.run
def train(state):
    while state.epoch < 3:
        for number, inputs in enumerate(torch.utils.data.DataLoader(dataset, batch_size=32, sampler=state.sampler)):
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(inputs), inputs.sum(1, keepdim=True)).backward()
            time.sleep(WORK)
            optimizer.step()
            state.sampler.record_batch(number, len(inputs))
            state.commit()  # restored after a failure
        state.epoch += 1
        state.sampler.set_epoch(state.epoch)
        state.commit()


train(state)
print(f"rank {hvd.rank()}: sum of the weights {model.weight.sum().item():.6f}")
