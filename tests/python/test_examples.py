# SPDX-License-Identifier: Apache-2.0
"""The C++ examples do what their pages say."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from worker_processes import process_of_worker

BIN = Path(os.environ["RUEDA_BIN"])
LINE = re.compile(r"rank (\d) of (\d): loss ([\d.]+), sum of the weights ([\d.-]+)")


@pytest.mark.parametrize("program", ["torch_optimizer", "process_group"])
@pytest.mark.parametrize("ranks", [1, 2])
def test_a_small_training(program, ranks):
    command = [BIN / "ruedarun", "--no-prefix", "-np", str(ranks), BIN / program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    found = sorted(LINE.findall(done.stdout))
    assert [line[:2] for line in found] == [(str(rank), str(ranks)) for rank in range(ranks)], done.stdout
    assert len({line[3] for line in found}) == 1, "all ranks have the same weights"
    assert all(float(line[2]) < 0.05 and abs(float(line[3]) - 8) < 0.5 for line in found), done.stdout
    assert len({line[2] for line in found}) == ranks, "each rank has its own data"


def test_allreduce():
    done = subprocess.run([BIN / "ruedarun", "--no-prefix", "-np", "2", BIN / "allreduce"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"rank {rank} of 2: average 0.50, highest loss 1.5" for rank in range(2)]


@pytest.mark.parametrize("program", ["tutorial_delayed", "tutorial_elastic", "tutorial_sharded", "elastic.py", "from_horovod.py", "from_ddp.py"])
def test_programs_of_the_tutorials(program):
    script = Path(__file__).parents[2] / "examples/tutorials" / program
    words = [sys.executable, script] if program.endswith(".py") else [BIN / program]
    done = subprocess.run([BIN / "ruedarun", "--no-prefix", "-np", "2", *words], capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stderr
    found = sorted(re.findall(r"rank (\d): sum of the weights ([\d.]+)", done.stdout))
    assert [rank for rank, _ in found] == ["0", "1"] and found[0][1] == found[1][1], done.stdout
    assert abs(float(found[0][1]) - 8) < 0.5, done.stdout


@pytest.mark.parametrize("program", ["tutorial_elastic", "elastic.py"])
def test_an_elastic_tutorial_survives_a_rank(program):
    script = Path(__file__).parents[2] / "examples/tutorials" / program
    words = [sys.executable, script] if program.endswith(".py") else [BIN / program]
    command = [BIN / "ruedarun", "--no-prefix", "-np", "2", "--min-np", "1", *words, "30"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as job:
        victim = process_of_worker(1, job.pid)
        time.sleep(1)  # it trains, or has not come so far
        os.kill(victim, signal.SIGKILL)
        said = job.communicate(timeout=90)[0]
    assert job.returncode == 0 and "was killed by signal 9" in said, said
    found = re.findall(r"rank (\d): sum of the weights ([\d.]+)", said)
    assert found and len({weights for _, weights in found}) == 1 and abs(float(found[0][1]) - 8) < 0.5, said
