# SPDX-License-Identifier: Apache-2.0
"""Tensors on CUDA devices, each rank's its own where there are as many."""

import pytest
import torch

import rueda.torch as hvd

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")


@pytest.fixture(autouse=True)
def device():
    torch.cuda.set_device(hvd.local_rank() % torch.cuda.device_count())
    return torch.device("cuda")


def test_the_result_is_there_for_what_comes_after_on_any_stream(device, rank, size):
    with torch.cuda.stream(torch.cuda.Stream()):
        tensor = torch.full([100_000], float(rank + 1), device=device)
        assert (hvd.allreduce(tensor, op=hvd.Sum) * 2).tolist() == [size * (size + 1.0)] * 100_000


def test_a_device_that_is_not_current(size):
    tensor = torch.ones(1000, device=f"cuda:{torch.cuda.current_device()}")
    torch.cuda.set_device(torch.cuda.device_count() - 1)
    assert hvd.allreduce(tensor, op=hvd.Sum).sum().item() == 1000 * size


@pytest.mark.parametrize("overflow", [False, True])
def test_grad_scaler(overflow, device, rank, size):
    weight = torch.ones(1000, device=device, requires_grad=True)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0))
    scaler = torch.amp.GradScaler("cuda", init_scale=16.0)
    with torch.autocast("cuda", dtype=torch.float16):
        loss = (weight * (rank + 1.0)).sum()
    if overflow and rank == size - 1:
        loss = loss * float("inf")
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == (8.0 if overflow else 16.0)
    assert torch.allclose(weight, torch.ones_like(weight) - (0.0 if overflow else (size + 1) / 2))


def test_a_captured_step_trains_as_the_others_do(device, rank, size):
    if size > torch.cuda.device_count():
        pytest.skip("a graph takes a device for each rank")
    batch = torch.zeros(8, 16, device=device)

    def model_and_step(capturable):
        torch.manual_seed(1)
        model = torch.nn.Linear(16, 4).to(device)
        optimizer = hvd.DistributedOptimizer(torch.optim.AdamW(model.parameters(), lr=0.1, capturable=capturable), model.named_parameters())

        def step():
            optimizer.zero_grad()
            model(batch).square().mean().backward()
            optimizer.step()
        return model, step

    def fill(number):
        batch.copy_(torch.arange(128.0).reshape(8, 16).add(number * 7 + rank).sin())

    plain, step = model_and_step(False)
    graphed, step_to_capture = model_and_step(True)
    fill(0)
    for _ in range(3):
        step()
    captured = hvd.capture(step_to_capture, warmup=3)
    for number in range(4):
        fill(number)
        step()
        captured()
    for a, b in zip(plain.parameters(), graphed.parameters()):
        assert torch.allclose(a, b, atol=1e-5)
