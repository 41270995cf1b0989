# SPDX-License-Identifier: Apache-2.0
"""ruedarun and its agents, killed at any moment; and strangers at the doors of ruedarun."""

import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from test_failures import ALL_OVER, BIN, KILLS, RANKS, Job, all_pids, fields, lives, named, named_by_survivors, text_of
from test_ruedarun import remote_shell_of_this_machine

__all__ = ["remote_shell_of_this_machine"]  # a fixture


@pytest.mark.parametrize("network", ["auto", "mpi"])
@pytest.mark.parametrize("mode", ["reduces", "idle"])
def test_a_killed_ruedarun_leaves_nothing(mode, network):
    job = Job(mode, 30, RUEDA_NETWORK=network)
    job.wait_until_running()
    job.process.kill()
    job.process.wait()
    job.check_nothing_is_left(ALL_OVER)


@pytest.mark.parametrize("network", ["auto", "mpi"])
def test_a_killed_agent_is_named_with_its_ranks(network):
    job = Job("reduces", 30, RUEDA_NETWORK=network)
    pids = job.wait_until_running()
    agent = job.parent(pids[1])
    os.kill(agent, signal.SIGKILL)
    status, err, seconds = job.end()
    assert status == 128 + 9 and seconds < ALL_OVER, err
    for rank in range(RANKS):
        assert named(err, rank, pids[rank], f"was killed by signal 9 (Killed): its agent (process {agent}) has gone"), err
    job.check_nothing_is_left(1)


def test_a_killed_agent_of_one_host_is_named_by_the_others(shell_here):
    job = Job("reduces", 30, "-H", "hosta:1,hostb:2", "--remote-shell", shell_here)
    pids = job.wait_until_running()
    agent = job.parent(pids[0])
    os.kill(agent, signal.SIGKILL)
    status, err, seconds = job.end()
    assert status == 128 + 9 and seconds < ALL_OVER, err
    assert named(err, 0, pids[0], f"was killed by signal 9 (Killed): its agent (process {agent}) has gone"), err
    assert set(named_by_survivors(err, 0, pids[0])) == {"1", "2"}, err
    job.check_nothing_is_left(1)


def test_without_its_janitor_a_job_goes_on():
    job = Job("reduces", 2)
    pids = job.wait_until_running()
    janitor = job.parent(job.parent(pids[0]))
    assert text_of(janitor, "comm").strip() == "rueda-janitor"
    os.kill(janitor, signal.SIGKILL)
    status, err, _ = job.end()
    assert status == 0, err
    job.check_nothing_is_left(1)


FAMILY = """
import os, sys, time
def stay():
    open(os.path.join(sys.argv[1], str(os.getpid())), "w").close()
    time.sleep(60)
if os.fork() == 0:
    stay()
if os.fork() == 0:
    os.setsid()
    stay()
if os.fork() == 0:  # the parent of this one's child ends
    os.setsid()
    if os.fork() == 0:
        stay()
    os._exit(0)
stay()
"""


def test_nothing_outlives_ruedarun_and_its_agents_killed_together(tmp_path):
    """Also what has left its session, its parent and its process group behind."""
    process = subprocess.Popen([BIN / "ruedarun", "-np", "2", "/bin/sh", "-c", '"$0" -c "$1" "$2"; true', sys.executable, FAMILY, tmp_path],
                               stdout=subprocess.DEVNULL, start_new_session=True)
    deadline = time.monotonic() + 20
    while len(list(tmp_path.iterdir())) < 8 and time.monotonic() < deadline:
        time.sleep(0.02)
    processes = [int(path.name) for path in tmp_path.iterdir()]
    assert len(processes) == 8 and all(map(lives, processes))
    for pid in all_pids():  # as `killall -9 ruedarun` finds them, and its agents
        if text_of(pid, "comm").strip() in ("ruedarun", "rueda-agent") and below_pid(pid, process.pid):
            os.kill(pid, signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 2
    while any(map(lives, processes)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(map(lives, processes))


def below_pid(pid, ancestor):
    while pid > 1:
        if pid == ancestor:
            return True
        about = fields(pid)
        pid = about[1] if about else 0
    return False


def listening(*pids):
    """{port: address} of TCP sockets of these processes that listen."""
    inodes = {os.readlink(path) for pid in pids for path in Path(f"/proc/{pid}/fd").iterdir() if path.is_symlink()}
    lines = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    return {int(line[1].rsplit(":")[1], 16): line[1].rsplit(":")[0] for line in lines
            if line[3] == "0A" and f"socket:[{line[9]}]" in inodes}


@pytest.mark.parametrize("options, ports", [((), 1), (("--no-page",), 0)])
def test_a_job_of_one_host_listens_on_loopback_alone(options, ports):
    job = Job("idle", 3, *options)
    job.wait_until_running()
    everybody = [job.pid, *job.below()]
    assert all(address == "0100007F" for address in listening(*everybody).values())
    assert len(listening(job.pid)) == ports, "its agent has come by a pair of sockets"
    assert job.end()[0] == 0


def test_ruedarun_lets_nobody_in_without_the_key(tmp_path):
    """While an agent is on its way; afterwards it does not listen any more."""
    slow = tmp_path / "shell"
    slow.write_text(f'#!/bin/sh\nshift\nwhile [ ! -e {tmp_path}/go ]; do sleep 0.02; done\nexec /bin/sh -c "$*"\n')
    slow.chmod(0o755)
    job = Job("idle", 3, "--no-page", "-H", "localhost:2,hostb:1", "--remote-shell", str(slow))
    deadline = time.monotonic() + 20
    while not listening(job.pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    (port, _), = listening(job.pid).items()
    silent = socket.create_connection(("127.0.0.1", port))
    for garbage in (b"\xff" * 4096, b"\x04\0\0\0" * 100, b"\x15\0\0\0\x00" + b"\0" * 20 + b"\x21\0\0\0\x02" + b"\0" * 32):
        with socket.create_connection(("127.0.0.1", port)) as stranger:
            stranger.settimeout(10)
            stranger.sendall(garbage)
            try:
                while stranger.recv(4096):
                    pass
            except ConnectionResetError:
                pass
    silent.settimeout(10)
    assert silent.recv(1) == b"", "whoever says nothing is dropped, too"
    (tmp_path / "go").touch()
    job.wait_until_running()
    assert not listening(job.pid)
    everything = "".join(text_of(pid, "cmdline") + text_of(pid, "environ") for pid in job.below())
    assert "rueda-agent-" not in everything, "the key stands in no command line and in no environment"
    status, err, _ = job.end()
    assert status == 0, err


class Heard:
    """The lines of a stream, each with the time at which it came."""

    def __init__(self, stream):
        self.lines = []
        self.thread = threading.Thread(target=self.read, args=(stream,))
        self.thread.start()

    def read(self, stream):
        for line in iter(stream.readline, ""):
            self.lines.append((time.monotonic(), line))

    def first(self, words):
        """When a line with these words came, and all lines."""
        self.thread.join(timeout=20)
        text = "".join(line for _, line in self.lines)
        return next((when for when, line in self.lines if re.search(words, line)), None), text


def kinds_of(job):
    """{kind: processes} of those that may be killed."""
    names = job.below()
    agents = [pid for pid, name in names.items() if name == "rueda-agent" and (about := fields(pid)) and text_of(about[1], "comm").strip() == "rueda-janitor"]
    ranks = [pid for pid in names if (about := fields(pid)) and about[1] in agents]
    return {"rank": ranks, "agent": agents, "ruedarun": [job.pid]}


@pytest.mark.parametrize("hosts, limit", [(0, 0.3), pytest.param(4, 2.0, marks=pytest.mark.skipif(os.geteuid() != 0, reason="virtual hosts need root"))])
def test_any_process_killed_at_any_moment_is_named_and_nothing_is_left(hosts, limit):
    """Ranks, agents and ruedarun, from the start of a job to its end. The time limit is doubled where tests run side by side."""
    seed = random.randrange(1 << 30)
    chance = random.Random(seed)
    options = ("--virtual-hosts", str(hosts)) if hosts else ()
    counts, slowest = {}, 0.0
    for number in range(KILLS):
        job = Job("reduces", 0.3, *options, ranks=4)
        out, err = Heard(job.process.stdout), Heard(job.process.stderr)
        while hosts and not kinds_of(job)["agent"] and job.process.poll() is None:
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 0.5))
        kind = chance.choice(("rank", "agent", "ruedarun"))
        victims = kinds_of(job)[kind]
        victim = chance.choice(victims) if victims else job.pid
        kind = kind if victims else "ruedarun"
        begin = time.monotonic()
        try:
            os.kill(victim, signal.SIGKILL)
        except ProcessLookupError:
            kind = "none"
        words = {"rank": rf"^ruedarun: rank \d+ \(process {victim} on \S+\) was killed by signal 9",
                 "agent": rf"its agent \(process {victim}\) has gone|^ruedarun: .*agent.* did not start"}.get(kind)
        status = job.process.wait(timeout=20)
        ended = time.monotonic() - begin
        when, text = err.first(words or "$^")
        told = f"seed {seed}, kill {number}: {kind} {victim}, {status} after {ended:.2f} s\n{text}"
        if status == 0:  # it was over before, or had ended well already
            kind = "over"
        elif words:
            assert when is not None, told
            slowest = max(slowest, when - begin)
            assert when - begin < limit * (2 if "CI" in os.environ else 1), told
            assert status == 137 or kind == "agent", told
        job.check_nothing_is_left(2)
        out.first("$^")
        counts[kind] = counts.get(kind, 0) + 1
    print(f"{counts}; the slowest was named after {slowest:.3f} s")
