# SPDX-License-Identifier: Apache-2.0
"""allreduce and its relatives: every dtype, every op, in place and not, grouped, scaled, compressed, and their gradients."""

import math
import random

import pytest
import torch

import rueda.torch as hvd

INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
OPS = {hvd.Sum: sum, hvd.Min: min, hvd.Max: max, hvd.Product: math.prod}


def value(rank, size):
    return rank % 3 + 1


def expected(op, size):
    values = [value(rank, size) for rank in range(size)]
    return sum(values) / size if op == hvd.Average else OPS[op](values)


@pytest.mark.parametrize("dtype", INTEGERS + FLOATS, ids=str)
@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_allreduce_of_every_dtype_by_every_op(dtype, op, rank, size):
    for shape in [(), (5,), (2, 3, 4), (0, 3)]:
        tensor = torch.full(shape, value(rank, size), dtype=dtype)
        reduced = hvd.allreduce(tensor, op=op)
        assert reduced.dtype == dtype and reduced.shape == tensor.shape
        assert torch.all(reduced == expected(op, size)), reduced
        assert torch.all(tensor == value(rank, size))
        assert hvd.allreduce_(tensor, op=op) is tensor
        assert torch.all(tensor == expected(op, size)), tensor


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_allreduce_average(dtype, rank, size):
    tensor = torch.full((7,), float(rank), dtype=dtype)
    assert torch.all(hvd.allreduce(tensor) == torch.tensor((size - 1) / 2, dtype=dtype))
    assert torch.all(hvd.allreduce(tensor, average=True) == hvd.allreduce(tensor, op=hvd.Average))
    assert torch.all(hvd.allreduce(tensor, average=False) == hvd.allreduce(tensor, op=hvd.Sum))


def numbers(dtype, rank, count):
    """What a rank has: near the largest and the smallest value, near zero, or anything."""
    info, source = torch.iinfo(dtype), random.Random(f"{dtype} {rank}")
    ranges = [(info.max - 3, info.max), (info.min, info.min + 3), (max(info.min, -3), 3), (info.min, info.max)]
    return [source.randint(*ranges[i % 4]) for i in range(count)]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_averages_of_integers_are_exact_and_sums_wrap(dtype, rank, size):
    info = torch.iinfo(dtype)
    count = 70_001
    mine = torch.tensor(numbers(dtype, rank, count), dtype=dtype)
    sums = [sum(column) for column in zip(*(numbers(dtype, each, count) for each in range(size)))]
    averages = torch.tensor([abs(each) // size * (1 if each > 0 else -1) for each in sums], dtype=dtype)
    wrapped = torch.tensor([(each - info.min) % 2 ** info.bits + info.min for each in sums], dtype=dtype)
    for part in (1, 100, 3000, count):
        tensor = mine[:part]
        assert torch.equal(hvd.allreduce(tensor), averages[:part]), part
        assert torch.equal(hvd.allreduce(tensor, op=hvd.Sum), wrapped[:part]), part
        window = hvd.empty(part, dtype=dtype).copy_(tensor)
        assert torch.equal(hvd.allreduce_(window), averages[:part]), part
        begin = part // size * rank + min(rank, part % size)
        rows = averages[:part][begin : begin + part // size + (rank < part % size)]
        assert torch.equal(hvd.reducescatter(tensor), rows), part
    for results in (hvd.grouped_allreduce([mine[:7], mine]), hvd.grouped_allreduce_([mine[:7].clone(), mine.clone()])):
        assert torch.equal(results[0], averages[:7]) and torch.equal(results[1], averages)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_factors_of_an_average_of_integers_round_toward_zero_and_saturate(dtype, rank, size):
    most = torch.iinfo(dtype).max
    tensor = torch.tensor([most, 3, 100], dtype=dtype)
    assert hvd.allreduce(tensor, postscale_factor=2.0).tolist() == [most, 6, min(200, most)]
    assert hvd.allreduce(tensor[1:], prescale_factor=0.5).tolist() == [1, 50]
    assert hvd.allreduce(tensor[1:], prescale_factor=0.5, postscale_factor=3.0).tolist() == [3, min(150, most)]
    assert hvd.allreduce(tensor, prescale_factor=1e30).tolist() == [most] * 3


@pytest.mark.parametrize("op", [hvd.Min, hvd.Max], ids=lambda op: op.name)
def test_allreduce_of_bool(op, rank, size):
    assert hvd.allreduce(torch.tensor([True, rank == 0]), op=op).tolist() == [True, op == hvd.Max or size == 1]


def test_allreduce_adasum(rank, size):
    alike = torch.full((4,), 2.0)
    assert torch.allclose(hvd.allreduce(alike, op=hvd.Adasum), alike)
    apart = torch.zeros(8)
    apart[rank] = 1.0
    assert torch.allclose(hvd.allreduce(apart, op=hvd.Adasum), torch.cat([torch.ones(size), torch.zeros(8 - size)]))


def test_allreduce_prescale_and_postscale(rank, size):
    for op in (hvd.Sum, hvd.Average):
        reduced = hvd.allreduce(torch.full((3,), rank + 1.0), op=op, prescale_factor=0.5, postscale_factor=4.0)
        assert torch.all(reduced == 2.0 * size * (size + 1) / 2 / (size if op == hvd.Average else 1))


def test_allreduce_async_and_poll(rank, size):
    tensors = [torch.full((100 + i,), float(rank)) for i in range(20)]
    handles = [hvd.allreduce_async(tensor, name=f"async.{i}", op=hvd.Sum) for i, tensor in enumerate(tensors)]
    results = [hvd.synchronize(handle) for handle in handles]
    assert all(hvd.poll(handle) for handle in handles)
    for tensor, result in zip(tensors, results):
        assert result.shape == tensor.shape and torch.all(result == size * (size - 1) / 2)


def test_allreduce_async_in_place(rank, size):
    tensor = torch.full((9,), float(rank))
    assert hvd.synchronize(hvd.allreduce_async_(tensor, op=hvd.Sum)) is tensor
    assert torch.all(tensor == size * (size - 1) / 2)


def test_allreduce_of_any_strides(rank, size):
    whole = torch.arange(60.0).reshape(3, 4, 5) * (rank + 1)
    sums = torch.arange(60.0).reshape(3, 4, 5) * (size * (size + 1) / 2)
    for part in [lambda x: x.transpose(0, 2), lambda x: x[:, ::2], lambda x: x.expand(2, 3, 4, 5)]:
        assert torch.equal(hvd.allreduce(part(whole), op=hvd.Sum), part(sums))
    image = torch.rand(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    averaged = hvd.allreduce(image)
    assert torch.allclose(averaged, image) and averaged.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("compression", [hvd.Compression.none, hvd.Compression.fp16, hvd.Compression.bf16])
def test_allreduce_compression(compression, rank, size):
    reduced = hvd.allreduce(torch.full((5,), 2.0 ** rank), compression=compression, op=hvd.Sum)
    assert reduced.dtype == torch.float32 and torch.all(reduced == 2.0 ** size - 1)


def test_allreduce_by_a_compressor_of_ones_own(rank, size):
    class Halves:
        @staticmethod
        def compress(tensor):
            return tensor[: tensor.numel() // 2], tensor.numel()

        @staticmethod
        def decompress(tensor, ctx):
            return torch.cat([tensor, torch.zeros(ctx - tensor.numel())])

    reduced = hvd.allreduce(torch.ones(6), compression=Halves, op=hvd.Sum)
    assert reduced.tolist() == [size] * 3 + [0.0] * 3


def test_grouped_allreduce(rank, size):
    tensors = [torch.full((i + 1,), float(rank), dtype=dtype) for i, dtype in enumerate([torch.float32, torch.float64, torch.int32])]
    for named in (None, "group"):
        for i, result in enumerate(hvd.grouped_allreduce(tensors, name=named, op=hvd.Sum)):
            assert result.dtype == tensors[i].dtype and torch.all(result == size * (size - 1) / 2)
    results = hvd.synchronize(hvd.grouped_allreduce_async(tensors, op=hvd.Max))
    assert all(torch.all(result == size - 1) for result in results)
    assert hvd.grouped_allreduce([]) == []
    assert len(hvd.grouped_allreduce(tensor for tensor in tensors)) == 3


@pytest.mark.parametrize("op", [hvd.Sum, hvd.Max, hvd.Product], ids=lambda op: op.name)
def test_ranks_may_differ_in_whether_they_need_a_gradient(op, rank, size):
    tensor = torch.full((2,), 2.0, requires_grad=rank == 0)
    wanted = {hvd.Sum: 2.0 * size, hvd.Max: 2.0, hvd.Product: 2.0 ** size}[op]
    assert torch.all(hvd.allreduce(tensor, op=op, name="one") == wanted)
    assert hvd.allgather(tensor, name="rows").shape == (2 * size,)
    if op == hvd.Sum:
        assert torch.all(hvd.grouped_allreduce([tensor], op=op, name="group")[0] == wanted)


def test_grouped_allreduce_in_place(rank, size):
    tensors = [torch.full((4,), float(rank)), torch.full((2, 2), float(rank))]
    results = hvd.grouped_allreduce_(tensors, op=hvd.Sum)
    assert all(result is tensor for result, tensor in zip(results, tensors))
    hvd.synchronize(hvd.grouped_allreduce_async_(tensors, op=hvd.Average))
    assert all(torch.all(tensor == size * (size - 1) / 2) for tensor in tensors)


@pytest.mark.parametrize("op", [hvd.Average, hvd.Sum, hvd.Min, hvd.Max, hvd.Product], ids=lambda op: op.name)
def test_exact_gradient_of_allreduce(op, rank, size):
    torch.manual_seed(rank)
    mine = torch.rand(3, dtype=torch.float64) + 0.5
    weights = torch.arange(1.0, 4.0, dtype=torch.float64) * (rank + 1)
    leaf = mine.clone().requires_grad_()
    (hvd.allreduce(leaf, op=op, prescale_factor=0.5, postscale_factor=3.0, exact_gradient=True) * weights).sum().backward()
    all_leaves = hvd.allgather(mine.unsqueeze(0)).requires_grad_()
    rows = all_leaves * 0.5
    reduced = {hvd.Average: rows.mean(0), hvd.Sum: rows.sum(0), hvd.Min: rows.amin(0), hvd.Max: rows.amax(0), hvd.Product: rows.prod(0)}[op]
    (reduced * 3.0 * hvd.allreduce(weights, op=hvd.Sum)).sum().backward()
    assert torch.allclose(leaf.grad, all_leaves.grad[rank])


@pytest.mark.parametrize("op", [hvd.Average, hvd.Sum, hvd.Min, hvd.Max, hvd.Product], ids=lambda op: op.name)
def test_gradient_of_allreduce_is_the_same_reduction_of_gradients(op, rank, size):
    weights = torch.tensor([[each + 1.0, 3.0 - each] for each in range(size)], dtype=torch.float64)
    scaled = weights * 0.5
    wanted = {hvd.Average: scaled.mean(0), hvd.Sum: scaled.sum(0), hvd.Min: scaled.amin(0), hvd.Max: scaled.amax(0), hvd.Product: scaled.prod(0)}
    leaves = [torch.rand(2, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    one = hvd.allreduce(leaves[0], op=op, prescale_factor=0.5, postscale_factor=3.0)
    group = hvd.grouped_allreduce(leaves[1:], op=op, prescale_factor=0.5, postscale_factor=3.0)
    sum((each * weights[rank]).sum() for each in (one, *group)).backward()
    assert all(torch.allclose(leaf.grad, wanted[op] * 3.0) for leaf in leaves)


def test_gradient_of_grouped_allreduce_and_its_gradient(rank, size):
    leaves = [torch.full((2,), rank + 1.0, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    results = hvd.grouped_allreduce(leaves, op=hvd.Sum)
    first, = torch.autograd.grad((results[0] ** 3).sum(), leaves[0], create_graph=True)
    total = size * (size + 1) / 2
    assert torch.allclose(first, torch.full_like(first, 3 * total ** 2 * size))
    second, = torch.autograd.grad(first.sum(), leaves[0])
    assert torch.allclose(second, torch.full_like(second, 6 * total * size ** 2))


@pytest.mark.filterwarnings("ignore:Sparse invariant")
def test_sparse_allreduce_async(rank, size):
    indices = torch.tensor([[0, rank + 1, rank + 1]])
    tensor = torch.sparse_coo_tensor(indices, torch.tensor([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]), (6, 2), check_invariants=True)
    summed = hvd.sparse_allreduce_async(tensor, name="sparse", op=hvd.Sum)()
    assert summed.is_sparse and summed.is_coalesced()
    dense = torch.zeros(6, 2)
    dense[0] = size
    dense[1:size + 1] = 5.0
    assert torch.equal(summed.to_dense(), dense)
    nothing = tensor if rank == 0 else torch.sparse_coo_tensor(torch.zeros(1, 0, dtype=torch.int64), torch.zeros(0, 2), (6, 2), check_invariants=True)
    averaged = hvd.sparse_allreduce_async(nothing, name="sparse", op=hvd.Average)()
    assert torch.allclose(averaged.to_dense()[1], torch.tensor([5.0 / size] * 2))


def test_no_name_and_equal_names_one_after_another(rank, size):
    for _ in range(3):
        assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == size
        assert hvd.allreduce(torch.ones(1), name="again", op=hvd.Sum).item() == size
