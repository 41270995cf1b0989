# SPDX-License-Identifier: Apache-2.0
"""Jobs that ruedarun has not started: by a store, a folder, PMI, torchrun, and what goes wrong with each."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hand_started import BIN, CLEAN, SUITES, Job, check, free_port, mpiexec


def by_store(size, address=None, **more):
    address = address or f"127.0.0.1:{free_port()}"
    return [{"RUEDA_STORE": address, "RUEDA_RANK": str(rank), "RUEDA_SIZE": str(size), **more} for rank in range(size)]


def by_folder(size, folder, **more):
    return [{"RUEDA_BOOTSTRAP": f"file:{folder}", "RUEDA_RANK": str(rank), "RUEDA_SIZE": str(size), **more} for rank in range(size)]


def by_environment_of_torch(size, **more):
    port = str(free_port())
    return [{"RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size), "MASTER_ADDR": "localhost", "MASTER_PORT": port,
             **more} for rank in range(size)]


def by_slurm(size, **more):
    """As srun without PMI describes a step on this host."""
    port = free_port()
    return [{"SLURM_STEP_ID": "0", "SLURM_JOB_ID": str(os.getpid()), "SLURM_PROCID": str(rank), "SLURM_STEP_NUM_TASKS": str(size),
             "SLURM_STEP_NUM_NODES": "1", "SLURM_STEP_NODELIST": "localhost", "SLURM_STEP_RESV_PORTS": f"{port}-{port}",
             **more} for rank in range(size)]


@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.parametrize("method", ["store", "file", "torch", "slurm"])
def test_conformance(method, suite, tmp_path):
    environments = {"store": by_store, "torch": by_environment_of_torch, "slurm": by_slurm}.get(method, lambda size: by_folder(size, tmp_path / "job"))(3)
    with Job([BIN / "conformance", suite], environments) as job:
        check(job.results())


@pytest.mark.parametrize("suite", ["allreduce", "adasum", "barrier", "mismatches"])
def test_conformance_without_shared_memory(suite):
    with Job([BIN / "conformance", suite], by_store(3, RUEDA_SHM="0")) as job:
        check(job.results())


@pytest.mark.parametrize("suite", SUITES)
def test_conformance_by_pmi(suite):
    """mpiexec starts the ranks, and MPI does not begin."""
    done = subprocess.run([mpiexec(), "-n", "3", BIN / "conformance", suite], env={**CLEAN, "RUEDA_BOOTSTRAP": "pmi"}, capture_output=True,
                          text=True, timeout=90)
    assert done.returncode == 0, done.stdout + done.stderr


def test_pmi_in_place_of_an_mpi_that_is_not_there(tmp_path):
    """Nobody asks for PMI, and librueda is there alone."""
    shutil.copy(BIN.parent / "lib" / "librueda.so.0", tmp_path / "librueda.so.0")
    done = subprocess.run([mpiexec(), "-n", "3", BIN / "conformance", "allreduce"], capture_output=True, text=True, timeout=90,
                          env={**CLEAN, "LD_LIBRARY_PATH": str(tmp_path), "RUEDA_LOG_LEVEL": "info"})
    assert done.returncode == 0 and "found by pmi, PMI-1" in done.stderr, done.stdout + done.stderr


def test_a_library_of_pmix_that_cannot_be_loaded(tmp_path):
    (tmp_path / "libpmix.so.2").touch()
    done = subprocess.run([BIN / "rank", "reduces", "1"], capture_output=True, text=True, timeout=60,
                          env={**CLEAN, "RUEDA_BOOTSTRAP": "pmix", "PMIX_RANK": "0", "PMIX_NAMESPACE": "x", "LD_LIBRARY_PATH": str(tmp_path)})
    assert done.returncode != 0 and len(done.stderr.splitlines()) == 1, done.stderr
    assert "libpmix.so.2: file too short. Install it (Debian: libpmix2)" in done.stderr, done.stderr


@pytest.mark.parametrize("method", ["store", "file", "torch", "slurm", "pmi", "mpi"])
def test_mpi_is_loaded_only_for_a_job_over_mpi(method, tmp_path):
    """Each rank looks at itself when the job is over: what has been loaded stays."""
    command = [sys.executable, "-c", "import os, rueda; rueda.init(); rueda.shutdown(); os.write(1, open('/proc/self/maps', 'rb').read())"]
    path = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    if method in ("pmi", "mpi"):
        done = subprocess.run([mpiexec(), "-n", "2", *command], env={**CLEAN, **path, "RUEDA_BOOTSTRAP": method}, capture_output=True,
                              text=True, timeout=90)
        assert done.returncode == 0, done.stderr
        maps = [done.stdout]
    else:
        environments = {"store": by_store, "torch": by_environment_of_torch, "slurm": by_slurm}.get(
            method, lambda size, **more: by_folder(size, tmp_path / "job", **more))(2, **path)
        with Job(command, environments) as job:
            results = job.results()
        check(results)
        maps = [out for _, out, _ in results]
    for text in maps:
        assert "/librueda.so" in text
        assert ("/libmpi" in text) == ("/librueda_mpi.so" in text) == (method == "mpi"), text


def test_mpi_that_a_program_has_begun_by_a_library_of_its_own():
    """Python keeps the symbols of such a library to itself, and no variable of the launcher is left."""
    library = next((Path(mpiexec()).parent.parent / "lib").glob("libmpi.so.*"))
    script = f"""
import ctypes, os
mpi, level = ctypes.CDLL("{library}", mode=os.RTLD_LOCAL | os.RTLD_NOW), ctypes.c_int()
assert mpi.MPI_Init_thread(None, None, 3, ctypes.byref(level)) == 0
for name in [name for name in os.environ if name.startswith(("PMI", "OMPI_", "HYDRA", "MPI_"))]:
    del os.environ[name]
import rueda
rueda.init()
os.write(1, f"rank {{rueda.rank()}} of {{rueda.size()}}\\n".encode())
rueda.shutdown()
mpi.MPI_Finalize()
"""
    done = subprocess.run([mpiexec(), "-n", "2", sys.executable, "-c", script], capture_output=True, text=True, timeout=90,
                          env={**CLEAN, "PYTHONPATH": os.environ.get("PYTHONPATH", "")})
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split("\n")) == ["", "rank 0 of 2", "rank 1 of 2"], done.stdout + done.stderr


def test_ranks_that_come_late_are_waited_for():
    with Job([BIN / "allreduce"], reversed(by_store(4)), delay=0.3) as job:
        results = job.results()
        check(results)
        assert "rank 0 of 4" in results[-1][1]


def test_ipv6_and_names():
    for host in ("[::1]", "localhost"):
        with Job([BIN / "allreduce"], by_store(2, f"{host}:{free_port()}")) as job:
            check(job.results())


def listening_addresses(pid):
    """Addresses at which a process listens by TCP, from /proc."""
    inodes = {os.readlink(f"/proc/{pid}/fd/{number}") for number in os.listdir(f"/proc/{pid}/fd") if os.path.exists(f"/proc/{pid}/fd/{number}")}
    addresses = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
                addresses.append(fields[1].split(":")[0])
    return addresses


LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


@pytest.mark.parametrize("method", ["store", "localhost", "torch", "slurm"])
def test_a_job_of_one_host_listens_on_loopback_only(method):
    here = socket.gethostname()
    environments = {"store": by_store, "localhost": lambda size: by_store(size, f"localhost:{free_port()}"),
                    "torch": lambda size: by_environment_of_torch(size, MASTER_ADDR=here),
                    "slurm": lambda size: by_slurm(size, SLURM_STEP_NODELIST=here)}[method](3)
    seen = set()
    with Job([BIN / "rank", "reduces", "1"], environments[:2]) as waiting:  # the third comes when all have been looked at
        end = time.monotonic() + 1
        while time.monotonic() < end:
            for rank in waiting.ranks:
                with contextlib.suppress(OSError):
                    seen.update(listening_addresses(rank.pid))
        with Job([BIN / "rank", "reduces", "1"], environments[2:]) as last:
            check(last.results())
        check(waiting.results())
    assert seen and seen <= LOOPBACK, seen


def test_once_the_job_runs_only_loopback_is_left_of_a_folders_job(tmp_path):
    with Job([BIN / "rank", "reduces", "3"], by_folder(2, tmp_path / "job")) as job:
        time.sleep(1.5)
        seen = [set(listening_addresses(rank.pid)) for rank in job.ranks]
        check(job.results())
    assert all(addresses and addresses <= LOOPBACK for addresses in seen), seen


def test_missing_ranks_are_named_on_all():
    ranks = by_store(4, RUEDA_START_TIMEOUT="1.5")
    with Job([BIN / "allreduce"], [ranks[0], ranks[2]]) as job:
        for status, _, err in job.results():
            assert status != 0 and "ranks 1, 3 of 4 did not come within 1.5 s" in err, err


def test_rank_zero_that_never_comes_is_named_with_its_address():
    environment = by_store(2, RUEDA_START_TIMEOUT="1", RUEDA_SECRET="x")[1]
    with Job([BIN / "allreduce"], [environment]) as job:
        status, _, err = job.results()[0]
        assert status != 0 and "rank 0 of 2 did not come within" in err, err
        assert f"{environment['RUEDA_STORE']}: Connection refused" in err, err


def test_another_secret_is_said():
    ranks = by_store(2, RUEDA_START_TIMEOUT="8", RUEDA_SECRET="one")
    ranks[1].update(RUEDA_SECRET="two", RUEDA_START_TIMEOUT="1")
    with Job([BIN / "allreduce"], ranks) as job:
        second = job.ranks[1].communicate(timeout=30)[1]
        assert "does not know the key of this job" in second, second
        assert "rank 1 of 2 did not come" in job.results()[0][2]


def test_a_missing_secret_is_warned_about():
    with Job([BIN / "allreduce"], by_store(2)) as job:
        results = job.results()
        check(results)
    assert "Set RUEDA_SECRET" in results[0][2] and "RUEDA_SECRET" not in results[1][2]
    with Job([BIN / "allreduce"], by_store(2, RUEDA_SECRET="x")) as job:
        results = job.results()
        check(results)
    assert not any("RUEDA_SECRET" in err for _, _, err in results)


def test_ranks_that_differ_in_their_number():
    ranks = by_store(2, RUEDA_START_TIMEOUT="3")
    ranks[1]["RUEDA_SIZE"] = "4"
    with Job([BIN / "allreduce"], ranks) as job:
        assert "it says that it is rank 1 of 4, and rank 0 starts a job of 2 ranks" in job.results()[1][2]


@pytest.mark.parametrize("victim", [0, 1])
def test_a_rank_that_is_killed_during_the_start_is_named(victim):
    ranks = by_store(3, RUEDA_START_TIMEOUT="25")
    with Job([BIN / "allreduce"], ranks[:2]) as job:
        time.sleep(1)
        killed = time.monotonic()
        job.ranks[victim].kill()
        _, err = job.ranks[1 - victim].communicate(timeout=20)
        assert f"rank {victim}" in err and "ended, or left, while the job started" in err, err
        assert time.monotonic() - killed < 8


def test_a_rank_that_pmi_waits_for_in_vain():
    """One process ends before init(): the others hear of it within the time limit, and mpiexec ends."""
    script = f'if [ "$PMI_RANK" = 1 ]; then exit 0; fi; exec {BIN / "allreduce"}'
    done = subprocess.run([mpiexec(), "-n", "3", "/bin/sh", "-c", script], capture_output=True, text=True, timeout=60,
                          env={**CLEAN, "RUEDA_BOOTSTRAP": "pmi", "RUEDA_START_TIMEOUT": "1.5"})
    assert done.returncode != 0 and "waits until every process has called init()" in done.stderr, done.stderr


def test_descriptors_do_not_grow_with_jobs():
    port = free_port()
    script = """
import os
import rueda
counts = []
for job in range(60):
    rueda.init()
    rueda.shutdown()
    counts.append(len(os.listdir("/proc/self/fd")))
print(counts[10], counts[-1])
"""
    environments = by_store(2, f"127.0.0.1:{port}", PYTHONPATH=os.environ.get("PYTHONPATH", ""))
    begin = time.monotonic()
    with Job([sys.executable, "-c", script], environments) as job:
        results = job.results()
    check(results)
    for _, out, _ in results:
        early, late = map(int, out.split())
        assert late <= early, out
    assert time.monotonic() - begin < 30


def test_two_processes_of_one_rank():
    ranks = by_store(3, RUEDA_START_TIMEOUT="3")
    with Job([BIN / "allreduce"], [ranks[0], ranks[1], ranks[1]], delay=0.3) as job:
        assert "another process is rank 1 already" in "".join(err for _, _, err in job.results())


def test_a_port_that_is_taken():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with Job([BIN / "allreduce"], by_store(2, f"127.0.0.1:{other.getsockname()[1]}", RUEDA_START_TIMEOUT="1")[:1]) as job:
            status, _, err = job.results()[0]
            assert status != 0 and "rank 0 cannot listen: 127.0.0.1" in err and "Address already in use" in err, err


def test_a_rank_that_is_killed_is_named():
    with Job([BIN / "rank", "reduces", "20"], by_store(3)) as job:
        time.sleep(1.5)
        job.ranks[2].send_signal(signal.SIGKILL)
        killed = time.monotonic()
        for rank in job.ranks[:2]:
            _, err = rank.communicate(timeout=20)
            assert rank.returncode != 0 and "rank 2" in err, err
        assert time.monotonic() - killed < 5


def test_garbage_at_the_port_does_no_harm():
    ranks = by_store(2)
    host, port = ranks[0]["RUEDA_STORE"].split(":")
    with Job([BIN / "allreduce"], ranks[:1]) as first:
        strangers, tried = [], 0
        end = time.monotonic() + 12  # longer than the watchdog waits
        while time.monotonic() < end:
            with contextlib.suppress(OSError):
                strangers.append(socket.create_connection((host, int(port)), timeout=1))
                tried += 1
                if tried % 2:
                    strangers[-1].sendall(os.urandom(1000))
            while len(strangers) > 400:
                strangers.pop(0).close()
        assert tried > 1000
        with Job([BIN / "allreduce"], ranks[1:]) as second:
            check(second.results())
        check(first.results())
        for stranger in strangers:
            stranger.close()


def test_a_stale_file_of_an_earlier_job(tmp_path):
    folder = tmp_path / "job"
    ranks = by_folder(2, folder, RUEDA_START_TIMEOUT="0.5")
    with Job([BIN / "allreduce"], ranks[:1]) as job:
        assert job.results()[0][0] != 0
    assert list(folder.iterdir()), "the earlier job has left nothing"
    ranks = by_folder(2, folder)
    with Job([BIN / "allreduce"], reversed(ranks), delay=0.3) as job:
        check(job.results())
    assert list(folder.iterdir()) == []


SCRIPT = """
import os
import torch
import rueda.torch as hvd
for attempt in range(3):
    hvd.init()
    total = hvd.allreduce(torch.ones(1000) * (hvd.rank() + 1), op=hvd.Sum)[0].item()
    os.write(1, f"{hvd.rank()} {hvd.size()} {total}\\n".encode())
    hvd.shutdown()
if os.environ.get("TORCHELASTIC_RESTART_COUNT") == "0" and os.environ.get("FAIL"):
    os._exit(3)
"""


@pytest.mark.parametrize("again", [False, True], ids=["once", "restarted"])
def test_torchrun(tmp_path, again):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    environment = {**CLEAN, "PYTHONPATH": os.environ.get("PYTHONPATH", ""), "OMP_NUM_THREADS": "1"}
    if again:
        environment["FAIL"] = "1"
    done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--max-restarts=1",
                           f"--rdzv-endpoint=127.0.0.1:{free_port()}", "--rdzv-backend=c10d", script],
                          env=environment, capture_output=True, text=True, timeout=170)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = sorted(done.stdout.split("\n"))
    assert lines.count("0 2 3.0") == lines.count("1 2 3.0") == (6 if again else 3), done.stdout + done.stderr
