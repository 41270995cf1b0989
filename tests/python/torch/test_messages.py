# SPDX-License-Identifier: Apache-2.0
"""send and recv: every dtype and pair of ranks, strides, order, process sets, and errors."""

import pytest
import torch

import rueda.torch as hvd

DTYPES = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64,
          torch.bool]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_and_pair(dtype, rank, size):
    for source in range(size):
        for destination in range(size):
            expected = (torch.arange(6).reshape(2, 3) + 10 * source + destination).to(dtype)
            if source == destination:
                continue
            if rank == source:
                assert hvd.send(expected, destination) is None
            elif rank == destination:
                tensor = torch.zeros(2, 3, dtype=dtype)
                assert hvd.recv(tensor, source) is tensor and torch.equal(tensor, expected)
    hvd.barrier()


def test_order_pairs_messages_without_a_name(rank, size):
    right, left = (rank + 1) % size, (rank - 1) % size
    if size == 1:
        pytest.skip("one rank has nobody to talk to")
    received = [torch.zeros(3) for _ in range(300)]
    handles = [hvd.recv_async(each, left) for each in received]
    sent = [torch.full((3,), float(1000 * rank + number)) for number in range(len(received))]
    handles += [hvd.send_async(each, right) for each in sent]
    for handle in handles:
        hvd.synchronize(handle)
    assert [each[2].item() for each in received] == [1000.0 * left + number for number in range(len(received))]


def test_names_in_any_order(rank, size):
    if size == 1:
        pytest.skip("one rank has nobody to talk to")
    names = [f"tensor{number}" for number in range(20)]
    if rank == 0:
        handles = [hvd.send_async(torch.full((2,), float(number)), size - 1, name=name) for number, name in enumerate(names)]
        [hvd.synchronize(handle) for handle in handles]
    elif rank == size - 1:
        handles = [(number, hvd.recv_async(torch.zeros(2), 0, name=name)) for number, name in reversed(list(enumerate(names)))]
        assert all(torch.all(hvd.synchronize(handle) == number) for number, handle in handles)
    hvd.barrier()


def test_both_directions_under_one_name(rank, size):
    if rank < 2 <= size:
        mine, theirs = torch.full((5,), rank + 1.0), torch.zeros(5)
        handles = [hvd.send_async(mine, 1 - rank, name="both"), hvd.recv_async(theirs, 1 - rank, name="both")]
        [hvd.synchronize(handle) for handle in handles]
        assert torch.all(theirs == 2.0 - rank) and torch.all(mine == rank + 1.0)
    hvd.barrier()


def test_strides_and_sizes(rank, size):
    for shape in ((0, 3), (1,), (70, 50), (1_000_003,)):
        whole = torch.arange(torch.Size(shape).numel(), dtype=torch.float64).reshape(shape)
        if rank == 0 and size > 1:
            hvd.send(whole.t().contiguous().t() if len(shape) == 2 else whole, 1)
        elif rank == 1:
            tensor = torch.zeros(shape[::-1], dtype=torch.float64).t() if len(shape) == 2 else torch.zeros(shape, dtype=torch.float64)
            assert torch.equal(hvd.recv(tensor, 0), whole)
    if rank == 0 and size > 1:
        hvd.send(torch.ones(1).expand(4), 1)  # which cannot be written
        leaf = torch.full((3,), 2.0, requires_grad=True)
        loss = (leaf * leaf).sum()
        hvd.send(leaf.detach(), 1)
        loss.backward()  # the tensor counts as unchanged
    elif rank == 1:
        assert hvd.recv(torch.zeros(4), 0).sum() == 4
        assert hvd.recv(torch.zeros(3), 0).sum() == 6
    hvd.barrier()


def test_beside_collectives_and_in_a_process_set(rank, size):
    if size < 2:
        pytest.skip("it needs two ranks")
    pair = hvd.add_process_set([0, size - 1]) if size > 2 else hvd.global_process_set
    everyone = hvd.allreduce_async(torch.ones(100), op=hvd.Sum, name="beside")
    if rank == 0:
        hvd.send(torch.ones(7), size - 1, process_set=pair)
        hvd.recv(torch.zeros(7), size - 1, process_set=pair)
    elif rank == size - 1:
        hvd.send(hvd.recv(torch.zeros(7), 0, process_set=pair), 0, process_set=pair)
    assert torch.all(hvd.synchronize(everyone) == size)
    if size > 2:
        if rank == 0:
            with pytest.raises(ValueError, match="rank 0 cannot send to rank 1; both must be of rank"):
                hvd.send(torch.ones(1), 1, process_set=pair)
        hvd.remove_process_set(pair)
    hvd.barrier()


@pytest.mark.parametrize("other, words", [(torch.zeros(4), "differ in shape"), (torch.zeros(3, dtype=torch.int32), "differ in dtype")])
def test_tensors_that_differ(other, words, rank, size):
    if size > 1 and rank < 2:
        with pytest.raises(hvd.HorovodInternalError, match=words) as raised:
            hvd.send(torch.zeros(3), 1, name="differs") if rank == 0 else hvd.recv(other, 0, name="differs")
        assert "from rank 0 to rank 1" in str(raised.value)
    hvd.barrier()


def test_what_cannot_be(rank, size):
    for call in (hvd.send, hvd.recv):
        for nobody in (size, -1):
            with pytest.raises(ValueError, match=f"rank {rank} cannot .* rank {nobody}; both must be of"):
                call(torch.ones(1), nobody)
        with pytest.raises(ValueError, match=f"rank {rank} has no messages to itself"):
            call(torch.ones(1), rank)
        with pytest.raises(ValueError, match="has no gradient"):
            call(torch.ones(1, requires_grad=True), (rank + 1) % size)
    if size > 1:
        with pytest.raises(ValueError, match="share memory"):
            hvd.recv(torch.ones(1).expand(4), (rank + 1) % size)
        with pytest.raises(ValueError, match="ComplexFloat"):
            hvd.send(torch.ones(1, dtype=torch.complex64), (rank + 1) % size)
        # What was refused has no number.
        received = torch.zeros(1)
        handles = [hvd.send_async(torch.full((1,), float(rank)), (rank + 1) % size), hvd.recv_async(received, (rank - 1) % size)]
        [hvd.synchronize(handle) for handle in handles]
        assert received.item() == (rank - 1) % size
    hvd.barrier()
