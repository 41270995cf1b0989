# SPDX-License-Identifier: Apache-2.0
"""TensorBoard's curves of a run that went on, read by TensorBoard itself: every step once, and nothing of what was lost. RUEDA_BIN names the
folder of the programs."""

import json
import os
import pathlib
import shutil
import subprocess
import time

import pytest

accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
multiplexer = pytest.importorskip("tensorboard.backend.event_processing.plugin_event_multiplexer")

RUEDA_BIN = pathlib.Path(os.environ.get("RUEDA_BIN", "build/bin"))
TIMEOUT = 200
LOSS, F1 = "train/loss_of_rank_0", "held_out/f1"
os.environ["OMP_NUM_THREADS"] = "1"  # several ranks wait for one another all the time where the cores are taken


def command(output, *flags, ranks=None):
    words = [RUEDA_BIN / "train_bert", "--output", output, "--batch", 2, "--max-length", 64, "--stride", 16, *flags]
    if ranks is not None:
        if not (RUEDA_BIN / "ruedarun").exists():
            pytest.skip("ruedarun was not built: one rank only")
        words = [RUEDA_BIN / "ruedarun", "-np", ranks, *words]
    return list(map(str, words))


def train(output, *flags, ranks=None):
    done = subprocess.run(command(output, *flags, ranks=ranks), capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((output / "summary.json").read_text())


def curves(output):
    """(step, when it was written) of all that TensorBoard shows, by tag; both of its readers show the same."""
    plain = accumulator.EventAccumulator(str(output / "tensorboard"))
    plain.Reload()
    shown = {tag: [(event.step, event.wall_time) for event in plain.Scalars(tag)] for tag in plain.Tags()["scalars"]}
    several = multiplexer.EventMultiplexer()
    several.AddRun(str(output / "tensorboard"), "run")
    several.Reload()
    assert {tag: [(event.step, event.wall_time) for event in several.Tensors("run", tag)] for tag in shown} == shown
    return shown


def check(output, steps, since, resumed_at, evaluations):
    """Each step once; those before `resumed_at` are the first run's, those after it of what ran since a time."""
    shown = curves(output)
    for tag, points in shown.items():
        wanted = evaluations if tag.startswith("held_out/") else list(range(1, steps + 1))
        assert [step for step, _ in points] == wanted, tag
        assert all((written > since) == (step > resumed_at) for step, written in points), tag
    assert LOSS in shown and F1 in shown


FLAGS = ("--checkpoint-every", 8, "--evaluate-every", 5, "--eval-first", "yes")


def lose(output, *lost):
    for step in lost:
        shutil.rmtree(output / "checkpoints" / f"step-{step}")


@pytest.mark.parametrize("ranks, others", [(None, None), (2, None), (None, 2)], ids=["alone", "two-then-one", "one-then-two"])
def test_what_was_trained_beyond_the_checkpoint_is_hidden(tmp_path, ranks, others):
    train(tmp_path / "run", *FLAGS, "--steps", 23, ranks=ranks)
    lose(tmp_path / "run", 16)  # as if it had been killed between 8 and 16, with events up to 23
    since = time.time()
    train(tmp_path / "run", *FLAGS, "--steps", 18, "--resume", ranks=others)
    check(tmp_path / "run", 18, since, 8, [0, 5, 10, 15, 18])


def test_a_killed_run(tmp_path):
    output = tmp_path / "run"
    job = subprocess.Popen(command(output, *FLAGS, "--steps", 100000), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + TIMEOUT
    while not (output / "checkpoints" / "step-16").exists():
        assert job.poll() is None and time.monotonic() < deadline
        time.sleep(0.005)
    job.kill()
    job.wait()
    since = time.time()
    at = train(output, *FLAGS, "--steps", 40, "--resume")["resumed_from"]
    check(output, 40, since, at, [0, 5, 10, 15, 20, 25, 30, 35, 40])


def test_an_older_checkpoint_and_again(tmp_path):
    output = tmp_path / "run"
    train(output, *FLAGS, "--steps", 23)
    train(output, *FLAGS, "--steps", 20, "--resume", output / "checkpoints" / "step-16")
    since = time.time()
    train(output, *FLAGS, "--steps", 12, "--resume", output / "checkpoints" / "step-8")
    check(output, 12, since, 8, [0, 5, 10, 12])


def test_a_run_that_was_told_to_stop(tmp_path):
    output = tmp_path / "run"
    job = subprocess.Popen(command(output, *FLAGS, "--steps", 100000), stdout=subprocess.PIPE, text=True)
    for line in job.stdout:
        if line.startswith("step "):
            job.terminate()
            break
    job.communicate(timeout=TIMEOUT)
    at = json.loads((output / "summary.json").read_text())["steps"]
    since = time.time()
    train(output, *FLAGS, "--steps", at + 3, "--resume")
    check(output, at + 3, since, at, sorted({0, at + 3, *range(5, at + 4, 5)}))


def test_a_run_that_is_over_shows_its_evaluation_once(tmp_path):
    output = tmp_path / "run"
    train(output, *FLAGS, "--steps", 16)
    since = time.time()
    again = train(output, *FLAGS, "--steps", 16, "--resume")
    check(output, 16, since, 16, [0, 5, 10, 15, 16])
    assert [point["step"] for point in again["evaluations"]] == [0, 5, 10, 15, 16]
    train(output, *FLAGS, "--steps", 18, "--resume")
    check(output, 18, since, 16, [0, 5, 10, 15, 16, 18])


def test_a_run_that_begins_anew_hides_the_one_before(tmp_path):
    output = tmp_path / "run"
    train(output, "--steps", 9)
    since = time.time()
    train(output, "--steps", 4)
    check(output, 4, since, -1, [0, 4])
