# SPDX-License-Identifier: Apache-2.0
"""Which rank has the state that all go on from."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import NamedTuple

from rueda.common.exceptions import InvalidOperation


class Condition(enum.IntEnum):
    """Of one rank's state."""

    whole = 0  # of its last commit
    ahead = 1  # an optimizer has stepped since, and nothing was kept to undo the step
    fresh = 2  # of a process that has not yet been given the job's state
    torn = 3   # partly overwritten: a synchronisation has failed in its midst


class Report(NamedTuple):
    """The report of a rank on its state. as_committed: nothing has changed since its last commit, as far as Rueda knows."""

    commits: int
    condition: Condition
    as_committed: bool


class Choice(NamedTuple):
    """source: the rank that all get the state of. needed: whether anything differs from it at all."""

    source: int
    needed: bool


def choose(reports: Sequence[Report]) -> Choice:
    """The lowest rank with the most commits among those whose state is whole; else among those that are ahead; else, if all are fresh,
    rank 0. The same on every rank. Raises InvalidOperation if no rank has a state that training can go on from."""
    for condition in (Condition.whole, Condition.ahead):
        ranks = [rank for rank, report in enumerate(reports) if report.condition == condition]
        if ranks:
            source = max(ranks, key=lambda rank: (reports[rank].commits, -rank))
            return Choice(source, not all(_same(report, reports[source]) for report in reports))
    if any(report.condition == Condition.torn for report in reports):
        raise InvalidOperation("the state of the training is lost: the ranks that had it are gone, and those that are left had received a part of "
                               "it only. Start the job again, from a checkpoint.")
    return Choice(0, True)


def _same(report, source):
    return report.condition == Condition.whole and report.commits == source.commits and report.as_committed
