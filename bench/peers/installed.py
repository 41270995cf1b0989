# SPDX-License-Identifier: Apache-2.0
"""The libraries that Rueda is compared with: where they are installed, and how their programs are started.

gloo is looked for in the Python that runs this. Intel MPI, oneCCL and Open MPI are looked for in the folders that
RUEDA_PEERS names (separated by ':'), such as a virtual environment for each that pip has installed them into, then in
/usr and /usr/local. Nothing here is needed to build or use Rueda.
"""
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]


class Missing(Exception):
    """Why a library cannot be measured here, and the remedy."""


def prefixes():
    named = [Path(each).resolve() for each in os.environ.get("RUEDA_PEERS", "").split(":") if each]
    for each in named:
        if not each.is_dir():
            raise Missing(f"RUEDA_PEERS names {each}, which is no folder")
    return [*named, Path("/usr/local"), Path("/usr")]


def prefix_with(files, package):
    for prefix in prefixes():
        if all((prefix / file).exists() for file in files):
            return prefix
    raise Missing(f"no {files[0]} in the folders of RUEDA_PEERS, /usr/local and /usr; "
                  f"for example: python3 -m venv DIR; DIR/bin/pip install {package}; export RUEDA_PEERS=DIR")


def compiled(command, source, target, package, libraries=()):
    try:
        done = subprocess.run([*command, "-O2", "-std=c++20", f"-I{PROJECT}", HERE / source, "-o", target, *libraries],
                              capture_output=True, text=True, check=False)
    except OSError as error:
        raise Missing(f"{command[0]} cannot be run: {error.strerror}") from error
    if done.returncode != 0:
        raise Missing(f"{source} does not build there ({package} complete?): {done.stderr.strip()[-600:]}")
    return target


class Gloo:
    name = "gloo"

    def __init__(self, programs, folder):
        if importlib.util.find_spec("torch") is None:
            raise Missing(f"{sys.executable} has no package torch; install it there (pip install torch), "
                          "or let RUEDA_PYTHON name a Python that has it")

    def command(self, ranks, works):
        return [sys.executable, HERE / "gloo_allreduce.py", "--ranks", str(ranks), works], {}


class Mpich:
    """The MPI that Rueda was built with."""

    name = "mpich"

    def __init__(self, programs, folder):
        self.programs = programs
        if not (programs / "mpi_allreduce").exists():
            raise Missing(f"no {programs}/mpi_allreduce: build with RUEDA_MPI=ON")

    def command(self, ranks, works):
        return [self.programs / "ruedarun", "--no-prefix", "-np", str(ranks), self.programs / "mpi_allreduce", works], {}


class IntelMpi:
    """It keeps MPICH's binary interface: our program for MPICH runs with its library."""

    name = "intel-mpi"

    def __init__(self, programs, folder):
        self.prefix = prefix_with(["bin/impi_info", "bin/mpiexec.hydra", "lib/libmpi.so.12"], "impi-rt")
        Mpich(programs, folder)
        self.program = programs / "mpi_allreduce"

    def command(self, ranks, works):
        return [self.prefix / "bin/mpiexec.hydra", "-n", str(ranks), self.program, works], self.environment()

    def environment(self):
        # Each rank gets its cores from Intel MPI, then takes one of them as all programs here do; oneCCL's threads
        # would get into each other's way without that.
        return {"LD_LIBRARY_PATH": str(self.prefix / "lib"), "I_MPI_ROOT": str(self.prefix), "I_MPI_PIN": "on",
                "I_MPI_FABRICS": "shm"}


class OneCcl(IntelMpi):
    """It moves data by Intel MPI."""

    name = "oneccl"

    def __init__(self, programs, folder):
        package = "impi-rt impi-devel oneccl oneccl-devel"
        self.prefix = prefix_with(["include/oneapi/ccl.hpp", "include/mpi.h", "lib/libccl.so", "lib/libmpi.so.12",
                                   "bin/mpiexec.hydra"], package)
        self.program = compiled(["g++", f"-isystem{self.prefix}/include"], "ccl_allreduce.cc", folder / "ccl_allreduce",
                                package, [f"-L{self.prefix}/lib", "-lccl", "-lmpi", "-Wl,--allow-shlib-undefined"])

    def environment(self):
        return {**super().environment(), "CCL_ROOT": str(self.prefix)}


class OpenMpi:
    name = "open-mpi"

    def __init__(self, programs, folder):
        self.prefix = prefix_with(["bin/ompi_info", "bin/mpirun", "bin/mpicxx"], "openmpi")
        self.program = compiled([self.prefix / "bin/mpicxx"], "mpi_allreduce.cc", folder / "ompi_allreduce", "openmpi")

    def command(self, ranks, works):
        return ([self.prefix / "bin/mpirun", "-np", str(ranks), "--bind-to", "none", "--oversubscribe",
                 "--allow-run-as-root", self.program, works],
                {"LD_LIBRARY_PATH": str(self.prefix / "lib")})


PEERS = {peer.name: peer for peer in (Gloo, Mpich, IntelMpi, OneCcl, OpenMpi)}
