# SPDX-License-Identifier: Apache-2.0
"""bundle_test.py CMAKE BUILD: the bundle as it would be on a machine without a device: every program loads, from the bundle alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

NO_DEVICE = 77
SYSTEM = Path("/usr/bin/python3")


def check(python: Path, bundle: Path, folder: Path) -> tuple[int, str, list[dict[str, object]]]:
    """Status, output and results of a check in an empty folder, with nothing of this environment."""
    done = subprocess.run([python, bundle / "check", "--output", "results.jsonl"], cwd=folder, env={"PATH": "/usr/bin:/bin"}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=200)
    results = folder / "results.jsonl"
    return done.returncode, done.stdout, [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []


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
    library = next((bundle / "lib").glob("libspdlog.so*"))
    away = library.with_name("away")
    library.rename(away)
    try:
        with tempfile.TemporaryDirectory() as folder:
            status, output, _ = check(SYSTEM, bundle, Path(folder))
    finally:
        away.rename(library)
    assert status == 1 and f"ruedarun needs {library.name}: " in output, output


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
    test_the_checkpoint_is_read(bundle)


if __name__ == "__main__":
    main()
