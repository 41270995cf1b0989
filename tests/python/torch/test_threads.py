# SPDX-License-Identifier: Apache-2.0
"""Several threads of a rank at a time."""

import threading
import time

import torch
from training import batch, loss_of, model_of, reference, same, sgd

import rueda.torch as hvd


def in_threads(count, work):
    failures = []

    def run(number):
        try:
            work(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


def test_operations_of_several_threads(rank, size):
    def work(number):
        for i in range(40):
            total = hvd.allreduce(torch.full((100,), float(rank + number)), name=f"{number}.{i % 3}", op=hvd.Sum)
            assert torch.all(total == size * (size - 1) / 2 + size * number)
            rows = hvd.allgather(torch.full((rank + 1,), number), name=f"rows.{number}")
            assert torch.all(rows == number) and len(rows) == size * (size + 1) // 2

    in_threads(4, work)


def test_one_thread_begins_what_another_waits_for(rank, size):
    handles = [hvd.allreduce_async(torch.full((3,), float(i)), name=f"handle.{i}", op=hvd.Sum) for i in range(12)]

    def work(number):
        for i in range(number, 12, 3):
            assert torch.all(hvd.synchronize(handles[i]) == i * size)

    in_threads(3, work)


def test_two_models_trained_by_two_threads(rank):
    models = [model_of() for _ in range(2)]
    optimizers = [hvd.DistributedOptimizer(sgd(model.parameters())) for model in models]

    def work(number):
        for step in range(10):
            optimizers[number].zero_grad()
            loss_of(models[number], batch(step, [rank])).backward()
            optimizers[number].step()

    in_threads(2, work)
    for model in models:
        same(model, reference(sgd, 10))


def test_a_thread_that_waits_lets_others_run(rank, size):
    others_have_run = threading.Event()

    def work(number):
        if number == 1:
            time.sleep(0.05)  # the other waits by now
            hvd.allreduce(torch.ones(1), name="others")
            others_have_run.set()
        else:
            if rank == size - 1:  # for which the other ranks wait
                others_have_run.wait()
            hvd.allreduce(torch.ones(1), name="late")

    in_threads(2, work)
