# SPDX-License-Identifier: Apache-2.0
"""ruedarun --stacks: where the ranks of real jobs are, and that nobody disturbs them."""

import collections
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

BIN = Path(os.environ["RUEDA_BIN"])
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in ("PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE")}
HEAD = """
import os, re, signal, sys, threading, time
import rueda
rank = int(os.environ["RUEDA_RANK"])
def is_ready():
    print("ready", flush=True)
"""
SLEEPS = HEAD + """
def waits_here():
    is_ready()
    time.sleep(600)
waits_here()
"""


@pytest.fixture(name="folder", autouse=True)
def own_folder(tmp_path):
    """Jobs of this test alone are known to its --stacks."""
    tmp_path.chmod(0o700)
    ENVIRONMENT["XDG_RUNTIME_DIR"] = str(tmp_path)
    return tmp_path


class Job:
    """A program on some ranks; begins when each of them has printed "ready"."""

    def __init__(self, ranks, *command, ready=None):
        self.process = subprocess.Popen([BIN / "ruedarun", "--no-prefix", "-np", str(ranks), *map(str, command)], env=ENVIRONMENT,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        lines = 0
        while lines < (ranks if ready is None else ready):
            line = self.process.stdout.readline()
            assert line, self.process.stderr.read()
            lines += line == "ready\n"

    def ask(self, *options):
        return subprocess.run([BIN / "ruedarun", "--stacks", str(self.process.pid), *options], env=ENVIRONMENT, capture_output=True,
                              text=True, timeout=60)

    def stacks(self):
        done = self.ask("--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def main_thread(self, rank=0):
        return self.stacks()["ranks"][rank]["threads"][0]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.communicate(timeout=20)
        self.process.kill()


def python(folder, text):
    path = folder / "program.py"
    path.write_text(text)
    return sys.executable, path


def has_native(stacks):
    return not any("without libdw" in note for note in stacks["notes"])


def state_of(process):
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]


def comes(is_so, seconds=30):
    until = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_python_rank_that_sleeps(folder):
    with Job(1, *python(folder, SLEEPS)) as job:
        comes(lambda: "waits_here" in job.main_thread()["python"][0])
        thread = job.main_thread()
        assert thread["python"][0].startswith("waits_here (") and thread["python"][0].endswith("program.py:10)")
        assert thread["python"][1].startswith("<module> (")
        text = job.ask()
        assert text.returncode == 0 and text.stdout.startswith("1 rank: the main threads are at 1 place\n\nrank 0\n    waits_here ("), text
        assert job.process.poll() is None


def test_python_threads_and_a_held_lock(folder):
    program = HEAD + """
lock = threading.Lock()
def keeps_the_lock():
    with lock:
        time.sleep(600)
def wants_the_lock():
    is_ready()
    with lock:
        pass
threading.Thread(target=keeps_the_lock, daemon=True).start()
while not lock.locked(): pass
wants_the_lock()
"""
    with Job(1, *python(folder, program)) as job:
        comes(lambda: "wants_the_lock" in job.main_thread()["python"][0])
        stacks = job.stacks()
        pythons = [thread["python"][0] for thread in stacks["ranks"][0]["threads"] if "python" in thread]
        assert pythons[0].startswith("wants_the_lock (")
        if has_native(stacks):
            assert any(frame.startswith("keeps_the_lock (") for frame in pythons[1:])
            assert "keeps_the_lock" in job.ask("--verbose").stdout
        assert "keeps_the_lock" not in job.ask().stdout


def test_native_code_keeps_the_lock_of_the_interpreter(folder):
    program = HEAD + """
def matches_for_ever():
    is_ready()
    re.match("(a+)+$", "a" * 60 + "b")
matches_for_ever()
"""
    with Job(1, *python(folder, program)) as job:
        comes(lambda: any("matches_for_ever" in frame for frame in job.main_thread()["python"]))


def test_a_stopped_rank_stays_stopped(folder):
    with Job(1, *python(folder, SLEEPS)) as job:
        process = job.stacks()["ranks"][0]["process"]
        os.kill(process, signal.SIGSTOP)
        comes(lambda: state_of(process) == "T")
        stacks = job.stacks()
        thread = stacks["ranks"][0]["threads"][0]
        assert thread["state"] == "T" and "python" not in thread
        assert ("frames" in thread) == has_native(stacks)
        assert any("stopped" in note for note in stacks["notes"])
        assert state_of(process) == "T"
        os.kill(process, signal.SIGCONT)
        comes(lambda: "python" in job.main_thread())


def test_a_program_without_rueda():
    with Job(2, "sh", "-c", "echo ready; exec sleep 600") as job:
        stacks = job.stacks()
        assert len(stacks["ranks"]) == 2 and stacks["silent"] == []
        if has_native(stacks):
            comes(lambda: any("sleep" in frame for frame in job.main_thread()["frames"]))
            assert all(group["kind"] == "native" for group in job.stacks()["groups"])


def test_a_rank_behind_a_shell(folder):
    command = " ".join(map(str, python(folder, SLEEPS)))
    with Job(1, "sh", "-c", f"{command}; true") as job:
        comes(lambda: "waits_here" in job.main_thread().get("python", [""])[0])


def test_another_program_takes_the_place_of_the_rank(folder):
    (folder / "second.py").write_text(SLEEPS)
    program = f"""
import os, sys
import rueda
os.execv(sys.executable, [sys.executable, {str(folder / "second.py")!r}])
"""
    with Job(1, *python(folder, program)) as job:
        comes(lambda: "second.py" in job.main_thread().get("python", [""])[0])


def test_a_rank_in_native_code():
    with Job(2, BIN / "marked_training", 100000, 1, 60000, 5, ready=0) as job:
        comes(lambda: job.ask().returncode == 0)
        comes(lambda: len(job.stacks()["groups"]) == 2 if has_native(job.stacks()) else True)
        stacks = job.stacks()
        if has_native(stacks):
            assert any("main" in frame for frame in stacks["ranks"][1]["threads"][0]["frames"])


def test_of_eight_ranks_the_other_one_comes_first(folder):
    program = HEAD + """
def is_elsewhere():
    is_ready()
    time.sleep(600)
def waits():
    is_ready()
    time.sleep(600)
is_elsewhere() if rank == 3 else waits()
"""
    with Job(8, *python(folder, program)) as job:
        comes(lambda: len(job.stacks()["groups"]) == 2)
        groups = job.stacks()["groups"]
        assert [group["ranks"] for group in groups] == [[3], [0, 1, 2, 4, 5, 6, 7]]
        assert groups[0]["kind"] == "python" and groups[0]["frames"][0].startswith("is_elsewhere (")
        text = job.ask().stdout
        assert text.index("rank 3\n") < text.index("7 ranks: 0-2,4-7\n")


def test_fifty_times_nobody_is_disturbed(folder):
    program = HEAD + """
import torch
import rueda.torch as hvd
hvd.init()
sums, stop = 0, []
threading.Thread(target=lambda: [sys.stdin.read(), stop.append(1)] if rank == 0 else None, daemon=True).start()
is_ready()
while True:
    told = hvd.allreduce(torch.tensor([1.0, float(len(stop))]), op=hvd.Sum)
    assert told[0].item() == hvd.size(), told
    sums += 1
    if told[1].item() > 0:
        break
    time.sleep(0.001)
print("right", sums, flush=True)
"""
    path = python(folder, program)
    process = subprocess.Popen([BIN / "ruedarun", "--no-prefix", "-np", "2", *map(str, path)], env=ENVIRONMENT, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        for _ in range(2):
            assert process.stdout.readline() == "ready\n"
        for _ in range(50):
            done = subprocess.run([BIN / "ruedarun", "--stacks", str(process.pid), "--json"], env=ENVIRONMENT, capture_output=True, text=True,
                                  timeout=60)
            assert done.returncode == 0, done.stderr
            stacks = json.loads(done.stdout)
            assert stacks["silent"] == [] and all(rank["threads"][0]["python"] for rank in stacks["ranks"]), stacks["notes"]
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        lines = out.splitlines()
        assert len(lines) == 2 and len(set(lines)) == 1 and lines[0].startswith("right "), out
    finally:
        process.kill()


def test_a_rank_that_dies_meanwhile(folder):
    with Job(4, *python(folder, SLEEPS)) as job:
        process = job.stacks()["ranks"][2]["process"]
        asked = [subprocess.Popen([BIN / "ruedarun", "--stacks", str(job.process.pid)], env=ENVIRONMENT, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True) for _ in range(2)]
        os.kill(process, signal.SIGKILL)
        for each in asked:
            each.communicate(timeout=60)
        job.process.communicate(timeout=60)
        assert job.process.returncode == 128 + signal.SIGKILL


def test_the_program_keeps_its_signals(folder):
    program = """
import signal
caught = []
for number in range(signal.SIGRTMAX - 9, signal.SIGRTMAX - 4):
    signal.signal(number, lambda got, _: caught.append(got))
""" + HEAD + """
def waits_here():
    is_ready()
    while not caught:
        time.sleep(0.01)
    print("caught", caught, flush=True)
waits_here()
"""
    with Job(1, *python(folder, program)) as job:
        comes(lambda: any("waits_here" in frame for frame in job.main_thread()["python"]))
        assert job.process.poll() is None


def test_a_handler_that_is_gone_gets_no_signal(folder):
    program = HEAD + """
import faulthandler
def waits_here():
    for number in range(signal.SIGRTMIN, signal.SIGRTMAX):
        faulthandler.unregister(number)
    is_ready()
    time.sleep(600)
waits_here()
"""
    with Job(1, *python(folder, program)) as job:
        stacks = job.stacks()
        assert any("has taken the handler" in note for note in stacks["notes"]), stacks["notes"]
        assert "python" not in job.main_thread()
        assert job.process.poll() is None


def test_a_system_without_memory_files(folder):
    program = """
import os
def refuses(*_):
    raise OSError("not here")
os.memfd_create = refuses
""" + HEAD + """
is_ready()
time.sleep(600)
"""
    with Job(1, *python(folder, program)) as job:
        assert "python" not in job.main_thread()
        assert job.process.poll() is None


def test_a_file_that_is_closed_gets_no_stack(folder):
    program = HEAD + """
for number in os.listdir("/proc/self/fd"):
    path = "/proc/self/fd/" + number
    if os.path.islink(path) and "rueda-stacks" in os.readlink(path):
        os.close(int(number))
        other = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
        os.dup2(other, int(number))
        os.close(other)
is_ready()
time.sleep(600)
"""
    other = folder / "other"
    with Job(1, *python(folder, program), other) as job:
        stacks = job.stacks()
        assert any("has closed its file for stacks" in note for note in stacks["notes"]), stacks["notes"]
        assert "python" not in stacks["ranks"][0]["threads"][0]
        assert other.read_text() == ""
        assert job.process.poll() is None


def test_a_phase_is_that_of_the_stack(folder):
    """The loader of rank 1 is slow, and the others wait for it."""
    program = Path(__file__).parents[2] / "bench/faulty_training.py"
    with Job(3, sys.executable, program, "data", 1, "--after", 5, ready=0) as job:
        comes(lambda: job.ask().returncode == 0)
        comes(lambda: any("__getitem__" in frame for group in job.stacks()["groups"] for frame in group["frames"]))
        seen = collections.Counter()
        for _ in range(20):
            stacks = job.stacks()
            for rank in stacks["ranks"]:
                frames = " ".join(rank["threads"][0]["python"])
                assert "phase" in rank or not has_native(stacks), rank
                assert rank.get("phase", "data") == "data" or "__getitem__" not in frames, rank
                assert rank.get("phase") != "wait" or "step (" in frames or "backward (" in frames, rank
                seen[rank.get("phase"), rank["rank"]] += 1
        assert seen["data", 1] > 3 and seen["wait", 0] + seen["wait", 2] > 3, seen


def test_without_a_job():
    done = subprocess.run([BIN / "ruedarun", "--stacks"], env=ENVIRONMENT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "no job of this user runs" in done.stderr
