# SPDX-License-Identifier: Apache-2.0
"""Programs of torch.distributed, for test_c10d.py and test_c10d_groups.py: how they begin, and how ranks of them are started."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from hand_started import CLEAN, RUEDARUN

HERE = Path(__file__).parent
ENVIRONMENT = {**CLEAN, "PYTHONPATH": os.environ.get("PYTHONPATH", ""), "OMP_NUM_THREADS": "1"}
LAUNCHERS = {"torchrun": lambda ranks: [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"],
             "ruedarun": lambda ranks: [RUEDARUN, "--no-prefix", "-np", ranks, sys.executable]}
BEGIN = """
import datetime, gc, os, signal, sys, threading, time
import torch, torch.distributed as dist
import rueda.torch.distributed

def begin(seconds=60):
    dist.init_process_group("rueda", timeout=datetime.timedelta(seconds=seconds))
    return dist.get_rank(), dist.get_world_size()

def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())

def error_of(action):
    try:
        action()
    except Exception as error:
        return f"{type(error).__name__}: {error}".replace("\\n", " ")
    return "none"
"""


def run(script, ranks=2, launcher="ruedarun", seconds=120, status=0, **environment):
    """Standard output of all ranks of a script, which ends with that status."""
    command = [*map(str, LAUNCHERS[launcher](ranks)), str(script)]
    done = subprocess.run(["timeout", "-k", "5", str(seconds), *command], capture_output=True, text=True, env={**ENVIRONMENT, **environment})
    assert done.returncode == status, (done.stdout, done.stderr)
    return done.stdout


@pytest.fixture
def script(tmp_path):
    def write(text):
        path = tmp_path / "script.py"
        path.write_text(BEGIN + textwrap.dedent(text))
        return path
    return write
