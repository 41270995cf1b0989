# SPDX-License-Identifier: Apache-2.0
"""Python's part of `ruedarun --stacks`: faulthandler writes the stack of a thread that gets a signal."""

from __future__ import annotations

import contextlib
import faulthandler
import fcntl
import os
import signal

from rueda import _core

_SIGNALS = range(signal.SIGRTMAX - 5, signal.SIGRTMAX - 13, -1)
_HIGH = 1000  # programs close and take low descriptors
_files: list[int] = []  # the one that faulthandler writes to


def begin() -> None:
    """Once a process, if ruedarun has started it and the program leaves a signal. Without /proc or memory files there are no Python stacks."""
    if _files or "RUEDA_AGENT_LINE" not in os.environ:
        return
    with contextlib.suppress(OSError, KeyError, ValueError, RuntimeError, AttributeError):
        number = _free_signal()
        if number is not None:
            _register(number)


def _register(number: int) -> None:
    file = _high(os.memfd_create("rueda-stacks", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING))
    try:
        faulthandler.register(number, file=file, all_threads=False, chain=False)
        if _core.tell_stacks(number, file):
            _files.append(file)
            return
        faulthandler.unregister(number)
    finally:
        if not _files:
            os.close(file)


def _high(file: int) -> int:
    """The same file under a high number, if the limit allows one."""
    try:
        high = fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, _HIGH)
    except OSError:
        return file
    os.close(file)
    return high


def _free_signal() -> int | None:
    """One that neither Python nor native code has a handler for."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as status:
        sets = dict(line.rstrip().split(":\t", 1) for line in status if line.startswith(("SigIgn", "SigCgt")))
    taken = int(sets["SigIgn"], 16) | int(sets["SigCgt"], 16)
    return next((number for number in _SIGNALS if not taken >> (number - 1) & 1), None)
