# SPDX-License-Identifier: Apache-2.0
"""Data loaders, and a mixin that runs any of them in a thread of its own."""

import queue
import threading


class BaseDataLoader:
    """What a loader derives from: _iterate() yields batches."""

    def __len__(self):
        """How many batches there are."""
        raise NotImplementedError

    def _iterate(self):
        """Yields the batches of an epoch."""
        raise NotImplementedError

    def _process_batch(self, batch):
        """What becomes of a batch before the program gets it, on the program's thread."""
        return batch

    def __iter__(self):
        for batch in self._iterate():
            yield self._process_batch(batch)


class _Failure:
    """What the loader's thread has raised."""

    def __init__(self, error):
        self.error = error


_END = object()


class AsyncDataLoaderMixin:
    """Loads in a thread, so many batches ahead: class AsyncLoader(AsyncDataLoaderMixin, Loader).

    async_loader_queue_size: how many batches wait at most; 0: no thread. debug_data_loader: accepted for Horovod's sake. What the loader
    raises comes out of the program's loop. The thread ends with the epoch, or when the loop is left; a further loop begins another.
    """

    def __init__(self, async_loader_queue_size=64, debug_data_loader=False, *args, **kwargs):
        self.async_loader_queue_size = async_loader_queue_size
        self._stop = self._thread = None
        super().__init__(*args, **kwargs)

    def close_async_loader(self):
        """Ends the thread, if one is running."""
        if self._thread is None:
            return
        self._stop.set()
        self._thread.join()
        self._thread = None

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
        except Exception as error:
            put(_Failure(error))

    def _iterate(self):
        if self.async_loader_queue_size <= 0:
            yield from super()._iterate()
            return
        self.close_async_loader()
        batches, self._stop = queue.Queue(self.async_loader_queue_size), threading.Event()
        self._thread = threading.Thread(target=self._fill, args=(batches, self._stop), name="rueda-data-loader", daemon=True)
        self._thread.start()
        try:
            while (batch := batches.get()) is not _END:
                if isinstance(batch, _Failure):
                    raise batch.error
                yield batch
        finally:
            self.close_async_loader()
