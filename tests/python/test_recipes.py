# SPDX-License-Identifier: Apache-2.0
"""The programs of examples/06_torch_distributed train over Rueda.

RUEDA_RECIPES names a folder for packages that others wrote: those that a program needs and that are not there are installed into it by pip. Without it,
programs run whose packages can be imported."""

import importlib.util
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hand_started import CLEAN
from worker_processes import process_with

EXAMPLES = Path(__file__).parents[2] / "examples/06_torch_distributed"
PACKAGES = {
    "accelerate": ["accelerate==1.15.0", "psutil"],
    "deepspeed": ["deepspeed==0.19.8", "einops", "hjson", "msgpack", "ninja", "psutil", "py-cpuinfo"],
    "lightning": ["lightning==2.6.6", "lightning-utilities", "pytorch-lightning==2.6.6", "torchmetrics"],
    "ray": ["ray==2.60.0", "attrs", "certifi", "charset-normalizer", "jsonschema", "jsonschema-specifications", "msgpack", "pandas", "pyarrow", "python-dateutil",
            "referencing", "requests", "rpds-py", "six", "tensorboardX", "urllib3"],
}
STEPS = 2000  # of elastic.py
SETTINGS = {"DS_ACCELERATOR": "cpu", "DS_BUILD_OPS": "0", "OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0"}


def path_of(package):
    """For PYTHONPATH, so that the package can be imported."""
    own = os.environ.get("PYTHONPATH", "")
    if package is None or importlib.util.find_spec(package):
        return own
    if "RUEDA_RECIPES" not in os.environ:
        pytest.skip(f"there is no package {package}, and no RUEDA_RECIPES to install it into")
    folder = Path(os.environ["RUEDA_RECIPES"]) / package
    if not (folder / "installed").exists():
        done = subprocess.run([sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "-q", "--no-deps", "--no-build-isolation", "--target", folder,
                               *PACKAGES[package]], capture_output=True, text=True, env={**os.environ, **SETTINGS})
        if done.returncode != 0:
            pytest.skip(f"pip does not install {package}: {done.stderr.strip().splitlines()[-1]}")
        (folder / "installed").touch()
    return f"{own}:{folder}"


def assert_learned(command, package, seconds):
    environment = {**CLEAN, **SETTINGS, "PYTHONPATH": path_of(package)}
    done = subprocess.run(["timeout", "-k", "5", str(seconds), *map(str, command)], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, (done.stdout, done.stderr)
    found = sorted(set(re.findall(r"rank (\d): sum of the weights ([\d.]+)", done.stdout + done.stderr)))
    assert [rank for rank, _ in found] == ["0", "1"] and found[0][1] == found[1][1], done.stdout
    assert abs(float(found[0][1]) - 8) < 0.1


@pytest.mark.parametrize("program, package, seconds", [
    ("ddp.py", None, 120), ("fsdp.py", None, 120), ("lightning_fit.py", "lightning", 180), ("accelerate_loop.py", "accelerate", 120),
    ("transformers_trainer.py", "accelerate", 180), ("deepspeed_zero.py", "deepspeed", 500)])
def test_by_torchrun(program, package, seconds):
    assert_learned([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", EXAMPLES / program], package, seconds)


def test_ray_train():
    assert_learned([sys.executable, EXAMPLES / "ray_train.py"], "ray", 500)


def run_elastic(checkpoint, path, victim=None):
    """Standard output and error of elastic.py. When it has saved once, the victim is killed."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=1",
               EXAMPLES / "elastic.py", checkpoint, STEPS]
    environment = {**CLEAN, **SETTINGS, "PYTHONPATH": f"{path}:{path_of(None)}"}
    with (open(f"{checkpoint}.err", "w+") as err,
          subprocess.Popen(["timeout", "-k", "5", "100", *map(str, command)], stdout=subprocess.PIPE, stderr=err, text=True, env=environment) as job):
        out = ""
        while victim is not None and "saved step" not in out:
            out += (line := job.stdout.readline())
            assert line, out
        if victim is not None:
            os.kill(process_with(f"RANK={victim}", job.pid), signal.SIGKILL)
        out += job.stdout.read()
        assert job.wait() == 0, out
        err.seek(0)
        return out, err.read()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The last checkpoint of a job that has lost nobody."""
    folder = tmp_path_factory.mktemp("undisturbed")
    out, _ = run_elastic(folder / "checkpoint", folder)
    assert re.findall(r"begins at step (\d+)", out) == ["0", "0"] and out.count("sum of the weights 8.0000") == 2, out
    return torch.load(folder / "checkpoint")


@pytest.mark.parametrize("victim", [0, 1])
def test_torchrun_starts_ranks_again(victim, undisturbed, tmp_path):
    # The other rank ends by its exception, even if torchrun sees the loss first and asks it to end.
    (tmp_path / "sitecustomize.py").write_text("import os, signal\nif 'RANK' in os.environ:\n    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n")
    out, err = run_elastic(tmp_path / "checkpoint", tmp_path, victim)
    begins = re.findall(r"rank (\d): begins at step (\d+)", out)
    assert sorted(begins[:2]) == [("0", "0"), ("1", "0")], out
    assert sorted(rank for rank, _ in begins[2:]) == ["0", "1"] and begins[2][1] == begins[3][1] and 0 < int(begins[2][1]) < STEPS, out
    assert re.search(rf"rank{1 - victim}\]: .*DistBackendError: .*rank {victim} .*is lost", err), err
    state = torch.load(tmp_path / "checkpoint")
    assert state["step"] == STEPS
    torch.testing.assert_close(state, undisturbed, rtol=0, atol=0)
