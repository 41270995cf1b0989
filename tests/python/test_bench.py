# SPDX-License-Identifier: Apache-2.0
"""rueda-bench: every mode gives its numbers; none is judged. RUEDA_BIN names the folder of the programs."""
import json
import os
import subprocess
import xml.etree.ElementTree as ElementTree
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
    assert numbers["bytes_in_all"] == count * size and numbers["pinned"]


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_latency(ranks, tmp_path):
    numbers = measure(ranks, tmp_path, "latency")
    check_times(numbers, 1, 4)
    assert "mpi_median_us" not in numbers


def test_tensors_against_mpi(tmp_path):
    numbers = measure(2, tmp_path, "tensors", "--count", "20", "--bytes", "400", "--against", "mpi")
    check_times(numbers, 20, 400)
    assert numbers["ratio"] == pytest.approx(numbers["mpi_median_us"] / numbers["median_us"])


# Bert's parameters with the head that predicts masked words, as Hugging Face counts them for bert-base.
@pytest.mark.parametrize("model, count, size", [("bert6", 106, 90978024), ("bert-base", 202, 4 * 109514298)])
def test_gradients_of_a_model(model, count, size, tmp_path):
    path = tmp_path / "numbers.json"
    done = run(2, "tensors", "--from", model, "--steps", "2", "--warmup", "1", "--json", path)
    assert done.returncode == 0, done.stderr
    numbers = json.loads(path.read_text())
    assert (numbers["from"], numbers["count"], numbers["bytes_in_all"]) == (model, count, size)
    assert numbers["busbw_gbs"] == pytest.approx(size / numbers["median_us"] / 1000)


BACKEND_OPERATIONS = {"allreduce": 2, "allgather": 1, "broadcast": 2, "alltoall": 1, "reducescatter": 1}  # bus factor, 2 ranks
OPERATIONS = BACKEND_OPERATIONS | {"reduce": 2, "gather": 1, "scatter": 1}


def sweep(ranks, tmp_path, *arguments):
    path = tmp_path / "numbers.json"
    done = run(ranks, *arguments, *SHORT, "--json", path)
    assert done.returncode == 0, done.stderr
    return json.loads(path.read_text())


def check_row(row, op, size, ranks):
    assert (row["op"], row["bytes"], row["ranks"], row["wrong"], row["count"]) == (op, size, ranks, 0, 5)
    assert 0 < row["min_us"] <= row["median_us"] <= row["p99_us"]
    assert row["algbw_gbs"] == pytest.approx(size / row["median_us"] / 1000)


@pytest.mark.parametrize("op", OPERATIONS)
def test_collectives_of_several_sizes_against_mpi(op, tmp_path):
    rows = sweep(2, tmp_path, op, "--sizes", "4,4K,100000", "--against", "mpi")
    smallest = 4 if op in ("allreduce", "broadcast", "reduce") else 8  # one number for each rank
    for size, row in zip([smallest, 4096, 100000], rows, strict=True):
        check_row(row, op, size, 2)
        assert (row["level"], row["memory"], row["dtype"]) == ("stack", "ordinary", "float32")
        assert row["busbw_gbs"] == pytest.approx(row["algbw_gbs"] * OPERATIONS[op] / 2)
        assert row["against"]["ratio"] == pytest.approx(row["against"]["median_us"] / row["median_us"])


@pytest.mark.parametrize("op", BACKEND_OPERATIONS)
def test_every_collective_alone(op, tmp_path):
    rows = sweep(3, tmp_path, op, "--sizes", "24,3M", "--level", "backend", "--memory", "ordinary,window")
    for row in rows:
        check_row(row, op, row["bytes"], 3)
    assert [row["memory"] for row in rows] == ["ordinary", "window"] * 2


# In the window they are reduced from their beginning on, smaller ones from their end.
def test_tensors_larger_than_caches(tmp_path):
    rows = sweep(2, tmp_path, "allreduce", "--sizes", "40000020", "--level", "backend", "--memory", "ordinary,window")
    for row in rows:
        check_row(row, "allreduce", 40000020, 2)


def test_tensors_in_the_window(tmp_path):
    numbers = measure(2, tmp_path, "tensors", "--count", "20", "--bytes", "40000", "--memory", "window")
    check_times(numbers, 20, 40000)
    assert numbers["memory"] == "window"


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int64", "float16", "bfloat16", "float64", "bool"])
def test_collectives_alone_of_every_kind_of_number(dtype, tmp_path):
    rows = sweep(3, tmp_path, "allreduce", "--sizes", "8,40000,1M", "--dtype", dtype, "--level", "backend")
    for size, row in zip([8, 40000, 1 << 20], rows, strict=True):
        check_row(row, "allreduce", size, 3)
        assert (row["level"], row["dtype"]) == ("backend", dtype)
        assert "against" not in row


SVG = "{http://www.w3.org/2000/svg}"


def subjects_of(path):
    """The points of each line of a plot, and its legend's words."""
    root = ElementTree.parse(path).getroot()
    assert root.tag == SVG + "svg"
    texts = [text.text for text in root.iter(SVG + "text")]
    lines = [group for group in root.iter(SVG + "g") if group.get("class") == "subject"]
    return [[title.text for title in line.iter(SVG + "title")] for line in lines], texts


@pytest.mark.parametrize("sizes", ["4K", "4,1K,4K,64K,100000"])
def test_plot(sizes, tmp_path):
    path = tmp_path / "plot.svg"
    rows = sweep(2, tmp_path, "allreduce", "--sizes", sizes, "--against", "mpi", "--plot", path, "--memory",
                 "window,ordinary")
    lines, texts = subjects_of(path)
    assert {"Rueda, window memory", "Rueda, ordinary memory", "MPI", "bytes", "bus bandwidth in GB/s"} <= set(texts)
    assert len(lines) == 3
    own = [[row for row in rows if row["memory"] == memory] for memory in ("window", "ordinary")]
    for notes in lines:
        assert [note.split()[0] for note in notes] == [str(row["bytes"]) for row in own[0]]
    for note, row in zip(lines[0] + lines[1], own[0] + own[1], strict=True):
        assert float(note.split()[-2]) == pytest.approx(row["busbw_gbs"], rel=0.01)
    points = [line.get("points").split() for line in ElementTree.parse(path).getroot().iter(SVG + "polyline")]
    for x, y in (point.split(",") for line in points for point in line):
        assert 78 <= float(x) <= 736 and 92 <= float(y) <= 404  # inside the axes


@pytest.mark.parametrize("arguments, words", [
    ([], "no mode is given"),
    (["speed"], "there is no mode 'speed'"),
    (["latency", "--bytes", "8"], "--bytes is for tensors"),
    (["tensors", "--count", "-1"], "--count -1: it must be from 1 to 100000"),
    (["tensors", "--sizes", "8"], "--sizes is for allreduce and its like, not for tensors"),
    (["allreduce", "--sizes", "4,1X"], "--sizes: '1X'"),
    (["allreduce", "--sizes", "4,"], "--sizes: ''"),
    (["allreduce", "--memory", "window,"], "--memory window,: it is ordinary, window"),
    (["allreduce", "--sizes", "6"], "6 bytes are no whole number of float32"),
    (["allreduce", "--dtype", "float31"], "there is no --dtype float31"),
    (["allreduce", "--level", "top"], "--level top: it is stack or backend"),
    (["reduce", "--level", "backend"], "reduce goes through the whole stack of the host: below that it is allreduce"),
    (["scatter", "--device", "cuda"], "scatter goes through the whole stack of the host: below that it is alltoall"),
    (["tensors", "--count", "0"], "--count 0: it must be from 1 to 100000"),
    (["tensors", "--bytes", "6"], "160 tensors of 6 bytes: bytes must be a positive multiple of 4"),
    (["allreduce", "--count", "2"], "--count is for tensors"),
    (["latency", "--from", "bert6"], "--from is for tensors"),
    (["tensors", "--from", "gpt"], "--from gpt: it is one of bert-base, bert6"),
    (["tensors", "--from", "bert6", "--count", "2"], "--count and --bytes cannot come with it"),
    (["tensors", "--plot", "x.svg"], "--plot is for allreduce and its like, not for tensors"),
    (["latency", "--steps", "0"], "--steps 0"),
    (["latency", "--against", "nccl"], "--against nccl: it is mpi, gloo, mpich, intel-mpi, oneccl, open-mpi, best"),
    (["allreduce", "--memory", "window,high"], "--memory window,high: it is ordinary, window"),
    (["allreduce", "--memory", "window,ordinary,window"], "window stands there twice"),
    (["tensors", "--memory", "window,ordinary"], "--memory window,ordinary: one of them with tensors"),
    (["pack"], "pack is for --device cuda"),
    (["allreduce", "--device", "tpu"], "--device tpu: it is host or cuda"),
    (["latency", "--device", "cuda"], "--device cuda is for allreduce and its like and for pack, not for latency"),
    (["allreduce", "--device", "cuda", "--against", "mpi"], "--against mpi: with --device cuda it is nccl or nothing"),
    (["allreduce", "--device", "cuda", "--memory", "window"], "--device cuda goes through the whole stack"),
    (["allreduce", "--against", "nothing"], "--against nothing: it is mpi, gloo"),
    (["allreduce", "--against", "mpi", "--dtype", "bfloat16"], "--against mpi: MPI has no bfloat16"),
    (["broadcast", "--against", "mpi", "--dtype", "bool"], "--against mpi: MPI has no bool"),
    (["latency", "--what"], "unrecognised option '--what'"),
])
def test_bad_arguments(arguments, words):
    done = subprocess.run([BIN / "rueda-bench", *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "error: " in done.stderr and words in done.stderr and "rueda-bench --help" in done.stderr


# With a device its numbers are right; without one it says so in a line, before ranks wait for each other.
@pytest.mark.parametrize("arguments", [["allreduce", "--sizes", "64K", "--against", "nothing"], ["pack"]])
def test_on_devices(arguments, tmp_path):
    path = tmp_path / "numbers.json"
    done = subprocess.run([BIN / "rueda-bench", *arguments, "--device", "cuda", *SHORT, "--json", path],
                          capture_output=True, text=True, timeout=60)
    if done.returncode == 1:
        lines = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
        assert len(lines) == 1 and lines[0].startswith("error: --device cuda: "), done.stderr
        pytest.skip(lines[0])
    assert done.returncode == 0, done.stderr
    rows = json.loads(path.read_text())
    assert len(rows) == (4 if arguments[0] == "pack" else 1)
    for row in rows:
        assert row["count"] == 5 and row["median_us"] > 0


# The last differ behind more words than anybody gives.
@pytest.mark.parametrize("options", ["allreduce --level backend --steps 5 --sizes ", "allreduce --steps 5 --sizes ",
                                     "tensors --steps 5 --count ", "allreduce --steps 5 --sizes " + "4," * 2000])
def test_different_options_are_told(options):
    script = f'exec "$0" {options}$((8 << PMI_RANK))'
    done = subprocess.run([BIN / "ruedarun", "-np", "2", "sh", "-c", script, BIN / "rueda-bench"], capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 1
    assert (f"rank 0 was started with '{options}8', rank 1 with '{options}16': give all ranks the same options"
            in done.stderr)


@pytest.mark.parametrize("level", ["stack", "backend"])
def test_one_rank_alone_beside_mpi_is_told(level):
    script = f'exec "$0" allreduce --level {level} --sizes 4 $([ $PMI_RANK = 0 ] || echo --against mpi)'
    done = subprocess.run([BIN / "ruedarun", "-np", "2", "sh", "-c", script, BIN / "rueda-bench"], capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 1
    assert "rank 1 with 'allreduce --level" in done.stderr and "give all ranks the same options" in done.stderr


@pytest.mark.parametrize("level", ["stack", "backend"])
def test_too_little_memory_on_one_rank_is_told(level):
    script = f'[ $PMI_RANK = 0 ] || ulimit -v 2000000; exec "$0" allreduce --level {level} --steps 5 --sizes 1G'
    done = subprocess.run([BIN / "ruedarun", "-np", "2", "sh", "-c", script, BIN / "rueda-bench"], capture_output=True,
                          text=True, timeout=60, env={**os.environ, "RUEDA_WINDOW_LIMIT": "0"})
    assert done.returncode == 1
    assert "rank 1 has no memory for tensors of 1073741824 bytes; give smaller --sizes" in done.stderr


def test_what_cannot_be_done_is_an_error(tmp_path):
    done = run(2, "latency", *SHORT, "--json", tmp_path / "missing" / "numbers.json")
    assert done.returncode == 1
    assert "--json: cannot write" in done.stderr
    done = run(2, "allreduce", *SHORT, "--plot", tmp_path / "missing" / "plot.svg")
    assert done.returncode == 1
    assert "--plot: cannot write" in done.stderr
    done = subprocess.run([BIN / "ruedarun", "-np", "2", BIN / "rueda-bench", "latency", *SHORT, "--memory", "window"],
                          capture_output=True, text=True, timeout=60, env={**os.environ, "RUEDA_SHM": "0"})
    assert done.returncode == 1
    assert "--memory window: rank" in done.stderr and "with RUEDA_SHM=1" in done.stderr
    done = subprocess.run([BIN / "rueda-bench", "latency", *SHORT, "--against", "mpi"], capture_output=True, text=True,
                          timeout=60)  # without ruedarun there is no MPI
    assert done.returncode == 1
    assert "--against mpi needs ranks" in done.stderr
