# SPDX-License-Identifier: Apache-2.0
"""ShardedOptimizer in real processes, one of which is killed inside step()."""
import os
import re
import subprocess
import time
from pathlib import Path

import pytest

BIN = Path(os.environ["RUEDA_BIN"])


def run(mode, ranks, **settings):
    begin = time.monotonic()
    done = subprocess.run([BIN / "ruedarun", "-np", str(ranks), BIN / "sharded_rank", mode], capture_output=True, text=True,
                          timeout=100, env=dict(os.environ, **settings))
    return done, time.monotonic() - begin


# Around a ring the order of a sum follows from where in a buffer an element lies; so nothing is fused there.
WAYS = {"shared": {}, "apart": {"RUEDA_WINDOW_LIMIT": "0"}, "mpi": {"RUEDA_SHM": "0", "RUEDA_FUSION_THRESHOLD": "0"}}


@pytest.mark.parametrize("settings", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_has_the_bits_of_the_unsharded_optimizer(ranks, settings):
    done, _ = run("trains", ranks, **settings)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("has the same bits") == ranks


@pytest.mark.parametrize("ranks", [2, 3])
def test_a_rank_killed_inside_a_step_is_named_by_all(ranks):
    done, seconds = run("killed", ranks)
    pid = re.search(r"rank 1 is process (\d+)", done.stdout)[1]
    assert done.returncode == 128 + 9 and seconds < 10, done.stderr
    lost = re.findall(rf"^\[(\d)\] error: rank 1 \(process {pid} on \S+\) is lost: its process was killed by signal 9",
                      done.stderr, re.M)
    assert set(lost) == {"0", "2"} & {str(rank) for rank in range(ranks)}, done.stderr
