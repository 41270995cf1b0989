# SPDX-License-Identifier: Apache-2.0
"""Programs of other kinds on the page: their steps are seen, a late rank is named, and healthy ones blame nobody."""

import sys
import time

from page_jobs import Job, events_of, first_event, own_folder  # noqa: F401 - a fixture
from test_page_stalls import has_event, line_of

BEGIN = """
import os, sys, time
import torch
import torch.distributed as dist
import rueda.torch as hvd
import rueda.torch.distributed

torch.set_num_threads(1)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
"""
# As in PyTorch's tutorial on writing distributed applications.
AVERAGING = BEGIN + """
dist.init_process_group("rueda")
for step in range(100_000):
    optimizer.zero_grad()
    time.sleep(0.03 if dist.get_rank() == 1 and step >= 100 else 0.01)
    model(torch.ones(4, 8)).sum().backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
    optimizer.step()
"""
# The last rank gets a model now and then, and trains nothing.
EVALUATOR = BEGIN + """
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("rueda")
training = dist.new_group([0, 1])
if dist.get_rank() == 2:
    while True:
        dist.recv(model.weight.data, 0)
replica = DistributedDataParallel(model, process_group=training)
for step in range(100_000):
    optimizer.zero_grad()
    time.sleep(0.01)
    replica(torch.ones(4, 8)).sum().backward()
    optimizer.step()
    if dist.get_rank() == 0 and step % 1000 == 999:
        dist.send(model.weight.data, 2)
"""
# Rank 0 has fewer batches than the others.
JOINING = BEGIN + """
hvd.init()
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
for step in range(50 if hvd.rank() == 0 else 100_000):
    optimizer.zero_grad()
    time.sleep(0.01)
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()
hvd.join()
"""
# Rank 1 comes late to each barrier.
BARRIERS = BEGIN + """
hvd.init()
for step in range(100_000):
    time.sleep(0.03 if hvd.rank() == 1 else 0.01)
    hvd.barrier()
    hvd.end_step()
"""
# Rank 2 is elsewhere before init().
LATE = BEGIN + """
if os.environ["RUEDA_RANK"] == "2":
    while not os.path.exists(os.environ["GO"]):
        time.sleep(0.1)
hvd.init()
time.sleep(60)
"""


def run(tmp_path, ranks, text, **settings):
    path = tmp_path / "program.py"
    path.write_text(text)
    return Job(ranks, sys.executable, path, **settings)


def lines_of(answer, seconds):
    return [data["line"] for name, data in events_of(answer, seconds) if name == "update" and "line" in data]


def test_a_loop_that_averages_gradients_has_steps(tmp_path):
    with run(tmp_path, 2, AVERAGING) as job:
        answer = job.get("/events")
        assert first_event(answer, 60, line_of("running", "waiting for rank 1 ("))
        assert first_event(answer, 30, lambda name, data: data.get("progress", {}).get("step", 0) > 300)


def test_a_rank_with_another_role_stops_nobody(tmp_path):
    with run(tmp_path, 3, EVALUATOR) as job:
        answer = job.get("/events")
        assert first_event(answer, 60, lambda name, data: data.get("progress", {}).get("step", 0) > 100)
        wrong = [line for line in lines_of(answer, 8) if line["state"] != "running" or "step 0" in line["text"]]
        assert not wrong, wrong


def test_ranks_that_have_joined_stop_nobody(tmp_path):
    with run(tmp_path, 3, JOINING, RUEDA_STALL_CHECK_TIME="1") as job:
        answer = job.get("/events")
        assert first_event(answer, 60, lambda name, data: data.get("progress", {}).get("step", 0) > 200), "not the 50 of rank 0"
        events = [data for name, data in events_of(answer, 5) if name == "update"]
        assert not [data["line"] for data in events if data.get("line", {}).get("state", "running") != "running"]
        assert not [event for data in events for event in data.get("events", ()) if event["kind"] == "stall"]


def test_waits_at_barriers_are_told(tmp_path):
    with run(tmp_path, 2, BARRIERS) as job:
        assert first_event(job.get("/events"), 60, line_of("running", "waiting for rank 1 ("))


def test_a_rank_that_others_wait_for_in_init_is_named(tmp_path):
    with run(tmp_path, 3, LATE, GO=str(tmp_path / "go")) as job:
        answer = job.get("/events")
        assert first_event(answer, 60, line_of("starting", "2 of 3 ranks have called init(), rank 2 has not"))
        (tmp_path / "go").touch()
        assert first_event(answer, 60, line_of("running", "3 ranks without steps so far"))


def test_an_operation_that_one_rank_leaves_out_is_told_as_the_cause(tmp_path):
    program = BEGIN + """
hvd.init()
for step in range(100_000):
    if not (hvd.rank() == 1 and step == 100):
        hvd.allreduce(torch.ones(4), name="loss")
    hvd.allreduce(torch.ones(4), name="a gradient")
"""
    with run(tmp_path, 3, program, RUEDA_STALL_CHECK_TIME="1") as job:
        answer = job.get("/events")
        told = first_event(answer, 60, has_event("stall", "not submitted by: rank 1"))
        assert told and "'allreduce.loss'" in str(told["events"])
        time.sleep(1)
        assert "'allreduce.loss'" in first_event(job.get("/events"), 10, line_of("stalled"))["line"]["text"]
