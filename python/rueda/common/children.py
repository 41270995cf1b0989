# SPDX-License-Identifier: Apache-2.0
"""Processes that multiprocessing has started: workers of a rank, which are no ranks."""

from __future__ import annotations

import multiprocessing
import os
import sys

_LAUNCHER = ("PMI_RANK", "PMI_SIZE", "PMI_FD")


def _imports_the_script():
    """Whether multiprocessing runs this rank's script once more, to have its functions in a worker."""
    return bool(getattr(multiprocessing.current_process(), "_inheriting", False))


def _is_worker():
    """Whether this interpreter was started by multiprocessing, with spawn or forkserver."""
    arguments = getattr(sys, "orig_argv", [])
    return "--multiprocessing-fork" in arguments or any("multiprocessing.forkserver" in each for each in arguments)


def check_no_worker() -> None:
    """Raises RuntimeError where init() would make a second rank of a worker, and wait for the others for ever."""
    if _imports_the_script():
        raise RuntimeError(
            "init: multiprocessing has started this process as a worker, and runs the script once more in it (start methods spawn and "
            "forkserver do). A worker is no rank. Put the training of the script into a function, and call it under\n"
            "    if __name__ == \"__main__\":\n"
            "so that workers find the script's functions and do not train.")
    rank = os.environ.get("PMI_RANK")
    if rank is not None and _is_worker():
        raise RuntimeError(
            f"init: multiprocessing has started this process as a worker of rank {rank}, and a worker is no rank: leave init() to the "
            f"script's training. For a job of one rank in this worker remove {', '.join(_LAUNCHER)} from os.environ before init().")
