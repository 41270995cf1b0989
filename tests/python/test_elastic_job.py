# SPDX-License-Identifier: Apache-2.0
"""Elastic jobs of ruedarun: ranks are killed, others take their places, and each sample is applied once in each epoch.

Runs tests/python/programs/elastic_sums.py, and its twin elastic_training.cc, which starts sooner, where the launcher is tested. RUEDA_BIN names
the folder of the programs; RUEDA_KILLS is how many ranks are killed at random."""
import ast
import contextlib
import os
import queue
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

BIN = Path(os.environ["RUEDA_BIN"])
PROGRAM = Path(__file__).parent / "programs" / "elastic_sums.py"
CPP = [BIN / "elastic_training"]
KILLS = int(os.environ.get("RUEDA_KILLS", "4"))
PATIENCE = 60  # seconds, with a line that has to come
HOSTS = ["--virtual-hosts", "2"]


class Job:
    """A ruedarun, with what it has said. At the end of a `with` it is killed, and its ranks with it. program: what it runs. until_end: epochs go on until
    end() is called."""

    folder = None  # of the file that ends the epochs

    def __init__(self, *options, samples=400, epochs=1, work=0.01, program=(sys.executable, PROGRAM), until_end=False, **settings):
        is_elastic = "--min-np" in options or "--host-discovery-script" in options
        if is_elastic and "--spares" not in options:
            options = ("--spares", "0", *options)
        self.folder = tempfile.TemporaryDirectory() if until_end else None
        if until_end:
            settings["STOP"] = f"{self.folder.name}/stop"
        self._start([BIN / "ruedarun", *options, *program, samples, epochs, work], settings)

    def _start(self, command, settings):
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"} | settings
        self.process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment,
                                        start_new_session=True)
        self.lines, self.said, self.pids = queue.Queue(), [], {}
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.reader.join(10)
        left = [pid for pid in self.pids.values() if self._lives(pid)]
        for _ in range(100):
            left = [pid for pid in left if self._lives(pid)]
            if not left:
                break
            time.sleep(0.05)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        if self.folder:
            self.folder.cleanup()
        assert not left, f"processes are left: {left}"

    @staticmethod
    def _lives(pid):
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
        except OSError:
            return False

    def next_line(self, seconds=PATIENCE):
        """The next line; None at the end."""
        try:
            line = self.lines.get(timeout=seconds)
        except queue.Empty:
            pytest.fail(f"nothing was said for {seconds} s; so far:\n{''.join(self.said[-60:])}")
        if line is not None:
            self.said.append(line)
            if found := re.search(r"worker (\d+) is process (\d+)", line):
                self.pids[int(found[1])] = int(found[2])
        return line

    def wait_for(self, pattern):
        """The match of the first line from now on that has the pattern."""
        end = time.monotonic() + PATIENCE
        while (line := self.next_line()) is not None and time.monotonic() < end:
            if found := re.search(pattern, line):
                return found
        pytest.fail(f"no line has {pattern}:\n{''.join(self.said[-60:])}")

    def end(self):
        """The status, and all that was said."""
        if self.folder:
            (Path(self.folder.name) / "stop").touch()
        last = time.monotonic() + 3 * PATIENCE
        while self.next_line() is not None:
            if time.monotonic() > last:
                pytest.fail(f"the job does not end:\n{''.join(self.said[-60:])}")
        return self.process.wait(PATIENCE), "".join(self.said)

    def wait_until_idle(self, worker):
        """Until that process, which has begun, has used next to no time for a second."""
        def used():
            return sum(map(int, Path(f"/proc/{self.pids[worker]}/stat").read_text().rpartition(")")[2].split()[11:13]))

        end, quiet = time.monotonic() + PATIENCE, 0
        while quiet < 4:
            before = used()
            time.sleep(0.25)
            quiet = quiet + 1 if used() - before <= 1 else 0
            assert time.monotonic() < end, f"worker {worker} does not come to rest"

    def kill(self, worker, number=signal.SIGKILL):
        os.kill(self.pids[worker], number)


def counts(said):
    """Epochs, and {times: samples that were applied so often}."""
    found = re.findall(r"epochs: (\d+), applied: (\{.*\})", said)
    assert len(found) == 1, said
    return int(found[0][0]), ast.literal_eval(found[0][1])


def assert_each_once(said, samples=400, ranks=4):
    """Where samples cannot be divided, the last step of an epoch has some of them twice, as Horovod's sampler does."""
    epochs, times = counts(said)
    assert sum(times.values()) == samples and min(times) == epochs, (times, said)
    assert sum(count * (number - epochs) for number, count in times.items()) <= epochs * (ranks - 1), (times, said)


@pytest.mark.parametrize("victim", [0, 1])
def test_the_others_go_on_and_a_new_one_joins(victim):
    with Job("-np", "2", "--min-np", "1", UNTIL_WORKER="2") as job:
        job.wait_for(r"step 10\b")
        job.kill(victim)
        job.wait_for(rf"ruedarun: rank {victim} \(process \d+ on \S+\) was killed by signal 9 \(Killed\); going on with 1 rank$")
        job.wait_for(rf"worker {1 - victim} begins as rank 0 of 1 ")
        job.wait_for(r"ruedarun: worker 2 has joined; going on with 2 ranks")
        job.wait_for(r"worker 2 begins as rank 1 of 2 at step [1-9]")
        status, said = job.end()
    assert status == 0, said
    assert_each_once(said, ranks=2)


def test_without_a_failure_nothing_is_said():
    with Job("-np", "2", "--min-np", "1", epochs=2, work=0) as job:
        status, said = job.end()
    assert status == 0 and "ruedarun" not in said and counts(said) == (2, {2: 400}), said


def test_many_are_lost_one_after_another():
    chance = random.Random(time.time_ns())
    with Job("-np", "3", "--min-np", "1", samples=100_000) as job:
        for _ in range(KILLS):
            job.wait_for(r"begins as rank 2 of 3")
            job.wait_for(r"step \d+")
            time.sleep(chance.random() * 0.05)
            alive = [worker for worker, pid in job.pids.items() if job._lives(pid)]
            job.kill(chance.choice(alive))
        job.wait_for(r"begins as rank 2 of 3")
        times = [int(step) for step in re.findall(r"step (\d+)", "".join(job.said))]
        assert times[-1] > 5 * KILLS


@pytest.mark.full("torch")  # its twin in test_elastic_cpp.py runs always
def test_two_are_lost_at_once():
    with Job("-np", "4", "--min-np", "2", UNTIL_WORKER="5") as job:
        job.wait_for(r"step 10\b")
        job.kill(0)
        job.kill(2)
        job.wait_for(r"begins as rank 0 of [23] ")
        status, said = job.end()
    assert status == 0, said
    for worker in (0, 2):  # the second has another rank, where a generation came between
        assert re.search(rf"rank \d \((worker {worker}, )?process {job.pids[worker]} on \S+\) was killed by signal 9", said), said
    assert_each_once(said)


def test_a_rank_is_lost_during_the_start():
    with Job("-np", "2", "--min-np", "1", program=CPP) as job:
        found = job.wait_for(r"worker (\d) is process")
        job.kill(int(found[1]))
        status, said = job.end()
    assert status == 0 and "was killed by signal 9" in said, said
    assert_each_once(said, ranks=2)


def test_a_spare_takes_the_place_at_once():
    with Job("-np", "2", "--min-np", "2", "--spares", "1", UNTIL_WORKER="2") as job:
        while 2 not in job.pids:
            job.next_line()
        job.wait_until_idle(2)  # it has imported all, and waits in init()
        job.kill(1)
        job.wait_for(r"ruedarun: rank 1 .* was killed by signal 9 \(Killed\); going on with 2 ranks$")
        job.wait_for(r"worker 2 begins as rank 1 of 2 ")
        status, said = job.end()
    assert status == 0, said
    assert_each_once(said, ranks=2)


def test_by_default_one_spare_waits_if_the_job_can_do_without_a_rank():
    for options, processes in [(("-np", "2", "--min-np", "1"), 3), (("-np", "2", "--min-np", "2"), 2), (("-np", "2", "--min-np", "1", "-H", "localhost:2"), 2)]:
        done = subprocess.run([BIN / "ruedarun", "--verbose", *options, sys.executable, "-c", "import rueda, time\nrueda.init()\ntime.sleep(1)"],
                              capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and len(re.findall(r"rank \d is process", done.stderr)) == processes, done.stderr


def test_too_few_wait_for_a_new_one():
    with Job("-np", "2", "--min-np", "2", samples=800, program=CPP) as job:
        job.wait_for(r"step 10\b")
        job.kill(0)
        job.wait_for(r"was killed by signal 9 \(Killed\); waiting for others, since too few are left$")
        job.wait_for(r"worker 1 begins as rank 0 of 2 ")
        status, said = job.end()
    assert status == 0, said
    assert_each_once(said, samples=800, ranks=2)


def test_too_few_and_nobody_can_come():
    with Job("-np", "2", "--min-np", "2", REFUSING="2", samples=100_000, program=CPP) as job:
        job.wait_for(r"step 10\b")
        job.kill(0)
        status, said = job.end()
    assert status == 128 + signal.SIGKILL, said
    assert "worker 2 (process" in said and "ended with status 3" in said
    assert re.search(r"ruedarun: slot 0 of \S+ is not used again: its last worker did not take part", said), said
    assert "ruedarun: the job cannot go on: too few ranks are left" in said


def test_the_reset_limit_ends_the_job():
    with Job("-np", "3", "--min-np", "1", "--reset-limit", "1", samples=100_000, program=CPP) as job:
        job.wait_for(r"step 10\b")
        job.kill(1)
        job.wait_for(r"begins as rank 0 of 2 ")
        job.wait_for(r"step \d+")
        job.kill(0)
        status, said = job.end()
    assert status == 128 + signal.SIGKILL and "the job cannot go on: reset limit 1 exceeded" in said, said


def test_an_error_of_the_program_ends_the_job():
    with Job("-np", "2", "--min-np", "1", FAILS_AT="7", samples=100_000) as job:
        status, said = job.end()
    assert status == 1 and "ValueError: this sample is broken" in said and "the job cannot go on" in said, said
    assert len(job.pids) <= 4, said


def test_a_failure_that_comes_again_and_again_ends_the_job():
    with Job("-np", "2", "--min-np", "1", MISMATCHES_AT="7", samples=100_000) as job:
        status, said = job.end()
    assert status == 1 and "elastic.run has tried 3 times, and no commit came between the failures" in said and "mismatch" in said, said
    assert said.count("the ranks form the job anew") <= 3, said


def test_a_worker_that_joins_in_a_second_run():
    with Job("-np", "2", "--min-np", "1", MORE_EPOCHS="1", UNTIL_WORKER="2") as job:
        job.wait_for(r"begins as rank . of 2 at step 50$")
        job.wait_for(r"step 55$")
        job.kill(1)
        job.wait_for(r"worker 2 begins as rank 1 of 2 ")
        status, said = job.end()
    assert status == 0, said
    assert_each_once(said)


def test_a_rank_that_ends_well_in_the_midst_is_named():
    with Job("-np", "3", "--min-np", "1", ENDS_EARLY="1", program=CPP) as job:
        status, said = job.end()
    assert status == 0 and re.search(r"^ruedarun: rank 1 \(process \d+ on \S+\) has ended with status 0; nobody joins any more$", said, re.M), said
    assert_each_once(said)


def test_a_signal_ends_the_job_and_nothing_is_started():
    with Job("-np", "2", "--min-np", "1", samples=100_000, program=CPP) as job:
        job.wait_for(r"step 10\b")
        job.process.send_signal(signal.SIGTERM)
        status, said = job.end()
        assert status == 128 + signal.SIGTERM and set(job.pids) == {0, 1}, said


def test_a_stopped_rank_is_not_lost():
    with Job("-np", "2", "--min-np", "1", program=CPP) as job:
        job.wait_for(r"step 10\b")
        job.kill(1, signal.SIGSTOP)
        time.sleep(2)
        job.kill(1, signal.SIGCONT)
        status, said = job.end()
    assert status == 0 and "going on" not in said, said
    assert counts(said) == (1, {1: 400})


def test_generations_leave_nothing_behind():
    done = subprocess.run([BIN / "ruedarun", "-np", "2", "--min-np", "1", sys.executable, PROGRAM.parent / "elastic_generations.py", "300"],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    first, last = [list(map(int, numbers.split())) for numbers in re.findall(r"held ([\d ]+)", done.stdout)]
    assert first[:2] == last[:2] and last[2] <= first[2] + 8, done.stdout


virtual_hosts = pytest.mark.skipif(os.geteuid() != 0, reason="virtual hosts need root")


@virtual_hosts
@pytest.mark.parametrize("victim", [0, 3])
def test_a_rank_of_another_host_is_lost(victim):
    with Job(*HOSTS, "-np", "4", "--min-np", "2", UNTIL_WORKER="4", program=CPP) as job:
        job.wait_for(r"step 10\b")
        job.kill(victim)
        job.wait_for(r"begins as rank 0 of 3 ")
        job.wait_for(r"worker 4 begins as rank 3 of 4 ")
        status, said = job.end()
    assert status == 0, said
    assert_each_once(said)


@virtual_hosts
def test_all_ranks_of_a_host_are_lost_with_its_agent():
    with Job(*HOSTS, "-np", "4", "--min-np", "2", samples=1000, program=CPP) as job:
        job.wait_for(r"step 10\b")
        os.kill(int(Path(f"/proc/{job.pids[3]}/stat").read_text().rpartition(")")[2].split()[1]), signal.SIGKILL)
        job.wait_for(r"begins as rank 0 of 2 ")
        status, said = job.end()
    assert status == 0 and "its agent" in said, said
    assert_each_once(said, samples=1000)


@virtual_hosts
def test_a_host_that_is_cut_off_ends_itself():
    """Its ranks, which could go on by themselves, end; those on the side of ruedarun go on."""
    with Job(*HOSTS, "-np", "4", "--min-np", "2", until_end=True, RUEDA_NETWORK_DEADLINE="2", program=CPP) as job:
        job.wait_for(r"step 10\b")
        cut_off = [job.pids[2], job.pids[3]]
        subprocess.run([BIN / "rueda-hosts", "of", str(job.process.pid), "link", "h1", "0", "down"], check=True, timeout=60)
        job.wait_for(r"begins as rank 0 of 2 at step [1-9]")
        for _ in range(300):
            if not any(job._lives(pid) for pid in cut_off):
                break
            time.sleep(0.1)
        assert not any(job._lives(pid) for pid in cut_off)
        status, said = job.end()
    assert status == 0 and "ruedarun: the agent on h1 has lost ruedarun, and ends its ranks" in said, said
    assert_each_once(said)
