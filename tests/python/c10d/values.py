# SPDX-License-Identifier: Apache-2.0
"""Every operation, type and reduction: what Rueda gives is what gloo gives, or what torch computes where gloo has none."""

import datetime
import itertools

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

import rueda.torch.distributed  # noqa: F401 - registers the backend

dist.init_process_group("rueda", timeout=datetime.timedelta(seconds=60))
rank, size = dist.get_rank(), dist.get_world_size()
gloo = dist.new_group(backend="gloo")
assert type(dist.group.WORLD._get_backend(torch.device("cpu"))).__name__ == "ProcessGroup"

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.uint8, torch.int8, torch.int32, torch.int64]
WITHOUT_GLOO = [torch.int16]  # gloo does not reduce it
UNSIGNED = [torch.uint16, torch.uint32, torch.uint64]
COMPLEX = [torch.complex64, torch.complex128, torch.complex32]
OTHERS = [torch.bool, torch.float8_e4m3fn]
REDUCED = [dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT, dist.ReduceOp.MIN, dist.ReduceOp.MAX]
BITWISE = [dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR]
SHAPES = [(), (1,), (7,), (3, 5), (1000,), (0,)]


def given(shape, dtype, of=None, seed=0):
    """What rank `of` has: small numbers, the same on every machine."""
    generator = torch.Generator().manual_seed(1000 * seed + (rank if of is None else of))
    numbers = torch.randint(0, 5, shape, generator=generator)
    if dtype == torch.bool:
        return numbers > 1
    return numbers.to(torch.float32).to(dtype) if dtype not in UNSIGNED else numbers.to(dtype)


def same(ours, theirs, words):
    if ours.dtype in (torch.float8_e4m3fn, torch.complex32) or ours.dtype in UNSIGNED:
        ours, theirs = ours.contiguous().view(torch.uint8) if ours.dim() else ours.reshape(1).view(torch.uint8), \
            theirs.contiguous().view(torch.uint8) if theirs.dim() else theirs.reshape(1).view(torch.uint8)
    assert ours.shape == theirs.shape and torch.equal(ours, theirs), f"{words}: {ours} is not {theirs}"


def check_all_reduce():
    for dtype, op, shape in itertools.product(FLOATS + INTEGERS, REDUCED, SHAPES):
        ours, theirs = given(shape, dtype), given(shape, dtype)
        dist.all_reduce(ours, op)
        dist.all_reduce(theirs, op, group=gloo)
        same(ours, theirs, f"all_reduce {dtype} {op} {shape}")
    for dtype, op, shape in itertools.product(INTEGERS + WITHOUT_GLOO + [torch.bool], BITWISE, SHAPES):
        ours = given(shape, dtype)
        dist.all_reduce(ours, op)
        wanted = given(shape, dtype, of=0)
        for other in range(1, size):
            values = given(shape, dtype, of=other)
            wanted = wanted & values if op == dist.ReduceOp.BAND else wanted | values if op == dist.ReduceOp.BOR else wanted ^ values
        same(ours, wanted, f"all_reduce {dtype} {op} {shape}")
    for dtype, op in itertools.product(UNSIGNED + WITHOUT_GLOO, REDUCED + BITWISE):
        ours = given((9,), dtype)
        dist.all_reduce(ours, op)
        values = [given((9,), dtype, of=other).to(torch.int64) for other in range(size)]
        combine = {dist.ReduceOp.SUM: torch.add, dist.ReduceOp.PRODUCT: torch.mul, dist.ReduceOp.MIN: torch.minimum,
                   dist.ReduceOp.MAX: torch.maximum, dist.ReduceOp.BAND: torch.bitwise_and, dist.ReduceOp.BOR: torch.bitwise_or,
                   dist.ReduceOp.BXOR: torch.bitwise_xor}[op]
        wanted = values[0]
        for other in values[1:]:
            wanted = combine(wanted, other)
        same(ours, wanted.to(dtype), f"all_reduce {dtype} {op}")
    top = torch.tensor([2**64 - 1 if rank == 0 else 1], dtype=torch.uint64)
    dist.all_reduce(top, dist.ReduceOp.MAX)
    assert top.item() == 2**64 - 1
    for dtype in COMPLEX:
        ours = given((4, 3), dtype)
        dist.all_reduce(ours)
        wanted = sum(given((4, 3), dtype, of=other).to(torch.complex128) for other in range(size))
        same(ours.to(torch.complex128), wanted, f"all_reduce {dtype}")
    for dtype in FLOATS:
        ours = given((6,), dtype)
        dist.all_reduce(ours, dist.ReduceOp.AVG)
        wanted = (sum(given((6,), dtype, of=other).double() for other in range(size)) / size).to(dtype)
        assert torch.allclose(ours.double(), wanted.double(), rtol=1e-2), (ours, wanted)
        ours = given((6,), dtype)
        dist.all_reduce(ours, dist._make_nccl_premul_sum(0.5))
        same(ours, (sum(given((6,), dtype, of=other).double() for other in range(size)) / 2).to(dtype), f"premul_sum {dtype}")
    ours = given((8, 6), torch.float32).t()[::2]
    wanted = sum(given((8, 6), torch.float32, of=other).t()[::2] for other in range(size))
    dist.all_reduce(ours)
    same(ours, wanted, "all_reduce of a tensor with gaps")


def check_broadcast_and_reduce():
    for dtype, root in itertools.product(FLOATS + INTEGERS + WITHOUT_GLOO + UNSIGNED + COMPLEX + OTHERS, range(size)):
        ours = given((5, 2), dtype)
        dist.broadcast(ours, root)
        same(ours, given((5, 2), dtype, of=root), f"broadcast {dtype} from {root}")
    ours = given((6, 4), torch.float32).t()
    dist.broadcast(ours, size - 1)
    same(ours, given((6, 4), torch.float32, of=size - 1).t(), "broadcast into a tensor with gaps")
    for dtype, op, root in itertools.product(FLOATS + INTEGERS, REDUCED, range(size)):
        ours, theirs = given((9,), dtype), given((9,), dtype)
        dist.reduce(ours, root, op)
        dist.reduce(theirs, root, op, group=gloo)
        if rank == root:
            same(ours, theirs, f"reduce {dtype} {op}")
        else:
            same(ours, given((9,), dtype), "reduce leaves the tensors of other ranks alone")


def check_gathers():
    for dtype, shape in itertools.product(FLOATS + INTEGERS + WITHOUT_GLOO + UNSIGNED + COMPLEX + OTHERS, [(), (3,), (2, 3), (0,)]):
        outputs = [torch.empty(shape, dtype=dtype) for _ in range(size)]
        dist.all_gather(outputs, given(shape, dtype))
        for other in range(size):
            same(outputs[other], given(shape, dtype, of=other), f"all_gather {dtype} {shape}")
        if shape:
            flat = torch.empty((size * shape[0], *shape[1:]), dtype=dtype)
            dist.all_gather_into_tensor(flat, given(shape, dtype))
            for other in range(size):
                same(flat[other * shape[0]:(other + 1) * shape[0]], given(shape, dtype, of=other), f"all_gather_into_tensor {dtype}")
        for root in range(size):
            outputs = [torch.empty(shape, dtype=dtype) for _ in range(size)] if rank == root else None
            dist.gather(given(shape, dtype), outputs, dst=root)
            for other in range(size if rank == root else 0):
                same(outputs[other], given(shape, dtype, of=other), f"gather {dtype}")
            inputs = [given(shape, dtype, seed=other + 1) for other in range(size)] if rank == root else None
            output = torch.empty(shape, dtype=dtype)
            dist.scatter(output, inputs, src=root)
            same(output, given(shape, dtype, of=root, seed=rank + 1), f"scatter {dtype}")
    uneven = [torch.empty(other + 1, 2) for other in range(size)]
    dist.all_gather(uneven, given((rank + 1, 2), torch.float32))
    for other in range(size):
        same(uneven[other], given((other + 1, 2), torch.float32, of=other), "all_gather of different sizes")
    gathered = torch.zeros(size * 4)
    gathered[4 * rank:4 * rank + 4] = given((4,), torch.float32)
    dist.all_gather_into_tensor(gathered, gathered[4 * rank:4 * rank + 4])
    same(gathered, torch.cat([given((4,), torch.float32, of=other) for other in range(size)]), "all_gather_into_tensor in place")
    gaps = [torch.empty(4, 3).t() for _ in range(size)]
    dist.all_gather(gaps, given((3, 4), torch.float32))
    same(gaps[size - 1], given((3, 4), torch.float32, of=size - 1), "all_gather into tensors with gaps")
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank, "text": "x" * (rank * 1000)})
    assert [each["rank"] for each in objects] == list(range(size))


def check_reduce_scatters():
    for dtype, op in itertools.product(FLOATS + INTEGERS, REDUCED + [dist.ReduceOp.AVG]):
        if op == dist.ReduceOp.AVG and dtype in INTEGERS:
            continue
        whole = given((size * 4, 3), dtype)
        output = torch.empty(4, 3, dtype=dtype)
        dist.reduce_scatter_tensor(output, whole.clone(), op)
        dist.all_reduce(whole, op)
        same(output, whole[4 * rank:4 * rank + 4], f"reduce_scatter_tensor {dtype} {op}")
        inputs = [given((2, 3), dtype, seed=other) for other in range(size)]
        output = torch.empty(2, 3, dtype=dtype)
        dist.reduce_scatter(output, [each.clone() for each in inputs], op)
        for each in inputs:
            dist.all_reduce(each, op)
        same(output, inputs[rank], f"reduce_scatter {dtype} {op}")
    uneven = [given((other + 1,), torch.float32, seed=other) for other in range(size)]
    output = torch.empty(rank + 1)
    dist.reduce_scatter(output, [each.clone() for each in uneven])
    for each in uneven:
        dist.all_reduce(each)
    same(output, uneven[rank], "reduce_scatter of different sizes")
    bits = given((size * 2,), torch.int32)
    part = torch.empty(2, dtype=torch.int32)
    dist.reduce_scatter_tensor(part, bits.clone(), dist.ReduceOp.BXOR)
    dist.all_reduce(bits, dist.ReduceOp.BXOR)
    same(part, bits[2 * rank:2 * rank + 2], "reduce_scatter_tensor BXOR")
    complex_ = given((size * 2,), torch.complex64)
    part = torch.empty(2, dtype=torch.complex64)
    dist.reduce_scatter_tensor(part, complex_.clone())
    dist.all_reduce(complex_)
    same(part, complex_[2 * rank:2 * rank + 2], "reduce_scatter_tensor complex64")


def check_all_to_alls():
    for dtype in FLOATS + INTEGERS + WITHOUT_GLOO + UNSIGNED + COMPLEX + OTHERS:
        whole, output = given((size * 2, 3), dtype), torch.empty(size * 2, 3, dtype=dtype)
        dist.all_to_all_single(output, whole)
        for other in range(size):
            same(output[2 * other:2 * other + 2], given((size * 2, 3), dtype, of=other)[2 * rank:2 * rank + 2], f"all_to_all_single {dtype}")
        inputs = [given((rank + other, 2), dtype, seed=other) for other in range(size)]
        outputs = [torch.empty(other + rank, 2, dtype=dtype) for other in range(size)]
        dist.all_to_all(outputs, inputs)
        for other in range(size):
            same(outputs[other], given((other + rank, 2), dtype, of=other, seed=rank), f"all_to_all {dtype}")
    rows = [rank + other for other in range(size)]
    whole, output = given((sum(rows), 2), torch.float32), torch.empty(sum(rows), 2)
    dist.all_to_all_single(output, whole, rows, rows)
    at = 0
    for other in range(size):
        theirs = [other + each for each in range(size)]
        begin = sum(theirs[:rank])
        same(output[at:at + rows[other]], given((sum(theirs), 2), torch.float32, of=other)[begin:begin + theirs[rank]], "all_to_all_single with splits")
        at += rows[other]


def check_several_at_once():
    tensors = [given((n,), torch.float32, seed=n) for n in (1, 5, 70)]
    wanted = [sum(given((n,), torch.float32, of=other, seed=n) for other in range(size)) for n in (1, 5, 70)]
    with dist._coalescing_manager():
        for each in tensors:
            dist.all_reduce(each)
    for ours, theirs in zip(tensors, wanted):
        same(ours, theirs, "coalesced all_reduce")
    gathered = [torch.empty(size * n) for n in (2, 9)]
    with dist._coalescing_manager(async_ops=True) as manager:
        for each in gathered:
            dist.all_gather_into_tensor(each, given((each.numel() // size,), torch.float32))
    manager.wait()
    for each in gathered:
        n = each.numel() // size
        same(each, torch.cat([given((n,), torch.float32, of=other) for other in range(size)]), "coalesced all_gather_into_tensor")
    works = [dist.all_reduce(torch.full((3,), float(i)), async_op=True) for i in range(500)]
    for i, work in enumerate(works):
        work.wait()
        same(work.result()[0], torch.full((3,), float(i * size)), "500 at once")
    sparse = torch.sparse_coo_tensor([[rank, size]], [1.0, 2.0], (size + 1,))
    dist.all_reduce(sparse)
    same(sparse.to_dense(), torch.tensor([1.0] * size + [2.0 * size]), "sparse all_reduce")


def check_coalesced():
    sums = [sum(given((n,), torch.float32, of=other, seed=n) for other in range(size)) for n in (4, 6)]
    mine = [given((n,), torch.float32, seed=n) for n in (4, 6)]
    for ours, theirs in zip(functional.all_reduce_coalesced(mine, "sum", dist.group.WORLD), sums):
        same(functional.wait_tensor(ours), theirs, "functional all_reduce_coalesced")
    for ours, n in zip(functional.all_gather_into_tensor_coalesced(mine, dist.group.WORLD), (4, 6)):
        same(functional.wait_tensor(ours), torch.cat([given((n,), torch.float32, of=other, seed=n) for other in range(size)]), "functional all_gather_into_tensor_coalesced")
    parts = functional.reduce_scatter_tensor_coalesced([each.repeat(size) for each in mine], "sum", [0, 0], dist.group.WORLD)
    for ours, theirs in zip(parts, sums):
        same(functional.wait_tensor(ours), theirs, "functional reduce_scatter_tensor_coalesced")
    copy, box = mine[0].clone(), torch.empty(2)
    with dist._coalescing_manager(device=torch.device("cpu"), async_ops=True) as manager:
        dist.broadcast(copy, 0)
        dist.isend(torch.full((2,), float(rank)), (rank + 1) % size)
        dist.irecv(box, (rank - 1) % size)
    manager.wait()
    same(copy, given((4,), torch.float32, of=0, seed=4), "coalesced broadcast")
    same(box, torch.full((2,), float((rank - 1) % size)), "coalesced isend and irecv")


def check_messages():
    for other in range(size):
        if other == rank:
            continue
        theirs = torch.empty(1000)
        works = [dist.isend(torch.full((1000,), float(100 * rank + other)), other, tag=3), dist.irecv(theirs, other, tag=3)]
        for work in works:
            work.wait()
        same(theirs, torch.full((1000,), float(100 * other + rank)), "isend and irecv")
    following, before = (rank + 1) % size, (rank - 1) % size
    boxes = [torch.empty(4) for _ in range(200)]
    operations = [dist.P2POp(dist.isend, torch.full((4,), float(i)), following) for i in range(200)]
    operations += [dist.P2POp(dist.irecv, box, before) for box in boxes]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    for i, box in enumerate(boxes):
        same(box, torch.full((4,), float(i)), "batch_isend_irecv")
    if rank == 0:
        work = dist.isend(torch.tensor([1, 2, 3]), 1, tag=7)
        dist.send(torch.tensor([4 + 5j]), 1)
        work.wait()
    elif rank == 1:
        numbers, pair = torch.zeros(3, dtype=torch.int64), torch.zeros(1, dtype=torch.complex64)
        dist.recv(pair, 0)
        dist.recv(numbers, 0, tag=7)
        assert numbers.tolist() == [1, 2, 3] and pair.item() == 4 + 5j


for check in (check_all_reduce, check_broadcast_and_reduce, check_gathers, check_reduce_scatters, check_all_to_alls, check_several_at_once,
              check_coalesced, check_messages):
    check()
    dist.barrier()
dist.group.WORLD.monitored_barrier(datetime.timedelta(seconds=30))
print(f"rank {rank} good", flush=True)
dist.destroy_process_group()
