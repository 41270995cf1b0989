# SPDX-License-Identifier: Apache-2.0
"""--device of the programs that run a model, on a machine without a driver for CUDA. RUEDA_BIN names the folder of the programs."""

import ctypes
import json
import os
import pathlib
import re
import subprocess

import pytest

RUEDA_BIN = pathlib.Path(os.environ.get("RUEDA_BIN", "build/bin"))
PROGRAMS = ("train_bert", "distill", "evaluate_lm")
os.environ["OMP_NUM_THREADS"] = "1"


def has_driver():
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def run(program, *flags, ranks=None):
    words = [RUEDA_BIN / program, *flags]
    if ranks is not None:
        if not (RUEDA_BIN / "ruedarun").exists():
            pytest.skip("ruedarun was not built: one rank only")
        words = [RUEDA_BIN / "ruedarun", "--no-prefix", "-np", ranks, *words]
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=120)


def train(output, *flags, ranks=None):
    done = run("train_bert", "--steps", 3, "--batch", 2, "--max-length", 32, "--stride", 8, "--eval-first", "no", "--output", output,
               *flags, ranks=ranks)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((output / "summary.json").read_text()), done.stdout


@pytest.mark.skipif(has_driver(), reason="there is a driver for CUDA")
@pytest.mark.parametrize("ranks", [None, 2])
@pytest.mark.parametrize("program", PROGRAMS)
def test_cuda_without_a_driver_is_an_error_of_usage(tmp_path, program, ranks):
    """Told before anything is read: there is no such file."""
    done = run(program, "--device", "cuda", "--data", tmp_path / "missing", "--output", tmp_path / "out", ranks=ranks)
    assert done.returncode == 2, done.stdout + done.stderr
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert errors and len(set(errors)) == 1, done.stderr
    assert re.match("error: --device cuda: CUDA cannot be used: .*driver.*Give --device cpu, or auto", errors[0])
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(has_driver(), reason="there is a driver for CUDA")
@pytest.mark.parametrize("ranks", [None, 2])
def test_auto_takes_the_cpu_where_there_is_no_cuda(tmp_path, ranks):
    summary, said = train(tmp_path / "auto", "--device", "auto", ranks=ranks)
    assert len(re.findall("^--device auto: cpu, for CUDA cannot be used: rank.*driver", said, re.MULTILINE)) == 1, said
    assert "computing on cpu" in said
    default, silent = train(tmp_path / "default", ranks=ranks)
    assert "--device" not in silent
    assert summary["device"] == default["device"] == "cpu"
    assert summary["parameters_hash"] == default["parameters_hash"]


@pytest.mark.skipif(has_driver(), reason="there is a driver for CUDA")
def test_auto_evaluates_on_the_cpu(tmp_path):
    done = run("evaluate_lm", "--device", "auto", "--subset", 0.02, "--max-length", 32, "--output", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "--device auto: cpu" in done.stdout
    assert json.loads((tmp_path / "summary.json").read_text())["device"] == "cpu"


def test_ranks_that_want_different_devices_are_told(tmp_path):
    program = RUEDA_BIN / "train_bert"
    script = tmp_path / "ranks.sh"
    script.write_text(f'#!/bin/sh\n[ "$PMI_RANK" = 1 ] && device=auto\nexec {program} --output {tmp_path}/out --device ${{device:-cpu}}\n')
    script.chmod(0o755)
    if not (RUEDA_BIN / "ruedarun").exists():
        pytest.skip("ruedarun was not built: one rank only")
    done = subprocess.run([str(RUEDA_BIN / "ruedarun"), "-np", "2", str(script)], capture_output=True, text=True, timeout=120)
    assert done.returncode != 0
    assert "the ranks differ: rank 1 has --device auto, rank 0 has --device cpu" in done.stderr, done.stderr


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_link_none_of_torchs_libraries_for_cuda(program):
    """They are loaded where --device asks for them: a run on the CPU does not wait for 456 MB."""
    linked = subprocess.run(["ldd", str(RUEDA_BIN / program)], capture_output=True, text=True, check=True).stdout
    assert "libtorch_cpu" in linked
    assert "libtorch_cuda" not in linked and "libc10_cuda" not in linked
