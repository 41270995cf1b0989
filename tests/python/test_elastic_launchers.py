# SPDX-License-Identifier: Apache-2.0
"""Elastic scripts that ruedarun has not started: torchrun starts them again, with the last commit; others end with words; one process goes alone.

Runs tests/python/programs/elastic_sums.py."""
import contextlib
import os
import pwd
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hand_started import BIN, CLEAN, free_port, mpiexec
from hand_started import Job as Ranks
from test_elastic_job import PROGRAM, Job, assert_each_once, counts

from rueda.common import keeper

assert BIN  # RUEDA_BIN is set
FULL = pytest.mark.full("torch")
SHARED_FILES = Path("/dev/shm")


def shared_files():
    return {path.name for path in SHARED_FILES.iterdir()}


def used_files():
    """Those that a process has mapped or open."""
    used = set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            used |= set(re.findall(r" /dev/shm/(\S+)", (process / "maps").read_text()))
        with contextlib.suppress(OSError):
            used |= {Path(os.readlink(each)).name for each in (process / "fd").iterdir() if os.readlink(each).startswith("/dev/shm/")}
    return used


def is_nothing_left(before):
    """Other tests may run, whose files come and go."""
    return not ((shared_files() - before - used_files()) & shared_files())


def settings(**more):
    return {"PYTHONPATH": os.environ.get("PYTHONPATH", ""), "OMP_NUM_THREADS": "1", **more}


class Program(Job):
    """A command that runs elastic_sums.py. At the end it is killed, and then the ranks that it has left."""

    def __init__(self, *command, samples=400, epochs=1, work=0.01, **more):
        self._start([*command, PROGRAM, samples, epochs, work], settings(**more))

    def __exit__(self, *error):
        for pid in [self.process.pid, *self.pids.values()]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        super().__exit__(*error)


class Agent(Program):
    """One of torchrun's: of one rank, in a job of so many nodes as come."""

    RENDEZVOUS = "join_timeout=120,keep_alive_interval=2,keep_alive_max_attempt=3"

    def __init__(self, port, address, last_call, restarts=3, hosts_store=True, **more):
        super().__init__(sys.executable, "-m", "torch.distributed.run", "--nnodes=1:2", "--nproc-per-node=1", f"--max-restarts={restarts}",
                         "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}", f"--local-addr={address}",
                         f"--rdzv-conf={self.RENDEZVOUS},last_call_timeout={last_call},is_host={int(hosts_store)}", **more)

    def kill_all(self):
        """As when the node fails."""
        os.kill(self.process.pid, signal.SIGKILL)
        for pid in self.pids.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def torchrun(restarts, **more):
    return Program(sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", f"--max-restarts={restarts}", "--rdzv-backend=c10d",
                   f"--rdzv-endpoint=127.0.0.1:{free_port()}", **more)


def keepers(launcher):
    return [line for line in Path("/proc/net/unix").read_text().splitlines() if f"@rueda-keeper-{os.geteuid()}-{launcher}-" in line]


def wait_until(condition):
    for _ in range(200):
        if condition():
            return
        time.sleep(0.05)
    pytest.fail("it does not become true")


def wait_for_the_next_start(job):
    """The commit that a rank has kept is the one from which the next ones go on."""
    kept = job.wait_for(r"rueda: rank \d: has kept commit (\d+) for the next start")[1]
    assert job.wait_for(r"rueda: rank \d: goes on from commit (\d+), which was kept for this start")[1] == kept


@pytest.mark.parametrize("victim", [0, pytest.param(1, marks=FULL)])
def test_torchrun_starts_all_again_and_training_goes_on(victim):
    before = shared_files()
    with torchrun(restarts=2) as job:
        job.wait_for(r"step 10\b")
        job.kill(victim)
        job.wait_for(rf"rueda: rank {1 - victim}: .*rank {victim} .*is lost")
        job.wait_for(r"Training cannot go on with the ranks that are left: torchrun starts all of them again \(.*so far: 0, its --max-restarts: 2\)")
        wait_for_the_next_start(job)
        job.wait_for(r"begins as rank 0 of 2 at step [1-9]")
        wait_until(lambda: not keepers(job.process.pid))
        status, said = job.end()
    assert status == 0, said
    assert_each_once(said, ranks=2)
    wait_until(lambda: is_nothing_left(before))


@FULL
def test_two_failures_of_a_job_of_torchruns():
    with torchrun(restarts=2, samples=800, LOADERS="2") as job:  # their children keep connections of killed ranks open
        for victim in (1, 0):
            job.wait_for(r"begins as rank 1 of 2")
            job.wait_for(r"step \d+")
            job.kill(victim)
            wait_for_the_next_start(job)
        status, said = job.end()
    assert status == 0, said
    assert_each_once(said, samples=800, ranks=2)


def test_torchrun_without_restarts():
    with torchrun(restarts=0, samples=100_000) as job:
        agent = job.process.pid
        job.wait_for(r"step 10\b")
        job.kill(1)
        status, said = job.end()
    assert status != 0 and "rank 1" in said and "is lost" in said, said
    assert "torchrun --max-restarts=0 does not start them again for a failure on this node. Raise that, or use ruedarun --min-np." in said, said
    wait_until(lambda: not keepers(agent))  # what was kept has ended with the agent


def test_a_signal_to_torchrun_ends_the_job():
    with torchrun(restarts=3, samples=100_000) as job:
        agent = job.process.pid
        job.wait_for(r"step 10\b")
        job.process.send_signal(signal.SIGTERM)
        status, said = job.end()
    assert status != 0 and "goes on from commit" not in said, said
    wait_until(lambda: not keepers(agent))


@pytest.mark.parametrize("late_is_first", [False, pytest.param(True, marks=FULL)])
def test_a_node_of_torchruns_comes_late(late_is_first):
    """torchrun numbers nodes by their addresses. With the store that its agents share by default, torch 2.11 gives a late one no MASTER_ADDR."""
    addresses = ["127.0.0.1", "127.0.0.2"]
    more = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", "RUEDA_SECRET": "x", "LOADERS": "1"}
    port, late = free_port(), 0 if late_is_first else 1
    with Agent(port, addresses[1 - late], 1, UNTIL_WORKER="1", **more) as first:
        first.wait_for(r"worker 0 begins as rank 0 of 1 at step 0")
        first.wait_for(r"step 10\b")
        with Agent(port, addresses[late], 1, hosts_store=False, UNTIL_WORKER="1", **more) as second:
            wait_for_the_next_start(first)
            first.wait_for(rf"worker {1 - late} begins as rank {1 - late} of 2 at step [1-9]")
            second.wait_for(rf"worker {late} begins as rank {late} of 2 at step [1-9]")
            ends = [second.end(), first.end()]
    said = ends[0][1] + ends[1][1]
    assert [status for status, _ in ends] == [0, 0], said
    assert_each_once(said, ranks=2)


def test_a_node_of_torchruns_is_lost():
    port = free_port()
    with Agent(port, "127.0.0.1", 20, samples=2000) as first, Agent(port, "127.0.0.2", 20, hosts_store=False, samples=2000) as second:
        second.wait_for(r"worker 1 is process")
        first.wait_for(r"step 10\b")
        second.kill_all()
        first.wait_for(r"rueda: rank 0: .*rank 1 .*is lost")
        wait_for_the_next_start(first)
        first.wait_for(r"worker 0 begins as rank 0 of 1 at step [1-9]")
        status, said = first.end()
    assert status == 0, said
    assert_each_once(said, samples=2000, ranks=2)


@FULL
def test_a_failure_counts_on_its_node_only():
    """The other node, which has no restart, is asked to end before its rank fails."""
    port = free_port()
    with Agent(port, "127.0.0.1", 20, restarts=0) as first, Agent(port, "127.0.0.2", 20, hosts_store=False) as second:
        second.wait_for(r"worker 1 is process")
        first.wait_for(r"step 10\b")
        second.kill(1)
        first.wait_for(r"rueda: rank 0: .*rank 1 .*is lost")
        wait_for_the_next_start(first)
        first.wait_for(r"worker 0 begins as rank 0 of 2 at step [1-9]")
        ends = [second.end(), first.end()]
    assert [status for status, _ in ends] == [0, 0], ends
    assert_each_once(ends[1][1], ranks=2)


STALE = """
import os, time
import rueda.torch as hvd
rank, first_start = os.environ["RANK"], os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
if first_start and rank == "1":
    time.sleep(2)
    os._exit(3)
if not first_start and rank == "0":
    time.sleep(2)
begin = time.monotonic()
hvd.init()
print(f"rank {hvd.rank()} of {hvd.size()} after {time.monotonic() - begin:.1f} s", flush=True)
"""


def test_an_address_of_the_start_before_is_not_used(tmp_path):
    """Rank 0 has left its address in torchrun's store, and is ended. In the next start rank 1 finds it, before rank 0 has left another."""
    script = tmp_path / "script.py"
    script.write_text(STALE)
    done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--max-restarts=1", "--rdzv-backend=c10d",
                           f"--rdzv-endpoint=127.0.0.1:{free_port()}", script], env=CLEAN | settings(), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and sorted(re.findall(r"rank (\d) of 2 after", done.stdout)) == ["0", "1"], done.stdout + done.stderr


def by_hand(method, folder):
    if method == "folder":
        return [{"RUEDA_BOOTSTRAP": f"file:{folder / 'job'}", "RUEDA_RANK": str(rank), "RUEDA_SIZE": "3"} for rank in range(3)]
    address = f"127.0.0.1:{free_port()}"
    if method == "store":
        return [{"RUEDA_STORE": address, "RUEDA_RANK": str(rank), "RUEDA_SIZE": "3"} for rank in range(3)]
    host, _, port = address.partition(":")
    return [{"MASTER_ADDR": host, "MASTER_PORT": port, "RANK": str(rank), "WORLD_SIZE": "3"} for rank in range(3)]


@pytest.mark.parametrize("method, victim", [("store", 0), ("torch", 2), *(pytest.param(*each, marks=FULL) for each in
                                                                          [("store", 2), ("torch", 0), ("folder", 0), ("folder", 2)])])
def test_a_job_by_hand_ends_with_words(method, victim, tmp_path):
    command = [sys.executable, PROGRAM, "100000", "1", "0.01"]
    with Ranks(command, [environment | settings() for environment in by_hand(method, tmp_path)]) as job:
        while "step 10\n" not in (line := job.ranks[1].stdout.readline()):
            assert line, job.ranks[1].communicate(timeout=60)
        job.ranks[victim].kill()
        killed = time.monotonic()
        for rank, (status, _, err) in enumerate(job.results(60)):
            if rank != victim:
                assert status == 1 and re.search(rf"HorovodInternalError: .*rank {victim} .*is lost", err), err
                assert "only an elastic job can, which ruedarun --min-np starts. Start this one again, from a checkpoint." in err, err
        assert time.monotonic() - killed < 20


def test_mpiexec_ends_a_job_that_has_lost_a_rank():
    with Program(mpiexec(), "-n", "2", sys.executable, samples=100_000) as job:
        job.wait_for(r"step 10\b")
        job.kill(1)
        status, said = job.end()
    assert status != 0, said


def test_one_process_alone():
    done = subprocess.run([sys.executable, PROGRAM, "40", "2", "0"], env=CLEAN | settings(), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and counts(done.stdout) == (2, {2: 40}), done.stdout + done.stderr


@pytest.fixture(name="launcher")
def process_that_stands_for_a_launcher():
    process = subprocess.Popen(["sleep", "1000"])
    yield process
    process.kill()
    process.wait()
    wait_until(lambda: not keepers(process.pid))


def keep(launcher, label, data):
    return keeper.keep(launcher.pid, label, lambda file: file.write(data))


def test_what_is_kept_stays_until_it_is_released(launcher):
    assert keeper.find(launcher.pid) is None
    assert keep(launcher, [1, 2.5, 3], b"state" * 100_000)
    assert not keep(launcher, [4], b"another")
    for _ in range(2):  # the first process dies before it has done anything
        kept = keeper.find(launcher.pid)
        assert kept.label == [1, 2.5, 3] and kept.file.read() == b"state" * 100_000
        kept.close()
    keeper.find(launcher.pid).release()
    assert not keepers(launcher.pid) and keeper.find(launcher.pid) is None
    assert keep(launcher, [4], b"another")
    assert keeper.find(launcher.pid).file.read() == b"another"


def test_a_process_that_dies_while_it_writes_keeps_nothing(launcher):
    def fail(file):
        file.write(b"half of it")
        raise MemoryError

    with pytest.raises(MemoryError):
        keeper.keep(launcher.pid, [], fail)
    assert keeper.find(launcher.pid) is None and keep(launcher, [], b"whole")


@pytest.mark.skipif(os.geteuid() != 0, reason="it needs another user")
def test_another_user_gets_nothing(launcher):
    assert keep(launcher, [1], b"state")
    address = keeper._address_of(launcher.pid)
    child = os.fork()
    if child == 0:
        os.setuid(pwd.getpwnam("nobody").pw_uid)
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.settimeout(20)
        connection.connect(address)
        os._exit(0 if connection.recv(100) == b"" else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert keeper.find(launcher.pid).label == [1]
