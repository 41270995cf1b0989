# SPDX-License-Identifier: Apache-2.0
"""bench/fault_campaign.py with few faults of each kind: no sample is lost, parameters are those of an undisturbed run, and nothing is left over.

RUEDA_FAULTS is how many of each kind. RUEDA_BIN names the folder of the programs."""
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from test_elastic_job import BIN, virtual_hosts

SCRIPT = Path(__file__).parents[2] / "bench" / "fault_campaign.py"
FAULTS = int(os.environ.get("RUEDA_FAULTS", "1"))


def campaign(*arguments):
    environment = {**os.environ, "RUEDA_BIN": str(BIN)}
    return subprocess.run([sys.executable, SCRIPT, "--parameters", "10K", *arguments], capture_output=True, text=True, timeout=380, env=environment)


def assert_recovered(done, kinds):
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.findall(r"(\w+), \d+ ranks, 10K parameters: \d+ faults, \d+ epochs; samples lost (\d+), .* parameters (\w+), and off by (\S+);", done.stdout)
    assert [(kind, lost, uniform) for kind, lost, uniform, _ in found] == [(kind, "0", "uniform") for kind in kinds], done.stdout
    assert all(float(off) < 1e-9 for *_, off in found)


@pytest.mark.parametrize("program", ["c++", "python"])
def test_on_one_host(program):
    kinds = ["kill", "root", "two", "joining", "stop"] if program == "c++" else ["kill"]
    assert_recovered(campaign("--program", program, "--faults", str(FAULTS), "--ranks", "3", "--kinds", ",".join(kinds)), kinds)


def test_at_the_start_and_at_the_end():
    done = campaign("--program", "c++", "--faults", str(2 * FAULTS), "--ranks", "3", "--kinds", "start,end")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(f"{2 * FAULTS} jobs with a fault, all as they have to be") == 2, done.stdout


def test_with_a_sharded_optimizer_and_a_spare():
    kinds = ["kill", "spare"]
    assert_recovered(campaign("--program", "c++", "--sharded", "--faults", str(FAULTS), "--ranks", "2", "--spares", "1", "--kinds", ",".join(kinds)), kinds)


@virtual_hosts
def test_on_virtual_hosts():
    kinds = ["agent", "slow", "cable"]
    assert_recovered(campaign("--program", "c++", "--faults", str(FAULTS), "--ranks", "4", "--hosts", "4", "--kinds", ",".join(kinds)), kinds)


@pytest.mark.parametrize("arguments, words", [
    (["--kinds", "cable"], "needs --hosts"),
    (["--kinds", "spare"], "needs --spares"),
    (["--kinds", "flood"], "flood"),
    (["--against", "nobody"], "nobody"),
])
def test_what_cannot_be_done_is_refused(arguments, words):
    done = campaign(*arguments)
    assert done.returncode == 2 and words in done.stderr and "Traceback" not in done.stderr


def test_the_undisturbed_run_is_that_of_torch():
    torch = pytest.importorskip("torch")
    spec = importlib.util.spec_from_file_location("fault_campaign", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = script
    spec.loader.exec_module(script)
    exact = torch.nn.Parameter(torch.zeros(4, dtype=torch.float64))
    optimizer = torch.optim.SGD([exact], lr=1.0, momentum=script.MOMENTUM)
    for ranks in [2, 2, 2, 1, 3, 3]:
        exact.grad = ranks * script.PULL * (exact.detach() - torch.tensor(script.TARGETS, dtype=torch.float64))
        optimizer.step()
    assert exact.tolist() == pytest.approx(script.undisturbed("2:3,1:1,3:2"), rel=1e-12)
