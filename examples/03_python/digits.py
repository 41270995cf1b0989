# SPDX-License-Identifier: Apache-2.0
"""A data set of the size and shape of MNIST, made on the fly: ten figures of strokes, moved, scaled and with noise."""

import torch


class Digits(torch.utils.data.Dataset):
    """`count` images of 1 x 28 x 28, and their classes 0 to 9; the same for the same seed."""

    def __init__(self, count, seed=0):
        figures = torch.Generator().manual_seed(7)
        # Smooth random figures: noise of 7 x 7, enlarged.
        self._figures = torch.nn.functional.interpolate(torch.rand(10, 1, 7, 7, generator=figures), size=28, mode="bicubic").sub(0.5).mul(2)
        samples = torch.Generator().manual_seed(seed + 1)
        self._labels = torch.randint(10, (count,), generator=samples)
        self._shifts = torch.randint(-3, 4, (count, 2), generator=samples)
        self._seed = seed

    def __len__(self):
        return len(self._labels)

    def __getitem__(self, index):
        label = int(self._labels[index])
        noise = torch.randn(1, 28, 28, generator=torch.Generator().manual_seed(self._seed * 1_000_003 + index))
        return torch.roll(self._figures[label], tuple(self._shifts[index].tolist()), (1, 2)) + 0.3 * noise, label
