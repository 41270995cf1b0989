# SPDX-License-Identifier: Apache-2.0
"""Jobs that srun starts, with PMI and without, in a Slurm that these tests start themselves."""

import os
import subprocess
import tempfile
from pathlib import Path

import pytest
from slurm_cluster import SlurmCluster, missing

BIN = Path(os.environ["RUEDA_BIN"])
LAUNCHERS = ("RUEDA_", "HOROVOD_", "PMI", "SLURM_", "OMPI_", "TORCHELASTIC_", "HYDRA_", "MPI_")


@pytest.fixture(scope="module")
def cluster():
    if why := missing():
        if os.environ.get("CI"):
            pytest.fail(why)
        pytest.skip(why)
    with tempfile.TemporaryDirectory(prefix="rueda-slurm-") as folder, SlurmCluster(folder) as started:
        yield started


def srun(cluster, *words, **settings):
    environment = {name: value for name, value in cluster.environment.items() if name == "SLURM_CONF" or not name.startswith(LAUNCHERS)}
    return subprocess.run(["srun", *map(str, words)], env={**environment, **settings}, capture_output=True, text=True, timeout=90)


@pytest.mark.parametrize("nodes", [1, 2])
def test_without_pmi(cluster, nodes):
    """The nodes are names that nobody resolves; both are this machine."""
    done = srun(cluster, "--mpi=none", "-N", nodes, "-n", 4, BIN / "conformance", "allreduce", RUEDA_STORE="127.0.0.1:29817")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_address_follows_from_the_step(cluster):
    script = f"export SLURM_STEP_NODELIST=localhost; exec {BIN / 'conformance'} allgather"
    done = srun(cluster, "--mpi=none", "-N", 1, "-n", 3, "/bin/sh", "-c", script, RUEDA_SECRET="0123456789abcdef")
    assert done.returncode == 0, done.stdout + done.stderr


def test_two_steps_at_a_time(cluster):
    script = f"export SLURM_STEP_NODELIST=localhost; exec {BIN / 'rank'} reduces 1"
    environment = {name: value for name, value in cluster.environment.items() if name == "SLURM_CONF" or not name.startswith(LAUNCHERS)}
    steps = [subprocess.Popen(["srun", "--mpi=none", "-N", "1", "-n", "2", "/bin/sh", "-c", script], env=environment, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True) for _ in range(2)]
    for step in steps:
        out, _ = step.communicate(timeout=90)
        assert step.returncode == 0, out


@pytest.mark.parametrize("bootstrap", ["pmi", "mpi"])
def test_with_pmi(cluster, bootstrap):
    """Slurm's own PMI server: PMI-1 as Rueda speaks it, and MPICH's by way of PMI-2."""
    version = "pmi2"
    done = srun(cluster, f"--mpi={version}", "-N", 2, "-n", 4, BIN / "conformance", "allreduce", RUEDA_BOOTSTRAP=bootstrap)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_task_that_is_killed_is_named(cluster):
    script = f"""
if [ "$SLURM_PROCID" = 2 ]; then exec timeout -s KILL 2 {BIN / 'rank'} reduces 30; fi
exec {BIN / 'rank'} reduces 30
"""
    done = srun(cluster, "--mpi=none", "-N", 1, "-n", 3, "/bin/sh", "-c", script, RUEDA_STORE="127.0.0.1:29818")
    assert done.returncode != 0 and "rank 2" in done.stderr, done.stderr
