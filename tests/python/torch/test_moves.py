# SPDX-License-Identifier: Apache-2.0
"""allgather, broadcast, alltoall and reducescatter: every dtype, uneven and empty parts, grouped, and their gradients."""

import pytest
import torch

import rueda.torch as hvd

DTYPES = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64,
          torch.bool]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_allgather_of_every_dtype(dtype, rank, size):
    for shape in [(2,), (1, 3), (2, 2, 2)]:
        gathered = hvd.allgather(torch.full(shape, rank % 2, dtype=dtype))
        assert gathered.dtype == dtype and gathered.shape == (shape[0] * size, *shape[1:])
        assert torch.equal(gathered, torch.cat([torch.full(shape, each % 2, dtype=dtype) for each in range(size)]))


def test_allgather_of_uneven_and_empty_parts_and_scalars(rank, size):
    gathered = hvd.allgather(torch.full((rank, 2), float(rank)))
    assert torch.equal(gathered, torch.cat([torch.full((each, 2), float(each)) for each in range(size)]))
    assert hvd.allgather(torch.tensor(float(rank))).tolist() == [float(each) for each in range(size)]
    assert hvd.synchronize(hvd.allgather_async(torch.empty(0, 4), name="empty")).shape == (0, 4)


def test_grouped_allgather(rank, size):
    tensors = [torch.full((rank + 1,), rank), torch.full((1, 2), float(rank))]
    for gathered in (hvd.grouped_allgather(tensors), hvd.synchronize(hvd.grouped_allgather_async(tensors, name="group"))):
        assert torch.equal(gathered[0], torch.cat([torch.full((each + 1,), each) for each in range(size)]))
        assert gathered[1].shape == (size, 2)


def test_gradient_of_allgather(rank, size):
    leaf = torch.rand(rank + 1, 2, dtype=torch.float64, requires_grad=True)
    rows = size * (size + 1) // 2
    weights = torch.arange(rows * 2.0, dtype=torch.float64).reshape(rows, 2)
    (hvd.allgather(leaf, name="gather") * weights * (rank + 1)).sum().backward()
    begin = rank * (rank + 1) // 2
    assert torch.allclose(leaf.grad, weights[begin:begin + rank + 1] * rows)
    scalar = torch.tensor(1.0, requires_grad=True)
    hvd.allgather(scalar).sum().backward()
    assert scalar.grad.shape == () and scalar.grad == size


def test_gradient_of_grouped_allgather(rank, size):
    leaves = [torch.ones(2, requires_grad=True), torch.ones(1, 3, requires_grad=True)]
    gathered = hvd.grouped_allgather(leaves)
    (gathered[0].sum() + 2 * gathered[1].sum()).backward()
    assert torch.all(leaves[0].grad == size) and torch.all(leaves[1].grad == 2 * size)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_broadcast_of_every_dtype(dtype, rank, size):
    for root in range(size):
        tensor = torch.full((3, 2), rank % 2, dtype=dtype)
        result = hvd.broadcast(tensor, root)
        assert result.dtype == dtype and torch.all(result == torch.full((3, 2), root % 2, dtype=dtype))
        assert torch.all(tensor == torch.full((3, 2), rank % 2, dtype=dtype))
        assert hvd.broadcast_(tensor, root) is tensor
        assert torch.equal(tensor, result)


def test_broadcast_async(rank, size):
    results = [hvd.synchronize(hvd.broadcast_async(torch.full((2,), rank), size - 1, name="new")) for _ in range(2)]
    tensor = torch.full((2,), rank)
    assert hvd.synchronize(hvd.broadcast_async_(tensor, size - 1)) is tensor
    assert all(torch.all(each == size - 1) for each in [*results, tensor])


def test_gradient_of_broadcast(rank, size):
    leaf = torch.ones(3, requires_grad=True)
    (hvd.broadcast(leaf, 0) * (rank + 1)).sum().backward()
    assert torch.all(leaf.grad == (size * (size + 1) / 2 if rank == 0 else 0))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_alltoall_of_every_dtype(dtype, rank, size):
    result = hvd.alltoall(torch.full((size * 2, 3), rank % 2, dtype=dtype))
    assert torch.equal(result, torch.cat([torch.full((2, 3), each % 2, dtype=dtype) for each in range(size)]))


@pytest.mark.parametrize("splits_of", [list, torch.tensor, lambda splits: torch.tensor(splits, dtype=torch.int32)])
def test_alltoall_with_splits(splits_of, rank, size):
    splits = [rank * each % 3 for each in range(size)]  # rows for each rank, some of them none
    rows = torch.cat([torch.full((count, 2), 10 * rank + each) for each, count in enumerate(splits)])
    output, received = hvd.alltoall(rows, splits=splits_of(splits))
    assert received.tolist() == [each * rank % 3 for each in range(size)]
    assert torch.equal(output, torch.cat([torch.full((each * rank % 3, 2), 10 * each + rank) for each in range(size)]))
    handle = hvd.alltoall_async(rows, splits_of(splits), name="splits")
    assert torch.equal(hvd.synchronize(handle)[0], output)


def test_gradient_of_alltoall(rank, size):
    leaf = torch.ones(size * 2, requires_grad=True)
    (hvd.alltoall(leaf) * (rank + 1)).sum().backward()
    assert leaf.grad.tolist() == [each + 1.0 for each in range(size) for _ in range(2)]
    uneven = torch.ones(sum(range(size)), requires_grad=True)
    output, _ = hvd.alltoall(uneven, splits=list(range(size)))
    (output * (rank + 1)).sum().backward()
    assert uneven.grad.tolist() == [each + 1.0 for each in range(size) for _ in range(each)]


@pytest.mark.parametrize("dtype", DTYPES[:-1], ids=str)
def test_reducescatter_of_every_dtype(dtype, rank, size):
    for rows in (size, 2 * size + 1, size - 1):
        tensor = torch.arange(rows * 2).reshape(rows, 2).to(dtype)
        mine = hvd.reducescatter(tensor, op=hvd.Sum)
        begin, count = rank * (rows // size) + min(rank, rows % size), rows // size + (rank < rows % size)
        assert torch.equal(mine, (tensor * size)[begin:begin + count])


def test_reducescatter_average_scaled_and_compressed(rank, size):
    tensor = torch.full((2 * size, 2), rank + 1.0)
    assert torch.all(hvd.reducescatter(tensor) == (size + 1) / 2)
    assert torch.all(hvd.reducescatter(tensor, op=hvd.Sum, prescale_factor=2.0, postscale_factor=0.5) == size * (size + 1) / 2)
    assert hvd.reducescatter(tensor, compression=hvd.Compression.fp16).dtype == torch.float32
    assert torch.all(hvd.synchronize(hvd.reducescatter_async(tensor, op=hvd.Max)) == size)


def test_grouped_reducescatter(rank, size):
    tensors = [torch.ones(size), torch.ones(2 * size, 3)]
    for parts in (hvd.grouped_reducescatter(tensors, op=hvd.Sum), hvd.synchronize(hvd.grouped_reducescatter_async(tensors, op=hvd.Sum))):
        assert [part.shape for part in parts] == [(1,), (2, 3)] and all(torch.all(part == size) for part in parts)


@pytest.mark.parametrize("op", [hvd.Average, hvd.Sum], ids=lambda op: op.name)
def test_gradient_of_reducescatter(op, rank, size):
    leaf = torch.ones(size + 1, 2, requires_grad=True)
    mine = hvd.reducescatter(leaf, op=op, prescale_factor=2.0)
    (mine * (rank + 1)).sum().backward()
    rows = [1.0, 1.0, *range(2, size + 1)]
    wanted = torch.tensor(rows).unsqueeze(1).expand(-1, 2) * 2.0 / (size if op == hvd.Average else 1)
    assert torch.allclose(leaf.grad, wanted)


def test_gradcheck_of_every_operation_on_one_rank(size):
    if size > 1:
        pytest.skip("gradcheck perturbs one rank at a time")
    leaf = torch.rand(4, 2, dtype=torch.float64, requires_grad=True)
    for operation in (hvd.allreduce, hvd.allgather, lambda x: hvd.broadcast(x, 0), hvd.alltoall, hvd.reducescatter,
                      lambda x: hvd.allreduce(x, op=hvd.Product), lambda x: hvd.grouped_allreduce([x, x * 2])[1]):
        assert torch.autograd.gradcheck(operation, leaf)
        assert torch.autograd.gradgradcheck(operation, leaf)
