# SPDX-License-Identifier: Apache-2.0
"""The agreement of ranks before they reduce together."""

import collections
import itertools

from rueda.common.exceptions import HorovodInternalError
from rueda.torch.functions import allgather_object

_numbers = collections.defaultdict(itertools.count)  # by process set


def next_prefix(kind, process_set):
    """For names of operations; the ranks of a set make its optimizers in one order."""
    return f"{kind}.{next(_numbers[process_set.process_set_id])}"


def restart_prefixes():
    """In a new generation of an elastic job, in which new processes count from 0, too, and all reducers are made again."""
    _numbers.clear()


def check_agreed(mine, process_set):
    """Raises, in the same words on every rank, if the ranks of the set describe their reductions by different texts."""
    gathered = allgather_object(mine, process_set=process_set)
    first, *others = zip(process_set.ranks, gathered)
    for rank, theirs in others:
        for one, other in itertools.zip_longest(first[1], theirs, fillvalue="nothing more"):
            if one != other:
                raise HorovodInternalError(f"a distributed optimizer: the ranks differ: rank {first[0]} has {one}, "
                                           f"rank {rank} has {other}. Make them the same on every rank.")
