# SPDX-License-Identifier: Apache-2.0
"""Mistakes: what is raised, in which words, and that everything works after."""

import pytest
import torch
from training import Doubles

import rueda.torch as hvd


@pytest.fixture(autouse=True)
def works_after(size):
    yield
    assert hvd.allreduce(torch.ones(1), name="after", op=hvd.Sum).item() == size


def fails_everywhere(call, *words):
    with pytest.raises(hvd.HorovodInternalError) as raised:
        call()
    assert all(word in str(raised.value) for word in words), raised.value
    assert isinstance(raised.value, RuntimeError)
    assert len(set(hvd.allgather_object(str(raised.value)))) == 1, "ranks have different words"


@pytest.fixture
def several(size):
    if size == 1:
        pytest.skip("needs ranks that differ")


def test_shapes_that_differ(several, rank):
    fails_everywhere(lambda: hvd.allreduce(torch.ones(2 + rank % 2), name="shape"), "shape", "[2]", "[3]")


def test_numbers_of_dimensions_that_differ(several, rank):
    fails_everywhere(lambda: hvd.allreduce(torch.ones([2] * (1 + rank % 2)), name="dimensions"), "dimensions")


def test_dtypes_that_differ(several, rank):
    fails_everywhere(lambda: hvd.allreduce(torch.ones(2, dtype=[torch.float32, torch.float64][rank % 2]), name="type"), "float32", "float64")


def test_ops_that_differ(several, rank):
    fails_everywhere(lambda: hvd.allreduce(torch.ones(2), name="op", op=[hvd.Sum, hvd.Max][rank % 2]), "sum", "max")


def test_roots_that_differ(several, rank):
    fails_everywhere(lambda: hvd.broadcast(torch.ones(2), rank % 2, name="root"), "root")


def test_allgather_of_other_dimensions_that_differ(several, rank):
    fails_everywhere(lambda: hvd.allgather(torch.ones(2, 2 + rank % 2), name="rows"), "rows")


SUBMISSIONS = {
    "allreduce": lambda name: hvd.allreduce_async(torch.ones(2), name=name),
    "allreduce_": lambda name: hvd.allreduce_async_(torch.ones(2), name=name),
    "allgather": lambda name: hvd.allgather_async(torch.ones(2), name=name),
    "broadcast": lambda name: hvd.broadcast_async(torch.ones(2), 0, name=name),
    "broadcast_": lambda name: hvd.broadcast_async_(torch.ones(2), 0, name=name),
    "alltoall": lambda name: hvd.alltoall_async(torch.ones(hvd.size()), name=name),
    "reducescatter": lambda name: hvd.reducescatter_async(torch.ones(2), name=name),
    "reduce": lambda name: hvd.reduce_async(torch.ones(2), 0, name=name),
    "reduce_": lambda name: hvd.reduce_async_(torch.ones(2), 0, name=name),
    "gather": lambda name: hvd.gather_async(torch.ones(2), 0, name=name),
    "scatter": lambda name: hvd.scatter_async(torch.ones(hvd.size() if hvd.rank() == 0 else 0), 0, name=name),
    "grouped_allreduce": lambda name: hvd.grouped_allreduce_async([torch.ones(2), torch.ones(3)], name=name),
    "grouped_allreduce_": lambda name: hvd.grouped_allreduce_async_([torch.ones(2), torch.ones(3)], name=name),
    "grouped_allgather": lambda name: hvd.grouped_allgather_async([torch.ones(2), torch.ones(3)], name=name),
    "grouped_reducescatter": lambda name: hvd.grouped_reducescatter_async([torch.ones(2), torch.ones(3)], name=name),
}


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("operation", SUBMISSIONS)
def test_a_name_twice_in_flight(operation, kept, several, rank):
    submit, first = SUBMISSIONS[operation], None
    if rank == 0:
        first = submit("twice")
        if not kept:
            first = None  # it is in flight all the same
        with pytest.raises(ValueError, match="twice.* an operation of that name is in flight"):
            submit("twice")
        other = submit("once")
    hvd.barrier()
    if rank != 0:
        first, other = submit("twice"), submit("once")
    for handle in (first, other):
        if handle is not None:
            hvd.synchronize(handle)
    hvd.synchronize(submit("twice"))


def test_a_name_twice_in_flight_of_waiting_operations(several, rank):
    first = hvd.allreduce_async(torch.ones(1 << 16), name="twice") if rank == 0 else None
    if rank == 0:
        with pytest.raises(ValueError, match="twice"):
            hvd.allreduce(torch.ones(1 << 16), name="twice")
        with pytest.raises(ValueError, match="twice"):
            hvd.allreduce(torch.ones(1 << 16, requires_grad=True), name="twice")
    hvd.barrier()
    hvd.synchronize(first or hvd.allreduce_async(torch.ones(1 << 16), name="twice"))


def test_before_init(rank):
    hvd.shutdown()
    calls = [lambda: hvd.allreduce(torch.ones(1)), lambda: hvd.allgather(torch.ones(1)), lambda: hvd.broadcast(torch.ones(1), 0), hvd.barrier,
             lambda: hvd.alltoall(torch.ones(1)), lambda: hvd.reducescatter(torch.ones(1)), lambda: hvd.reduce(torch.ones(1), 0),
             lambda: hvd.gather(torch.ones(1), 0), lambda: hvd.scatter(torch.ones(1), 0), hvd.join, lambda: hvd.broadcast_object(1)]
    for call in calls:
        with pytest.raises(hvd.HorovodInternalError, match="init") as raised:
            call()
        assert isinstance(raised.value, ValueError)
    for call in (hvd.rank, hvd.size, hvd.local_rank, hvd.global_process_set.size):
        with pytest.raises(ValueError, match="init"):
            call()
    hvd.init()


@pytest.mark.filterwarnings("error")
def test_average_is_deprecated(size):
    with pytest.warns(DeprecationWarning, match="`average` is deprecated"):
        assert hvd.allreduce(torch.ones(1), average=False).item() == size
    with pytest.warns(DeprecationWarning, match="`num_groups` is deprecated"):
        hvd.DistributedOptimizer(torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1.0), num_groups=1)
    hvd.allreduce(torch.ones(1))  # nothing to be warned of


def test_a_root_that_does_not_exist(size):
    for function in (hvd.broadcast, hvd.reduce, hvd.gather, hvd.scatter):
        with pytest.raises((ValueError, hvd.HorovodInternalError), match=str(size)):
            function(torch.ones(1), size, name="nobody")


def test_alltoall_with_splits_that_do_not_add_up(size):
    with pytest.raises((ValueError, hvd.HorovodInternalError), match="splits"):
        hvd.alltoall(torch.ones(5), splits=[6] * size, name="splits")


def test_reducescatter_of_a_scalar():
    with pytest.raises((ValueError, hvd.HorovodInternalError), match="reducescatter"):
        hvd.reducescatter(torch.tensor(1.0), name="scalar")


def test_both_op_and_average():
    with pytest.raises(ValueError, match="both op and average"):
        hvd.allreduce(torch.ones(1), average=True, op=hvd.Sum)


@pytest.mark.parametrize("given", [[1.0, 2.0], 3, None])
def test_what_is_no_tensor(given):
    for function in (hvd.allreduce, hvd.allgather, hvd.alltoall, hvd.reducescatter, lambda tensor: hvd.broadcast(tensor, 0),
                     lambda tensor: hvd.reduce(tensor, 0), lambda tensor: hvd.gather(tensor, 0), lambda tensor: hvd.scatter(tensor, 0)):
        with pytest.raises(TypeError, match=f"{type(given).__name__}"):
            function(given)


@pytest.mark.parametrize("given", [3, None])
def test_what_is_no_handle(given):
    for function in (hvd.poll, hvd.synchronize):
        with pytest.raises(TypeError, match=f"{given} is no handle; give what"):
            function(given)


def test_an_op_that_is_none():
    with pytest.raises(hvd.HorovodInternalError, match="op is 3") as raised:
        hvd.allreduce(torch.ones(1), op=3)
    assert isinstance(raised.value, ValueError)


@pytest.mark.parametrize("function", [hvd.reducescatter, hvd.reducescatter_async, lambda each, op: hvd.grouped_reducescatter([each], op=op),
                                      lambda each, op: hvd.grouped_reducescatter_async([each], op=op)])
def test_reducescatter_has_no_adasum(function):
    with pytest.raises(hvd.HorovodInternalError, match="no Adasum"):
        function(torch.ones(4), op=hvd.Adasum)


@pytest.mark.parametrize("compression", [hvd.Compression.none, Doubles])
def test_out_of_turn(compression, rank):
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0), compression=compression, synchronize_in_backward=False)
    weight.sum().backward()
    for misuse in (weight.sum().backward, optimizer.zero_grad):
        with pytest.raises(AssertionError, match="step|synchronize") as raised:
            misuse()
        assert isinstance(raised.value, ValueError)
    optimizer.synchronize()
    optimizer.zero_grad()


@pytest.mark.parametrize("tensor", [torch.ones(2, dtype=torch.complex64), torch.ones(2).to_sparse(), torch.ones(2, device="meta")],
                         ids=["complex", "sparse", "meta"])
def test_tensors_that_cannot_be_moved(tensor):
    with pytest.raises(ValueError, match="unmovable"):
        hvd.allreduce(tensor, name="unmovable")


def test_allgather_while_a_rank_has_joined(several, rank, size):
    if rank == 0:
        assert hvd.join() >= 0
    else:
        with pytest.raises(hvd.HorovodInternalError, match="join"):
            hvd.allgather(torch.ones(1), name="uneven")
        hvd.join()


def test_groups_of_different_numbers(several, rank, size):
    for step in range(1, 7):
        with pytest.raises(hvd.HorovodInternalError, match="number of tensors in its group"):
            hvd.grouped_allreduce([torch.ones(1)] * (2 + (rank == step % size)), name="numbers")
        for count in (2, 3):  # what one rank alone has asked for is not left over
            tensors = [torch.full((2,), float(step * (i + 1))) for i in range(count)]
            for i, result in enumerate(hvd.grouped_allreduce(tensors, name="numbers", op=hvd.Sum)):
                assert result.tolist() == [step * (i + 1) * size] * 2
