# SPDX-License-Identifier: Apache-2.0
"""Dumps of a job: what each rank was doing, as torch's own tool reads it, and as a text."""

import http.client
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

BIN = Path(os.environ["RUEDA_BIN"])
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in ("PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE")}
ENVIRONMENT["OMP_NUM_THREADS"] = "1"
TOOL = [sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace"]

BEGIN = """
import contextlib, os, signal, sys, time
import torch
import rueda.torch as hvd
hvd.init()
rank, size = hvd.rank(), hvd.size()
def ready():
    print("ready", flush=True)
"""


class Job:
    """ruedarun in a folder of its own, with a script of Python. `ready` ranks have to say so."""

    def __init__(self, folder, ranks, script, *options, ready=None, **environment):
        folder.chmod(0o700)
        (folder / "program.py").write_text(script)
        self.folder = folder
        self.environment = {**ENVIRONMENT, "XDG_RUNTIME_DIR": str(folder), **environment}
        with open(folder / "err", "w", encoding="utf-8") as errors:
            self.process = subprocess.Popen([BIN / "ruedarun", *options, "-np", str(ranks), sys.executable, "program.py"], cwd=folder,
                                            env=self.environment, stdout=subprocess.PIPE, stderr=errors, text=True)
        for _ in range(ranks if ready is None else ready):
            line = self.process.stdout.readline()
            assert "ready" in line, line + self.errors()

    def errors(self):
        return (self.folder / "err").read_text()

    def dump(self, *words):
        return subprocess.run([BIN / "ruedarun", "--dump", *words], cwd=self.folder, env=self.environment, capture_output=True, text=True,
                              timeout=60)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=30)


def dumps_in(folder):
    return sorted(path for path in folder.glob("rueda-dump-*") if path.is_dir())


def wait_for_dump(job, folder, seconds=30):
    until = time.monotonic() + seconds
    while "what each rank was doing is in" not in job.errors():
        assert time.monotonic() < until, job.errors()
        time.sleep(0.1)
    (dump,) = dumps_in(folder)
    assert str(dump.name) in job.errors()
    return dump


def analysed(dump, *options):
    """What torchfrtrace says of a dump, without any hint."""
    done = subprocess.run([*TOOL, str(dump), *options], capture_output=True, text=True, env=ENVIRONMENT, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def record_of(dump, rank):
    return pickle.loads((dump / f"rank_{rank}").read_bytes())


def names_in(record):
    return [(entry["name"], entry["state"]) for entry in record["entries"]]


OTHERS_WAIT = BEGIN + """
for i in range(3):
    hvd.allreduce(torch.ones(4), name=f"early.{i}")
ready()
if rank == 2:
    time.sleep(100)
hvd.allreduce(torch.ones(2, 3), name="gradient")
"""


def check_that_rank_2_is_named(dump):
    text = (dump / "job.txt").read_text()
    assert "'allreduce.gradient' of all ranks, allreduce of float32 [2, 3]" in text, text
    assert "ranks 0-1, 3 have submitted it, rank 2 has not" in text, text
    tool = analysed(dump)
    assert "Not all ranks joining collective, sequence number: 4" in tool and "missing ranks: {2}" in tool, tool
    assert "collective: nccl:all_reduce" in tool and "input sizes: [[2, 3]]" in tool, tool
    assert names_in(record_of(dump, 0)) == [(f"allreduce.early.{i}", "completed") for i in range(3)] + [("allreduce.gradient", "scheduled")]
    assert names_in(record_of(dump, 2)) == [(f"allreduce.early.{i}", "completed") for i in range(3)]


@pytest.mark.parametrize("options", [[], ["--no-page"]], ids=["with-page", "without-page"])
def test_a_stall_leaves_a_dump(tmp_path, options):
    with Job(tmp_path, 4, OTHERS_WAIT, "--dump-folder", "dumps", *options) as job:
        dump = wait_for_dump(job, tmp_path / "dumps")
        check_that_rank_2_is_named(dump)
        assert "\nranks wait for others\n" in (dump / "job.txt").read_text()


@pytest.mark.parametrize("shared_memory", ["1", "0"])
def test_a_dump_at_will(tmp_path, shared_memory):
    with Job(tmp_path, 4, OTHERS_WAIT, RUEDA_SHM=shared_memory) as job:
        time.sleep(0.5)
        done = job.dump()
        assert done.returncode == 0, done.stderr
        assert "rank 2 has not" in done.stdout, done.stdout
        again = job.dump(str(job.process.pid))
        assert again.returncode == 0, again.stderr
        first, second = dumps_in(tmp_path)
        assert str(job.process.pid) in first.name and second.name != first.name
        check_that_rank_2_is_named(first)
        check_that_rank_2_is_named(second)
        missing = job.dump("999999999")
        assert missing.returncode == 1 and "no job of this user has the process number 999999999" in missing.stderr


def test_the_page_asks_for_a_dump(tmp_path):
    with Job(tmp_path, 4, OTHERS_WAIT, "--page", "0") as job:
        time.sleep(0.5)
        address, token = re.search(r"http://(\S+)/\?token=(\w+)", job.errors()).groups()

        def asked(method, **headers):
            connection = http.client.HTTPConnection(address, timeout=30)
            connection.request(method, f"/dump?token={token}", headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read()

        assert asked("GET")[0] == 405
        assert asked("POST")[0] in (401, 403) and asked("POST", Origin="http://example.org")[0] == 403
        assert not dumps_in(tmp_path)
        status, answer = asked("POST", Origin=f"http://{address}")
        dump = json.loads(answer)
        assert status == 200 and sorted(dump["files"]) == ["job.txt", "rank_0", "rank_1", "rank_2", "rank_3"], answer
        assert "rank 2 has not" in dump["summary"]
        check_that_rank_2_is_named(tmp_path / dump["folder"])


DIFFER = BEGIN + """
import torch.distributed as dist
import rueda.torch.distributed
dist.init_process_group("rueda")
dist.all_reduce(torch.ones(4))
with contextlib.suppress(RuntimeError):
    {planted}
ready()
time.sleep(100)
"""


@pytest.mark.parametrize(("planted", "kind"), [
    ("dist.all_gather([torch.ones(4)] * size, torch.ones(4)) if rank == 1 else dist.all_reduce(torch.ones(4))", "COLLECTIVE_TYPE_MISMATCH"),
    ('hvd.allreduce(torch.ones(5 if rank == 1 else 4), name="x")', "SIZE_OR_SYNTAX_MISMATCH"),
    ('hvd.allreduce(torch.ones(4, dtype=torch.float64 if rank == 1 else torch.float32), name="x")', "COLLECTIVE_DTYPE_MISMATCH"),
], ids=["operation", "size", "type"])
def test_ranks_that_differ(tmp_path, planted, kind):
    with Job(tmp_path, 3, DIFFER.format(planted=planted)) as job:
        done = job.dump()
        assert done.returncode == 0, done.stderr
        assert re.search(r"Ranks do not agree on\n  '.*' of .*:\n(.*on rank 1\n.*on ranks 0, 2|.*on ranks 0, 2\n.*on rank 1)\n", done.stdout), done.stdout
        (dump,) = dumps_in(tmp_path)
        tool = analysed(dump)
        assert f"Culprit rank 1; Error type: {kind}" in tool and "has errors" in tool, tool


def test_a_killed_rank_leaves_its_last_operations(tmp_path):
    script = BEGIN + """
for i in range(3):
    hvd.allreduce(torch.ones(4), name=f"early.{i}")
if rank == 1:
    hvd.allreduce_async(torch.ones(4), name="last words")
    time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGKILL)
hvd.allreduce(torch.ones(4), name="never")
"""
    with Job(tmp_path, 3, script, "--dump-folder", str(tmp_path / "dumps"), ready=0) as job:
        assert job.process.wait(timeout=60) == 128 + 9
        dump = wait_for_dump(job, tmp_path / "dumps")
        text = (dump / "job.txt").read_text()
        assert re.search(r"UTC.*\nrank 1 \(process \d+ on .*\) was killed by signal 9", text), text
        assert re.search(r"Ranks\n(.*\n)*rank 1 \(process \d+ on .*\) was killed by signal 9", text), text
        assert names_in(record_of(dump, 1)) == [(f"allreduce.early.{i}", "completed") for i in range(3)] + [("allreduce.last words", "scheduled")]
        assert "nccl:all_reduce" in analysed(dump, "-v")


def test_ranks_that_agree(tmp_path):
    script = BEGIN + """
hvd.allgather(torch.ones(2 + rank, 3), name="rows that differ")
hvd.allgather(torch.ones(2, 3), name="rows")
hvd.broadcast(torch.ones(3), 1, name="b")
hvd.reducescatter(torch.ones(4, 2), op=hvd.Sum, name="four rows for three ranks")
hvd.alltoall(torch.ones(3), name="a")
hvd.grouped_allreduce([torch.ones(2), torch.ones(3)], name="g")
hvd.barrier()
two = hvd.add_process_set([0, 2])
for i in range(400):
    hvd.allreduce(torch.ones(1), name="again")
if rank != 1:
    hvd.allreduce(torch.ones(7), process_set=two, name="of two")
ready()
time.sleep(100)
"""
    with Job(tmp_path, 3, script) as job:
        time.sleep(0.5)
        done = job.dump()
        assert done.returncode == 0, done.stderr
        assert "No operation is in flight." in done.stdout, done.stdout
        (dump,) = dumps_in(tmp_path)
        tool = analysed(dump)
        assert "missing ranks" not in tool and "has errors" not in tool and "mismatch" not in tool, tool
        record = record_of(dump, 0)
        assert record["version"] == "2.10"
        assert sorted(group["ranks"] for group in record["pg_config"].values()) == ["[0, 1, 2]", "[0, 2]"]
        assert len(record["entries"]) > 200


def test_all_operations_agree_from_the_first_one_on(tmp_path):
    script = BEGIN + """
hvd.allgather(torch.ones(2 + rank, 3), name="rows that differ")
hvd.broadcast(torch.ones(3), 1, name="b")
hvd.reducescatter(torch.ones(4, 2), op=hvd.Sum, name="four rows for three ranks")
hvd.reducescatter(torch.ones(6, 2), op=hvd.Sum, name="six rows for three ranks")
hvd.alltoall(torch.ones(3), name="a")
hvd.barrier()
hvd.join()
ready()
time.sleep(100)
"""
    with Job(tmp_path, 3, script) as job:
        time.sleep(0.5)
        assert job.dump().returncode == 0
        (dump,) = dumps_in(tmp_path)
        tool = analysed(dump)
        assert "missing ranks" not in tool and "has errors" not in tool and "mismatch" not in tool, tool
        types = [entry["profiling_name"] for entry in record_of(dump, 1)["entries"]]
        assert types == ["nccl:all_gather", "nccl:broadcast", "nccl:reduce_scatter", "nccl:reduce_scatter", "nccl:all_to_all",
                         "nccl:all_reduce_barrier"], types


def test_groups_of_torch_distributed(tmp_path):
    script = """
import sys, time
import torch
import torch.distributed as dist
import rueda.torch.distributed
dist.init_process_group("rueda")
rank = dist.get_rank()
pair = dist.new_group([0, 2])
dist.all_reduce(torch.ones(4))
if rank == 0:
    dist.send(torch.ones(3), 1)
elif rank == 1:
    dist.recv(torch.ones(3), 0)
print("ready", flush=True)
if rank == 0:
    dist.all_reduce(torch.ones(5), group=pair)
time.sleep(100)
"""
    with Job(tmp_path, 3, script) as job:
        time.sleep(0.5)
        done = job.dump()
        assert done.returncode == 0, done.stderr
        assert "rank 0 has submitted it, rank 2 has not" in done.stdout, done.stdout
        (dump,) = dumps_in(tmp_path)
        assert sorted(group["ranks"] for group in record_of(dump, 0)["pg_config"].values()) == ["[0, 1, 2]", "[0, 1]", "[0, 2]"]
        tool = analysed(dump)
        assert "missing ranks: {2}" in tool and "input sizes: [[5]]" in tool, tool


def test_an_elastic_job_leaves_a_dump_of_the_generation_that_failed(tmp_path):
    script = BEGIN + """
@hvd.elastic.run
def train(state):
    hvd.allreduce(torch.ones(4), name="early")
    if os.environ["RUEDA_WORKER"] == "1":
        os.kill(os.getpid(), signal.SIGKILL)
    hvd.allreduce(torch.ones(4), name="later")
train(hvd.elastic.ObjectState(step=0))
"""
    with Job(tmp_path, 3, script, "--min-np", "2", "--dump-folder", "dumps", ready=0) as job:
        assert job.process.wait(timeout=90) == 0, job.errors()
        dump = wait_for_dump(job, tmp_path / "dumps")
        assert names_in(record_of(dump, 1))[-1] == ("allreduce.early", "completed")
        assert re.search(r"rank 1 \(process \d+ on .*\) was killed by signal 9", (dump / "job.txt").read_text())
