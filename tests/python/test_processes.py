# SPDX-License-Identifier: Apache-2.0
"""What happens to a job of real processes: idle, late, killed, leaving, differing ranks.

Runs build/bin/rank (tests/multi/rank_main.cc) through ruedarun. RUEDA_BIN names the folder of the programs.
"""
import os
import re
import subprocess
import time
from pathlib import Path

import pytest

BIN = Path(os.environ["RUEDA_BIN"])


def run(ranks, mode, *arguments, timeout=60, **settings):
    """Runs one job; returns (exit status, stdout, stderr, seconds). The job is ended by its own process id."""
    begin = time.monotonic()
    job = subprocess.Popen([BIN / "ruedarun", "-np", str(ranks), BIN / "rank", mode, *map(str, arguments)],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ, **settings))
    try:
        out, err = job.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        job.terminate()
        out, err = job.communicate(timeout=20)
        pytest.fail(f"{mode}: not over after {timeout} s\n{out}\n{err}")
    return job.returncode, out, err, time.monotonic() - begin


def processes_of(out):
    return [int(pid) for pid in re.findall(r"is process (\d+)", out)]


def all_gone(pids):
    deadline = time.monotonic() + 3
    while time.monotonic() < deadline:
        if not [pid for pid in pids if Path(f"/proc/{pid}").exists()]:
            return True
        time.sleep(0.05)
    return False


def shares(out, what):
    return [float(share) for share in re.findall(what + r": rank \d+ used ([\d.]+) % of a core", out)]


def test_an_idle_rank_uses_under_one_percent_of_a_core():
    status, out, err, _ = run(2, "idle", 10)
    assert status == 0, err
    assert len(shares(out, "idle")) == 2
    assert max(shares(out, "idle")) < 1.0, out


def test_waiting_for_a_late_peer_uses_at_most_a_tenth_of_a_core():
    status, out, err, _ = run(2, "late", 5)
    assert status == 0, err
    assert max(shares(out, "waiting")) <= 10.0, out


@pytest.mark.parametrize("mode", ["killed", "killed_small", "exits", "vanishes", "exits_inside"])
def test_a_rank_that_ends_in_the_middle_ends_the_job(mode):
    status, out, err, _ = run(3, mode, timeout=60)
    seconds = time.time() - float(re.search(r"ends at ([\d.]+)", out)[1])
    assert status != 0
    assert "Abort(" not in err and "terminate called" not in err, err
    assert seconds < 5, f"{seconds} s\n{err}"
    pids = processes_of(out)
    assert len(pids) == 3
    assert all_gone(pids), f"left behind: {pids}"


def test_a_stall_is_reported_once_with_what_the_late_rank_does():
    status, out, err, _ = run(3, "late", 4, RUEDA_STALL_CHECK_TIME="1")
    assert status == 0, err
    assert err.count("stalled: allreduce 'late' is not complete after") == 1
    assert "waiting: ranks 0-1" in err and "not submitted by: rank 2" in err
    late = processes_of(out[out.index("rank 2 is"):])[0]
    assert re.search(rf"rank 2: process {late} on \S+: last completed barrier 'barrier.0' [\d.]+ s ago; has nothing in flight", err)


def test_a_stopped_rank_is_named_as_silent():
    status, out, err, _ = run(2, "stopped", 4, RUEDA_STALL_CHECK_TIME="1")
    assert status == 0, err
    assert "no answer from: rank 1" in err and "stopped, or stuck in a call" in err


def test_a_stall_may_end_the_job_on_all_ranks():
    status, _, err, seconds = run(2, "late", 30, RUEDA_STALL_CHECK_TIME="0.5", RUEDA_STALL_SHUTDOWN_TIME="2")
    assert status == 1
    assert seconds < 8
    assert "the job ends (RUEDA_STALL_SHUTDOWN_TIME)" in err


def test_what_a_lost_rank_did_last_is_told_by_a_neighbour():
    _, _, err, _ = run(2, "stuck", RUEDA_WATCHDOG_TIME="2")
    assert "was lost; what it did last:" in err
    assert err.count("allgather 'rows', moving data") == 2  # of itself, and of its neighbour


def test_a_rank_that_returns_from_main_is_named_to_those_who_need_it():
    status, _, err, _ = run(3, "returns")
    assert status != 0
    assert "allreduce 'needed': rank 1 shut down without it, while ranks 0, 2 asked for it" in err


def test_differing_shapes_are_an_error_on_every_rank():
    status, _, err, _ = run(2, "shapes")
    assert status != 0
    words = re.findall(r"error: (allreduce 'layer.weight': the ranks differ in shape: .*)", err)
    assert len(words) >= 1
    assert set(words) == {"allreduce 'layer.weight': the ranks differ in shape: rank 0 asked for [10], rank 1 for [11]. "
                          "Submit 'layer.weight' with the same shape on every rank, or under different names."}


@pytest.mark.parametrize("ranks, shm", [(2, 1), (3, 0), (4, 1)])
def test_an_allocation_that_fails_on_one_rank_fails_one_operation_on_all(ranks, shm):
    status, out, err, _ = run(ranks, "fails_to_allocate", RUEDA_SHM=str(shm))
    assert status == 0, err
    assert out.count("all well") == ranks, out
    told = re.findall(r"(round \d+: .*)", out)
    assert len(told) == 40 * ranks and len(set(told)) == 40, "all ranks hear the same words"
    for number, words in re.findall(r"round (\d+): (.*)", out):
        assert f"'rows{number}' failed on rank {int(number) % ranks} (process " in words
        assert words.count("no memory today") == 1 and "submit it again" in words


def test_a_forked_child_is_told_and_leaves_the_job_alone():
    status, out, err, _ = run(2, "forks")
    assert status == 0, err
    assert out.count("was forked from one that uses Rueda") == 6
    assert all(f"child of rank {rank} of 2" in out for rank in range(2))


def test_a_rank_that_never_calls_init_does_not_hang_the_others():
    for network, words in (("auto", "init: rank 1 of 2 did not come within 1 s. Start every rank"),
                           ("mpi", "init: rank 0 waited 1 s in vain: MPI begins when every rank of the job has called init().")):
        status, out, err, seconds = run(2, "absent", 30, RUEDA_START_TIMEOUT="1", RUEDA_NETWORK=network)
        assert status == 1
        assert seconds < 8, "twice the timeout, and the 3 s that the last rank has"
        assert f"first: {words}" in out and f"error: {words}" in err


@pytest.mark.parametrize("network", ["auto", "mpi"])
def test_init_may_be_tried_again_when_a_rank_was_late(network):
    status, out, err, _ = run(2, "absent", 1.5, RUEDA_START_TIMEOUT="1", RUEDA_NETWORK=network)
    assert status == 0, err
    assert out.count("first: ") == 1
    assert len(processes_of(out)) == 2


@pytest.mark.parametrize("ranks", [2, 4])
def test_init_and_shutdown_may_alternate(ranks):
    status, _, err, _ = run(ranks, "restarts")
    assert status == 0, err


def test_a_stuck_coordinator_ends_its_process_with_a_report():
    status, _, err, seconds = run(2, "stuck", RUEDA_WATCHDOG_TIME="2")
    assert status == 70, err
    assert seconds < 10
    assert "rank 1 of 2 (process" in err and "the background thread does not move" in err
    assert "allgather 'rows', moving data" in err
    assert re.search(r"error: rank 1 of 2 .*the background thread does not move", err), "who waited was told"


def test_jobs_over_mpi_do_not_meet():
    """MPICH names its shared memory by the name that PMI gives to a job."""
    jobs = [subprocess.Popen([BIN / "ruedarun", "-np", "2", BIN / "conformance", "barrier"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             text=True, env={**os.environ, "RUEDA_NETWORK": "mpi"}) for _ in range(3)]
    for said, status in [(job.communicate(timeout=100)[0], job.returncode) for job in jobs]:
        assert status == 0, said


def test_a_programs_own_mpi_is_adopted_and_may_be_finalised_first():
    done = run_adopt("multiple", ranks=3)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("rueda 3, mpi 3") == 3


def run_adopt(mode, ranks=2, **settings):
    return subprocess.run([BIN / "ruedarun", "-np", str(ranks), BIN / "adopt", mode], capture_output=True, text=True,
                          timeout=60, env=dict(os.environ, **settings))


def test_a_program_may_finalise_the_mpi_that_rueda_began():
    done = run_adopt("begun", ranks=3, RUEDA_BOOTSTRAP="mpi")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("rueda 3, mpi 3") == 3
    assert done.stderr.count("error: The program has finalised MPI already.") == 3  # of the init() after it


def test_a_program_may_finalise_its_mpi_after_an_init_that_timed_out():
    done = run_adopt("late", RUEDA_START_TIMEOUT="0.5", RUEDA_BOOTSTRAP="mpi")
    assert done.returncode == 1, done.stderr
    assert "error: init: rank 0 waited 0.5 s in vain" in done.stderr


def test_mpi_with_too_low_a_thread_level_is_refused_with_both_levels():
    done = run_adopt("single")
    assert done.returncode == 1
    assert "MPI was initialised by the program with MPI_THREAD_SINGLE, but Rueda's background thread needs " in done.stderr
    assert "MPI_THREAD_MULTIPLE. Ask for that level in MPI_Init_thread" in done.stderr


def test_without_a_launcher_there_is_one_rank():
    done = subprocess.run([BIN / "allreduce"], capture_output=True, text=True, timeout=30, check=True)
    assert "rank 0 of 1" in done.stdout


def test_a_bad_setting_is_named():
    environment = dict(os.environ, RUEDA_CYCLE_TIME="fast")
    done = subprocess.run([BIN / "allreduce"], capture_output=True, text=True, timeout=30, env=environment)
    assert done.returncode == 1
    assert "error: RUEDA_CYCLE_TIME=fast: not a legal value; it must be milliseconds, 0 to 10000" in done.stderr
