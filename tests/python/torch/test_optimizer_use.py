# SPDX-License-Identifier: Apache-2.0
"""What scripts do around a DistributedOptimizer: clipping, scaling, schedules, shards, copies, mistakes."""

import copy
import re
import warnings

import pytest
import torch
from training import Doubles, OPTIMIZERS, batch, loss_of, model_of, reference, same, sgd, trained

import rueda.torch as hvd


def test_closure(rank):
    model = model_of()
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()))

    def closure():
        optimizer.zero_grad()
        loss = loss_of(model, batch(0, [rank]))
        loss.backward()
        return loss

    assert optimizer.step(closure).item() > 0
    same(model, reference(sgd, 1))


@pytest.mark.parametrize("in_backward", [True, False])
def test_step_after_synchronize_warns_once_where_horovod_would_reduce_again(in_backward, rank):
    model = model_of()
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), synchronize_in_backward=in_backward)
    words = "optimizer.step\\(\\) called without optimizer.skip_synchronize\\(\\) context after optimizer.synchronize\\(\\)"
    for step in range(3):
        optimizer.zero_grad()
        loss_of(model, batch(step, [rank])).backward()
        optimizer.synchronize()
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            optimizer.step()
        assert [each.category for each in warned] == ([UserWarning] if step == 0 and not in_backward else [])
        assert not warned or re.match(words, str(warned[0].message))
    same(model, reference(sgd, 3))


@pytest.mark.parametrize("set_to_none", [True, False])
def test_zero_grad_of_both_kinds(set_to_none, rank):
    model = model_of()
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()))
    for step in range(3):
        optimizer.zero_grad(set_to_none=set_to_none)
        assert all(p.grad is None if set_to_none else p.grad is None or not p.grad.any() for p in model.parameters())
        loss_of(model, batch(step, [rank])).backward()
        optimizer.step()
    same(model, reference(sgd, 3))


def clipped_reference(max_norm):
    model = model_of()
    optimizer = sgd(model.parameters())
    loss_of(model, batch(0, range(hvd.size()))).backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return model, norm.item()


@pytest.mark.parametrize("way", ["as_it_is", "synchronized", "skipping", "measured", "in_step"])
def test_clipping(way, rank):
    expected, norm = clipped_reference(0.01)
    model = model_of()
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), measure_norm=way == "measured",
                                         synchronize_in_backward=way != "in_step")
    loss_of(model, batch(0, [rank])).backward()
    if way == "measured":
        found = optimizer.clip_grad_norm_(0.01)
    else:
        if way != "as_it_is":
            optimizer.synchronize()
        found = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01).item()
    assert abs(found - norm) < 1e-6
    if way == "skipping":
        with optimizer.skip_synchronize():
            optimizer.step()
    else:
        optimizer.step()
    same(model, expected)


@pytest.mark.parametrize("compression", [hvd.Compression.none, Doubles])
@pytest.mark.parametrize("overflow", [False, True])
def test_grad_scaler_needs_no_special_calls(overflow, compression, rank, size):
    model = model_of(dtype=torch.float32)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), compression=compression)
    scaler = torch.amp.GradScaler("cpu", init_scale=16.0)
    loss = loss_of(model, batch(0, [rank], torch.float32))
    if overflow and rank == size - 1:
        loss = loss * float("inf")
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == (8.0 if overflow else 16.0)
    if overflow:
        assert all(torch.equal(a, b) for a, b in zip(before, model.parameters()))
    else:
        same(model, reference(sgd, 1, dtype=torch.float32), atol=1e-6)


@pytest.mark.parametrize("compression", [hvd.Compression.none, Doubles])
def test_set_backward_passes_per_step(compression, rank):
    model, optimizer = trained(rank, steps=0, compression=compression)
    with pytest.raises(ValueError, match="at least 1"):
        optimizer.set_backward_passes_per_step(0)
    optimizer.set_backward_passes_per_step(2)
    loss_of(model, batch(0, [rank])).backward()
    loss_of(model, batch(1, [rank])).backward()
    optimizer.step()
    same(model, reference(sgd, 1, passes=2))


def test_state_dict_goes_on_where_it_was(rank):
    model, optimizer = trained(rank, OPTIMIZERS["Adam"], steps=2)
    other = model_of()
    other.load_state_dict(model.state_dict())
    resumed = hvd.DistributedOptimizer(OPTIMIZERS["Adam"](other.parameters()))
    resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for trained_model, each in ((model, optimizer), (other, resumed)):
        each.zero_grad()
        loss_of(trained_model, batch(2, [rank])).backward()
        each.step()
    same(model, other, atol=0)


@pytest.mark.parametrize("schedule", ["diloco:2:0.7:0.9", "adaptive:1:4"])
def test_state_dict_has_what_a_schedule_remembers(schedule, rank):
    def train(model, optimizer, steps):
        for step in steps:
            optimizer.zero_grad()
            loss_of(model, batch(step, [rank])).backward()
            optimizer.step()
        optimizer.flush()

    model = model_of()
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), sync_schedule=schedule)
    train(model, optimizer, range(6))
    other = model_of()
    other.load_state_dict(model.state_dict())
    resumed = hvd.DistributedOptimizer(sgd(other.parameters()), sync_schedule=schedule)
    resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert resumed.sync_interval() == optimizer.sync_interval()
    forgetful = hvd.DistributedOptimizer(sgd(model_of().parameters()))
    forgetful.load_state_dict(optimizer.state_dict())
    for each, its in ((model, optimizer), (other, resumed)):
        train(each, its, range(6, 12))
    same(model, other, atol=0)


def test_a_state_dict_that_would_run_code_is_refused(rank, tmp_path):
    optimizer = hvd.DistributedOptimizer(sgd(model_of().parameters()), sync_schedule="adaptive:1:4")
    target = tmp_path / "target"
    module = torch.jit.script(type("Attack", (torch.nn.Module,), {})())  # torch keeps the methods of a class
    module.define(f"""
def __getstate__(self):
    return (1, self.training)

def __setstate__(self, state: Tuple[int, bool]):
    torch.save(state[0], "{target}")
    self.training = state[1]
""")
    archive = torch.frombuffer(bytearray(module.save_to_buffer()), dtype=torch.uint8)
    state = {**optimizer.state_dict(), "sync_schedule": archive}
    with pytest.raises(ValueError, match="an archive of torch::save, which can run code .* load it with allow_code"):
        optimizer.load_state_dict(state)
    assert not target.exists()
    optimizer.load_state_dict(state, allow_code=True)
    assert target.exists(), "the archive does what it is here for"


def test_contexts_that_begin_before_another_number_of_passes(rank):
    model, optimizer = trained(rank, steps=1)
    with optimizer.no_sync(), optimizer.skip_synchronize():
        optimizer.set_backward_passes_per_step(2)
    with optimizer.skip_synchronize():
        optimizer.set_backward_passes_per_step(1)
    optimizer.zero_grad()
    loss_of(model, batch(1, [rank])).backward()
    optimizer.step()
    same(model, reference(sgd, 2))


def test_nested_contexts_of_skip_synchronize(rank):
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=1.0), sync_schedule="every_step")
    (parameter.sum() * 2).backward()
    optimizer.synchronize()
    with optimizer.skip_synchronize():
        with optimizer.skip_synchronize():
            pass
        optimizer.step()
    assert parameter.item() == -2.0
    other = hvd.DistributedOptimizer(torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0), sync_schedule="accumulate:2")
    with pytest.raises(ValueError, match="skip_synchronize"):
        with other.skip_synchronize():
            pass


def test_copies_and_pickles_are_refused(rank):
    _, optimizer = trained(rank, steps=1)
    with pytest.raises(TypeError, match="cannot be copied"):
        copy.deepcopy(optimizer)
    with pytest.raises(TypeError, match="cannot be pickled"):
        torch.save(optimizer, "/dev/null")


def test_process_set(rank, size):
    if size < 3:
        pytest.skip("needs a part of the ranks")
    members = hvd.add_process_set([0, 1])
    model, alone = model_of(), model_of()
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), process_set=members)  # on every rank
    plain = sgd(alone.parameters())
    for step in range(2):
        optimizer.zero_grad()
        loss_of(model, batch(step, [rank])).backward()
        optimizer.synchronize()
        optimizer.step()
        plain.zero_grad()
        loss_of(alone, batch(step, [0, 1] if members.included() else [rank])).backward()
        plain.step()
    same(model, alone)
    assert isinstance(optimizer, torch.optim.SGD) and optimizer.state_dict()["state"]
    hvd.remove_process_set(members)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_sharded_has_the_same_bits_and_a_part_of_the_state(name, rank, size):
    make = OPTIMIZERS[name]
    model, whole = trained(rank, make, steps=4)
    sharded_model, sharded = trained(rank, make, steps=4, sharded=True)
    same(sharded_model, model, atol=0)
    assert isinstance(sharded, getattr(torch.optim, name))

    def elements(optimizer):
        return sum(value.numel() for state in optimizer.state.values() for value in state.values()
                   if isinstance(value, torch.Tensor) and value.dim() > 0)

    assert sum(hvd.allgather_object(elements(sharded))) == elements(whole)


def test_sharded_clips_schedules_and_zeroes(rank):
    model, plain = model_of(), model_of()
    optimizers = [hvd.DistributedOptimizer(sgd(each.parameters()), sharded=each is model) for each in (model, plain)]
    schedulers = [torch.optim.lr_scheduler.StepLR(each, 1, 0.5) for each in optimizers]
    for step in range(3):
        for each, optimizer, scheduler in zip((model, plain), optimizers, schedulers):
            optimizer.zero_grad(set_to_none=step % 2 == 0)
            loss_of(each, batch(step, [rank])).backward()
            torch.nn.utils.clip_grad_norm_(each.parameters(), 0.01)
            optimizer.step()
            scheduler.step()
    same(model, plain, atol=0)


def test_sharded_gets_the_settings_of_the_root(rank):
    model, sharded = trained(rank, OPTIMIZERS["Adam"], steps=1, sharded=True)
    sharded.param_groups[0]["lr"] = 0.5 if rank == 0 else 0.25
    hvd.broadcast_optimizer_state(sharded, root_rank=0)
    assert sharded.param_groups[0]["lr"] == 0.5
    loss_of(model, batch(1, [rank])).backward()
    sharded.step()


def test_what_cannot_be_sharded(rank):
    model, optimizer = trained(rank, steps=1)
    plain = sgd(model_of().parameters())
    plain.state[plain.param_groups[0]["params"][0]] = {"momentum_buffer": None}
    with pytest.raises(ValueError, match="has stepped already"):
        hvd.DistributedOptimizer(plain, sharded=True)
    with pytest.raises(ValueError, match="local_sgd"):
        hvd.DistributedOptimizer(sgd(model_of().parameters()), sharded=True, sync_schedule="local_sgd:2")

    parts = hvd.DistributedOptimizer(sgd(model_of().parameters()), sharded=True)
    with pytest.raises(ValueError, match="a GradScaler would look at"):
        scaler = torch.amp.GradScaler("cpu")
        scaler.scale(torch.ones(1))
        scaler.step(parts)

    class Own(torch.optim.SGD):
        pass

    with pytest.raises(ValueError, match="each element by itself"):
        hvd.DistributedOptimizer(Own(model_of().parameters()), sharded=True)


def test_mistakes_are_told(rank):
    model = model_of()
    with pytest.raises(ValueError, match="have no name"):
        hvd.DistributedOptimizer(sgd(model.parameters()), named_parameters=[("weight", model[0].weight)])
    with pytest.raises(ValueError, match="names twice: x"):
        hvd.DistributedOptimizer(sgd(model.parameters()), named_parameters=[("x", p) for p in model.parameters()])
    with pytest.raises(ValueError, match="sequence of"):
        hvd.DistributedOptimizer(sgd(model.parameters()), named_parameters=model.parameters())
    with pytest.raises(ValueError, match="gradient_predivide_factor"):
        hvd.DistributedOptimizer(sgd(model.parameters()), gradient_predivide_factor=2.0, op=hvd.Sum)
    with pytest.raises(ValueError, match="no schedule of synchronisation"):
        hvd.DistributedOptimizer(sgd(model.parameters()), sync_schedule="sometimes")
    with pytest.raises(ValueError, match="LBFGS"):
        hvd.DistributedOptimizer(torch.optim.LBFGS(model.parameters()))
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()))
    with pytest.raises(ValueError, match="distributed already"):
        hvd.DistributedOptimizer(optimizer)
    optimizer.param_groups[0]["params"].append(torch.nn.Parameter(torch.ones(1)))
    with pytest.raises(ValueError, match="was made for 4 parameters"):
        optimizer.step()
    parts = hvd.DistributedOptimizer(sgd(model_of().parameters()), sharded=True)
    with pytest.raises(ValueError, match="parts of the parameters are made once"):
        parts.add_param_group({"params": [torch.nn.Parameter(torch.ones(1))]})


@pytest.mark.parametrize("named", [True, False])
def test_a_parameter_group_that_is_added_later(named, rank, size):
    model, plain = model_of(), model_of()
    optimizer = hvd.DistributedOptimizer(sgd(model[0].parameters()), named_parameters=model[0].named_parameters() if named else None)
    alone = sgd(plain[0].parameters())
    for step in range(3):
        for each, rows in ((model, batch(step, [rank])), (plain, batch(step, range(size)))):
            (optimizer if each is model else alone).zero_grad()
            loss_of(each, rows).backward()
        for each, its in ((model, optimizer), (plain, alone)):
            its.step()
            each[2].zero_grad()
            if step == 0:
                its.add_param_group({"params": each[2].parameters()})
    same(model, plain)


@pytest.mark.parametrize("compression", [hvd.Compression.none, Doubles])
def test_gradients_that_the_program_holds_are_reduced_where_they_are(compression, rank, size):
    model = torch.nn.Linear(2, 1)
    torch.nn.init.constant_(model.weight, 0.5)
    flat = torch.zeros(3)
    model.weight.grad, model.bias.grad = flat[:2].view(1, 2), flat[2:]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), compression=compression)
    mean = (size + 1) / 2
    for step in range(3):
        flat.zero_()
        model(torch.full((1, 2), rank + 1.0)).sum().backward()
        optimizer.synchronize()
        assert torch.allclose(flat, torch.tensor([mean, mean, 1.0]))
        flat.mul_(0.5)
        with optimizer.skip_synchronize():
            optimizer.step()
        assert torch.allclose(model.weight.detach(), torch.full((1, 2), 0.5 - 0.05 * mean * (step + 1)))


def test_attributes_of_a_distributed_optimizer(rank):
    optimizer = hvd.DistributedOptimizer(sgd(model_of().parameters()), backward_passes_per_step=2, op=hvd.Sum)
    assert (optimizer.backward_passes_per_step, optimizer.op, optimizer.process_set) == (2, hvd.Sum, hvd.global_process_set)
    optimizer.set_backward_passes_per_step(3)
    assert optimizer.backward_passes_per_step == 3


def test_what_is_frozen_after_wrapping_moves_on_as_in_horovod(rank, size):
    frozen, trained = torch.nn.Parameter(torch.ones(1)), torch.nn.Parameter(torch.ones(1))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([frozen, trained], lr=0.1, weight_decay=0.5))
    frozen.requires_grad_(False)
    (frozen * trained).sum().backward()
    optimizer.step()
    assert frozen.item() == pytest.approx(0.95 if size > 1 else 1.0)


def test_ranks_with_different_parameters(rank, size):
    if size == 1:
        pytest.skip("needs ranks that differ")
    parameter = torch.nn.Parameter(torch.ones(2 + rank))
    with pytest.raises(hvd.HorovodInternalError, match="the ranks differ"):
        hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=0.1))
