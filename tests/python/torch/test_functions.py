# SPDX-License-Identifier: Apache-2.0
"""Parameters, optimizer state and objects of one rank, given to all."""

import threading
import time

import pytest
import torch

import rueda.torch as hvd


def model_of(rank):
    torch.manual_seed(rank)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))


def same_everywhere(tensor):
    return len({each.numpy().tobytes() for each in hvd.allgather(tensor.detach().clone().unsqueeze(0))}) == 1


@pytest.mark.parametrize("params_of", [lambda m: m.state_dict(), lambda m: m.named_parameters(), lambda m: list(m.parameters())],
                         ids=["state_dict", "named_parameters", "list"])
def test_broadcast_parameters(params_of, rank, size):
    model, root = model_of(rank), size - 1
    hvd.broadcast_parameters(params_of(model), root_rank=root)
    for mine, theirs in zip(model.parameters(), model_of(root).parameters()):
        assert torch.equal(mine, theirs) and mine.requires_grad


def test_broadcast_parameters_of_ranks_that_differ(rank, size):
    if size == 1:
        pytest.skip("needs two ranks")
    model = torch.nn.Linear(2, 2 if rank else 3)
    with pytest.raises(hvd.HorovodInternalError, match="the ranks differ"):
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    with pytest.raises(ValueError, match="dict or a list"):
        hvd.broadcast_parameters(torch.ones(1), root_rank=0)


OPTIMIZERS = [lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1), lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True),
              lambda p: torch.optim.AdamW(p, lr=0.01), lambda p: torch.optim.RMSprop(p, lr=0.01, centered=True),
              lambda p: torch.optim.Adagrad(p, lr=0.01), lambda p: torch.optim.Adadelta(p), lambda p: torch.optim.NAdam(p),
              lambda p: torch.optim.RAdam(p)]


@pytest.mark.parametrize("make", OPTIMIZERS, ids=lambda make: type(make([torch.ones(1)])).__name__)
@pytest.mark.parametrize("steps_of_root", [0, 2])
def test_broadcast_optimizer_state(make, steps_of_root, rank, size):
    model = model_of(0)
    optimizer = make(model.parameters())
    for _ in range(steps_of_root if rank == 0 else rank):
        model(torch.randn(4, 3)).square().sum().backward()
        optimizer.step()
    optimizer.param_groups[0]["lr"] = 0.5 if rank == 0 else 0.25
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters())), "the optimizer has stepped"
    assert optimizer.param_groups[0]["lr"] == 0.5
    optimizer.zero_grad()
    model(torch.ones(4, 3)).square().sum().backward()
    optimizer.step()
    assert all(same_everywhere(parameter) for parameter in model.parameters())


@pytest.mark.parametrize("make", [lambda p: torch.optim.SGD(p, lr=0.1), lambda p: torch.optim.AdamW(p, lr=0.1)])
def test_broadcast_optimizer_state_gives_gradients_of_zeros(make, rank):
    model = torch.nn.Sequential(torch.nn.Embedding(4, 3, sparse=True), torch.nn.Linear(3, 3), torch.nn.Linear(3, 2))
    model[1].weight.requires_grad_(False)
    model[2].weight.grad = torch.ones(2, 3)
    optimizer = make(model.parameters())
    before = [parameter.detach().clone() for parameter in model.parameters()]
    hvd.broadcast_optimizer_state(optimizer, root_rank=0, model=model)
    assert model[0].weight.grad.is_sparse and not model[0].weight.grad.to_dense().any()
    assert model[1].weight.grad is None and not model[1].bias.grad.any() and torch.all(model[2].weight.grad == 1)
    assert all(torch.equal(*pair) for pair in zip(before, model.parameters())) and not optimizer.state_dict()["state"]
    hvd.broadcast(model[2].bias.grad, 0)


def test_broadcast_optimizer_state_of_lbfgs():
    with pytest.raises(ValueError, match="LBFGS"):
        hvd.broadcast_optimizer_state(torch.optim.LBFGS([torch.ones(1, requires_grad=True)]), root_rank=0)


def test_broadcast_object(rank, size):
    made = {"rank": rank, "list": [1, (2, 3)], "function": lambda x: x + rank, "tensor": torch.full((2,), rank)}
    received = hvd.broadcast_object(made, root_rank=size - 1)
    assert received["rank"] == size - 1 and received["function"](1) == size and torch.all(received["tensor"] == size - 1)
    assert (received is made) == (rank == size - 1)
    assert hvd.broadcast_object(None, name="nothing") is None


def test_objects_that_cannot_be_pickled(rank, size):
    for call in (lambda: hvd.broadcast_object(threading.Lock() if rank == 0 else None, root_rank=0),
                 lambda: hvd.allgather_object(threading.Lock() if rank == 0 else 1)):
        with pytest.raises(TypeError if rank == 0 else ValueError, match="pickle"):
            call()
    assert hvd.broadcast_object({"second": rank}) == {"second": 0}


def test_names_pair_objects_whatever_their_order(rank, size):
    found = {}

    def exchange(key):
        found[key] = hvd.broadcast_object(key, name=f"object.{key}"), hvd.allgather_object(key * (rank + 1), name=f"object.{key}")

    threads = [threading.Thread(target=exchange, args=(key,)) for key in ("ab" if rank == 0 else "ba")]
    for thread in threads:
        thread.start()
        time.sleep(0.05)
    for thread in threads:
        thread.join()
    assert found == {key: (key, [key * (each + 1) for each in range(size)]) for key in "ab"}


def test_sparse_optimizer_state(rank):
    table = torch.nn.Embedding(4, 2, sparse=True)
    optimizer = torch.optim.SGD(table.parameters(), lr=0.1, momentum=0.9)
    if rank == 0:
        table(torch.tensor([1])).sum().backward()
        optimizer.step()
    hvd.broadcast_optimizer_state(optimizer, root_rank=0, model=table)
    buffer = optimizer.state[table.weight]["momentum_buffer"]
    assert buffer.is_sparse and buffer.to_dense().tolist() == [[0, 0], [1, 1], [0, 0], [0, 0]]


def test_strides_of_optimizer_state(rank):
    weight = torch.nn.Parameter(torch.ones(4, 3, 3, 3).contiguous(memory_format=torch.channels_last))
    optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9)
    if rank == 0:
        weight.grad = torch.rand_like(weight)
        optimizer.step()
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    assert optimizer.state[weight]["momentum_buffer"].stride() == weight.stride()


def test_allgather_object(rank, size):
    assert hvd.allgather_object({"of": "x" * rank}) == [{"of": "x" * each} for each in range(size)]
