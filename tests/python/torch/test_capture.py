# SPDX-License-Identifier: Apache-2.0
"""Steps as CUDA graphs, as far as they go without a device. Their work itself: tests/threads/devices/graph_test.cc."""

import pytest
import torch

import rueda.torch as hvd


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a device")
def test_without_a_device_a_capture_is_refused():
    steps = []
    with pytest.raises(ValueError, match="capture: rank .* has no device whose work could be captured: there is .*"):
        hvd.capture(lambda: steps.append(1))
    assert steps == []
    assert hvd.allreduce(torch.ones(3), name="after_a_capture", op=hvd.Sum).tolist() == [hvd.size()] * 3
