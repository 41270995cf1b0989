# SPDX-License-Identifier: Apache-2.0
"""Ranks that wait are on the page at once, with the rank for which they wait; a job without a fault blames nobody."""

import os
import re
import signal
import sys
import time
from pathlib import Path

import pytest

from page_jobs import BIN, ENVIRONMENT, Job, events_of, first_event, status

FAULTY = Path(__file__).parents[2] / "bench/faulty_training.py"
# A program without any mark. One rank sleeps once, when the others have asked for the next sum.
UNMARKED = """
import pathlib, time
import torch
import rueda.torch as hvd

hvd.init()
for number in range(100_000):
    if hvd.rank() == 2 and pathlib.Path("sleep").exists() and number % 2:
        pathlib.Path("sleep").unlink()
        time.sleep(8)
    hvd.allreduce(torch.ones(4), name="gradients")
    time.sleep(0.01)
"""
TRAINING = """
import sys, time
import torch
import rueda.torch as hvd

hvd.init()
torch.set_num_threads(1)
model = torch.nn.Linear(8, 1)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.01), named_parameters=model.named_parameters())
for step in range(100_000):
    FAULT
    optimizer.zero_grad()
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()
    time.sleep(0.005)
"""
# The samples of rank 1 come to an end earlier than those of the others.
UNEVEN = TRAINING.replace("FAULT", """
    if hvd.rank() == 1 and step == 300:
        sys.exit(0)
""")
# Rank 0 saves for longer than operations may wait without words of it.
SAVING = TRAINING.replace("FAULT", """
    if hvd.rank() == 0 and step == 401:
        with hvd.phase("checkpoint"):
            time.sleep(6)
""")


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    tmp_path.chmod(0o700)
    monkeypatch.setitem(ENVIRONMENT, "XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def line_of(state, *words):
    """Matches an update with that state, and all words in its text."""
    return lambda name, data: name == "update" and data.get("line", {}).get("state") == state and all(word in data["line"]["text"] for word in words)


def has_event(kind, words):
    return lambda name, data: any(event["kind"] == kind and words in event["text"] for event in data.get("events", ()))


def seconds_until_named(rank):
    """Stops a rank of a job with short steps; None: it was stopped where nobody knows that it is the one."""
    with Job(3, BIN / "marked_training", 1_000_000) as job:
        answer = job.get("/events")
        known = first_event(answer, 20, lambda name, data: name == "job" and all(one["state"] == "running" for one in data["ranks"]))
        assert first_event(answer, 20, lambda name, data: data.get("progress", {}).get("step", 0) > 100)
        process = known["ranks"][rank]["process"]
        began = time.monotonic()
        os.kill(process, signal.SIGSTOP)
        try:
            if not first_event(answer, 3, line_of("waiting", "no step for ", f"the others wait for rank {rank} (")):
                return None
            named = time.monotonic() - began
            told = first_event(answer, 20, line_of("stalled", f"the others wait for rank {rank} ("))
            assert told["line"]["rank"] == rank and 2 < time.monotonic() - began < 9
            assert has_event("stall", f"rank {rank}")("update", told), told
            assert {one["rank"] for one in told["operations"]} == {0, 1, 2}
            assert f"the others wait for rank {rank} (" in status(job.process.pid).stdout
        finally:
            os.kill(process, signal.SIGCONT)
        assert first_event(answer, 10, line_of("running"))["line"].get("rank") is None
        return named


def test_a_stopped_rank_is_named_within_a_second():
    took = []
    while len(took) < 3 and not (took and took[-1] < 1):
        took.append(seconds_until_named(1) or float("inf"))
    assert min(took) < 1, took


def seconds_until_late():
    """From the first news of a slow step until the first line names its rank."""
    with Job(3, BIN / "marked_training", 1_000_000, 1, 10, 900) as job:
        since = None
        for _, data in events_of(job.get("/events"), 30):
            if since is None and data.get("progress", {}).get("step", 0) >= 900:
                since = time.monotonic()
            if since and "waiting for rank 1 (data)" in data.get("line", {}).get("text", ""):
                return time.monotonic() - since
    return float("inf")


def test_a_late_rank_is_named_within_a_second():
    took = []
    while len(took) < 3 and not (took and took[-1] < 1):
        took.append(seconds_until_late())
    assert min(took) < 1, took


def test_operations_that_wait_are_told_without_any_mark(tmp_path, monkeypatch):
    monkeypatch.setitem(ENVIRONMENT, "RUEDA_STALL_CHECK_TIME", "2")
    (tmp_path / "program.py").write_text(UNMARKED)
    with Job(3, sys.executable, tmp_path / "program.py") as job:
        answer = job.get("/events")
        assert first_event(answer, 60, line_of("running", "3 ranks without steps so far"))
        (tmp_path / "sleep").touch()
        assert first_event(answer, 30, line_of("stalled", "the others wait for rank 2 (other)"))
        assert first_event(job.get("/events"), 30, has_event("stall", "not submitted by: rank 2")), "those before come with the connection"
        text = status(job.process.pid).stdout
        assert text.startswith("stalled, step 0; no step for") and text.count("stall: allreduce 'allreduce.gradients'") == 1, text
        assert first_event(answer, 30, line_of("running")), "it is over"


def test_a_rank_that_ends_early_is_named_first(tmp_path):
    (tmp_path / "program.py").write_text(UNEVEN)
    with Job(3, sys.executable, tmp_path / "program.py", options=("--page", "0", "--report", tmp_path / "report.html")) as job:
        answer = job.get("/events")
        terminal, events, lines = "", [], []
        for _, data in events_of(answer, 90):
            events += [(event["kind"], event["text"]) for event in data.get("events", ())]
            lines += [data["line"]["text"]] if "line" in data else []
            if events and not terminal:
                terminal = status(job.process.pid).stdout
        words = "rank 1 shut down without it, while ranks 0, 2 asked for it"
        kind, text = events[0]
        assert kind == "error" and words in text, events
        assert "error: " in terminal and words in terminal, terminal
        losses = [line for line in lines if line.startswith("lost")]
        assert losses and all(words in line and line.index("rank 1 ") < line.index("ended with status") for line in losses), lines
        assert job.process.wait(60) == 1
        assert words in (tmp_path / "report.html").read_text()


def test_a_long_checkpoint_is_no_stall(tmp_path, monkeypatch):
    monkeypatch.setitem(ENVIRONMENT, "RUEDA_STALL_CHECK_TIME", "2")
    (tmp_path / "program.py").write_text(SAVING)
    with Job(3, sys.executable, tmp_path / "program.py", options=("--page", "0", "--dump-folder", tmp_path)) as job:
        answer = job.get("/events")
        assert first_event(answer, 60, lambda name, data: data.get("progress", {}).get("step", 0) > 300)
        states, longest, events = [], 0, []
        for _, data in events_of(answer, 10):
            events += data.get("events", ())
            if "line" not in data:
                continue
            states.append(data["line"]["state"])
            told = re.search(r"the others wait for rank 0 \(checkpoint, ([\d.]+) s\)", data["line"]["text"])
            longest = max(longest, float(told[1]) if told else 0)
        assert longest > 4 and set(states) == {"running", "waiting"} and states[-1] == "running", (longest, states)
        assert not [event for event in events if event["kind"] == "stall"], events
        job.process.send_signal(signal.SIGTERM)
        _, _, err = job.end()
    assert "stalled" not in err and not list(tmp_path.glob("rueda-dump-*")), err


def test_a_job_without_a_fault_blames_nobody():
    """A rank that shares its core with others is late in truth, so most of a step is no work for the processor."""
    wrong = []
    for _ in range(3):
        with Job(3, sys.executable, FAULTY, "none", 0, "--sample", 5) as job:
            answer = job.get("/events")
            assert first_event(answer, 60, lambda name, data: data.get("progress", {}).get("step", 0) > 50)
            wrong.append([])
            for _, data in events_of(answer, 15):
                wrong[-1] += accusations(data)
        if not wrong[-1]:
            return
    pytest.fail(f"{wrong}")


def accusations(data):
    found = [event["text"] for event in data.get("events", ()) if event["kind"] == "straggler"]
    text = data.get("line", {}).get("text", "")
    found += [text] if "waiting for rank" in text else []
    return found + [each for each in data.get("late", {}).get("what_if", ())]
