# SPDX-License-Identifier: Apache-2.0
"""reduce, gather and scatter: every dtype, every root, uneven and empty parts, process sets, and errors."""

import pytest
import torch

import rueda.torch as hvd

DTYPES = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64,
          torch.bool]


def some(rows, dtype):
    """A tensor without rows on ranks that have none to give."""
    return torch.arange(rows * 3).reshape(rows, 3).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_and_root(dtype, rank, size):
    for root in range(size):
        given = torch.full((2, 3), rank % 2, dtype=dtype)
        largest = hvd.reduce(given, root, op=hvd.Max)
        assert torch.equal(given, torch.full((2, 3), rank % 2, dtype=dtype))
        gathered = hvd.gather(given, root)
        if rank == root:
            assert largest.dtype == dtype and torch.equal(largest, torch.full((2, 3), min(size - 1, 1), dtype=dtype))
            assert torch.equal(gathered, torch.cat([torch.full((2, 3), each % 2, dtype=dtype) for each in range(size)]))
        else:
            assert largest is None and gathered.shape == (0, 3)
        part = hvd.scatter(some(2 * size if rank == root else 0, dtype), root)
        assert torch.equal(part, some(2 * size, dtype)[2 * rank:2 * rank + 2])


def test_reductions(rank, size):
    values = {hvd.Average: (size + 1) / 2, hvd.Sum: size * (size + 1) / 2, hvd.Min: 1, hvd.Max: size}
    for op, expected in values.items():
        result = hvd.reduce(torch.full((5,), rank + 1.0), size - 1, op=op)
        assert result is None if rank != size - 1 else torch.all(result == expected)
    result = hvd.reduce(torch.ones(3), 0, op=hvd.Sum, prescale_factor=2.0, postscale_factor=0.5)
    assert rank or torch.all(result == size)


def test_reduce_in_place(rank, size):
    tensor = torch.full((4,), rank + 1.0)
    result = hvd.reduce_(tensor, 0, op=hvd.Sum)
    assert torch.all(tensor == (size * (size + 1) / 2 if rank == 0 else rank + 1))
    assert (result is tensor) == (rank == 0) and (result is None) == (rank != 0)
    hvd.synchronize(hvd.reduce_async_(tensor, size - 1, op=hvd.Max, name="again"))
    hvd.barrier()


def test_async_and_out_of_order(rank, size):
    names = [f"tensor{each}" for each in range(8)]
    handles = {name: hvd.reduce_async(torch.full((9,), 1.0), 0, op=hvd.Sum, name=name) for name in (names if rank % 2 else reversed(names))}
    handles["rows"] = hvd.gather_async(torch.full((1,), rank), 0, name="rows")
    handles["parts"] = hvd.scatter_async(some(size if rank == 0 else 0, torch.float32), 0, name="parts")
    results = {name: hvd.synchronize(handle) for name, handle in handles.items()}
    assert results["parts"].tolist() == some(size, torch.float32)[rank:rank + 1].tolist()
    if rank == 0:
        assert all(torch.all(results[name] == size) for name in names) and results["rows"].tolist() == list(range(size))
    else:
        assert all(results[name] is None for name in names)


def test_uneven_and_empty_parts(rank, size):
    gathered = hvd.gather(torch.full((rank, 2), float(rank)), 0)
    assert torch.equal(gathered, torch.cat([torch.full((each, 2), float(each)) for each in range(size)]) if rank == 0 else torch.empty(0, 2))
    splits = list(range(size))
    part = hvd.scatter(some(sum(splits) if rank == 0 else 0, torch.int32), 0, splits if rank == 0 else None)
    assert torch.equal(part, some(sum(splits), torch.int32)[sum(splits[:rank]):sum(splits[:rank + 1])])
    assert hvd.gather(torch.empty(0, 4), 0).shape == (0, 4)


def test_tensors_with_strides(rank, size):
    tensor = (torch.arange(6.0) + rank).reshape(2, 3).t()
    result = hvd.reduce(tensor, 0, op=hvd.Sum)
    if rank == 0:
        assert torch.equal(result, torch.arange(6.0).reshape(2, 3).t() * size + sum(range(size))) and result.stride() == tensor.stride()


def test_large_ones(rank, size):
    rows = 200_001
    gathered = hvd.gather(torch.full((rows + rank, 3), float(rank)), size - 1)
    if rank == size - 1:
        assert gathered.shape[0] == rows * size + sum(range(size))
        assert gathered[:, 0].sum() == sum(each * (rows + each) for each in range(size))
    result = hvd.reduce(torch.full((3 * rows,), 1.0), size - 1, op=hvd.Sum)
    assert result is None or torch.all(result == size)


def test_in_a_process_set(rank, size):
    if size < 3:
        pytest.skip("it needs three ranks")
    pair = hvd.add_process_set([0, 2])
    try:
        if rank in (0, 2):
            result = hvd.reduce(torch.ones(2), 2, op=hvd.Sum, process_set=pair)
            assert result is None if rank == 0 else torch.all(result == 2)
            assert hvd.gather(torch.full((1,), rank), 2, process_set=pair).tolist() == ([] if rank == 0 else [0, 2])
            with pytest.raises(ValueError, match="no root rank 1"):
                hvd.gather(torch.ones(1), 1, process_set=pair)
    finally:
        hvd.remove_process_set(pair)


@pytest.mark.parametrize("call", [lambda root: hvd.reduce(torch.ones(2), root, name="roots"), lambda root: hvd.gather(torch.ones(2), root, name="roots"),
                                  lambda root: hvd.scatter(torch.ones(hvd.size() if hvd.rank() == root else 0), root, name="roots")])
def test_roots_that_differ(call, rank, size):
    if size == 1:
        pytest.skip("one rank cannot differ")
    with pytest.raises(hvd.HorovodInternalError, match="differ in root rank"):
        call(rank % 2)


def test_what_cannot_be(rank, size):
    leaf = torch.ones(size, requires_grad=True)
    for call, instead in ((hvd.reduce, "allreduce"), (hvd.gather, "allgather"), (hvd.scatter, "alltoall")):
        with pytest.raises(ValueError, match=f"has no gradient; use {instead}"):
            call(leaf, 0)
    with pytest.raises(ValueError, match="Adasum"):
        hvd.reduce(torch.ones(1), 0, op=hvd.Adasum)
    with pytest.raises(ValueError, match="scalar"):
        hvd.gather(torch.tensor(1.0), 0)
    if size > 1:
        with pytest.raises(ValueError, match="only the root rank"):
            hvd.scatter(torch.ones(size), (rank + 1) % size)
    hvd.barrier()
