# SPDX-License-Identifier: Apache-2.0
"""A residual network for images of any size, with batch normalisation, small enough for a laptop."""

import torch
import torch.nn.functional as F


class Block(torch.nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(outputs)
        self.conv2 = torch.nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = torch.nn.BatchNorm2d(outputs)
        self.shortcut = torch.nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x):
        return F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))) + self.shortcut(x))


class ResidualNet(torch.nn.Module):
    """(N, channels, H, W) to (N, classes)."""

    def __init__(self, channels=3, classes=10, width=16):
        super().__init__()
        self.blocks = torch.nn.Sequential(Block(channels, width, 2), Block(width, 2 * width, 2), Block(2 * width, 4 * width, 2))
        self.fc = torch.nn.Linear(4 * width, classes)

    def forward(self, x):
        return self.fc(self.blocks(x).mean((2, 3)))
