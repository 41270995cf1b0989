# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel, as scripts use torch's."""


import pytest
import torch
from training import Doubles, Fails, batch, loss_of, model_of, reference, same, sgd

import rueda.torch as hvd


def wrapped(rank, **options):
    model = model_of(seed=0 if rank == 0 else rank)
    return hvd.DistributedDataParallel(model, **options)


def test_trains_as_one_process_with_all_rows(rank):
    model = wrapped(rank)
    optimizer = sgd(model.parameters())
    for step in range(4):
        optimizer.zero_grad()
        loss_of(model, batch(step, [rank])).backward()
        optimizer.step()
    same(model.module, reference(sgd, 4))
    assert set(model.state_dict()) == {f"module.{name}" for name in model.module.state_dict()}


def test_clipping_and_scaling_see_reduced_gradients(rank, size):
    model = wrapped(rank)
    loss_of(model, batch(0, [rank])).backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1e9)
    plain = model_of()
    loss_of(plain, batch(0, range(size))).backward()
    assert abs(norm - torch.nn.utils.clip_grad_norm_(plain.parameters(), 1e9)) < 1e-9


def test_no_sync_adds_up(rank, size):
    model = wrapped(rank)
    with model.no_sync():
        loss_of(model, batch(0, [rank])).backward()
    own = [parameter.grad.clone() for parameter in model.parameters()]
    loss_of(model, batch(1, [rank])).backward()
    plain = model_of()
    for step in range(2):
        loss_of(plain, batch(step, range(size))).backward()
    for mine, before, expected in zip(model.parameters(), own, plain.parameters()):
        assert torch.allclose(mine.grad, expected.grad, rtol=0, atol=1e-12)
        assert size == 1 or not torch.equal(mine.grad, before)


def test_a_parameter_that_some_ranks_do_not_use(rank, size):
    model = hvd.DistributedDataParallel(torch.nn.ModuleList([torch.nn.Linear(2, 1), torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)]))
    used = [0, 1] if rank == 0 else [0]
    sum(model.module[i](torch.ones(1, 2)).sum() for i in used).backward()
    assert torch.allclose(model.module[0].weight.grad, torch.ones(1, 2))
    assert torch.allclose(model.module[1].weight.grad, torch.full((1, 2), 1 / size))
    assert model.module[2].weight.grad is None


def test_buffers_are_those_of_the_first_rank(rank):
    norm = torch.nn.BatchNorm1d(3)
    model = hvd.DistributedDataParallel(norm)
    for _ in range(2):
        model(torch.randn(4, 3, generator=torch.Generator().manual_seed(rank))).sum().backward()
    norm.running_mean.fill_(rank)
    with model.no_sync():
        model(torch.zeros(4, 3))
    assert rank == 0 or norm.running_mean.abs().max() > 0
    model(torch.zeros(4, 3))
    assert torch.equal(norm.running_mean, torch.zeros(3))  # 0 of rank 0, times 0.9, and a mean of 0
    model.eval()
    norm.running_mean.fill_(rank)
    if rank == 0:
        model(torch.zeros(4, 3))  # alone: it communicates nothing
    assert torch.all(norm.running_mean == rank)


def test_join_where_ranks_have_different_numbers_of_batches(rank, size):
    model = wrapped(rank)
    optimizer = sgd(model.parameters())
    steps = 1 + rank
    with model.join():
        for step in range(steps):
            optimizer.zero_grad()
            loss_of(model, batch(step, [rank])).backward()
            optimizer.step()
    weights = hvd.allgather_object(model.module[0].weight.detach())
    assert all(torch.equal(each, weights[0]) for each in weights)
    plain = model_of()
    optimizer = sgd(plain.parameters())
    for step in range(size):
        optimizer.zero_grad()
        sum(loss_of(plain, batch(step, [other])) / size for other in range(step, size)).backward()
        optimizer.step()
    same(model.module, plain)
    with model.join(enable=False):
        pass


def test_a_failure_comes_out_of_backward_in_its_own_class(rank, size):
    if size == 1:
        pytest.skip("needs ranks that differ")
    model = hvd.DistributedDataParallel(torch.nn.Linear(3, 1))
    if rank == 0:
        model.double()
    rows = torch.ones(2, 3, dtype=model.module.weight.dtype)
    with pytest.raises(hvd.HorovodInternalError, match="gradient of parameter 'weight'.*float64"):
        model(rows).sum().backward()
    model.zero_grad()
    model.float()
    model(rows.float()).sum().backward()
    assert torch.equal(model.module.weight.grad, torch.full((1, 3), 2.0))


def test_parameters_that_are_unfrozen_later(rank, size):
    module = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
    module[0].requires_grad_(False)
    model = hvd.DistributedDataParallel(module)
    module.requires_grad_(True)
    model(torch.full((1, 2), float(rank))).sum().backward()
    module.requires_grad_(False)
    wanted = module[1].weight[0].unsqueeze(1) * torch.full((2, 2), (size - 1) / 2)
    assert torch.allclose(module[0].weight.grad, wanted)


def test_after_a_pass_that_failed_the_next_is_reduced(rank, size):
    model, plain = wrapped(rank), model_of()
    optimizer = sgd(model.parameters())
    with pytest.raises(KeyError):
        (model.module[2](Fails.apply(model(batch(0, [rank])) @ torch.ones(3, 8).double())) ** 2).mean().backward()
    optimizer.zero_grad()
    loss_of(model, batch(0, [rank])).backward()
    loss_of(plain, batch(0, range(size))).backward()
    for mine, expected in zip(model.parameters(), plain.parameters()):
        assert torch.allclose(mine.grad, expected.grad, rtol=0, atol=1e-12)


def checkpointed(part):
    return lambda rows: torch.utils.checkpoint.checkpoint(part, rows, use_reentrant=True)


@pytest.mark.parametrize("around", ["module", "wrapper"])
def test_reentrant_checkpoints_around_everything(around, rank, size):
    model, plain = wrapped(rank), model_of()
    if around == "module":
        model.module.forward = checkpointed(model.module.forward)
    run = model if around == "module" else checkpointed(model)
    optimizer, alone = sgd(model.parameters()), sgd(plain.parameters())
    for step in range(3):
        for each, of, ranks in ((optimizer, run, [rank]), (alone, plain, range(size))):
            each.zero_grad()
            rows = batch(step, ranks).requires_grad_()
            (of(rows) ** 2).mean().backward()
            each.step()
    same(model.module, plain)


def test_reentrant_checkpoints_in_turn_inside_of_one_another(rank, size):
    model, plain = wrapped(rank), model_of()
    layers = list(model.module)
    model.module.forward = checkpointed(lambda rows: checkpointed(layers[2])(checkpointed(layers[1])(checkpointed(layers[0])(rows))))
    for of, ranks in ((model, [rank]), (plain, range(size))):
        (of(batch(0, ranks).requires_grad_()) ** 2).mean().backward()
    for mine, expected in zip(model.parameters(), plain.parameters()):
        assert torch.allclose(mine.grad, expected.grad, rtol=0, atol=1e-12)


def test_buffers_that_are_not_saved_and_parameters_that_are_assigned(rank, size):
    module = torch.nn.Linear(2, 1)
    module.register_buffer("seen", torch.full((1,), float(rank)), persistent=False)
    model = hvd.DistributedDataParallel(module, broadcast_buffers=False)
    assert module.seen.item() == 0
    model.load_state_dict({name: tensor.clone() for name, tensor in model.state_dict().items()}, assign=True)
    with pytest.raises(ValueError, match="make it again"):
        model(torch.ones(1, 2))


def test_arguments(rank):
    module = torch.nn.Linear(2, 1)
    model = hvd.DistributedDataParallel(module, find_unused_parameters=True, gradient_as_bucket_view=True, static_graph=True, bucket_cap_mb=1)
    with pytest.raises(TypeError, match="process_group; give the ranks as process_set"):
        hvd.DistributedDataParallel(module, process_group=None)
    with pytest.raises(ValueError, match="device_ids"):
        hvd.DistributedDataParallel(module, device_ids=[0])
    with pytest.raises(ValueError, match="requires a gradient"):
        hvd.DistributedDataParallel(torch.nn.Tanh())
    with pytest.raises(ValueError, match="those of hvd.Compression"):
        hvd.DistributedDataParallel(module, compression=Doubles)
    with pytest.raises(ValueError, match="divide_by_initial_world_size"):
        with model.join(divide_by_initial_world_size=False):
            pass


def test_process_set(rank, size):
    if size < 3:
        pytest.skip("needs a part of the ranks")
    members = hvd.add_process_set([1, 2])
    if members.included():
        model = hvd.DistributedDataParallel(torch.nn.Linear(2, 1), process_set=members, op=hvd.Sum)
        model(torch.full((1, 2), float(rank))).sum().backward()
        assert torch.equal(model.module.weight.grad, torch.full((1, 2), 3.0))
    hvd.remove_process_set(members)
