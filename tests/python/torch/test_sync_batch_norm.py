# SPDX-License-Identifier: Apache-2.0
"""SyncBatchNorm: n ranks against one process with the whole batch."""

import copy

import pytest
import torch

import rueda.torch as hvd


def rows(rank, count=3, shape=(5, 4)):
    return torch.randn((count, *shape), generator=torch.Generator().manual_seed(rank), dtype=torch.float64)


@pytest.mark.parametrize("options", [{}, {"affine": False}, {"track_running_stats": False}, {"momentum": None}], ids=str)
def test_as_one_process_with_the_whole_batch(options, rank, size):
    mine, whole = rows(rank), torch.cat([rows(each) for each in range(size)])
    norm, plain = hvd.SyncBatchNorm(5, **options).double(), torch.nn.BatchNorm1d(5, **options).double()
    for inputs in (mine, whole):
        inputs.requires_grad_()
    for _ in range(2):
        output, expected = norm(mine), plain(whole)
        (output ** 3).sum().backward()
        (expected ** 3).sum().backward()
    assert torch.allclose(output, expected[rank * 3:rank * 3 + 3])
    assert torch.allclose(mine.grad, whole.grad[rank * 3:rank * 3 + 3])
    for (name, value), (_, other) in zip(norm.named_buffers(), plain.named_buffers()):
        assert torch.allclose(value, other), name
    for (name, value), (_, other) in zip(norm.named_parameters(), plain.named_parameters()):
        assert torch.allclose(hvd.allreduce(value.grad, op=hvd.Sum), other.grad), name
    if norm.running_mean is None:
        return  # then eval() normalises by this rank's batch
    norm.eval(), plain.eval()
    assert torch.allclose(norm(mine), plain(whole)[rank * 3:rank * 3 + 3])


def test_uneven_and_empty_batches(rank, size):
    norm, plain = hvd.SyncBatchNorm(5).double(), torch.nn.BatchNorm1d(5).double()
    whole = torch.cat([rows(each, 2 * (each == 0) + each) for each in range(size)])
    output = norm(rows(rank, 2 * (rank == 0) + rank))
    assert torch.allclose(hvd.allgather(output.detach()), plain(whole))


def test_momentum_and_eps_may_change(rank):
    norm = hvd.SyncBatchNorm(5).double()
    norm(rows(rank))
    norm.momentum = None
    norm.reset_running_stats()
    whole = torch.cat([rows(each) for each in range(hvd.size())])
    norm(rows(rank))
    assert torch.allclose(norm.running_mean, whole.mean((0, 2)))


def test_conversion(rank):
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Sequential(torch.nn.BatchNorm1d(4)))
    weight = model[1].weight
    converted = hvd.SyncBatchNorm.convert_sync_batchnorm(model)
    assert isinstance(converted[1], hvd.SyncBatchNorm) and isinstance(converted[2][0], hvd.SyncBatchNorm)
    assert converted[1].weight is weight and converted[0] is model[0]
    converted[:2](torch.randn(2, 3, 5, 5))
    copy.deepcopy(converted)[:2](torch.randn(2, 3, 5, 5))


def test_inputs_that_cannot_be_normalised(rank, size):
    with pytest.raises(ValueError, match="must be"):
        hvd.SyncBatchNorm(5)(torch.ones(2, 4 if rank == size - 1 else 5))
