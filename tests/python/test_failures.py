# SPDX-License-Identifier: Apache-2.0
"""A rank that is killed, ends or is stopped: who names it, how soon all is over, and what is left.

Runs build/bin/rank (tests/multi/rank_main.cc) through ruedarun. RUEDA_BIN names the folder of the programs;
RUEDA_KILLS is how often a rank is killed at a random moment, RUEDA_STOP_SECONDS for how long one is stopped."""
import os
import random
import re
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

BIN = Path(os.environ["RUEDA_BIN"])
KILLS = int(os.environ.get("RUEDA_KILLS", "10"))
STOP_SECONDS = float(os.environ.get("RUEDA_STOP_SECONDS", "5"))
RANKS = 3
ALL_OVER = 5  # seconds from the failure, as promised to users
MPICH_FILE = re.compile(r"/dev/shm/mpich_shm_\w+")


def fields(pid):
    """State and parent of a process; None when there is none."""
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
        return state, int(parent)
    except OSError:
        return None


def lives(pid):
    about = fields(pid)
    return about is not None and about[0] not in "ZX"


def text_of(pid, name):
    try:
        return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    except OSError:
        return ""


def mapped_by(pids):
    return {path for pid in pids for path in MPICH_FILE.findall(text_of(pid, "maps"))}


def all_pids():
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


class Job:
    """A ruedarun and what it has started, by what they are."""

    def __init__(self, mode, seconds, *options, ranks=RANKS, **settings):
        self.ranks_wanted = ranks
        self.over_mpi = settings.get("RUEDA_NETWORK") == "mpi"
        self.files_before = set(Path("/dev/shm").glob("mpich_shm_*"))
        self.process = subprocess.Popen(
            [BIN / "ruedarun", *options, "-np", str(ranks), BIN / "rank", mode, str(seconds)], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, env=dict(os.environ, **settings), start_new_session=True)
        self.seen, self.files = set(), set()
        self.pid = self.process.pid

    def below(self):
        """{pid: command} of all that lives below ruedarun."""
        parents = {pid: about[1] for pid in all_pids() if (about := fields(pid)) and about[0] not in "ZX"}
        found = [self.pid]
        for pid in found:
            found += [child for child, parent in parents.items() if parent == pid]
        self.seen |= set(found)
        self.files |= mapped_by(found)
        return {pid: text_of(pid, "comm").strip() for pid in found[1:]}

    def ranks(self):
        return {int(rank): pid for pid, name in self.below().items() if name == "rank"
                for rank in re.findall(r"(?:^|\0)RUEDA_RANK=(\d+)", text_of(pid, "environ"))}

    def wait_until_running(self):
        """All ranks have joined the job; returns {rank: pid}."""
        lines = [self.process.stdout.readline() for _ in range(self.ranks_wanted)]
        found = {int(rank): int(pid) for rank, pid in re.findall(r"rank (\d+) is process (\d+)", "".join(lines))}
        if len(found) != self.ranks_wanted:
            pytest.fail(f"not all ranks have joined: {lines}; {self.end()}")
        self.below()
        assert bool(self.files) == self.over_mpi, "MPICH maps a file that all ranks share"
        return found

    def parent(self, pid):
        return fields(pid)[1]

    def end(self, timeout=30):
        """Exit status, stderr, seconds until ruedarun had ended."""
        begin = time.monotonic()
        try:
            _, err = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.kill(self.pid, signal.SIGKILL)
            pytest.fail(f"not over after {timeout} s: {self.process.communicate()[1]}")
        return self.process.returncode, err, time.monotonic() - begin

    def check_nothing_is_left(self, seconds):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and any(map(lives, self.seen)):
            time.sleep(0.02)
        left = {pid: text_of(pid, "comm") for pid in self.seen if lives(pid)}
        assert not left, f"processes left behind: {left}"
        while time.monotonic() < deadline and any(map(os.path.exists, self.files)):
            time.sleep(0.02)
        assert not list(filter(os.path.exists, self.files)), "shared memory left behind"


def named(err, rank, pid, how):
    return re.search(rf"^ruedarun: rank {rank} \(process {pid} on \S+\) {re.escape(how)}", err, re.M)


def named_by_survivors(err, rank, pid):
    return re.findall(rf"^\[(\d)\] error: rank {rank} \(process {pid} on \S+\) is lost", err, re.M)


@pytest.mark.parametrize("network", ["auto", "mpi"])
def test_a_killed_rank_is_named_by_all(network):
    job = Job("reduces", 30, RUEDA_NETWORK=network)
    pids = job.wait_until_running()
    os.kill(pids[1], signal.SIGKILL)
    status, err, seconds = job.end()
    assert status == 128 + 9 and seconds < ALL_OVER, err
    assert named(err, 1, pids[1], "was killed by signal 9 (Killed)"), err
    assert set(named_by_survivors(err, 1, pids[1])) == {"0", "2"}, err
    assert err.count("is lost: its process was killed by signal 9 (Killed).") == 2, err
    job.check_nothing_is_left(1)


@pytest.mark.parametrize("victim", [0, 2])
def test_a_rank_killed_during_the_start_is_named_by_all(victim):
    script = f'if [ $RUEDA_RANK = {victim} ]; then sleep 0.1; kill -9 $$; fi; exec "$0"'
    begun = time.monotonic()
    done = subprocess.run([BIN / "ruedarun", "-np", "4", "/bin/sh", "-c", script, BIN / "allreduce"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 128 + 9 and f"ruedarun: rank {victim} (" in done.stderr, done.stderr
    named = re.findall(rf"^\[(\d)\] error: init: rank {victim} was killed by signal 9 \(Killed\) while the job started", done.stderr, re.M)
    assert set(named) == {"0", "1", "2", "3"} - {str(victim)}, done.stderr
    assert time.monotonic() - begun < ALL_OVER


def test_a_rank_that_exits_is_named():
    job = Job("exits", 0)
    status, err, _ = job.end()
    assert status in (1, 3), "its own, or that of one who needed it and ended sooner"
    assert "rank 1 shut down without it, while ranks 0, 2 asked for it" in err
    assert re.search(r"^ruedarun: rank \d \(process \d+ on \S+\) ended with status [13]\b", err, re.M), err
    job.check_nothing_is_left(1)


@pytest.mark.parametrize("options", [[], ["--no-page"]])
@pytest.mark.parametrize("status", [0, 3])
def test_the_launcher_names_the_cause_where_others_end_first(options, status):
    """Rank 1 leaves the job, and ends when the others have."""
    job = Job(f"leaves{status}", 1, *options)
    returned, err, _ = job.end()
    assert returned == 1, err
    lines = re.findall(r"^ruedarun: (rank .*)$", err, re.M)
    about = r"\(process \d+ on \S+\)"
    left = rf"rank [02] {about} ended with status 1 after a failed operation: .*rank 1 shut down without it, while ranks 0, 2 asked for it"
    assert re.match(left, lines[0]), err
    own = [rf"rank 1 {about} ended with status 3; it had told of no failed operation"] if status else []
    assert len(lines) == 1 + len(own) and all(map(re.fullmatch, own, lines[1:])), err
    job.check_nothing_is_left(1)


def test_a_rank_killed_at_a_random_moment():
    seed = random.randrange(1 << 30)
    chance = random.Random(seed)
    for number in range(KILLS):
        job = Job("reduces", 30, RUEDA_NETWORK=("auto", "mpi")[number % 2])
        wait, rank = chance.uniform(0, 0.8), chance.randrange(RANKS)
        begin = time.monotonic()
        while (pid := job.ranks().get(rank)) is None or time.monotonic() - begin < wait:
            assert time.monotonic() - begin < 20, f"rank {rank} does not start"
        job.below()
        os.kill(pid, signal.SIGKILL)
        status, err, seconds = job.end()
        told = f"seed {seed}, kill {number}: rank {rank} after {wait:.3f} s\n{err}"
        assert status == 128 + 9 and named(err, rank, pid, "was killed by signal 9 (Killed)"), told
        assert seconds < ALL_OVER, f"{seconds} s; {told}"
        job.check_nothing_is_left(1)
        fresh = {str(path) for path in Path("/dev/shm").glob("mpich_shm_*")} - set(map(str, job.files_before))
        assert not fresh - mapped_by(all_pids()), told


# The ways of an allreduce through shared memory, and what a Work may be doing there (Work::phase).
TIERS = {
    "one_shots": {"waiting until others have read the last ones", "waiting for the values of other ranks"},
    "staged": {"waiting until an earlier operation has left its memory", "packing tensors",
               "reducing or moving data in shared memory", "unpacking tensors"},
    "in_place": {"waiting until an earlier operation has left its memory", "waiting for the tensors of others",
                 "reducing in place", "waiting for others to reduce"},
}


def test_a_rank_killed_inside_an_allreduce():
    """Survivors name it within 2 s, and say what it did: a table of tiers and phases."""
    seed = random.randrange(1 << 30)
    chance = random.Random(seed)
    hits = {(tier, phase): 0 for tier, phases in TIERS.items() for phase in phases}
    outside, slowest = 0, 0.0
    every_phase, planned = KILLS >= 200, max(KILLS, 6)
    for number in range(2 * planned):
        tiers = list(TIERS)
        if number >= planned:  # as many again at most for phases that are rare
            tiers = [tier for tier in TIERS if every_phase and not all(hits[tier, phase] for phase in TIERS[tier])]
        if not tiers:
            break
        tier, ranks = tiers[number % len(tiers)], (2, 4)[number // 3 % 2]
        job = Job(tier, 0, ranks=ranks, RUEDA_FUSION_THRESHOLD="0", RUEDA_WORKS_IN_FLIGHT="64")
        pids = job.wait_until_running()
        wait, rank = chance.uniform(0.05, 0.4), chance.randrange(ranks)
        time.sleep(wait)
        os.kill(pids[rank], signal.SIGKILL)
        status, err, seconds = job.end()
        slowest = max(slowest, seconds)
        told = f"seed {seed}, kill {number}: {tier}, rank {rank} of {ranks} after {wait:.3f} s\n{err}"
        assert status == 128 + 9 and seconds < 2, told
        assert named(err, rank, pids[rank], "was killed by signal 9 (Killed)"), told
        others = {str(other) for other in range(ranks)} - {str(rank)}
        assert set(named_by_survivors(err, rank, pids[rank])) == others, told
        job.check_nothing_is_left(1)
        doing = re.search(r"  the background thread is (.*)", err)
        assert doing, told
        if (tier, doing[1]) in hits:
            hits[tier, doing[1]] += 1
        else:
            outside += 1
    for (tier, phase), count in sorted(hits.items()):
        print(f"{tier:10} {phase:50} {count:4}")
    print(f"{'':10} {'in no operation':50} {outside:4}\nthe slowest end came after {slowest:.2f} s")
    if every_phase:
        assert outside <= (sum(hits.values()) + outside) / 4 and all(hits.values()), hits


def test_a_stopped_rank_goes_on():
    job = Job("reduces", STOP_SECONDS + 2)
    pids = job.wait_until_running()
    time.sleep(0.3)
    os.kill(pids[1], signal.SIGSTOP)
    time.sleep(STOP_SECONDS)
    assert all(map(lives, pids.values()))
    os.kill(pids[1], signal.SIGCONT)
    status, err, _ = job.end()
    assert status == 0, err
    job.check_nothing_is_left(1)


@pytest.mark.parametrize("rank", [2, 0])
def test_a_rank_stopped_inside_an_allreduce_is_named(rank):
    """By rank 0, or where that has stopped by the others: within the stall time, and all goes on afterwards."""
    job = Job("staged", 0, RUEDA_FUSION_THRESHOLD="0", RUEDA_WORKS_IN_FLIGHT="64", RUEDA_STALL_CHECK_TIME="1")
    pids = job.wait_until_running()
    heard = []
    reader = threading.Thread(target=lambda: heard.extend(iter(job.process.stderr.readline, "")))
    reader.start()
    names_it = re.compile(rf"(?:has|have) not moved for [\d.]+ s\.\n.*?no answer from: rank {rank}\n"
                          rf"[^\n]*rank {rank}: process {pids[rank]} on [^\n]*: stopped", re.S)
    for _ in range(12):  # it may stop where no other is inside
        time.sleep(0.3)
        os.kill(pids[rank], signal.SIGSTOP)
        timeout = time.monotonic() + 4
        while not (named := names_it.search("".join(heard))) and time.monotonic() < timeout:
            time.sleep(0.1)
        os.kill(pids[rank], signal.SIGCONT)
        if named:
            break
    time.sleep(0.5)
    all_live = all(map(lives, pids.values()))
    os.kill(job.pid, signal.SIGTERM)
    reader.join(timeout=10)
    assert job.process.wait(timeout=10) == 143
    assert named and all_live, "".join(heard)
    job.check_nothing_is_left(1)


def test_a_stopped_rank_does_not_outlive_a_failure():
    job = Job("reduces", 30)
    pids = job.wait_until_running()
    os.kill(pids[0], signal.SIGSTOP)
    os.kill(pids[2], signal.SIGKILL)
    status, err, seconds = job.end()
    assert status == 128 + 9 and seconds < ALL_OVER, err
    job.check_nothing_is_left(1)
