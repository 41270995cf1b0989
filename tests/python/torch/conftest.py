# SPDX-License-Identifier: Apache-2.0
"""Every rank of a job runs these tests, in the same order: ruedarun -np N python -m pytest tests/python/torch."""

import pytest
import torch

import rueda.torch as hvd

torch.set_num_threads(1)


def pytest_configure():
    hvd.init()


@pytest.fixture(autouse=True)
def ranks_begin_together():
    """What one rank leaves behind must not meet the next test of another."""
    hvd.init()
    hvd.barrier()
    torch.manual_seed(1)


@pytest.fixture
def rank():
    return hvd.rank()


@pytest.fixture
def size():
    return hvd.size()
