# SPDX-License-Identifier: Apache-2.0
"""A function on several ranks: rueda.run(train, args=(...), np=4)."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import cloudpickle

from rueda import _build

T = TypeVar("T")

_LAUNCHER_ENDS_IN = 5  # seconds after Ctrl-C; ruedarun mostly needs less than 3


def _launcher():
    """The path of ruedarun: beside this Python, on PATH, or in the folder in which it was built."""
    for path in (Path(sys.executable).parent / "ruedarun", shutil.which("ruedarun"), _build.RUEDARUN):
        if path and os.access(path, os.X_OK):
            return str(path)
    raise FileNotFoundError("ruedarun is neither beside this Python nor on PATH; install rueda with its launcher")


def _flags(options):
    """The launcher's words for those options that are given."""
    words = []
    for flag, value in options.items():
        if value is True:
            words.append(f"--{flag}")
        elif value is not None and value is not False:
            words += [f"--{flag}", str(value)]
    return words


def _results(folder, ranks):
    """The results of the ranks, by rank; raises the exception of the first that failed. Workers of an elastic job may be more."""
    numbers = {*range(ranks), *(int(file.suffix[1:]) for file in Path(folder).glob("result.*"))}
    files = [Path(folder) / f"result.{number}" for number in sorted(numbers)]
    results = [pickle.loads(file.read_bytes()) if file.exists() else None for file in files]
    failures = [(result["time"], rank, result["error"]) for rank, result in enumerate(results) if result and "error" in result]
    if failures:
        _, rank, words = min(failures)  # others have failed because of it
        raise RuntimeError(f"rueda.run: rank {rank} of {ranks} has raised:\n{words}")
    missing = [rank for rank, result in enumerate(results) if result is None]
    if missing:
        raise RuntimeError(f"rueda.run: rank {missing[0]} of {ranks} ended without a result; what it printed is above")
    return [result["value"] for result in results]


def _results_of_those_left(folder):
    """The results of the ranks of an elastic job that has ended well, in their order."""
    files = sorted(Path(folder).glob("result.*"), key=lambda file: int(file.suffix[1:]))
    results = [pickle.loads(file.read_bytes()) for file in files]
    return [result["value"] for result in results if "value" in result]


def _status_of(command, environment):
    """Of the launcher, when it has ended. An exception of a signal handler here ends the job, and is raised after that."""
    with subprocess.Popen(command, env=environment) as launcher:
        try:
            return launcher.wait()
        except BaseException:
            try:
                launcher.wait(_LAUNCHER_ENDS_IN)  # Ctrl-C in a terminal goes to both, and a second signal would hurry it
            except subprocess.TimeoutExpired:
                launcher.send_signal(signal.SIGINT)
                launcher.wait()
            raise


def run(func: Callable[..., T], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, num_proc: int = 1,
        min_num_proc: int | None = None, max_num_proc: int | None = None, slots: int | None = None, reset_limit: int | None = None,
        cooldown_range: Sequence[int] | None = None, hosts: str | None = None, hostfile: str | None = None,
        host_discovery_script: str | None = None, start_timeout: int | None = None, ssh_port: int | None = None,
        ssh_identity_file: str | None = None, disable_cache: bool | None = None, output_filename: str | None = None,
        verbose: int | bool | None = None, use_gloo: bool | None = None, use_mpi: bool | None = None, mpi_args: str | None = None,
        network_interface: str | None = None, network_interfaces: Sequence[str] | None = None, executable: str | None = None,
        np: int | None = None, min_np: int | None = None, max_np: int | None = None) -> list[T]:
    """Calls func(*args, **kwargs) on each of `num_proc` (or `np`) new ranks; returns a list of their results, by rank.

    func, its arguments and results are given by cloudpickle, in files of a folder of this user that all hosts must see; functions of a
    notebook will do. hosts: "host1:2,host2:2"; hostfile: the same from a file; None: this machine. Others are flags of ruedarun by their
    names. use_mpi, disable_cache: accepted for Horovod's sake. Ctrl-C ends the ranks before it raises KeyboardInterrupt here.

    min_num_proc (or min_np) or host_discovery_script make the job elastic: it goes on without lost ranks, and the list holds the
    results of those that end well. slots: of hosts for which the script tells no number. cooldown_range: two numbers of seconds.

    Raises RuntimeError with the traceback of the rank that was first to raise, and ValueError for Gloo, which Rueda does not have.
    """
    if use_gloo:
        raise ValueError("use_gloo: there is no Gloo in Rueda; leave it out")
    ranks = np if np is not None else num_proc
    flags = _flags({"hosts": hosts, "hostfile": hostfile, "start-timeout": start_timeout, "ssh-port": ssh_port, "verbose": bool(verbose),
                    "ssh-identity-file": ssh_identity_file, "output-filename": output_filename, "mpi-args": mpi_args,
                    "network-interface": ",".join(network_interfaces) if network_interfaces else network_interface,
                    "min-np": min_np if min_np is not None else min_num_proc, "max-np": max_np if max_np is not None else max_num_proc,
                    "slots-per-host": slots, "reset-limit": reset_limit, "host-discovery-script": host_discovery_script})
    if cooldown_range is not None:
        flags += ["--blacklist-cooldown-range", *map(str, cooldown_range)]
    elastic = any(flag in flags for flag in ("--min-np", "--host-discovery-script"))
    with tempfile.TemporaryDirectory(prefix="rueda-run-") as folder:
        (Path(folder) / "function").write_bytes(cloudpickle.dumps((func, args, kwargs or {})))
        command = [_launcher(), *flags, "-np", str(ranks), executable or sys.executable, "-m", "rueda.runner.task", folder]
        # The ranks can import all that this program can import.
        paths = os.pathsep.join(path or os.getcwd() for path in [str(Path(__file__).parents[2]), *sys.path])
        status = _status_of(command, {**os.environ, "PYTHONPATH": paths})
        if status and not list(Path(folder).glob("result.*")):
            raise RuntimeError(f"rueda.run: {' '.join(command)} ended with status {status}; what it printed is above")
        return _results_of_those_left(folder) if elastic and not status else _results(folder, ranks)
