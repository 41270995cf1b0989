# SPDX-License-Identifier: Apache-2.0
"""Elastic jobs with a sharded optimizer or model: ranks are killed with their parts of it, and training ends as if nothing had happened.

Runs tests/python/programs/elastic_training.cc and elastic_sharded.py. RUEDA_BIN names the folder of the programs."""
import signal
import sys
from pathlib import Path

import pytest
from test_elastic_cpp import result
from test_elastic_job import BIN, Job, assert_each_once, counts, virtual_hosts

PROGRAMS = {"c++": [BIN / "elastic_training"], "python": [sys.executable, Path(__file__).parent / "programs" / "elastic_sharded.py"],
            "model": [BIN / "elastic_training"], "gathered": [BIN / "elastic_training"]}
FULL = pytest.mark.full("torch")
MAIN_PROGRAMS = [program if program in ("c++", "model") else pytest.param(program, marks=FULL) for program in PROGRAMS]
SETTINGS = {"model": {"SHARDED": "model"}, "gathered": {"SHARDED": "model", "GATHERED": "1"}}


def job(program, *options, **settings):
    return Job(*options, program=PROGRAMS[program], **SETTINGS.get(program, {"SHARDED": "1"}), **settings)


_sums = {}


def undisturbed(program):
    """The sum of parameters that two ranks reach in two epochs, without a failure."""
    if program not in _sums:
        with job(program, "-np", "2", epochs=2, work=0) as alone:
            status, said = alone.end()
        assert status == 0 and counts(said) == (2, {2: 400}), said
        _sums[program] = result(said)[0]
    return _sums[program]


@pytest.mark.parametrize("program", PROGRAMS)
def test_an_elastic_job_without_a_failure_is_as_any_other(program):
    with job(program, "-np", "2", "--min-np", "1", epochs=2, work=0) as elastic:
        status, said = elastic.end()
    assert status == 0 and counts(said) == (2, {2: 400}), said
    total, steps, light = result(said)
    assert total == undisturbed(program) and steps == 100 and light > 90, said


@pytest.mark.parametrize("victim", [0, pytest.param(1, marks=FULL)])
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_replaced_rank_leaves_no_trace(program, victim):
    with job(program, "-np", "2", "--min-np", "2", "--spares", "1", epochs=2, work=0.03) as elastic:
        elastic.wait_for(r"worker 2 is process")
        elastic.wait_for(r"step (\d+)")
        elastic.kill(victim)
        elastic.wait_for(r"worker 2 begins as rank 1 of 2 at step [1-9]")
        status, said = elastic.end()
    assert status == 0 and counts(said) == (2, {2: 400}), said
    assert result(said)[0] == pytest.approx(undisturbed(program), rel=1e-9, abs=1e-9), said


@pytest.mark.parametrize("victim", [0, pytest.param(1, marks=FULL), pytest.param(2, marks=FULL)])
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_others_go_on_and_a_new_one_joins(program, victim):
    with job(program, "-np", "3", "--min-np", "1", UNTIL_WORKER="3") as elastic:
        elastic.wait_for(r"step 10\b")
        elastic.kill(victim)
        elastic.wait_for(r"begins as rank 0 of 2 ")
        elastic.wait_for(r"worker 3 begins as rank 2 of 3 at step [1-9]")
        status, said = elastic.end()
    assert status == 0, said
    assert_each_once(said, ranks=3)
    assert result(said)[2] > 20, said


@pytest.mark.parametrize("victim", [0, pytest.param(1, marks=FULL)])
def test_a_rank_that_is_killed_in_the_midst_of_its_step_leaves_no_trace(victim):
    """On one host all ranks have one copy of the parameters, which that leaves half written."""
    with job("python", "-np", "2", "--min-np", "2", "--spares", "1", epochs=2, work=0.01, TORN=str(victim)) as elastic:
        elastic.wait_for(rf"rank {victim} .* was killed by signal 9")
        status, said = elastic.end()
    assert status == 0 and counts(said) == (2, {2: 400}), said
    assert result(said)[0] == pytest.approx(undisturbed("python"), rel=1e-9, abs=1e-9), said


@pytest.mark.parametrize("program", MAIN_PROGRAMS)
def test_two_that_are_no_neighbours_are_lost_at_once(program):
    with job(program, "-np", "4", "--min-np", "2") as elastic:
        elastic.wait_for(r"step 10\b")
        elastic.kill(0)
        elastic.kill(2)
        status, said = elastic.end()
    assert status == 0, said
    assert_each_once(said)


@pytest.mark.parametrize("program", MAIN_PROGRAMS)
def test_a_part_without_a_copy_ends_the_job_by_name(program):
    with job(program, "-np", "3", "--min-np", "2", PART_COPIES="0", samples=100_000) as elastic:
        elastic.wait_for(r"step 10\b")
        elastic.kill(1)
        status, said = elastic.end()
    assert status not in (0, 128 + signal.SIGKILL), said
    kind = "model" if program in SETTINGS else "optimizer"
    assert f"part 1 of the 3 parts of a sharded {kind}" in said and "from a checkpoint" in said and "part_copies" in said, said


@virtual_hosts
@pytest.mark.parametrize("program", MAIN_PROGRAMS)
def test_ranks_of_several_hosts_gather_their_parts(program):
    with job(program, "--virtual-hosts", "2", "-np", "4", "--min-np", "2", "--spares", "0", UNTIL_WORKER="4") as elastic:
        elastic.wait_for(r"step 10\b")
        elastic.kill(3)
        elastic.wait_for(r"begins as rank 0 of 3 ")
        elastic.wait_for(r"worker 4 begins as rank 3 of 4 ")
        status, said = elastic.end()
    assert status == 0, said
    assert_each_once(said)
