# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer: n ranks with batch b against one process with batch n b, whatever the options."""

import time

import pytest
import torch
from training import Doubles, OPTIMIZERS, batch, loss_of, model_of, reference, same, sgd, trained

import rueda.torch as hvd


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
                                     {"device_window": True}, {"sparse_as_dense": True}, {"compression": hvd.Compression.bf16},
                                     {"compression": hvd.Compression.topk(0.01)}],
                         ids=lambda options: next(iter(options)))
def test_options_that_change_nothing_on_one_host(options, rank):
    model, _ = trained(rank, **options)
    same(model, reference(sgd, 5))


@pytest.mark.parametrize("share", [0.0, -0.5, 1.5, float("nan")])
def test_shares_that_cannot_be(share):
    with pytest.raises(ValueError, match="greater than 0 and at most 1"):
        hvd.Compression.topk(share)


def test_topk_of_single_operations_is_whole(rank, size):
    assert torch.all(hvd.allreduce(torch.ones(6), compression=hvd.Compression.topk(0.01), op=hvd.Sum) == size)


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
    model, optimizer = trained(rank, compression=Doubles)
    same(model, reference(sgd, 5))
    assert optimizer.wait_seconds() > 0


@pytest.mark.parametrize("passes", [1, 2])
def test_a_compressor_of_ones_own_and_groups(passes, rank):
    model, _ = trained(rank, compression=Doubles, num_groups=2, passes=passes)
    same(model, reference(sgd, 5, passes=passes))


def test_a_compressor_of_ones_own_and_lists_of_parameters(rank, size):
    model, alone = model_of(), model_of()
    for each in (model, alone):
        each[2].weight.requires_grad_(False)
    groups = [[model[0].weight, model[2].weight, model[0].bias], []]
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), compression=Doubles, groups=groups)
    reference_step = sgd(alone.parameters())
    loss_of(model, batch(0, [rank])).backward()
    loss_of(alone, batch(0, range(size))).backward()
    optimizer.step()
    reference_step.step()
    same(model, alone)


class FailsOnce(Doubles):
    left = 0

    @staticmethod
    def decompress(tensor, ctx):
        if FailsOnce.left:
            FailsOnce.left -= 1
            raise ValueError("not now")
        return Doubles.decompress(tensor, ctx)


@pytest.mark.parametrize("groups", [0, 2])
def test_a_compressor_that_fails_leaves_nothing_in_flight(groups, rank):
    model, alone = model_of(), model_of()
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), compression=FailsOnce, num_groups=groups)
    reference_step = sgd(alone.parameters())
    FailsOnce.left = 1
    if rank == 0:
        time.sleep(0.2)
    with pytest.raises(ValueError, match="not now"):
        loss_of(model, batch(0, [rank])).backward()
    for step in range(1, 4):
        optimizer.zero_grad()
        reference_step.zero_grad()
        loss_of(model, batch(step, [rank])).backward()
        loss_of(alone, batch(step, range(hvd.size()))).backward()
        optimizer.step()
        reference_step.step()
    same(model, alone)


@pytest.mark.parametrize("compression", [hvd.Compression.none, Doubles])
@pytest.mark.parametrize("left", [False, True])
def test_what_no_rank_uses(left, compression, rank, size):
    model, unused = model_of(), torch.nn.Linear(2, 2)
    before = unused.weight.detach().clone()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([*model.parameters(), *unused.parameters()], lr=0.1, weight_decay=0.5),
                                         compression=compression, leave_unused=left)
    loss_of(model, batch(0, [rank])).backward()
    assert unused.weight.grad is None
    optimizer.step()
    if left or size == 1:  # torch's way
        assert unused.weight.grad is None and torch.equal(unused.weight, before)
    else:
        assert not unused.weight.grad.any() and torch.allclose(unused.weight, before * 0.95)


@pytest.mark.parametrize("named", [True, False])
def test_names_of_parameters(named, rank):
    model = model_of()
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), named_parameters=model.named_parameters() if named else None)
    names = [optimizer._parameter_names[parameter] for parameter in model.parameters()]
    assert names == ([name for name, _ in model.named_parameters()] if named else [f"allreduce.noname.0.{i}" for i in range(4)])


def adasum(rows):
    """Of one row for each rank, in float64: neighbours first, then pairs of them."""
    while len(rows) > 1:
        pairs = [rows[i:i + 2] for i in range(0, len(rows), 2)]
        rows = [pair[0] if len(pair) == 1 else pair[0] * (1 - pair[0] @ pair[1] / (2 * pair[0] @ pair[0]))
                + pair[1] * (1 - pair[0] @ pair[1] / (2 * pair[1] @ pair[1])) for pair in pairs]
    return rows[0]


@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_adasum_combines_updates(name, passes, rank, size):
    if size == 3:
        pytest.skip("the order of an odd number of ranks is the operation's own")
    make = OPTIMIZERS[name]
    model, _ = trained(rank, make, steps=3, passes=passes, op=hvd.Adasum)
    alone = [model_of() for _ in range(size)]  # what each rank has
    optimizers = [make(each.parameters()) for each in alone]
    for step in range(3):
        before = [parameter.detach().clone() for parameter in alone[0].parameters()]
        for each, (mine, optimizer) in enumerate(zip(alone, optimizers)):
            optimizer.zero_grad()
            for number in range(passes):
                loss_of(mine, batch(step * passes + number, [each])).backward()
            optimizer.step()
        for parameters, old in zip(zip(*(each.parameters() for each in alone)), before):
            combined = old + adasum([(each.detach() - old).flatten() for each in parameters]).view_as(old)
            for each in parameters:
                each.data.copy_(combined)
    same(model, alone[0])


def test_adasum_of_gradients(rank, size):
    make = lambda p: torch.optim.SGD(p, lr=0.1)  # noqa: E731 - of which updates and gradients are alike
    same(trained(rank, make, op=hvd.Adasum)[0], trained(rank, make, op=hvd.Adasum, adasum_gradients=True)[0])


def test_what_adasum_of_updates_is_not_for(size):
    if size == 1:
        pytest.skip("one rank has nothing to combine")
    for option in ({"groups": 2}, {"measure_norm": True}, {"sync_schedule": "local_sgd:2"}, {"compression": hvd.Compression.powersgd}):
        with pytest.raises(ValueError, match="op=Adasum combines updates"):
            hvd.DistributedOptimizer(sgd(model_of().parameters()), op=hvd.Adasum, **option)
    optimizer = hvd.DistributedOptimizer(sgd(model_of().parameters()), op=hvd.Adasum)
    with pytest.raises(AssertionError, match="skip_synchronize"):
        with optimizer.skip_synchronize():
            pass


def test_compressors_that_cannot_be(rank, size):
    model = model_of()
    for options, words in [({"compression": None}, "compression is None"), ({"gradient_predivide_factor": 0.0}, "must be greater than 0"),
                           ({"gradient_predivide_factor": 2.0, "op": hvd.Sum}, "1 but for Average"), ({"op": hvd.Max}, "choose Average"),
                           ({"backward_passes_per_step": 1.5}, "whole number"), ({"sync_schedule": "local_sgd:2"}, "sync_schedule is")]:
        with pytest.raises(ValueError, match=words):
            hvd.DistributedOptimizer(sgd(model.parameters()), **{"compression": Doubles, **options})
    if size == 1:
        return
    for options in ({"backward_passes_per_step": 1 + (rank == 1)}, {"num_groups": 1 + (rank == 1)}, {"op": hvd.Sum if rank else hvd.Average}):
        with pytest.raises(hvd.HorovodInternalError, match="the ranks differ: ranks? 0.* ha(s|ve) .* ranks? 1.* ha(s|ve)"):
            hvd.DistributedOptimizer(sgd(model.parameters()), compression=Doubles, **options)


def test_names_that_are_no_text(size):
    with pytest.raises(ValueError, match="a name has 1 to 1024 bytes"):
        hvd.allreduce(torch.ones(1), name="x" + "ä" * 600)


@pytest.mark.parametrize("compression", [hvd.Compression.none, Doubles])
def test_groups_that_cannot_be(compression):
    model = model_of()
    first, second = torch.nn.Parameter(torch.ones(2)), model[0].weight

    def make(groups):
        hvd.DistributedOptimizer(sgd(model.parameters()), compression=compression, groups=groups)

    for groups in ("ab", 2.5, [3], [["x"]], -1):
        with pytest.raises(ValueError, match="it must be a number, 0 .none. or more, or a list of lists of parameters"):
            make(groups)
    with pytest.raises(ValueError, match="group 1 has a tensor that is no parameter of this optimizer"):
        make([[second], [first]])
    with pytest.raises(ValueError, match="parameter 0 is in group 0 and in group 1"):
        make([[second], [second]])


@pytest.mark.parametrize("compression", [hvd.Compression.none, Doubles])
def test_two_backward_passes_of_one_step(compression, rank):
    model = model_of()
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), compression=compression)
    loss_of(model, batch(0, [rank])).backward()
    loss_of(model, batch(1, [rank])).backward()
    optimizer.step()
    same(model, reference(sgd, 1, passes=2))


@pytest.mark.parametrize("compression", [hvd.Compression.none, Doubles])
@pytest.mark.parametrize("as_dense", [False, True, "by_density"])
@pytest.mark.parametrize("words", [8, 64])
def test_sparse_gradients(words, as_dense, compression, rank, size):
    embedding = torch.nn.Embedding(words, 4, sparse=True)
    torch.nn.init.ones_(embedding.weight)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(embedding.parameters(), lr=1.0), sparse_as_dense=as_dense, compression=compression)
    embedding(torch.tensor([0, rank + 1])).sum().backward()
    assert embedding.weight.grad.is_sparse or (as_dense == "by_density" and words == 8)
    optimizer.step()
    assert torch.allclose(embedding.weight[0], torch.zeros(4)) and torch.allclose(embedding.weight[rank + 1], torch.tensor(1 - 1 / size))


@pytest.mark.parametrize("options", [{}, {"sparse_as_dense": True}, {"groups": 1}, {"compression": Doubles}], ids=str)
def test_sparse_adam(options, rank, size):
    def make():
        torch.manual_seed(0)
        return torch.nn.Embedding(7, 2, sparse=True)

    table, alone = make(), make()
    optimizer = torch.optim.SparseAdam(list(table.parameters()), lr=0.1)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    assert table.weight.grad.is_sparse
    optimizer = hvd.DistributedOptimizer(optimizer, **options)
    plain = torch.optim.SparseAdam(list(alone.parameters()), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        plain.zero_grad()
        table(torch.tensor([rank, 5, step])).square().sum().backward()
        (alone(torch.tensor([[each, 5, step] for each in range(size)])).square().sum() / size).backward()
        optimizer.step()
        plain.step()
    assert torch.allclose(table.weight, alone.weight, atol=1e-6)


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


def test_used_gradients_go_with_their_generation_unless_they_are_held(rank, size):
    if size == 1:
        pytest.skip("one rank shares no memory")
    weights = [torch.nn.Parameter(torch.ones(50, 20)) for _ in range(3)]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(weights, lr=0.1, momentum=0.9))
    for _ in range(4):
        optimizer.zero_grad()
        sum(weight.sum() for weight in weights).backward()
        optimizer.step()
    held, weights[2].grad = weights[1].grad, torch.ones(50, 20)
    optimizer._forget_reducer()  # as at the change of a generation
    assert [weight.grad is None for weight in weights] == [True, False, False] and weights[1].grad is held
    hvd.barrier()
