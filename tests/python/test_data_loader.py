# SPDX-License-Identifier: Apache-2.0
"""rueda.data: loading beside training."""
import itertools
import threading

import pytest

from rueda.data import AsyncDataLoaderMixin, BaseDataLoader


class Loader(BaseDataLoader):
    def __init__(self, count, fails_at=None):
        self.count, self.fails_at = count, fails_at

    def __len__(self):
        return self.count

    def _iterate(self):
        for i in range(self.count):
            if i == self.fails_at:
                raise KeyError("broken sample")
            yield i, threading.current_thread()

    def _process_batch(self, batch):
        return batch[0] * 10, batch[1]


class AsyncLoader(AsyncDataLoaderMixin, Loader):
    pass


def threads():
    return [each for each in threading.enumerate() if each.name == "rueda-data-loader"]


@pytest.mark.parametrize("size", [0, 1, 64])
def test_epochs_give_what_the_plain_loader_gives(size):
    loader = AsyncLoader(async_loader_queue_size=size, count=10)
    for _ in range(2):
        batches = list(loader)
        assert [batch for batch, _ in batches] == list(range(0, 100, 10)) and len(loader) == 10
        assert all((thread is threading.main_thread()) == (size == 0) for _, thread in batches)
    assert not threads()


def test_a_loop_that_is_left_ends_the_thread():
    loader = AsyncLoader(async_loader_queue_size=2, count=1000)
    first = list(itertools.islice(loader, 3))
    assert [batch for batch, _ in first] == [0, 10, 20]
    loader.close_async_loader()
    loader.close_async_loader()
    assert not threads()
    assert len(list(loader)) == 1000


def test_two_loops_over_one_loader():
    loader = AsyncLoader(async_loader_queue_size=1, count=20)
    assert [(a[0], b[0]) for a, b in zip(loader, loader)] == [(i, i) for i in range(0, 200, 10)]
    assert not threads()


def test_what_the_loader_raises_comes_out_of_the_loop():
    got = []
    with pytest.raises(KeyError, match="broken sample"):
        for batch, _ in AsyncLoader(async_loader_queue_size=4, count=10, fails_at=5):
            got.append(batch)
    assert got == [0, 10, 20, 30, 40] and not threads()
