# SPDX-License-Identifier: Apache-2.0
"""Elastic jobs on hosts that come and go: by a script that names them, by lost agents, by notices, and by the blacklist.

Names of this machine stand for hosts, as in Horovod's own tests; others are reached by a remote shell that stays on this machine."""
import functools
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import test_elastic_job
from test_elastic_job import BIN, CPP, assert_each_once, counts
from test_ruedarun import remote_shell_of_this_machine

__all__ = ["remote_shell_of_this_machine"]  # a fixture
LONG = 100_000  # samples
Job = functools.partial(test_elastic_job.Job, program=CPP)


class Hosts:
    """A script that prints the lines of a file."""

    def __init__(self, folder, *lines):
        self.list, self.script = folder / "hosts", folder / "discover.sh"
        self.name(*lines)
        self.script.write_text(f'#!/bin/sh\ncat {self.list}\ntest ! -e {folder}/fails || exit 4\n')
        self.script.chmod(0o755)
        self.fails = folder / "fails"
        self.options = ("--host-discovery-script", str(self.script))

    def name(self, *lines):
        fresh = self.list.with_suffix(".new")
        fresh.write_text("".join(f"{line}\n" for line in lines))
        fresh.rename(self.list)


class Pods:
    """A script as the MPI operator of Kubernetes writes it, which prints the pods that run. It lies in a mounted ConfigMap: a change of all its
    files is a change of one link."""

    FORMS = {"v1": ("\necho {}.train-worker:1", ""), "v2beta1": ("echo {}.train.default.svc\n", "\n")}  # a line, and the end of the first line

    def __init__(self, folder, form):
        self.folder, (self.line, self.end), self.versions = folder, self.FORMS[form], 0
        self.script = folder / "discover_hosts.sh"
        self.run()
        self.script.symlink_to("..data/discover_hosts.sh")

    def run(self, *pods):
        self.versions += 1
        version = self.folder / f"..version{self.versions}"
        version.mkdir()
        script = version / "discover_hosts.sh"
        script.write_text(f"#!/bin/sh{self.end}" + "".join(self.line.format(pod) for pod in pods))
        script.chmod(0o555)
        (self.folder / "..data.new").symlink_to(version.name)
        (self.folder / "..data.new").rename(self.folder / "..data")


@pytest.mark.parametrize("form", Pods.FORMS)
def test_the_script_of_the_mpi_operator(form, shell_here, tmp_path):
    (tmp_path / "mpi").mkdir()
    pods = Pods(tmp_path / "mpi", form)
    names = [f"train-worker-{number}" for number in range(3)]
    with Job("--host-discovery-script", pods.script, "--remote-shell", shell_here, "-np", "2", "--min-np", "1", "--max-np", "3", until_end=True) as job:
        job.wait_for(r"ruedarun: waiting for hosts: 0 of 2 ranks have a slot$")  # the launcher begins before the workers
        pods.run(*names[:2])
        job.wait_for(r"step 10\b")
        pods.run(*names)
        job.wait_for(r"joined; going on with 3 ranks$")
        job.wait_for(r"worker 2 begins as rank 2 of 3 ")
        pods.run(names[0], names[2])
        job.wait_for(r"ruedarun: the host train-worker-1\S* is to go")
        job.wait_for(r"ruedarun: worker 1 has left; going on with 2 ranks$")
        status, said = job.end()
    assert status == 0 and "killed" not in said and "Traceback" not in said, said
    assert_each_once(said, ranks=3)


@pytest.fixture(name="hosts")
def hosts_of_this_machine(tmp_path):
    return lambda *lines: Hosts(tmp_path, *lines)


def agent_of(job, worker):
    return int(Path(f"/proc/{job.pids[worker]}/stat").read_text().rpartition(")")[2].split()[1])


def test_hosts_added_and_removed(hosts):
    named = hosts("localhost:1")
    with Job(*named.options, "-np", "1", "--max-np", "3", until_end=True) as job:
        job.wait_for(r"worker 0 step 10\b")
        named.name("localhost:1", "127.0.0.1:2")
        job.wait_for(r"ruedarun: the host 127.0.0.1 has come$")
        job.wait_for(r"joined; going on with 3 ranks$")
        job.wait_for(r"worker [012] begins as rank [012] of 3 ")
        job.wait_for(r"step \d+")
        named.name("localhost:1")
        job.wait_for(r"ruedarun: the host 127.0.0.1 is to go")
        job.wait_for(r"left; going on with 1 rank$")
        job.wait_for(r"worker 0 begins as rank 0 of 1 ")
        status, said = job.end()
    assert status == 0 and "killed" not in said and "Traceback" not in said, said
    assert_each_once(said, ranks=3)


def test_a_host_that_comes_back_is_used_again(hosts):
    named = hosts("localhost:1", "127.0.0.1:1")
    with Job(*named.options, "-np", "2", "--min-np", "1", UNTIL_WORKER="2", samples=1000) as job:
        job.wait_for(r"step 10\b")
        named.name("localhost:1")
        job.wait_for(r"worker 0 begins as rank 0 of 1 ")
        named.name("localhost:1", "127.0.0.1:1")
        job.wait_for(r"worker 2 begins as rank 1 of 2 ")
        status, said = job.end()
    assert status == 0, said
    assert_each_once(said, samples=1000, ranks=2)


def test_the_oldest_host_may_leave(hosts):
    named = hosts("localhost:1", "127.0.0.1:1")
    with Job(*named.options, "-np", "2", "--min-np", "1", until_end=True) as job:
        job.wait_for(r"step 10\b")
        named.name("127.0.0.1:1")
        job.wait_for(r"ruedarun: worker 0 has left; going on with 1 rank$")
        job.wait_for(r"worker 1 begins as rank 0 of 1 at step [1-9]")
        status, said = job.end()
    assert status == 0, said
    assert_each_once(said, ranks=2)


def test_all_hosts_may_be_replaced(hosts):
    named = hosts("localhost:2")
    with Job(*named.options, "-np", "2", "--min-np", "1", until_end=True) as job:
        job.wait_for(r"step 10\b")
        named.name("127.0.0.1:2")
        job.wait_for(r"worker 2 begins as rank 0 of 2 at step [1-9]")
        status, said = job.end()
    assert status == 0 and "killed" not in said and " left; going on with" in said, said
    assert_each_once(said)


def test_an_answer_without_hosts_changes_nothing(hosts):
    named = hosts("localhost:2")
    with Job(*named.options, "-np", "2", until_end=True) as job:
        job.wait_for(r"step 10\b")
        named.name()
        job.wait_for(r"the host discovery script names no host; the hosts stay as they were$")
        status, said = job.end()
    assert status == 0 and counts(said)[1].keys() == {counts(said)[0]}, said


def test_ranks_stay_while_the_job_needs_them(hosts):
    named = hosts("localhost:1", "127.0.0.1:1")
    with Job(*named.options, "-np", "2", "--min-np", "2", UNTIL_WORKER="2", samples=1000) as job:
        job.wait_for(r"step 10\b")
        named.name("localhost:1")
        job.wait_for(r"the host 127.0.0.1 is to go")
        time.sleep(1)
        job.wait_for(r"step \d+")  # it goes on with both
        named.name("localhost:2")
        job.wait_for(r"worker 2 begins as rank 1 of 2 ")
        status, said = job.end()
    assert status == 0 and "worker 1 has left" in said and "begins as rank 0 of 1" not in said, said
    assert_each_once(said, samples=1000, ranks=2)


def test_the_start_waits_until_there_are_hosts(hosts):
    named = hosts("localhost:1")
    with Job(*named.options, "-np", "2") as job:
        job.wait_for(r"ruedarun: waiting for hosts: 1 of 2 ranks have a slot$")
        named.name("localhost:2")
        status, said = job.end()
    assert status == 0 and counts(said) == (1, {1: 400}), said


def test_min_hosts_timeout(hosts):
    with Job(*hosts("localhost:1").options, "-np", "2", "--elastic-timeout", "2") as job:
        status, said = job.end()
    assert status == 1 and "1 of 2 ranks have a slot on hosts, and no more hosts have come within 2 s" in said, said


def test_a_script_that_fails_at_once_ends_the_job(hosts):
    named = hosts("localhost:2")
    named.fails.touch()
    with Job(*named.options, "-np", "2") as job:
        status, said = job.end()
    assert status == 1 and re.search(r"ruedarun: error: the host discovery script '.*discover.sh' ended with status 4", said), said


def test_a_script_that_fails_later_changes_nothing(hosts):
    named = hosts("localhost:2")
    with Job(*named.options, "-np", "2", until_end=True) as job:
        job.wait_for(r"step 10\b")
        named.fails.touch()
        job.wait_for(r"ended with status 4; the hosts stay as they were$")
        time.sleep(2.5)
        status, said = job.end()
    assert status == 0 and said.count("the hosts stay as they were") == 1 and counts(said)[1].keys() == {counts(said)[0]}, said


def test_slots_of_hosts_without_a_number(hosts):
    with Job(*hosts("localhost").options, "-np", "2", "--slots-per-host", "2") as job:
        status, said = job.end()
    assert status == 0 and counts(said) == (1, {1: 400}), said


def test_a_signal_while_the_start_waits(hosts):
    with Job(*hosts().options, "-np", "2") as job:
        job.wait_for(r"0 of 2 ranks have a slot$")
        job.process.send_signal(signal.SIGTERM)
        status, said = job.end()
    assert status == 128 + signal.SIGTERM, said


def test_a_host_of_the_script_that_does_not_answer(hosts, tmp_path):
    shell = tmp_path / "shell"
    shell.write_text("#!/bin/sh\nexit 255\n")
    shell.chmod(0o755)
    named = hosts("localhost:1", "nowhere:1")
    with Job(*named.options, "--remote-shell", str(shell), "-np", "2", "--min-np", "1") as job:
        status, said = job.end()
    assert status == 0 and "worker 1 cannot be started: shell nowhere ended with status 255" in said, said
    assert_each_once(said, ranks=2)


def test_a_later_host_that_does_not_answer(hosts, tmp_path):
    shell = tmp_path / "shell"
    shell.write_text("#!/bin/sh\nexec sleep 1000\n")
    shell.chmod(0o755)
    named = hosts("localhost:1")
    with Job(*named.options, "--remote-shell", str(shell), "--start-timeout", "1", "-np", "1", "--max-np", "2", until_end=True) as job:
        job.wait_for(r"step 10\b")
        named.name("localhost:1", "nowhere:1")
        job.wait_for(r"ruedarun: the agent on nowhere did not come within 1 s")
        status, said = job.end()
    assert status == 0 and counts(said)[1].keys() == {counts(said)[0]}, said


def test_a_host_without_a_rank_at_the_start_takes_the_place_of_a_lost_one(shell_here):
    with Job("-H", "hosta:2,hostb:2", "--remote-shell", shell_here, "-np", "2", "--min-np", "1", UNTIL_WORKER="3", samples=1000) as job:
        job.wait_for(r"step 10\b")
        os.kill(agent_of(job, 1), signal.SIGKILL)
        status, said = job.end()
    # Both ranks were there: no worker with the state is left.
    assert status == 128 + signal.SIGKILL and "no worker is left" in said, said
    with Job("-H", "hosta:1,hostb:1,hostc:1", "--remote-shell", shell_here, "-np", "2", "--min-np", "1", UNTIL_WORKER="2", samples=1000) as job:
        job.wait_for(r"step 10\b")
        os.kill(agent_of(job, 1), signal.SIGKILL)
        job.wait_for(r"ruedarun: the host hostb is not used again: its agent has gone")
        job.wait_for(r"worker 2 begins as rank 1 of 2 ")
        status, said = job.end()
    assert status == 0, said
    assert_each_once(said, samples=1000, ranks=2)


def test_all_hosts_blacklisted(hosts):
    with Job(*hosts("localhost:2").options, "-np", "2", "--min-np", "1", "--blacklist", "host", "--elastic-timeout", "3", samples=LONG) as job:
        job.wait_for(r"step 10\b")
        job.kill(1)
        status, said = job.end()
    assert status == 128 + signal.SIGKILL and "no worker is left" in said, said
    lost, banned, ended = (said.index(words) for words in ("was killed by signal 9", "the host localhost is not used again", "rank 0 (process"))
    assert lost < banned < ended, said
    assert re.search(r"rank 0 \(process \d+ on \S+\) is ended: another one has failed on its host", said), said


def test_horovods_blacklist_leaves_the_other_hosts(hosts):
    named = hosts("localhost:1", "127.0.0.1:2")
    with Job(*named.options, "-np", "3", "--min-np", "1", "--blacklist", "host", samples=1000) as job:
        job.wait_for(r"step 10\b")
        job.kill(2)
        job.wait_for(r"worker 0 begins as rank 0 of 1 ")
        status, said = job.end()
        assert set(job.pids) == {0, 1, 2}
    assert status == 0, said
    assert_each_once(said, samples=1000, ranks=3)


def test_a_blacklisted_host_comes_back_after_its_cooldown(hosts):
    named = hosts("localhost:1", "127.0.0.1:1")
    with Job(*named.options, "-np", "2", "--min-np", "1", "--blacklist", "host", "--blacklist-cooldown-range", "1", "5",
             UNTIL_WORKER="2", samples=1000) as job:
        job.wait_for(r"step 10\b")
        job.kill(1)
        began = time.monotonic()
        job.wait_for(r"worker 2 is process")
        assert time.monotonic() - began > 1
        status, said = job.end()
    assert status == 0, said
    assert_each_once(said, samples=1000, ranks=2)


def test_a_slot_whose_process_dies_at_once_is_tried_again_after_its_cooldown():
    with Job("-np", "2", "--min-np", "1", "--blacklist-cooldown-range", "1", "5", REFUSING="2", UNTIL_WORKER="3", samples=1000) as job:
        job.wait_for(r"step 10\b")
        job.kill(1)
        job.wait_for(r"worker 2 \(process \d+ on \S+\) ended with status 3")
        job.wait_for(r"ruedarun: slot 1 of \S+ is not used for [12]\.\d s: its last worker did not take part")
        job.wait_for(r"worker 3 begins as rank 1 of 2 ")
        status, said = job.end()
    assert status == 0, said
    assert_each_once(said, samples=1000, ranks=2)


def test_the_ranks_of_a_host_leave_when_its_agent_has_notice(shell_here):
    with Job("-H", "hosta:2,hostb:2", "--remote-shell", shell_here, "-np", "4", "--min-np", "2", samples=2000) as job:
        job.wait_for(r"step 10\b")
        agent = agent_of(job, 3)
        os.kill(agent, signal.SIGTERM)
        job.wait_for(r"ruedarun: the host hostb is to go \(its agent has got SIGTERM\): its ranks leave the job$")
        job.wait_for(r"left; going on with 2 ranks$")
        job.wait_for(r"begins as rank [01] of 2 ")
        for _ in range(100):
            if not job._lives(agent):
                break
            time.sleep(0.1)
        assert not job._lives(agent)
        status, said = job.end()
    assert status == 0 and "killed" not in said and "Traceback" not in said, said
    assert_each_once(said, samples=2000)


def test_a_rank_that_leaves_and_runs_on_is_ended(hosts, tmp_path):
    program = tmp_path / "stays.py"
    program.write_text("""
import os, sys, time
import torch
import rueda.torch as hvd

print(f"worker {os.environ['RUEDA_WORKER']} is process {os.getpid()}", flush=True)
hvd.init()
state = hvd.elastic.ObjectState(steps=0)

@hvd.elastic.run
def train(state):
    print(f"begins as rank {hvd.rank()} of {hvd.size()}", flush=True)
    while hvd.size() == 2 or state.steps < 60:
        hvd.allreduce(torch.ones(1))
        time.sleep(0.05)
        state.steps += 1 if hvd.size() == 1 else 0
        state.commit()

try:
    train(state)
except SystemExit:
    time.sleep(1000)
""")
    named = hosts("localhost:1", "127.0.0.1:1")
    with Job(*named.options, "-np", "2", "--min-np", "1", "--grace", "1s", program=(sys.executable, program)) as job:
        job.wait_for(r"begins as rank 1 of 2")
        named.name("localhost:1")
        status, said = job.end()
    assert status == 0 and re.search(r"worker 1 \(process \d+ on \S+\) has left the job and runs on: it is ended", said), said


@pytest.mark.parametrize("options, words", [(("-np", "2", "-H", "localhost:2"), "leave -H"), (("-np", "2", "--virtual-hosts", "2"), "leave -H")])
def test_other_sources_of_hosts_are_refused(hosts, options, words):
    done = subprocess.run([BIN / "ruedarun", *hosts("localhost:2").options, *options, sys.executable, "-c", ""], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and words in done.stderr
