# SPDX-License-Identifier: Apache-2.0
"""The simulated job of the browser's tests tells what ruedarun tells: the same names at the same places."""

import os
import signal
import time

import pytest

from simulated_job import Reader, SimulatedJob
from page_jobs import BIN, ENVIRONMENT, Job, events_of

DATA = {"scalars", "spans", "histogram"}  # below these, names and numbers are the program's


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    tmp_path.chmod(0o700)
    monkeypatch.setitem(ENVIRONMENT, "XDG_RUNTIME_DIR", str(tmp_path))


def paths(value, prefix=""):
    """Each name in a message, with those around it: late.ranks[].share."""
    found = set()
    if isinstance(value, dict):
        for name, inner in value.items():
            found.add(prefix + name)
            if name not in DATA:
                found |= paths(inner, f"{prefix}{name}.")
    if isinstance(value, list):
        for inner in value:
            found |= paths(inner, f"{prefix[:-1]}[].")
    return found


def names_of_a_real_job():
    """With a late rank, which then stops."""
    job_names, update_names, process, stopped = set(), set(), None, 0
    with Job(3, BIN / "marked_training", 1_000_000, 1, 8, 50) as job:
        for name, data in events_of(job.get("/events"), 40):
            if name == "job":
                job_names |= paths(data)
                process = data["ranks"][1]["process"]
                continue
            update_names |= paths(data)
            if not stopped and {"late.what_if[].rank", "events[].rank", "plan.routes[].recent_us"} <= update_names:
                os.kill(process, signal.SIGSTOP)
                stopped = time.monotonic()
            if stopped and {"line.rank", "operations[].activity"} <= update_names:
                os.kill(process, signal.SIGCONT)
                return job_names, update_names
    raise AssertionError(update_names)


def names_of_a_simulated_job():
    job = SimulatedJob(ranks=3, step_seconds=0.02)
    job.started_at -= 20
    job_names, update_names, reader = paths(job.job()), set(), Reader()
    for act in (lambda: None, lambda: job.begin_straggler(1), lambda: job.stall(1)):
        act()
        for _ in range(4):
            job.started_at -= 1.5
            update_names |= paths(job.update(reader))
    return job_names, update_names


def test_a_simulated_job_tells_what_ruedarun_tells():
    real_job, real_update = names_of_a_real_job()
    simulated_job, simulated_update = names_of_a_simulated_job()
    assert real_job == simulated_job, real_job ^ simulated_job
    # It has a cost model, as jobs of several hosts have.
    assert simulated_update - real_update == {"plan.routes[].predicted_us"}
    assert real_update - simulated_update == set()
