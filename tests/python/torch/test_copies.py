# SPDX-License-Identifier: Apache-2.0
"""Copies of a DistributedDataParallel: deepcopy, AveragedModel, pickle, torch.save. They communicate nothing."""

import copy
import io
import os
import pickle
import subprocess
import sys
import tempfile

import pytest
import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import rueda.torch as hvd


def model_of(seed=1):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1))


def by_torch(model):
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


COPIES = {"deepcopy": copy.deepcopy, "pickle": lambda model: pickle.loads(pickle.dumps(model)), "torch.save": by_torch,
          "twice": lambda model: copy.deepcopy(by_torch(model))}


@pytest.mark.parametrize("how", COPIES)
def test_a_copy_is_this_ranks_own(how, rank, size):
    model = hvd.DistributedDataParallel(model_of(rank))
    inputs = torch.full((5, 3), float(rank)) + torch.arange(5.0).unsqueeze(1)
    model(inputs).sum().backward()
    of_all = [parameter.grad.clone() for parameter in model.parameters()]
    if rank == 0:  # nobody else takes part
        made = COPIES[how](model)
        assert "gradients are not reduced" in repr(made) and "gradients are not reduced" not in repr(model)
        assert isinstance(made, hvd.DistributedDataParallel) and list(made.state_dict()) == list(model.state_dict())
        for one, other in zip(made.state_dict().values(), model.state_dict().values()):
            assert torch.equal(one, other) and one.data_ptr() != other.data_ptr()
        alone = copy.deepcopy(model.module)
        for module in (made, alone):
            module.train()
            module.zero_grad()
            module(inputs).sum().backward()
        for one, other in zip(made.parameters(), alone.parameters()):
            assert torch.equal(one.grad, other.grad)
        with made.no_sync(), made.join():
            made(inputs).sum().backward()
        alone(inputs)  # for the same statistics
        made.eval()
        assert torch.equal(made(inputs), alone.eval()(inputs))
        for before, parameter in zip(of_all, model.parameters()):
            assert torch.equal(before, parameter.grad)
    model(inputs).sum().backward()  # the original goes on, on all ranks
    gradients = hvd.allgather_object([parameter.grad for parameter in model.parameters()])
    assert all(torch.equal(one, other) for each in gradients for one, other in zip(each, gradients[0]))


def test_a_copy_can_be_trained_by_all_again(rank, size):
    made = copy.deepcopy(hvd.DistributedDataParallel(model_of(rank)))
    model = hvd.DistributedDataParallel(made.module)
    model(torch.full((5, 3), float(rank)) + torch.arange(5.0).unsqueeze(1)).sum().backward()
    gradients = hvd.allgather_object(model.module[0].weight.grad)
    assert all(torch.equal(each, gradients[0]) for each in gradients)


def test_averaged_model(rank):
    """The weights of an exponential moving average are those of the same module alone, with the same gradients."""
    model = hvd.DistributedDataParallel(model_of())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.5))
    plain = copy.deepcopy(model.module)
    plain_average = AveragedModel(plain, multi_avg_fn=get_ema_multi_avg_fn(0.5))
    for step in range(3):
        optimizer.zero_grad()
        model(torch.full((5, 3), float(rank + step)) + torch.arange(5.0).unsqueeze(1)).square().sum().backward()
        optimizer.step()
        plain.load_state_dict(model.module.state_dict())
        average.update_parameters(model)
        plain_average.update_parameters(plain)
    assert all(torch.equal(one, other) for one, other in zip(average.parameters(), plain_average.parameters()))
    inputs = torch.arange(6.0).view(2, 3)
    assert torch.equal(average.eval()(inputs), plain_average.eval()(inputs))
    if rank == 0:
        torch.optim.swa_utils.update_bn([inputs], average)  # in train(), and alone
    names = {name.removeprefix("module.module.") for name in average.state_dict()} - {"n_averaged"}
    assert names == set(plain.state_dict())


def test_the_state_dict_is_as_torchs(rank, size):
    folder = hvd.broadcast_object(tempfile.mkdtemp() if rank == 0 else None)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=size)
    try:
        theirs = torch.nn.parallel.DistributedDataParallel(model_of())
        ours = hvd.DistributedDataParallel(model_of())
        for copies in (theirs, copy.deepcopy(theirs)), (ours, copy.deepcopy(ours)):
            assert list(copies[0].state_dict()) == list(copies[1].state_dict()) == list(theirs.state_dict())
            assert copies[1].training and type(copies[1]) is type(copies[0])
        assert copy.deepcopy(theirs.eval()).training == copy.deepcopy(ours.eval()).training is False
        inputs = torch.arange(6.0).view(2, 3)
        assert torch.equal(copy.deepcopy(theirs)(inputs), copy.deepcopy(ours)(inputs))
        hvd.barrier()
    finally:
        torch.distributed.destroy_process_group()


def test_a_process_without_a_job_loads_a_model(rank):
    model = hvd.DistributedDataParallel(model_of())
    if rank > 0:
        return
    with tempfile.TemporaryDirectory() as folder:
        torch.save(model, f"{folder}/model.pt")
        code = f"import torch\nmodel = torch.load({folder!r} + '/model.pt', weights_only=False)\nprint(model.eval()(torch.ones(1, 3)).item())"
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PMI")}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=150, env=environment)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == pytest.approx(model.eval()(torch.ones(1, 3)).item())
