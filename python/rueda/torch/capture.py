# SPDX-License-Identifier: Apache-2.0
"""Training steps as CUDA graphs: agreed on once, then run without the host."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch

from rueda import _torch
from rueda.common import basics
from rueda.common.process_sets import ProcessSet, global_process_set, native

_steps: weakref.WeakSet[CapturedStep] = weakref.WeakSet()


def _let_go_of_graphs() -> None:
    """NCCL ends no communicator that a graph holds."""
    for step in list(_steps):
        step._graph.reset()


basics.before_shutdown(_let_go_of_graphs)


class CapturedStep:
    """A step that is a graph. Calling it runs the graph on the current stream, and returns `outputs`. All ranks call it equally often, and
    in the same order beside other graphs and operations on devices; those begun before have been waited for. A run that
    other ranks do not make waits on the device for ever, and nobody says so.

    outputs: the result of the step when it was captured. Each run writes its tensors anew.
    """

    def __init__(self) -> None:
        self.outputs: Any = None
        self._graph = torch.cuda.CUDAGraph()
        self._job = _torch.jobs_begun()
        _steps.add(self)

    def __call__(self) -> Any:
        """Raises HorovodInternalError if the job cannot go on: the graph would wait for ever. ValueError when that job is over."""
        _torch.check_job(self._job)
        self._graph.replay()
        return self.outputs


def capture(step: Callable[[], Any], warmup: int = 3, process_set: ProcessSet = global_process_set) -> CapturedStep:
    """Makes a graph of step(), a function without arguments, on this rank's current CUDA device. Every rank of the set calls it.

    step() runs `warmup` times as it is, then once more to be captured, which computes nothing. It reads its batch from tensors that stay,
    which the program fills before each run. Its reductions become a part of the graph: calls of NCCL, without the host. Work of
    the host happens in the capture alone: optimizers must be capturable (torch.optim.AdamW(..., capturable=True)), and a value must not be
    read on the host. After shutdown() the result is of no use any more.

    Raises the exception of step(); HorovodInternalError on ranks whose step went well, with the words of the other, and if NCCL does not
    connect the ranks; ValueError if there is no device.
    """
    members = native(process_set)
    if not torch.cuda.is_available():
        _torch.capture(lambda: None, members)  # says why
    captured = CapturedStep()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(warmup):
            step()
    torch.cuda.synchronize()

    def body() -> None:
        failure: BaseException | None = None
        try:
            with torch.cuda.graph(captured._graph, stream=stream):
                try:
                    captured.outputs = step()
                except BaseException as error:  # the error of a capture of half a step says less
                    failure = error
        except Exception:
            if failure is None:
                raise
        if failure is not None:
            raise failure

    _torch.capture(body, members)
    return captured
