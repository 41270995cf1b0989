# SPDX-License-Identifier: Apache-2.0
"""Process sets made of MPI communicators, at init and at run time.

Runs build/bin/communicators (tests/multi/communicators_main.cc) through ruedarun. RUEDA_BIN names the folder of the
programs.
"""
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

BIN = Path(os.environ["RUEDA_BIN"])


def communicators(mode, ranks, launcher="ruedarun"):
    starter = BIN / "ruedarun" if launcher == "ruedarun" else Path(sys.executable).parent / launcher
    return subprocess.run([starter, "-n", str(ranks), BIN / "communicators", mode], capture_output=True, text=True,
                          timeout=60)


def sums(out):
    """(rank, set, members, sum) of each line that a rank printed."""
    lines = re.findall(r"rank (\d+): set (\d+) of (ranks? [\d, -]+) has sum (\d+)", out)
    return sorted((int(rank), int(number), members, int(total)) for rank, number, members, total in lines)


@pytest.mark.parametrize("ranks, expected", [
    (3, [(0, 1, "ranks 0, 2", 2), (0, 1, "ranks 0, 2", 2), (0, 3, "ranks 0, 2", 2),
         (1, 2, "rank 1", 1),
         (2, 1, "ranks 0, 2", 2), (2, 1, "ranks 0, 2", 2), (2, 3, "ranks 0, 2", 2)]),
    (4, [(0, 1, "ranks 0, 2", 2), (0, 1, "ranks 0, 2-3", 5), (0, 3, "ranks 0, 2", 2),
         (1, 2, "ranks 1, 3", 4),
         (2, 1, "ranks 0, 2", 2), (2, 1, "ranks 0, 2-3", 5), (2, 3, "ranks 0, 2", 2),
         (3, 1, "ranks 0, 2-3", 5), (3, 2, "ranks 1, 3", 4)]),
])
def test_sets_of_a_split_at_init_and_at_run_time_job_after_job(ranks, expected):
    done = communicators("split", ranks)
    assert done.returncode == 0, done.stderr
    assert sums(done.stdout) == expected
    assert done.stdout.count("refused: init: Rueda runs with the process sets [0, 2") == ranks


@pytest.mark.parametrize("ranks", [3, 4])
def test_lists_that_differ_or_are_impossible_are_refused_alike_and_init_may_be_called_again(ranks):
    done = communicators("differ", ranks)
    assert done.returncode == 0, done.stderr
    own = {3: "ranks 0, 2 gave [0, 2]; rank 1 gave [1]", 4: "ranks 0, 2 gave [0, 2]; ranks 1, 3 gave [1, 3]"}[ranks]
    assert done.stdout.count(f"refused: init: the ranks differ in their process sets: {own}. Give the same lists in the "
                             "same order on every rank.") == ranks, done.stdout
    assert done.stdout.count(f"refused: init: process set 2 of 2, [{ranks}], has a rank {ranks}, but the job has ranks "
                             f"0-{ranks - 1}; give ranks of the job.") == ranks
    assert len(sums(done.stdout)) == ranks


@pytest.mark.parametrize("ranks", [3, 4])
def test_communicators_that_are_no_process_sets_are_refused_with_a_remedy(ranks):
    done = communicators("wrong", ranks, "mpiexec")  # it spawns processes, which ruedarun does not
    assert done.returncode == 0, done.stderr
    for words in ["MPI_COMM_NULL has no ranks. MPI_Comm_split gives it to ranks whose color is MPI_UNDEFINED",
                  "An intercommunicator joins two groups and cannot be a process set. Merge them by",
                  "The communicator of rank 1 is no part of one split of MPI_COMM_WORLD: An intercommunicator joins",
                  "The communicator of rank 0 is no part of one split of MPI_COMM_WORLD: Its ranks are not those that",
                  f"Rank {ranks} of the communicator is not in MPI_COMM_WORLD, so it is no rank of this job."]:
        assert done.stdout.count(f"refused: {words}") == ranks, done.stdout + done.stderr


def test_the_status_of_mpi_abort_is_that_of_the_job():
    done = communicators("abort", 2)
    assert done.returncode == 7, done.stderr
    assert re.search(r"ruedarun: rank [01] \(process \d+ on .*\) ended with status 7", done.stderr)
