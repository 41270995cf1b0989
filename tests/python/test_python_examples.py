# SPDX-License-Identifier: Apache-2.0
"""examples/03_python: scripts written after the patterns of Horovod's documentation, of which the import alone was changed."""
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from worker_processes import process_of_worker

BIN = Path(os.environ["RUEDA_BIN"])
EXAMPLES = Path(__file__).parents[2] / "examples/03_python"


def run(script, *arguments, ranks=2):
    command = [BIN / "ruedarun", "--no-prefix", "-np", ranks, sys.executable, EXAMPLES / script, *arguments]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=120, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    return done.stdout


def last_number(pattern, text):
    return float(re.findall(pattern, text)[-1])


@pytest.mark.parametrize("script", sorted(each.name for each in EXAMPLES.glob("*.py")))
def test_the_import_alone_is_rueda(script):
    lines = (EXAMPLES / script).read_text().splitlines()
    assert [line for line in lines if "rueda" in line and not line.startswith(('"""', "import rueda.torch as hvd", "Without", "Written"))
            and "ruedarun" not in line] == []


@pytest.mark.parametrize("ranks, options", [(1, []), (2, []), (2, ["--fp16-allreduce"]), (2, ["--use-adasum"])], ids=str)
def test_mnist_learns(ranks, options):
    out = run("mnist.py", "--samples", 2400, "--epochs", 2, *options, ranks=ranks)
    assert last_number(r"accuracy ([\d.]+) %", out) > 50, out


def test_elastic_mnist_learns_without_being_elastic():
    out = run("mnist.py", "--samples", 2400, "--epochs", 2, "--elastic")
    assert last_number(r"accuracy ([\d.]+) %", out) > 50, out


def run_and_kill(script, *arguments, at):
    """What a job of two ranks says of which worker 1 is killed when a line has `at`."""
    command = [BIN / "ruedarun", "-np", "2", "--min-np", "1", sys.executable, EXAMPLES / script, *arguments]
    with subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env={**os.environ, "OMP_NUM_THREADS": "1"}) as job:
        said, killed = "", False
        for line in job.stdout:
            said += line
            if at in line and not killed:
                killed = True
                os.kill(process_of_worker(1, job.pid), 9)
    assert job.returncode == 0 and "was killed by signal 9" in said, said
    return said


def test_elastic_mnist_goes_on_without_a_rank():
    said = run_and_kill("mnist.py", "--samples", "2400", "--epochs", "2", "--elastic", "--log-interval", "1", at="epoch 1, 640/2400")
    assert last_number(r"accuracy ([\d.]+) %", said) > 50, said


@pytest.mark.full("torch")
def test_elastic_imagenet_goes_on_without_a_rank():
    said = run_and_kill("imagenet_elastic.py", "--samples", "320", "--epochs", "4", at="epoch 1 on 2 ranks")
    assert re.search(r"epoch 4 on [12] ranks: loss", said) and last_number(r"loss ([\d.]+)", said) < 2.4, said


@pytest.mark.full("torch")
def test_elastic_benchmark_goes_on_without_a_rank():
    """A commit comes once in two batches, so some may come again. The learning rate follows the number of ranks."""
    said = run_and_kill("synthetic_benchmark_elastic.py", "--num-iters", "8", "--image-size", "32", at="iteration 2")
    assert "the ranks are 1 now" in said, said
    ranks, rate, batches = re.findall(r"on (\d) ranks: .*learning rate ([\d.]+), (\d+) batches", said)[-1]
    assert float(rate) == 0.01 * int(ranks) and 3 + 8 * 5 <= int(batches) < 3 + 11 * 5, said


def test_imagenet_goes_on_from_its_checkpoint(tmp_path):
    arguments = ["--checkpoint-format", tmp_path / "net-{epoch}.pt", "--samples", 320]
    first = run("imagenet.py", *arguments, "--epochs", 2)
    again = run("imagenet.py", *arguments, "--epochs", 3)
    assert "epoch 2:" in first and "epoch 2:" not in again and "epoch 3:" in again
    assert last_number(r"loss ([\d.]+)", again) < 2.4


@pytest.mark.full("torch")
def test_synthetic_benchmark():
    assert last_number(r"on 2 ranks: ([\d.]+)", run("synthetic_benchmark.py", "--num-iters", 1, "--image-size", 32)) > 0


@pytest.mark.full("torch")
def test_bert():
    losses = [float(loss) for loss in re.findall(r"loss ([\d.]+)", run("bert.py", "--max-length", 96))]
    assert len(losses) == 2 and losses[1] < losses[0]
