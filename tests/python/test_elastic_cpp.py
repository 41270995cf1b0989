# SPDX-License-Identifier: Apache-2.0
"""Elastic jobs of a C++ program: ranks are killed, others take their places, and training ends as if nothing had happened.

Runs tests/python/programs/elastic_training.cc. RUEDA_BIN names the folder of the programs; RUEDA_KILLS is how many ranks are killed at random."""
import os
import random
import re
import signal
import time
from pathlib import Path

import pytest
from test_elastic_job import CPP, KILLS, Job, assert_each_once, counts


def result(said):
    """The sum over the parameters of the network, the steps, and how many commits were light."""
    found = re.findall(r"sum: (\S+), steps: (\d+), light commits: (\d+)", said)
    assert len(found) == 1, said
    return float(found[0][0]), int(found[0][1]), int(found[0][2])


@pytest.fixture(scope="module")
def undisturbed():
    """The sum that two ranks reach in two epochs."""
    with Job("-np", "2", program=CPP, epochs=2, work=0) as job:
        status, said = job.end()
    assert status == 0 and counts(said) == (2, {2: 400}), said
    return result(said)[0]


def test_an_elastic_job_without_a_failure_is_as_any_other(undisturbed):
    with Job("-np", "2", "--min-np", "1", program=CPP, epochs=2, work=0) as job:
        status, said = job.end()
    assert status == 0 and "ruedarun" not in said and counts(said) == (2, {2: 400}), said
    total, steps, light = result(said)
    assert total == undisturbed and steps == 100 and light > 90, said


@pytest.mark.parametrize("victim", [0, 1])
def test_a_replaced_rank_leaves_no_trace(victim, undisturbed):
    """Two ranks at all times: the same batches, so the same parameters but for the order of sums."""
    with Job("-np", "2", "--min-np", "2", "--spares", "1", program=CPP, epochs=2, work=0.03) as job:
        job.wait_for(r"worker 2 is process")
        before = job.wait_for(r"step (\d+)")
        job.kill(victim)
        job.wait_for(rf"ruedarun: rank {victim} .* was killed by signal 9 \(Killed\); going on with 2 ranks$")
        after = job.wait_for(r"worker 2 begins as rank 1 of 2 at step (\d+)")
        status, said = job.end()
    assert status == 0 and counts(said) == (2, {2: 400}) and int(after[1]) >= int(before[1]), said
    assert result(said)[0] == pytest.approx(undisturbed, rel=1e-9, abs=1e-9), said


@pytest.mark.parametrize("victim", [0, 1])
def test_the_others_go_on_and_a_new_one_joins(victim):
    with Job("-np", "2", "--min-np", "1", program=CPP, UNTIL_WORKER="2") as job:
        job.wait_for(r"step 10\b")
        job.kill(victim)
        job.wait_for(rf"ruedarun: rank {victim} .* was killed by signal 9 \(Killed\); going on with 1 rank$")
        job.wait_for(rf"worker {1 - victim} begins as rank 0 of 1 ")
        job.wait_for(r"worker 2 begins as rank 1 of 2 at step [1-9]")
        status, said = job.end()
    assert status == 0, said
    assert_each_once(said, ranks=2)
    assert result(said)[2] > 20, said


def test_many_are_lost_one_after_another():
    chance = random.Random(time.time_ns())
    with Job("-np", "3", "--min-np", "1", program=CPP, samples=2000, epochs=2, work=0.005, UNTIL_WORKER=str(2 + KILLS)) as job:
        for _ in range(KILLS):
            job.wait_for(r"begins as rank 2 of 3")
            job.wait_for(r"step \d+")
            time.sleep(chance.random() * 0.05)
            alive = [worker for worker, pid in job.pids.items() if job._lives(pid)]
            job.kill(chance.choice(alive))
        status, said = job.end()
    assert status == 0, said
    # Where ranks come and go, samples are divided anew: at the end of an epoch, at most ranks - 1 are repeated.
    assert_each_once(said, samples=2000, ranks=3)


def test_two_are_lost_at_once():
    with Job("-np", "4", "--min-np", "2", program=CPP, UNTIL_WORKER="5") as job:
        job.wait_for(r"step 10\b")
        job.kill(0)
        job.kill(2)
        job.wait_for(r"begins as rank 0 of [23] ")
        status, said = job.end()
    assert status == 0, said
    assert_each_once(said)


def test_a_rank_is_lost_before_it_has_made_its_optimizer():
    """The others make theirs without it: what is collective in that comes in run()."""
    with Job("-np", "2", "--min-np", "1", program=CPP, DIES_EARLY="1") as job:
        job.wait_for(r"rank 1 .* was killed by signal 9")
        status, said = job.end()
    assert status == 0, said
    assert_each_once(said, ranks=2)


def test_the_job_ends_with_the_last_rank_that_has_the_state():
    with Job("-np", "1", "--min-np", "1", "--spares", "1", program=CPP, samples=100_000) as job:
        job.wait_for(r"worker 1 is process")
        job.wait_for(r"step \d+")
        job.kill(0)
        status, said = job.end()
    assert status == 128 + signal.SIGKILL and "no worker with the state of training is left" in said, said


def test_an_error_of_the_program_ends_the_job():
    with Job("-np", "2", "--min-np", "1", program=CPP, FAILS_AT="7", samples=100_000) as job:
        status, said = job.end()
    assert status == 1 and "error: this sample is broken" in said and "the job cannot go on" in said, said


def test_a_failure_that_comes_again_and_again_ends_the_job():
    with Job("-np", "2", "--min-np", "1", program=CPP, MISMATCHES_AT="7", samples=100_000) as job:
        status, said = job.end()
    assert status == 1 and "elastic::run has tried 3 times, and no commit came between the failures" in said and "mismatch" in said, said


def test_in_a_job_that_is_not_elastic_a_loss_ends_it():
    with Job("-np", "2", program=CPP, samples=100_000) as job:
        job.wait_for(r"step 10\b")
        job.kill(1)
        status, said = job.end()
    assert status == 128 + signal.SIGKILL, said
    assert "was killed by signal 9" in said and "begins as rank 0 of 1" not in said, said


def test_ranks_of_a_host_that_is_to_go_leave_without_a_loss():
    with Job("-H", "localhost:1,127.0.0.1:1", "-np", "2", "--min-np", "1", program=CPP, until_end=True) as job:
        job.wait_for(r"step 10\b")
        os.kill(int(Path(f"/proc/{job.pids[1]}/stat").read_text().rpartition(")")[2].split()[1]), signal.SIGTERM)
        job.wait_for(r"ruedarun: worker 1 has left; going on with 1 rank$")
        status, said = job.end()
    assert status == 0 and "error" not in said and "killed" not in said, said
    assert_each_once(said, ranks=2)
