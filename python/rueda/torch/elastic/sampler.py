# SPDX-License-Identifier: Apache-2.0
"""Which samples a rank reads, when an epoch may be begun in its middle."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sized
from typing import Any

import torch

from rueda.common import basics


class ElasticSampler(torch.utils.data.Sampler):
    """Shares a dataset out over the ranks; what has been read in an epoch is not read again after a reset.

    dataset: what has a length. shuffle: in another order in every epoch, the same on all ranks. Every rank gets as many samples: the first
    of those that are left are repeated where they cannot be divided. Call set_epoch() at the *end* of an epoch, and record_batch() after
    each batch; give it to a TorchState.
    """

    def __init__(self, dataset: Sized, shuffle: bool = True, seed: int = 0):
        self.dataset, self.shuffle, self.seed = dataset, shuffle, seed
        self.epoch = 0
        self.processed_num = 0  # samples of this epoch that all ranks together have read
        self.reset()

    def set_epoch(self, epoch: int) -> None:
        """Begins an epoch: nothing of it has been read."""
        self.epoch = epoch
        self.processed_num = 0
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """Every rank has read a batch of `batch_size` samples. What is left is shared out anew by reset() only. batch_idx: not used."""
        self.processed_num += batch_size * self.num_replicas

    def state_dict(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "processed_num": self.processed_num}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.epoch = state_dict["epoch"]
        self.processed_num = state_dict["processed_num"]
        self.reset()

    def reset(self) -> None:
        """Shares out what has not been read, over the ranks that there are."""
        self.num_replicas, self.rank = basics.size(), basics.rank()
        order = list(range(len(self.dataset)))
        if self.shuffle:
            random.Random(self.seed + self.epoch).shuffle(order)
        self.remaining_indices = order[self.processed_num:]
        self.num_samples = math.ceil(len(self.remaining_indices) / self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas
        repeated = [self.remaining_indices[i % len(self.remaining_indices)] for i in range(self.total_size)]
        self.indices = repeated[self.rank::self.num_replicas]

    def __iter__(self) -> Iterator[int]:
        return iter(self.indices)

    def __len__(self) -> int:
        return self.num_samples
