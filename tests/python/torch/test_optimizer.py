# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer: n ranks with batch b against one process with batch n b, and everything around it."""

import copy

import pytest
import torch

import rueda.torch as hvd

ROWS = 4  # of a rank


def model_of(seed=0, dtype=torch.float64):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3)).to(dtype)


def batch(step, ranks, dtype=torch.float64):
    """The rows of those ranks."""
    generator = torch.Generator().manual_seed(100 + step)
    rows = torch.randn(hvd.size() * ROWS, 6, generator=generator, dtype=torch.float64).to(dtype)
    return torch.cat([rows[rank * ROWS:(rank + 1) * ROWS] for rank in ranks])


def loss_of(model, rows):
    return (model(rows) ** 2).mean()


def reference(make, steps, passes=1, dtype=torch.float64):
    model = model_of(dtype=dtype)
    optimizer = make(model.parameters())
    for step in range(steps):
        optimizer.zero_grad()
        for each in range(passes):
            (loss_of(model, batch(step * passes + each, range(hvd.size()), dtype))).backward()
        optimizer.step()
    return model


def same(model, other, atol=1e-9):
    for mine, theirs in zip(model.parameters(), other.parameters()):
        assert torch.allclose(mine, theirs, rtol=0, atol=atol), (mine - theirs).abs().max()


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


OPTIMIZERS = {"SGD": sgd, "Adam": lambda p: torch.optim.Adam(p, lr=0.01), "AdamW": lambda p: torch.optim.AdamW(p, lr=0.01),
              "RMSprop": lambda p: torch.optim.RMSprop(p, lr=0.01), "Adagrad": lambda p: torch.optim.Adagrad(p, lr=0.01),
              "RAdam": lambda p: torch.optim.RAdam(p, lr=0.01)}


def trained(rank, make=sgd, steps=5, passes=1, dtype=torch.float64, **options):
    model = model_of(seed=rank, dtype=dtype)
    optimizer = hvd.DistributedOptimizer(make(model.parameters()), named_parameters=model.named_parameters(),
                                         backward_passes_per_step=passes, **options)
    hvd.broadcast_parameters(model_of(dtype=dtype).state_dict() if rank == 0 else model.state_dict(), root_rank=0)
    if rank == 0:
        model.load_state_dict(model_of(dtype=dtype).state_dict())
    for step in range(steps):
        optimizer.zero_grad()
        for each in range(passes):
            loss_of(model, batch(step * passes + each, [rank], dtype)).backward()
        optimizer.step()
    return model, optimizer


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_n_ranks_are_as_one_with_n_times_the_batch(name, rank):
    make = OPTIMIZERS[name]
    model, optimizer = trained(rank, make)
    assert isinstance(optimizer, getattr(torch.optim, name)) and type(optimizer).__name__ == name
    same(model, reference(make, 5))


def test_passes_add_up(rank):
    model, _ = trained(rank, passes=3)
    same(model, reference(sgd, 5, passes=3))


@pytest.mark.parametrize("options", [{"num_groups": 2}, {"groups": 3}, {"gradient_predivide_factor": 2.0}, {"measure_norm": True},
                                     {"sparse_as_dense": True}, {"compression": hvd.Compression.bf16}],
                         ids=lambda options: next(iter(options)))
def test_options_that_change_nothing_on_one_host(options, rank):
    model, _ = trained(rank, **options)
    same(model, reference(sgd, 5))


def test_lists_of_parameters_as_groups(rank):
    model = model_of()
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), groups=[[model[0].weight, model[0].bias], [model[2].weight]])
    loss_of(model, batch(0, [rank])).backward()
    optimizer.step()
    same(model, reference(sgd, 1))


def test_sum(rank, size):
    model, _ = trained(rank, lambda p: torch.optim.SGD(p, lr=0.1 / size), op=hvd.Sum)
    same(model, reference(lambda p: torch.optim.SGD(p, lr=0.1), 5))


def test_bfloat16(rank):
    model, _ = trained(rank, dtype=torch.bfloat16, steps=2)
    same(model, reference(sgd, 2, dtype=torch.bfloat16), atol=0.05)
    assert all(parameter.dtype == torch.bfloat16 for parameter in model.parameters())


def test_a_compressor_of_ones_own(rank):
    class Doubles(hvd.Compression.none):
        @staticmethod
        def compress(tensor):
            return tensor * 2, tensor.dtype

        @staticmethod
        def decompress(tensor, ctx):
            return (tensor / 2).to(ctx)

    model, optimizer = trained(rank, compression=Doubles)
    same(model, reference(sgd, 5))
    assert optimizer.wait_seconds() > 0
    with pytest.raises(ValueError, match="groups"):
        hvd.DistributedOptimizer(sgd(model.parameters()), compression=Doubles, num_groups=2)


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


@pytest.mark.filterwarnings("ignore:Detected call")  # of the scheduler that has the old optimizer
@pytest.mark.parametrize("first", ["scheduler", "wrapper"])
def test_learning_rate_schedulers(first, rank):
    model = model_of()
    plain = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(plain, 1, 0.5) if first == "scheduler" else None
    optimizer = hvd.DistributedOptimizer(plain)
    scheduler = scheduler or torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    for _ in range(2):
        loss_of(model, batch(0, [rank])).backward()
        optimizer.step()
        scheduler.step()
    assert optimizer.param_groups[0]["lr"] == 0.025


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


@pytest.mark.parametrize("way", ["plain", "synchronized", "skipping", "measured"])
def test_clipping(way, rank):
    expected, norm = clipped_reference(0.01)
    model = model_of()
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), measure_norm=way == "measured")
    loss_of(model, batch(0, [rank])).backward()
    if way == "measured":
        found = optimizer.clip_grad_norm_(0.01)
    else:
        if way != "plain":
            optimizer.synchronize()
        found = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01).item()
    assert abs(found - norm) < 1e-6
    if way == "skipping":
        with optimizer.skip_synchronize():
            optimizer.step()
    else:
        optimizer.step()
    same(model, expected)


@pytest.mark.parametrize("overflow", [False, True])
def test_grad_scaler_needs_no_special_calls(overflow, rank, size):
    model = model_of(dtype=torch.float32)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()))
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


def test_two_backward_passes_of_one_step(rank):
    model = model_of()
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()))
    loss_of(model, batch(0, [rank])).backward()
    loss_of(model, batch(1, [rank])).backward()
    optimizer.step()
    same(model, reference(sgd, 1, passes=2))


def test_sparse_gradients(rank, size):
    embedding = torch.nn.Embedding(64, 4, sparse=True)
    torch.nn.init.ones_(embedding.weight)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(embedding.parameters(), lr=1.0))
    embedding(torch.tensor([0, rank + 1])).sum().backward()
    optimizer.step()
    assert torch.allclose(embedding.weight[0], torch.zeros(4)) and torch.allclose(embedding.weight[rank + 1], torch.tensor(1 - 1 / size))


def test_channels_last(rank):
    conv = torch.nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
    hvd.broadcast_parameters(conv.state_dict(), 0)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(conv.parameters(), lr=0.1))
    images = torch.randn(2, 3, 8, 8).contiguous(memory_format=torch.channels_last)
    conv(images).square().mean().backward()
    optimizer.step()
    assert len({bytes(each) for each in hvd.allgather_object(conv.weight.detach().contiguous().numpy().tobytes())}) == 1


def test_a_parameter_that_one_rank_does_not_use(rank, size):
    first, second = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([first, second], lr=1.0))
    (first.sum() + (second.sum() if rank == 0 else 0)).backward()
    optimizer.step()
    assert torch.allclose(first.detach(), torch.zeros(2)) and torch.allclose(second.detach(), torch.tensor(1 - 1 / size))


@pytest.mark.parametrize("schedule", ["accumulate:2", "local_sgd:3", "diloco:3:1:0", "adaptive", "one_step_late"])
def test_schedules(schedule, rank):
    model, optimizer = trained(rank, sync_schedule=schedule)
    optimizer.flush()
    assert optimizer.sync_interval() >= 1
    for parameter in model.parameters():
        assert torch.allclose(hvd.allreduce(parameter.detach()), parameter, rtol=0, atol=1e-12)


def test_set_backward_passes_per_step(rank):
    model, optimizer = trained(rank, steps=0)
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


def test_process_set(rank, size):
    if size < 3:
        pytest.skip("needs a part of the ranks")
    members = hvd.add_process_set([0, 1])
    model = model_of()
    if members.included():
        optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), process_set=members)
        loss_of(model, batch(0, [rank])).backward()
        optimizer.step()
        weight = model[0].weight.detach()
        assert torch.allclose(hvd.allreduce(weight, process_set=members), weight)
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
    optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(1))]})
    with pytest.raises(ValueError, match="was made for 4 parameters"):
        optimizer.step()


def test_ranks_with_different_parameters(rank, size):
    if size == 1:
        pytest.skip("needs ranks that differ")
    parameter = torch.nn.Parameter(torch.ones(2 + rank))
    with pytest.raises(hvd.HorovodInternalError, match="the ranks differ"):
        hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=0.1))
