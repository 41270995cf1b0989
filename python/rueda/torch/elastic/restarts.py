# SPDX-License-Identifier: Apache-2.0
"""Training under torchrun, which starts all processes again when one fails, or when nodes come: the last commit is handed to the new ones.

A process that leaves run() by a lost rank, or is asked to end, gives its last commit to a keeper on its host. New processes get the newest one that
hosts have kept.
"""

from __future__ import annotations

import functools
import itertools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from rueda import _core
from rueda.common import keeper
from rueda.common.exceptions import HorovodInternalError, InvalidOperation
from rueda.torch.elastic.state import TorchState
from rueda.torch.functions import allgather_object

# torchrun asks the processes of the other nodes to end when it has seen a failure on one. Until then they must not fail, too: each node has
# only so many restarts.
_UNTIL_ASKED = 5.0  # seconds

_calls = itertools.count()  # of run(), in this process


def by_torchrun() -> bool:
    """Whether torchrun has started this process, and so starts all of the job again."""
    return "TORCHELASTIC_RUN_ID" in os.environ and not _core.is_elastic()


def remedy() -> str:
    """The remedy for a rank that cannot go on without a lost one, in a job that is not elastic: the rest of a sentence."""
    if not by_torchrun():
        return "only an elastic job can, which ruedarun --min-np starts. Start this one again, from a checkpoint."
    count, most = (os.environ.get(f"TORCHELASTIC_{name}", "?") for name in ("RESTART_COUNT", "MAX_RESTARTS"))
    if count == most:
        return f"torchrun --max-restarts={most} does not start them again for a failure on this node. Raise that, or use ruedarun --min-np."
    return f"torchrun starts all of them again (restarts of this node so far: {count}, its --max-restarts: {most})."


def _say(words):
    print(f"rueda: rank {os.environ.get('RANK')}: {words}", file=sys.stderr, flush=True)


def _agent():
    """torchrun's agent: it has begun this session, perhaps with a shell around the program."""
    leader = os.getsid(0)
    try:
        begun_by_it = b"TORCHELASTIC_RUN_ID=" in Path(f"/proc/{leader}/environ").read_bytes()
        return keeper.parent_of(leader) if begun_by_it else os.getppid()
    except OSError:
        return os.getppid()


class Handover:
    """Around one call of run(), as a `with` block. SIGTERM, by which torchrun asks for the end, then waits for the next commit, unless the
    program has a handler of its own. A state that is no TorchState is not handed over."""

    def __init__(self, state: Any):
        self._state = state if isinstance(state, TorchState) else None
        self._call = next(_calls)
        self._process = os.getpid()
        self._kept: keeper.Kept | None = None
        self._asked = self._listens = self._has_looked = False

    def __enter__(self) -> Handover:
        in_main_thread = threading.current_thread() is threading.main_thread()
        if self._state is not None and in_main_thread and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._hear)
            self._listens = True
            self._state._at_commit = self._leave_if_asked
        return self

    def __exit__(self, _: Any, error: BaseException | None, __: Any) -> None:
        if self._kept is not None:
            self._kept.close()
        if isinstance(error, Exception) and (self._asked or _is_final(error)):
            self._fail(error)
        elif error is None:
            self._leave_if_asked()
        if self._listens and self._state is not None:
            self._state._at_commit = None
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if self._asked:  # an error was on its way
            _end_by_signal()

    def _hear(self, *_):
        self._asked = True
        # Workers of a DataLoader get SIGTERM, too, and by its handler their end would raise an error anywhere.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if os.getpid() != self._process:  # it was forked from this one
            _end_by_signal()

    def _leave_if_asked(self):
        """At a commit, and when the training function has returned: the state is whole."""
        if self._asked and self._state is not None:
            self._state.keep_uncommitted()
            self._hand_over(self._state)
            _end_by_signal()

    def _fail(self, error):
        """Operations that are in flight write into gradients only, which are no part of the state."""
        _say(error)
        if self._state is not None:
            self._hand_over(self._state)
        end = time.monotonic() + _UNTIL_ASKED
        while not self._asked and time.monotonic() < end:
            time.sleep(0.02)

    def _hand_over(self, state):
        try:
            committed = state.committed()
            label = [self._call, committed["born"], committed["commits"]]
            if keeper.keep(_agent(), label, functools.partial(torch.save, committed)):
                _say(f"has kept commit {committed['commits']} for the next start")
        except Exception as failure:  # the next start begins as the program does
            _say(f"cannot keep its last commit for the next start: {failure}")

    def before_sync(self) -> None:
        """The newest commit that a host has kept becomes the state of one rank, from which sync() gives it to all. Collective."""
        if self._has_looked:
            return
        self._has_looked = True
        if self._state is not None and os.environ.get("LOCAL_RANK") == "0":
            self._look_for_kept()
        newest = max(allgather_object(self._kept.label[1:] if self._kept else []), default=[])
        if self._kept and self._state is not None and newest == self._kept.label[1:]:
            self._take(self._kept, self._state)

    def _look_for_kept(self):
        self._kept = keeper.find(_agent())
        if self._kept is not None and self._kept.label[0] != self._call:  # of a later run() in the script
            self._kept.close()
            self._kept = None

    def _take(self, kept, state):
        try:
            state.load_committed(torch.load(kept.file, map_location="cpu", weights_only=False))
        except Exception as failure:
            kept.release()
            raise ValueError(f"elastic.run: commit {kept.label[2]}, which was kept for this start, does not fit the state: {failure}. It has been "
                             "given up: the next start begins with what the program does.") from failure
        state.on_reset()
        _say(f"goes on from commit {kept.label[2]}, which was kept for this start")

    def after_sync(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """func, which first gives up the kept state: all ranks have it."""
        @functools.wraps(func)
        def begun(*args, **kwargs):
            if self._kept is not None:
                self._kept.release()
                self._kept = None
            return func(*args, **kwargs)
        return begun


def _is_final(error):
    return isinstance(error, HorovodInternalError) and not isinstance(error, InvalidOperation)


def _end_by_signal():
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)
