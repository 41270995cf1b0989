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
    """Shares a dataset out over the ranks; samples that have been read in an epoch are not read again after a reset.

    dataset: an object with a length. shuffle: in another order in every epoch, the same on all ranks. Every rank gets as many samples: the first
    of those that are left are repeated if they cannot be divided. Call set_epoch() at the *end* of an epoch, and record_batch() after
    each batch; give it to a TorchState.
    """

    def __init__(self, dataset: Sized, shuffle: bool = True, seed: int = 0):
        self.dataset, self.shuffle, self.seed = dataset, shuffle, seed
        self.epoch = 0
        self._kept: tuple[Any, list[int]] | None = None
        self.processed_num = 0  # samples of this epoch that all ranks together have read
        self.reset()

    def set_epoch(self, epoch: int) -> None:
        """Begins an epoch: nothing of it has been read."""
        self.epoch = epoch
        self.processed_num = 0
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """Every rank has read a batch of `batch_size` samples. The rest is shared out anew by reset() only. batch_idx: not used."""
        self.processed_num += batch_size * self.num_replicas

    def get_indices(self, batch_idx: int, batch_size: int) -> list[int]:
        """This rank's samples of batch `batch_idx` since the last reset, as scripts for Horovod before 0.24 ask."""
        return self.indices[batch_idx * batch_size:(batch_idx + 1) * batch_size]

    def record_indices(self, indices: Sized) -> None:
        """record_batch() of as many samples: every rank has read so many of its next ones."""
        self.record_batch(0, len(indices))

    @property
    def processed_indices(self) -> set[int]:
        """The samples of this epoch that all ranks together have read (an attribute of Horovod before 0.24)."""
        return set(self._order()[:self.processed_num])

    def state_dict(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "processed_num": self.processed_num}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.epoch = state_dict["epoch"]
        self.processed_num = state_dict["processed_num"]
        self.reset()

    def _order(self) -> list[int]:
        """Of all samples in this epoch. It is kept: a reset in the middle of an epoch needs it again, and shuffling takes long."""
        key = (len(self.dataset), self.shuffle, self.seed + self.epoch)
        if self._kept is None or self._kept[0] != key:
            order = list(range(len(self.dataset)))
            if self.shuffle:
                random.Random(self.seed + self.epoch).shuffle(order)
            self._kept = key, order
        return self._kept[1]

    def reset(self) -> None:
        """Shares out the samples that have not been read, over the ranks that there are."""
        self.num_replicas, self.rank = basics.size(), basics.rank()
        self.remaining_indices = self._order()[self.processed_num:]
        self.num_samples = math.ceil(len(self.remaining_indices) / self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas
        self.indices = self.remaining_indices[self.rank::self.num_replicas]
        if len(self.indices) < self.num_samples:  # by one
            index = self.rank + len(self.indices) * self.num_replicas
            self.indices.append(self.remaining_indices[index % len(self.remaining_indices)])

    def __iter__(self) -> Iterator[int]:
        return iter(self.indices)

    def __len__(self) -> int:
        return self.num_samples
