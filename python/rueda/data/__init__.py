# SPDX-License-Identifier: Apache-2.0
"""Loading of data beside training."""

from rueda.data.data_loader_base import AsyncDataLoaderMixin, BaseDataLoader

__all__ = ["AsyncDataLoaderMixin", "BaseDataLoader"]
