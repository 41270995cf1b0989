# SPDX-License-Identifier: Apache-2.0
"""train_bert and distill with --elastic: a rank is killed, and the training ends as if nothing had happened. RUEDA_BIN names the programs."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from worker_processes import process_of_worker

torch = pytest.importorskip("torch")
safetensors_torch = pytest.importorskip("safetensors.torch")

BIN = Path(os.environ["RUEDA_BIN"])
STEPS = 120
SMALL = ["--steps", STEPS, "--batch", 2, "--max-length", 32, "--dtype", "float64", "--cache", "none", "--dropout", 0.1, "--evaluate-every", 20]


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    folder = tmp_path_factory.mktemp("teacher")
    done = subprocess.run([*map(str, [BIN / "train_bert", "--task", "mlm", "--steps", 1, "--batch", 2, "--cache", "none", "--output", folder])],
                          capture_output=True, text=True, timeout=120, env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    return folder


def program(name, teacher):
    bert = [BIN / "train_bert", "--task", "mlm"]
    return {"train_bert": bert, "sharded": [*bert, "--shard", "yes"], "distill": [BIN / "distill", "--teacher", teacher]}[name]


def train(words, output, *launcher, victims=()):
    """What was said. victims: {step: worker}, which is killed when rank 0 has evaluated after that step."""
    command = [BIN / "ruedarun", *launcher, *words, *SMALL, "--output", output, "--elastic", "yes", "--log-losses", output / "losses.jsonl"]
    left, said = dict(victims), ""
    with subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env=os.environ | {"OMP_NUM_THREADS": "1"}) as job:
        for line in job.stdout:
            said += line
            for step in [each for each in left if f"held out after {each} steps" in line]:
                os.kill(process_of_worker(left.pop(step), job.pid), signal.SIGKILL)
    assert job.returncode == 0 and not left, said
    return said


def result(output):
    losses = [json.loads(line)["loss"] for line in (output / "losses.jsonl").read_text().splitlines()]
    return safetensors_torch.load_file(output / "model.safetensors"), losses, json.loads((output / "summary.json").read_text())


@pytest.mark.parametrize("name", ["train_bert", "sharded", "distill"])
def test_a_replaced_rank_leaves_no_trace(name, teacher, tmp_path):
    whole, disturbed = tmp_path / "whole", tmp_path / "disturbed"
    train(program(name, teacher), whole, "-np", 2)
    said = train(program(name, teacher), disturbed, "-np", 2, "--min-np", 2, "--spares", 1, victims={20: 1})
    assert "was killed by signal 9" in said and "going on after step" in said, said
    parameters, losses, summary = result(whole)
    again, losses_again, summary_again = result(disturbed)
    assert parameters.keys() == again.keys()
    for key, tensor in parameters.items():
        assert (tensor - again[key]).abs().max() < 1e-9, key
    assert len(losses) == len(losses_again) == STEPS
    assert [point["step"] for point in summary["evaluations"]] == [point["step"] for point in summary_again["evaluations"]]
    assert summary["ranks"] == summary_again["ranks"] == 2 and summary_again["resumed_from"] is None
    counts = summary_again["membership"]
    assert counts["generations"] >= 2 and (counts["lost"], counts["joined"]) == (1, 1) and 0 < counts["seconds_standing_still"] < 60
    assert summary["membership"] is None


def test_the_others_go_on_with_fewer_and_with_more(tmp_path):
    said = train(program("train_bert", None), tmp_path, "-np", 2, "--min-np", 1, "--spares", 0, victims={20: 0})
    assert "going on with 1 rank" in said, said
    parameters, losses, summary = result(tmp_path)
    assert len(losses) == summary["steps"] == STEPS and losses[-1] < losses[0]
    assert summary["membership"]["lost"] == 1
    assert all(torch.isfinite(tensor).all() for tensor in parameters.values())


def test_without_a_launcher_it_trains_as_ever(tmp_path):
    hashes = []
    for elastic in ("no", "yes"):
        output = tmp_path / elastic
        words = [*program("train_bert", None), *SMALL, "--output", output, "--elastic", elastic]
        done = subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=120, env=os.environ | {"OMP_NUM_THREADS": "1"})
        assert done.returncode == 0, done.stderr
        hashes.append(json.loads((output / "summary.json").read_text())["parameters_hash"])
    assert hashes[0] == hashes[1]
