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


@pytest.mark.parametrize("exact", [False, True])
def test_gradient_of_allgather(exact, rank, size):
    leaf = torch.rand(rank + 1, 2, dtype=torch.float64, requires_grad=True)
    rows = size * (size + 1) // 2
    weights = torch.arange(rows * 2.0, dtype=torch.float64).reshape(rows, 2)
    (hvd.allgather(leaf, name="gather", exact_gradient=exact) * weights * (rank + 1)).sum().backward()
    begin = rank * (rank + 1) // 2
    assert torch.allclose(leaf.grad, weights[begin:begin + rank + 1] * rows / (1 if exact else size))
    scalar = torch.tensor(1.0, requires_grad=True)
    hvd.allgather(scalar, exact_gradient=exact).sum().backward()
    assert scalar.grad.shape == () and scalar.grad == (size if exact else 1)


@pytest.mark.parametrize("exact", [False, True])
def test_gradient_of_grouped_allgather(exact, rank, size):
    leaves = [torch.ones(2, requires_grad=True), torch.ones(1, 3, requires_grad=True)]
    gathered = hvd.grouped_allgather(leaves, exact_gradient=exact)
    (gathered[0].sum() + 2 * gathered[1].sum()).backward()
    once = size if exact else 1
    assert torch.all(leaves[0].grad == once) and torch.all(leaves[1].grad == 2 * once)


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


@pytest.mark.parametrize("exact", [False, True])
def test_gradient_of_broadcast(exact, rank, size):
    leaf = torch.ones(3, requires_grad=True)
    (hvd.broadcast(leaf, 0, exact_gradient=exact) * (rank + 1)).sum().backward()
    assert torch.all(leaf.grad == ((size + 1) / 2 * (size if exact else 1) if rank == 0 else 0))


def test_gradient_of_the_gradient_of_broadcast(rank, size):
    leaf = (torch.arange(2.0) + 1 + rank).requires_grad_()
    gradient, = torch.autograd.grad((hvd.broadcast(leaf ** 2, 0, name="twice") ** 2).sum(), leaf, create_graph=True)
    second, = torch.autograd.grad(gradient.sum(), leaf)
    first = torch.arange(2.0) + 1  # of the root: x ** 4
    assert torch.allclose(gradient, 4 * first ** 3 if rank == 0 else torch.zeros(2))
    assert torch.allclose(second, (4 + 8 / size) * first ** 2 if rank == 0 else torch.zeros(2))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_alltoall_of_every_dtype(dtype, rank, size):
    result = hvd.alltoall(torch.full((size * 2, 3), rank % 2, dtype=dtype))
    assert torch.equal(result, torch.cat([torch.full((2, 3), each % 2, dtype=dtype) for each in range(size)]))


@pytest.mark.parametrize("splits_of", [list, lambda splits: torch.tensor(splits, dtype=torch.int32)])
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


def test_alltoall_as_horovod_takes_splits(rank, size):
    rows = torch.arange(size + 3) + 10 * rank
    output, received = hvd.alltoall(rows, splits=[1] * size)  # the last three stay
    assert output.tolist() == [10 * each + rank for each in range(size)] and received.tolist() == [1] * size
    output, received = hvd.alltoall(rows[:size], splits=[])
    assert output.tolist() == [10 * each + rank for each in range(size)] and received.dtype == torch.int32
    output, received = hvd.synchronize(hvd.alltoall_async(rows[:size]))  # both, also without splits
    assert output.tolist() == [10 * each + rank for each in range(size)] and received.tolist() == [1] * size
    for splits in (torch.ones(size), torch.ones(size, dtype=torch.int64), torch.ones(size, 1, dtype=torch.int32), [2] * (size + 3), [1] * (size + 1)):
        with pytest.raises(ValueError, match="splits"):
            hvd.alltoall(rows, splits=splits)


def test_gradient_of_alltoall_of_other_numbers_of_rows(rank, size):
    leaf = torch.ones(size * (rank + 1) + 1, requires_grad=True)
    (hvd.alltoall(leaf[:-1]) * (rank + 1)).sum().backward()
    assert leaf.grad.tolist() == [each + 1.0 for each in range(size) for _ in range(rank + 1)] + [0.0]
    kept = torch.ones(size + 2, requires_grad=True)
    hvd.alltoall(kept, splits=[1] * size)[0].sum().backward()
    assert kept.grad.tolist() == [1.0] * size + [0.0, 0.0]


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("op", [hvd.Average, hvd.Sum], ids=lambda op: op.name)
def test_gradient_of_reducescatter(op, exact, rank, size):
    rows = torch.tensor([1.0, 1.0, *range(2, size + 1)]).unsqueeze(1).expand(-1, 2)
    factor = 2.0 * 0.25 * (size if op == hvd.Sum else 1) / (size if exact else 1)
    leaves = [torch.ones(size + 1, 2, requires_grad=True) for _ in range(2)]
    mine = hvd.reducescatter(leaves[0], op=op, prescale_factor=2.0, postscale_factor=0.25, exact_gradient=exact)
    (mine * (rank + 1)).sum().backward()
    assert torch.allclose(leaves[0].grad, rows * factor)
    for part in hvd.grouped_reducescatter([leaves[1], leaves[1] * 3], op=op, prescale_factor=2.0, postscale_factor=0.25, exact_gradient=exact):
        (part * (rank + 1)).sum().backward(retain_graph=True)
    assert torch.allclose(leaves[1].grad, rows * factor * 4)


def test_gradcheck_of_every_operation_on_one_rank(size):
    if size > 1:
        pytest.skip("gradcheck perturbs one rank at a time")
    leaf = torch.rand(4, 2, dtype=torch.float64, requires_grad=True)
    for operation in (hvd.allreduce, hvd.allgather, lambda x: hvd.broadcast(x, 0), hvd.alltoall, hvd.reducescatter,
                      lambda x: hvd.allreduce(x, op=hvd.Product), lambda x: hvd.grouped_allreduce([x, x * 2])[1]):
        assert torch.autograd.gradcheck(operation, leaf)
        assert torch.autograd.gradgradcheck(operation, leaf)
