# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C and other signals at a job of Python programs that wait for each other. RUEDA_BIN names the folder of the programs."""
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

BIN = Path(os.environ["RUEDA_BIN"])
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
OF_PYTHON_ITSELF = ("Exception ignored", "lost sys.stderr", "Fatal Python error", "terminate called")


class Job:
    """A script on two ranks, which say by files of a folder of theirs how far they are."""

    all: list[subprocess.Popen] = []

    def __init__(self, script, folder, ranks=2, command=None):
        self.folder = folder
        head = "import os, signal, sys, time, torch, rueda.torch as hvd\ndef say(words): open(words, 'w').close()\n"
        (folder / "script.py").write_text(head + script)
        command = command or [BIN / "ruedarun", "--no-prefix", "-np", str(ranks), sys.executable, "script.py"]
        self.process = subprocess.Popen(command, cwd=folder, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        start_new_session=True)
        Job.all.append(self.process)

    def wait_for(self, words):
        end = time.monotonic() + 150
        while not (self.folder / words).exists():
            assert time.monotonic() < end and self.process.poll() is None, self.process.communicate(timeout=10)
            time.sleep(0.02)
        time.sleep(0.3)  # then it waits

    def pid_of(self, rank):
        return int((self.folder / f"pid.{rank}").read_text())

    def ended(self):
        """Status, and all that was printed."""
        out, err = self.process.communicate(timeout=60)
        assert not any(words in out + err for words in OF_PYTHON_ITSELF), out + err
        return self.process.returncode, out + err


@pytest.fixture(autouse=True)
def no_job_is_left():
    yield
    for process in Job.all:
        if process.poll() is None:
            process.terminate()
            process.communicate(timeout=60)
    Job.all.clear()


INIT = """
open(f"pid.{os.environ['PMI_RANK']}", "w").write(str(os.getpid()))
hvd.init()
"""
ALL_WAIT = INIT + """
if hvd.rank() == 0:
    say("waits")
hvd.allreduce(torch.ones(1), name=f"of rank {hvd.rank()}")
"""


def test_ctrl_c_is_a_keyboard_interrupt_on_every_rank(tmp_path):
    job = Job(ALL_WAIT, tmp_path)
    job.wait_for("waits")
    begin = time.monotonic()
    job.process.send_signal(signal.SIGINT)
    status, words = job.ended()
    assert status == 130 and len(re.findall("^KeyboardInterrupt$", words, re.M)) == 2, words
    assert words.count("hvd.allreduce(torch.ones(1)") == 2, words  # the lines of the tracebacks
    assert time.monotonic() - begin < 20


def test_what_a_rank_saves_at_ctrl_c_while_another_does_not_react(tmp_path):
    job = Job(INIT + """
if hvd.rank() == 1:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    time.sleep(60)
try:
    say("waits")
    hvd.allreduce(torch.ones(1))
except KeyboardInterrupt:
    say("saved")
""", tmp_path)
    job.wait_for("waits")
    job.process.send_signal(signal.SIGINT)
    status, _ = job.ended()
    assert status == 130 and (tmp_path / "saved").exists()


def test_an_interrupted_rank_is_named_to_the_others(tmp_path):
    job = Job(INIT + """
if hvd.rank() == 0:
    say("waits")
if hvd.rank() == 1:
    while not os.path.exists("come"):
        time.sleep(0.02)
try:
    hvd.allreduce(torch.ones(1), name="together")
    hvd.allreduce(torch.ones(1), name="next")
except hvd.HorovodInternalError as error:
    print("told:", error)
    raise SystemExit(7)
""", tmp_path)
    job.wait_for("waits")
    os.kill(job.pid_of(0), signal.SIGINT)
    time.sleep(0.5)
    (tmp_path / "come").touch()
    status, words = job.ended()
    assert status != 0 and "KeyboardInterrupt" in words and re.search("told: .*rank 0", words), words


@pytest.mark.parametrize("before", ["", pytest.param("import mpi4py.MPI", marks=pytest.mark.full("launcher")),
                                    pytest.param("hvd.init(); hvd.shutdown()", marks=pytest.mark.full("launcher"))])
def test_init_that_waits_is_interrupted(before, tmp_path):
    """While MPI begins, while its communicators are made, and while ranks introduce each other."""
    job = Job(before + ("; say('began')" if "shutdown" in before else "") + """
if os.environ["PMI_RANK"] == "1":
    while not os.path.exists("saved"):
        time.sleep(0.02)
    time.sleep(60)

def stop(number, frame):
    if "/rueda/" in frame.f_code.co_filename:
        raise KeyboardInterrupt
    signal.setitimer(signal.ITIMER_REAL, 0.1)

signal.signal(signal.SIGALRM, stop)
signal.setitimer(signal.ITIMER_REAL, 0.5)
try:
    hvd.init()
except KeyboardInterrupt:
    if os.path.exists("began"):
        try:
            hvd.init()
        except hvd.HorovodInternalError as error:
            print("told:", error)
    say("saved")
    raise
""", tmp_path)
    job.wait_for("saved")
    status, words = job.ended()
    assert status != 0 and "KeyboardInterrupt" in words, words
    assert "shutdown" not in before or "told: An earlier init() on this rank was interrupted" in words, words


def test_a_rank_that_is_through_does_not_wait_for_others_after_ctrl_c(tmp_path):
    job = Job(INIT + """
if hvd.rank() == 1:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while not os.path.exists("come"):
        time.sleep(0.02)
    try:
        hvd.allreduce(torch.ones(1))
    except hvd.HorovodInternalError as error:
        print("told:", error)
else:
    import atexit
    atexit.register(say, "ends")
    print("through")
""", tmp_path)
    job.wait_for("ends")
    time.sleep(0.5)
    os.kill(job.pid_of(0), signal.SIGINT)
    end = time.monotonic() + 20
    while Path(f"/proc/{job.pid_of(0)}/exe").exists() and time.monotonic() < end:
        time.sleep(0.02)
    assert time.monotonic() < end
    (tmp_path / "come").touch()
    _, words = job.ended()
    assert "through" in words and re.search("told: .*rank 0", words), words


def test_a_handler_of_sigterm_ends_the_job_well(tmp_path):
    job = Job(INIT + """
def handle(number, frame):
    say(f"saved.{hvd.rank()}")
    sys.exit(0)
signal.signal(signal.SIGTERM, handle)
if hvd.rank() == 0:
    say("waits")
    hvd.barrier()
else:
    time.sleep(60)
""", tmp_path)
    job.wait_for("waits")
    job.process.send_signal(signal.SIGTERM)
    status, _ = job.ended()
    assert status == 143 and (tmp_path / "saved.0").exists() and (tmp_path / "saved.1").exists()


def test_ctrl_c_at_rueda_run(tmp_path):
    job = Job("""
import rueda
def train():
    import rueda.torch as hvd
    hvd.init()
    if hvd.rank() == 0:
        open("waits", "w").close()
        try:
            hvd.allreduce(torch.ones(1))
        except KeyboardInterrupt:
            open("saved", "w").close()
            raise
    time.sleep(60)
try:
    rueda.run(train, np=2)
except KeyboardInterrupt:
    say("told")
    raise
""", tmp_path, command=[sys.executable, "script.py"])
    job.wait_for("waits")
    job.process.send_signal(signal.SIGINT)  # to it alone, as a notebook does
    status, words = job.ended()
    assert status == -signal.SIGINT and (tmp_path / "saved").exists() and (tmp_path / "told").exists(), words


DAEMON_THREADS = """
import ctypes, rueda, threading

class Slow:
    def __del__(self, sleep=time.sleep):  # when the interpreter ends: all that wait for its lock get their turn
        sleep(0.5)

def repeat(act):
    while True:
        try:
            act()
        except hvd.HorovodInternalError:  # the job has ended
            pass

hvd.init()
slow, tensor = Slow(), torch.ones(3)
acts = [lambda: hvd.allreduce_(tensor, name="reduced"), lambda: hvd.broadcast_(tensor, 0, name="broadcast"), hvd.barrier,
        lambda: hvd.synchronize(hvd.allreduce_async_(tensor, name="waited for")), rueda.metrics,
        lambda: hvd.broadcast_object("words", name="object")]
if "torch" in sys.argv:
    acts = [lambda: hvd.allreduce(torch.ones(3), name="made"), lambda: torch.ones(3)]
else:  # Rueda alone: what it does about torch's own waits is undone
    ctypes.CDLL("libstdc++.so.6")._ZSt13set_terminatePFvvE(ctypes.CDLL(None).abort)
for act in acts:
    threading.Thread(target=repeat, args=(act,), daemon=True).start()
time.sleep(0.5)
"""


@pytest.mark.parametrize("of", ["rueda", "torch"])
@pytest.mark.parametrize("end, expected", [("raise KeyboardInterrupt", -signal.SIGINT), ("sys.exit(3)", 3), ("", 0)],
                         ids=["ctrl_c", "exit", "plain"])
def test_a_process_ends_while_daemon_threads_wait(end, expected, of, tmp_path):
    """Python before 3.14 ends such a thread in the middle of the function of C++ that wants its lock back."""
    status, words = Job(DAEMON_THREADS + end, tmp_path, command=[sys.executable, "script.py", of]).ended()
    assert status == expected, words


def test_ctrl_c_ends_a_job_whose_daemon_threads_wait(tmp_path):
    job = Job(INIT + """
import threading
def train():
    step = 0
    while True:
        hvd.allreduce(torch.ones(3), name=f"of step {step}")
        step += 1
threading.Thread(target=train, daemon=True).start()
if hvd.rank() == 0:
    say("waits")
time.sleep(60)
""", tmp_path)
    job.wait_for("waits")
    job.process.send_signal(signal.SIGINT)
    status, words = job.ended()
    assert status == 130 and "Abort" not in words, words
