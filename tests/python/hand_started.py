# SPDX-License-Identifier: Apache-2.0
"""Ranks that a test starts itself, without a launcher."""

import contextlib
import os
import re
import socket
import subprocess
import time
from pathlib import Path

import pytest

BIN = Path(os.environ["RUEDA_BIN"])
LAUNCHERS = ("RUEDA_", "HOROVOD_", "PMI", "SLURM_", "OMPI_", "TORCHELASTIC_", "HYDRA_", "MPI_")
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}
RUEDARUN = BIN / "ruedarun"
# Of the conformance suite. However ranks have found one another, the same code moves their data: full runs of core alone have them all.
_SUITES = ("allreduce", "allgather", "broadcast", "alltoall", "reducescatter", "adasum", "strides", "barrier", "mismatches", "name_in_flight")
SUITES = [name if name in ("allreduce", "alltoall", "mismatches") else pytest.param(name, marks=pytest.mark.full("core")) for name in _SUITES]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Job:
    """Processes with their environments; killed by their ids when the test ends."""

    def __init__(self, command, environments, delay=0.0):
        self.ranks = []
        for environment in environments:
            self.ranks.append(subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                               env={**CLEAN, **environment}))
            time.sleep(delay)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for rank in self.ranks:
            with contextlib.suppress(ProcessLookupError):
                rank.kill()
            rank.wait()

    def results(self, seconds=90):
        """(status, standard output, standard error) of each rank."""
        end = time.monotonic() + seconds
        results = []
        for rank in self.ranks:
            out, err = rank.communicate(timeout=max(0.1, end - time.monotonic()))
            results.append((rank.returncode, out, err))
        return results


def check(results):
    for status, out, err in results:
        assert status == 0, (out, err)


def mpiexec():
    build = subprocess.run([RUEDARUN, "--check-build"], capture_output=True, text=True, env=CLEAN, check=True).stdout
    return re.search(r"mpiexec (\S+)", build)[1]
