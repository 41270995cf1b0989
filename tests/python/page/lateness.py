# SPDX-License-Identifier: Apache-2.0
"""Who is late in a simulated job: the `late` of the feed, from the arrivals of its steps."""

import bisect
import statistics

BOUNDS = (0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000)  # ms


class Arrivals:
    """One step: its begin and end, and when each rank began to wait."""

    def __init__(self, begin, ranks, end):
        self.begin, self.ranks, self.end = begin, ranks, end
        self.first, self.last, self.median = min(ranks.values()), max(ranks.values()), statistics.median(ranks.values())


def late_of(steps, slow, since):
    """`slow`: {rank: (phase, factor)}; `since`: {rank: (step, time)}. A rank that is not late has no `since_step`."""
    ranks = sorted(steps[-1].ranks)
    own = {rank: [step.ranks[rank] - step.begin for step in steps if rank in step.ranks] for rank in ranks}
    recent = {rank: statistics.fmean(times[-10:]) for rank, times in own.items()}
    fastest = min(recent.values())
    lines = [line_of(rank, steps, own[rank], recent[rank], fastest) for rank in ranks]
    for line in lines:
        if line["rank"] in since:
            line["since_step"], line["since"] = since[line["rank"]]
            line["phase"] = slow[line["rank"]][0]
    lines.sort(key=lambda line: -line["late_ms"])
    return {"steps": len(steps), "ranks": lines, "what_if": [{"rank": rank, "faster_percent": faster(steps, rank)} for rank in slow]}


def line_of(rank, steps, own, recent, fastest):
    late, last, histogram = [], 0, [0] * (len(BOUNDS) + 1)
    for step in steps:
        at = step.ranks.get(rank)
        if at is None:
            continue
        late.append(at - step.median)
        last += at == step.last
        histogram[bisect.bisect(BOUNDS, 1e3 * (at - step.first))] += 1
    best = sorted(own)[: max(1, len(own) // 10)]
    return {"rank": rank, "late_ms": 1e3 * max(0, sum(late) / len(late)), "share": last / len(late), "score_best": fastest / recent,
            "score_own": statistics.fmean(best) / recent, "histogram": histogram}


def faster(steps, rank):
    """Percent, if that rank had taken the median time of the others in each step."""
    is_now = without = 0
    for step in steps:
        others = [at for other, at in step.ranks.items() if other != rank] or [step.last]
        replaced = max(max(others), statistics.median(others))
        is_now += step.end - step.begin
        without += replaced + (step.end - step.last) - step.begin
    return 100 * (1 - without / is_now)
