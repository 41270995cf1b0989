# SPDX-License-Identifier: Apache-2.0
"""bundle_test.py CMAKE BUILD: the bundle as it would be on a machine without a device: every program loads, from the bundle alone."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

NO_DEVICE = 77
SYSTEM = Path("/usr/bin/python3")
Results = list[dict[str, object]]


def start(python: Path, bundle: Path, folder: Path, *flags: str) -> subprocess.Popen[str]:
    """A check in an empty folder, with nothing of this environment."""
    return subprocess.Popen([python, bundle / "check", "--output", "results.jsonl", *flags], cwd=folder, env={"PATH": "/usr/bin:/bin"}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def results_of(folder: Path) -> Results:
    results = folder / "results.jsonl"
    return [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []


def check(python: Path, bundle: Path, folder: Path, *flags: str) -> tuple[int, str, Results]:
    """Its status, output and results."""
    running = start(python, bundle, folder, *flags)
    output, _ = running.communicate(timeout=200)
    return running.returncode, output, results_of(folder)


@contextlib.contextmanager
def conformance_is(bundle: Path, script: str) -> Iterator[None]:
    """There seems to be a device, and a shell script is the conformance on it."""
    program = bundle / "bin" / "device_conformance"
    away = program.with_name("away")
    program.rename(away)
    try:
        program.write_text(f'#!/bin/sh\nif [ "$1" = devices ]; then echo "CUDA 13.0 (1 device)"; exit 0; fi\n{script}\n')
        program.chmod(0o755)
        yield
    finally:
        away.replace(program)


def outcome_of(results: list[dict[str, object]], step: str) -> dict[str, object]:
    return next(line for line in results if line.get("step") == step and "outcome" in line)


def test_programs(python: Path, bundle: Path, with_torch: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        status, output, results = check(python, bundle, Path(folder))
    assert status == NO_DEVICE and "\nno device; " in output and str(outcome_of(results, "device")["why"]).startswith("no device: "), output
    programs = outcome_of(results, "programs")
    assert programs["outcome"] == ("passed" if with_torch else "left out"), output
    assert with_torch or "train_bert" in str(programs["why"]), output
    assert outcome_of(results, "speed")["why"] == "no device", output


def test_a_missing_library_is_named(bundle: Path) -> None:
    library = next((bundle / "lib").glob("libfmt.so*"))
    away = library.with_name("away")
    library.rename(away)
    try:
        with tempfile.TemporaryDirectory() as folder:
            status, output, _ = check(SYSTEM, bundle, Path(folder))
    finally:
        away.rename(library)
    assert status == 1 and f"ruedarun needs {library.name}: " in output, output


def has_ended(process: int) -> bool:
    """Also where nobody has asked for its status."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_step_that_hangs_is_cut_off(bundle: Path) -> None:
    with tempfile.TemporaryDirectory() as folder, conformance_is(bundle, f"echo $$ >{folder}/process; echo begun; exec sleep 600"):
        began = time.monotonic()
        status, output, results = check(SYSTEM, bundle, Path(folder), "--only", "conformance.1", "--seconds", "8")
        assert time.monotonic() - began < 60
        process = int((Path(folder) / "process").read_text())
    step = outcome_of(results, "conformance.1")
    assert status == 1 and step["outcome"] == "cut off" and "begun" in str(step["why"]), output
    assert has_ended(process)


def test_a_check_that_is_stopped_has_told(bundle: Path) -> None:
    with tempfile.TemporaryDirectory() as name, conformance_is(bundle, f"echo $$ >{name}/process.part; mv {name}/process.part {name}/process; exec sleep 600"):
        folder = Path(name)
        running = start(SYSTEM, bundle, folder, "--only", "conformance.1,conformance.2.host")
        end = time.monotonic() + 60
        while not (folder / "process").exists() and time.monotonic() < end:
            time.sleep(0.05)
        running.send_signal(signal.SIGTERM)
        output, _ = running.communicate(timeout=60)
        results, process = results_of(folder), int((folder / "process").read_text())
    assert running.returncode == 1 and outcome_of(results, "device")["outcome"] == "passed", output
    assert outcome_of(results, "conformance.1")["why"] == "stopped by SIGTERM" and not any(line.get("step") == "conformance.2.host" for line in results), output
    assert has_ended(process)


def test_what_nccl_refuses_is_left_out(bundle: Path) -> None:
    for words, outcome in (("echo 'NCCL WARN Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1000'; exit 1", "left out"),
                           ("echo 'rueda: tensors on devices of all ranks go by way of the host, not by NCCL: there is none'", "left out"),
                           ("echo 'NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 - Init COMPLETE'", "passed"),
                           ("echo 'NCCL INFO is here'", "failed"),
                           ("exit 3", "failed")):
        with tempfile.TemporaryDirectory() as folder, conformance_is(bundle, words):
            status, output, results = check(SYSTEM, bundle, Path(folder), "--only", "conformance.2.nccl")
        assert outcome_of(results, "conformance.2.nccl")["outcome"] == outcome, output
        assert status == (1 if outcome == "failed" else 0), output


def test_programs_take_the_flags_of_steps(bundle: Path) -> None:
    """Each asks for a device, and finds none: it has read its flags before."""
    steps = ("pack", "allreduce", "host_waits", "sharded")
    with tempfile.TemporaryDirectory() as folder, conformance_is(bundle, "exit 0"):
        status, output, results = check(Path(sys.executable), bundle, Path(folder), "--only", ",".join(steps))
    assert status == 1, output
    for step in steps:
        why = str(outcome_of(results, step)["why"])
        assert "no driver" in why or "CUDA cannot be used" in why, f"{step}: {why}"


def test_the_checkpoint_is_read(bundle: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model"
        subprocess.run([sys.executable, bundle / "checkpoint.py", model, "2", "64"], check=True, timeout=120)
        sys.path.insert(0, str(bundle))
        from machine import Machine  # noqa: PLC0415  (the bundle's own)

        machine = Machine()
        output = machine.must(*machine.ranks(2, machine.program("train_bert"), "--model", model, "--dummy", "yes", "--steps", 2, "--batch", 2, "--max-length", 32,
                                             "--stride", 8, "--eval-first", "no", "--output", Path(folder) / "run"), seconds=100)
        assert "results in" in output, output


def main() -> None:
    cmake, build = sys.argv[1:]
    subprocess.run([cmake, "--build", build, "--target", "gpu-bundle"], check=True, timeout=250)
    bundle = Path(build) / "gpu-bundle"
    test_programs(SYSTEM, bundle, with_torch=subprocess.run([SYSTEM, "-c", "import torch"], stderr=subprocess.DEVNULL, env={"PATH": os.environ["PATH"]}).returncode == 0)
    test_programs(Path(sys.executable), bundle, with_torch=True)
    test_a_missing_library_is_named(bundle)
    test_a_step_that_hangs_is_cut_off(bundle)
    test_a_check_that_is_stopped_has_told(bundle)
    test_what_nccl_refuses_is_left_out(bundle)
    test_programs_take_the_flags_of_steps(bundle)
    test_the_checkpoint_is_read(bundle)


if __name__ == "__main__":
    main()
