# SPDX-License-Identifier: Apache-2.0
"""The exceptions of operations."""

from __future__ import annotations


class HorovodInternalError(RuntimeError):
    """A collective operation has failed: ranks asked for different things under one name, a rank is lost, or a limit of waiting was
    reached. The words are the same on every rank. (The name is the one that scripts written for Horovod catch.)"""


class InvalidOperation(HorovodInternalError, ValueError):
    """An operation that cannot mean anything: before init(), by a reduction that it does not have, or on ranks that have joined. Doing it
    again will not help."""


class OutOfTurn(AssertionError, ValueError):
    """Something that a training loop does too early or too late: a backward pass after the last of its step, or zero_grad() while gradients
    are being reduced."""


class HostsUpdatedInterrupt(RuntimeError):
    """The hosts of the job have changed; the results of the ranks are still good.

    skip_sync: whether all ranks still have the same state, so that it need not be given to them again.
    """

    def __init__(self, skip_sync: bool = False):
        super().__init__("the hosts of the job have changed")
        self.skip_sync = skip_sync
