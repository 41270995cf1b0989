# SPDX-License-Identifier: Apache-2.0
"""Data loaders, and a mixin that runs any of them in a thread of its own."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Any


class BaseDataLoader:
    """The base of a loader: _iterate() yields batches."""

    def __len__(self) -> int:
        """How many batches there are."""
        raise NotImplementedError

    def _iterate(self):
        """Yields the batches of an epoch."""
        raise NotImplementedError

    def _process_batch(self, batch):
        """Processes a batch before the program gets it, on the program's thread."""
        return batch

    def __iter__(self) -> Iterator[Any]:
        for batch in self._iterate():
            yield self._process_batch(batch)


class _Failure:
    """The exception of the loader's thread."""

    def __init__(self, error):
        self.error = error


_END = object()


class AsyncDataLoaderMixin:
    """Loads in a thread, so many batches ahead: class AsyncLoader(AsyncDataLoaderMixin, Loader).

    async_loader_queue_size: how many batches wait at most; 0: no thread. debug_data_loader: accepted for Horovod's sake. An exception of
    the loader comes out of the program's loop. The thread ends with the epoch, or when the loop is left; each loop has its own.
    """

    def __init__(self, async_loader_queue_size: int = 64, debug_data_loader: bool = False, *args: Any, **kwargs: Any):
        self.async_loader_queue_size = async_loader_queue_size
        self._running: list[Any] = []  # (thread, the event that stops it)
        super().__init__(*args, **kwargs)

    def close_async_loader(self) -> None:
        """Ends the threads of all loops."""
        for thread, stop in list(self._running):
            self._close(thread, stop)

    def _close(self, thread, stop):
        stop.set()
        thread.join()
        if (thread, stop) in self._running:
            self._running.remove((thread, stop))

    def _fill(self, batches, stop):
        def put(item):
            while not stop.is_set():
                try:
                    return batches.put(item, timeout=0.1)
                except queue.Full:
                    pass

        try:
            for batch in super()._iterate():
                put(batch)
                if stop.is_set():
                    return
            put(_END)
        except BaseException as error:  # for the program's loop, whatever it is
            put(_Failure(error))

    def _iterate(self):
        if self.async_loader_queue_size <= 0:
            yield from super()._iterate()
            return
        batches, stop = queue.Queue(self.async_loader_queue_size), threading.Event()
        thread = threading.Thread(target=self._fill, args=(batches, stop), name="rueda-data-loader", daemon=True)
        self._running.append((thread, stop))
        thread.start()
        try:
            while (batch := self._next(batches, stop)) is not _END:
                if isinstance(batch, _Failure):
                    raise batch.error
                yield batch
        finally:
            self._close(thread, stop)

    @staticmethod
    def _next(batches, stop):
        """The next batch; _END where the loader has been closed."""
        while True:
            try:
                return batches.get(timeout=0.1)
            except queue.Empty:
                if stop.is_set():
                    return _END
