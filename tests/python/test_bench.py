# SPDX-License-Identifier: Apache-2.0
"""rueda-bench: every mode gives its numbers; none is judged. RUEDA_BIN names the folder of the programs."""
import json
import os
import subprocess
from pathlib import Path

import pytest

BIN = Path(os.environ["RUEDA_BIN"])
SHORT = ["--steps", "5", "--warmup", "2"]


def run(ranks, *arguments):
    return subprocess.run([BIN / "ruedarun", "-np", str(ranks), BIN / "rueda-bench", *arguments], capture_output=True,
                          text=True, timeout=60)


def measure(ranks, tmp_path, *arguments):
    path = tmp_path / "numbers.json"
    done = run(ranks, *arguments, *SHORT, "--json", path)
    assert done.returncode == 0, done.stderr
    numbers = json.loads(path.read_text())
    assert numbers["mode"] == arguments[0] and numbers["steps"] == 5
    assert numbers["ranks"] == len(numbers["core_of_rank"]) == ranks
    assert min(numbers["core_of_rank"]) >= 0
    return numbers


def check_times(numbers, count, size):
    assert (numbers["count"], numbers["bytes"]) == (count, size)
    assert 0 < numbers["median_us"] <= numbers["p99_us"]
    # Clocks of one host are one: nothing is planned before the last rank has submitted it.
    assert 0 < numbers["negotiation_us"] <= numbers["negotiation_p99_us"]
    assert numbers["negotiation_us"] <= numbers["call_to_plan_us"]
    assert numbers["negotiation_share"] == pytest.approx(numbers["negotiation_us"] / numbers["median_us"])
    assert 1 <= numbers["plans"] <= count


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_latency(ranks, tmp_path):
    numbers = measure(ranks, tmp_path, "latency")
    check_times(numbers, 1, 4)
    assert "mpi_median_us" not in numbers


def test_tensors_against_mpi(tmp_path):
    numbers = measure(2, tmp_path, "tensors", "--count", "20", "--bytes", "400", "--reference", "mpi")
    check_times(numbers, 20, 400)
    assert numbers["ratio"] == pytest.approx(numbers["mpi_median_us"] / numbers["median_us"])


def test_allreduce_of_several_sizes(tmp_path):
    numbers = measure(2, tmp_path, "allreduce", "--bytes", "4", "100000")
    assert len(numbers["sizes"]) == 2
    for size, row in zip([4, 100000], numbers["sizes"]):
        check_times(row, 1, size)


@pytest.mark.parametrize("arguments, words", [
    ([], "no mode is given"),
    (["speed"], "there is no mode 'speed'"),
    (["latency", "--bytes", "8"], "latency is measured with 4 bytes"),
    (["tensors", "--count", "0"], "--count 0: it must be from 1 to 100000"),
    (["tensors", "--bytes", "6"], "160 tensors of 6 bytes: bytes must be a positive multiple of 4"),
    (["allreduce", "--count", "2"], "allreduce reduces one tensor at a time"),
    (["latency", "--steps", "0"], "--steps 0"),
    (["latency", "--reference", "nccl"], "--reference nccl: the only one is mpi"),
    (["latency", "--what"], "unrecognised option '--what'"),
])
def test_bad_arguments(arguments, words):
    done = subprocess.run([BIN / "rueda-bench", *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "error: " in done.stderr and words in done.stderr and "rueda-bench --help" in done.stderr


def test_what_cannot_be_done_is_an_error(tmp_path):
    done = run(2, "latency", *SHORT, "--json", tmp_path / "missing" / "numbers.json")
    assert done.returncode == 1
    assert "cannot write" in done.stderr
    done = subprocess.run([BIN / "rueda-bench", "latency", *SHORT, "--reference", "mpi"], capture_output=True, text=True,
                          timeout=60)  # without ruedarun there is no MPI
    assert done.returncode == 1
    assert "--reference mpi needs ranks" in done.stderr
