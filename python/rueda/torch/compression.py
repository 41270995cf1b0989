# SPDX-License-Identifier: Apache-2.0
"""How tensors travel."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch


class Compressor:
    """The base of a compressor of one's own: two static methods."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """The tensor that travels, and the context of decompress()."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        """The tensor that the program gets, of one that has travelled."""
        raise NotImplementedError


class NoneCompressor(Compressor):
    """Tensors travel as they are."""

    @staticmethod
    def compress(tensor):
        return tensor, None

    @staticmethod
    def decompress(tensor, ctx):
        return tensor


def _cast_compressor(name: str, dtype: torch.dtype) -> type[Compressor]:
    class CastCompressor(Compressor):
        @staticmethod
        def compress(tensor):
            if not tensor.dtype.is_floating_point or tensor.dtype.itemsize <= dtype.itemsize:
                return tensor, None
            return tensor.type(dtype), tensor.dtype

        @staticmethod
        def decompress(tensor, ctx):
            return tensor if ctx is None else tensor.type(ctx)

    CastCompressor.__name__ = CastCompressor.__qualname__ = name
    CastCompressor.__doc__ = f"Floating-point tensors wider than {dtype} travel as {dtype}, at half the bytes or less."
    return CastCompressor


FP16Compressor = _cast_compressor("FP16Compressor", torch.float16)
BF16Compressor = _cast_compressor("BF16Compressor", torch.bfloat16)


class TopkCompressor(NoneCompressor):
    """Of gradients a share travels; see Compression.topk()."""

    def __init__(self, share: float):
        if not 0.0 < share <= 1.0:
            raise ValueError(f"the share of topk is {share}; it must be greater than 0 and at most 1")
        self.share = share

    def __repr__(self):
        return f"Compression.topk({self.share})"


class PowerSGD:
    """Gradients travel as two factors of `rank` columns and rows, and their error is added to the next step's (frameworks/torch/README.md).

    For a DistributedOptimizer or DistributedDataParallel. Of parameters of float32 and float64, seen as matrices of their first dimension
    and all others, for which that is at most half the bytes; others travel whole, and so do those of `without`. factors: how the factors
    travel, of Compression. A second gradient's memory is kept for each; state_dict() does not have it. Raises ValueError for a rank that
    is no whole number of at least 1.
    """

    def __init__(self, rank: int = 4, *, without: Iterable[torch.nn.Parameter] = (), factors: type[Compressor] = NoneCompressor):
        if not isinstance(rank, int) or isinstance(rank, bool) or rank < 1:
            raise ValueError(f"powersgd: rank is {rank!r}; it must be a whole number of at least 1")
        if factors not in (NoneCompressor, FP16Compressor, BF16Compressor):
            raise ValueError(f"powersgd: factors is {factors!r}; it must be none, fp16 or bf16 of hvd.Compression")
        self.rank, self.without, self.factors = rank, list(without), factors

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """Raises ValueError: it is of gradients, of which one has something left for the next."""
        raise ValueError("Compression.powersgd is of the gradients of a DistributedOptimizer or DistributedDataParallel; choose none, fp16 or "
                         "bf16 for operations")

    decompress = compress


class Compression:
    """The compressors that come with Rueda. In a DistributedOptimizer fp16 and bf16 are done where data leaves a host; sums are added up
    in float32 all the same."""

    none: type[Compressor] = NoneCompressor
    fp16: type[Compressor] = FP16Compressor
    bf16: type[Compressor] = BF16Compressor
    powersgd: type[PowerSGD] = PowerSGD

    @staticmethod
    def topk(share: float = 0.01) -> TopkCompressor:
        """For DistributedOptimizer and DistributedDataParallel: of each float32 gradient a host sends the elements of largest magnitude,
        this share of them, and keeps the others for the next step, so nothing is lost. Inside a host, and with Adasum, gradients are
        reduced whole; so are the tensors of hvd.allreduce() and its like, which may have no name that comes again."""
        return TopkCompressor(share)
