# SPDX-License-Identifier: Apache-2.0
"""elastic_sums.py SAMPLES EPOCHS [SECONDS]: training that counts. Its parameters say how often each sample has been applied, with the sign turned:
the gradient of a sample is 1 at its own index, and a step subtracts the sum over all ranks. Rank 0 prints in the end how many samples
were applied how often. SECONDS: of work in each step. UNTIL_WORKER: epochs go on until a worker of that number, or a higher one, takes part. STOP: until
that file is there. MORE_EPOCHS: run() is called twice, and only the second call lasts until that worker. MISMATCHES_AT: the step in which ranks reduce different shapes. ENDS_EARLY: a
worker that ends well in step 7. LOADERS: processes that read the samples of a rank. Where ruedarun has not started it, the rank stands for the number of the worker."""
import collections
import os
import sys
import time

import torch

import rueda.torch as hvd

SAMPLES, EPOCHS = int(sys.argv[1]), int(sys.argv[2])
WORK = float(sys.argv[3]) if len(sys.argv) > 3 else 0.01
WORKER = next((os.environ[name] for name in ("RUEDA_WORKER", "RANK", "RUEDA_RANK", "SLURM_PROCID", "PMI_RANK") if name in os.environ), "0")
LOADERS = int(os.environ.get("LOADERS", "0"))
MORE_EPOCHS = int(os.environ.get("MORE_EPOCHS", "0"))
STOP = os.environ.get("STOP")
UNTIL = int(os.environ.get("UNTIL_WORKER", "0")) if not MORE_EPOCHS else 0
if WORKER in os.environ.get("REFUSING", "").split(","):
    raise SystemExit(3)

print(f"worker {WORKER} is process {os.getpid()}", flush=True)
hvd.init()
weights = torch.nn.Parameter(torch.zeros(SAMPLES, dtype=torch.float64))
optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weights], lr=1.0), named_parameters=[("weights", weights)], op=hvd.Sum)
model = torch.nn.ParameterList([weights])
state = hvd.elastic.TorchState(model, optimizer, sampler=hvd.elastic.ElasticSampler(range(SAMPLES)), epoch=0, steps=0, highest=0, is_stopped=not STOP)


@hvd.elastic.run
def train(state):
    print(f"worker {WORKER} begins as rank {hvd.rank()} of {hvd.size()} at step {state.steps}", flush=True)
    highest = int(hvd.allreduce(torch.tensor([int(WORKER)]), op=hvd.Max)[0])
    while state.epoch < EPOCHS or state.highest < UNTIL or not state.is_stopped:
        for number, batch in enumerate(torch.utils.data.DataLoader(range(SAMPLES), batch_size=4, sampler=state.sampler, num_workers=LOADERS)):
            optimizer.zero_grad()
            weights[batch].sum().backward()
            time.sleep(WORK)
            optimizer.step()
            state.sampler.record_batch(number, len(batch))
            state.steps += 1
            if os.environ.get("FAILS_AT") == str(state.steps):
                raise ValueError("this sample is broken")
            if os.environ.get("MISMATCHES_AT") == str(state.steps):
                hvd.allreduce(torch.ones(2 + hvd.rank()), name="mismatch")
            if os.environ.get("ENDS_EARLY") == WORKER and state.steps == 7:
                os._exit(0)
            state.commit()
            if state.steps % 5 == 0:
                print(f"worker {WORKER} step {state.steps}", flush=True)
        state.epoch += 1
        if not state.is_stopped:
            state.is_stopped = hvd.broadcast_object(os.path.exists(STOP), root_rank=0)
        state.highest = max(state.highest, highest)
        state.sampler.set_epoch(state.epoch)
        state.commit()


train(state)
if MORE_EPOCHS:
    EPOCHS, UNTIL = EPOCHS + MORE_EPOCHS, int(os.environ.get("UNTIL_WORKER", "0"))
    train(state)
if hvd.rank() == 0:
    times = collections.Counter(int(-value) for value in weights.detach())
    print(f"epochs: {state.epoch}, applied: {dict(sorted(times.items()))}", flush=True)
