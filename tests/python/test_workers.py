# SPDX-License-Identifier: Apache-2.0
"""Workers of multiprocessing in the ranks of a job: those that load data work, and those that would join the job are told."""
import os
import subprocess
import sys
from pathlib import Path

import pytest

BIN = Path(os.environ["RUEDA_BIN"])

DATA = """
import multiprocessing, os, sys, torch, rueda.torch as hvd

class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 16
    def __getitem__(self, i):
        return torch.tensor(i * i)

def loaded(method):
    loader = torch.utils.data.DataLoader(Squares(), batch_size=4, num_workers=2, multiprocessing_context=method)
    return sum(batch.sum() for batch in loader)
"""
GUARDED = DATA + """
if __name__ == "__main__":
    hvd.init()
    for _ in range(2):
        assert hvd.allreduce(loaded(sys.argv[1])).item() == 1240
    print("done", flush=True)
"""
UNGUARDED = DATA + """
hvd.init()
print("trains", flush=True)
assert loaded(sys.argv[1]).item() == 1240
print("done", flush=True)
"""
WORKER = """
import multiprocessing, os, sys, torch, rueda.torch as hvd

def work(alone):
    if alone:
        for name in ("PMI_RANK", "PMI_SIZE", "PMI_FD"):
            os.environ.pop(name, None)
    try:
        hvd.init()
    except (RuntimeError, ValueError) as error:
        print("told:", " ".join(str(error).split()), flush=True)
        return
    print("size", hvd.size(), hvd.allreduce(torch.ones(1), op=hvd.Sum).item(), flush=True)

if __name__ == "__main__":
    hvd.init()
    worker = multiprocessing.get_context(sys.argv[1]).Process(target=work, args=(sys.argv[2:] == ["alone"],))
    worker.start()
    worker.join()
    assert worker.exitcode == 0
    hvd.barrier()
    print("done", flush=True)
"""


def run(script, folder, *arguments, ranks=2):
    (folder / "script.py").write_text(script)
    launcher = [BIN / "ruedarun", "--no-prefix", "-np", str(ranks)] if ranks else []
    done = subprocess.run([*launcher, sys.executable, "script.py", *arguments], cwd=folder, capture_output=True, text=True, timeout=200)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.full("torch")), "forkserver"])
def test_workers_load_data(method, tmp_path):
    status, out, err = run(GUARDED, tmp_path, method)
    assert status == 0 and out.count("done") == 2, out + err


@pytest.mark.parametrize("ranks", [pytest.param(0, marks=pytest.mark.full("torch")), 2])
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_script_that_workers_run_once_more(method, ranks, tmp_path):
    status, out, err = run(UNGUARDED, tmp_path, method, ranks=ranks)
    assert status != 0 and "done" not in out, out + err
    assert out.count("trains") == max(ranks, 1)
    assert "init: multiprocessing has started this process as a worker" in err and 'if __name__ == "__main__":' in err, err


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_worker_is_no_rank(method, tmp_path):
    status, out, err = run(WORKER, tmp_path, method)
    assert status == 0 and out.count("done") == 2, out + err
    for rank in range(2):
        assert f"told: init: multiprocessing has started this process as a worker of rank {rank}" in out, out + err


def test_a_forked_worker_is_told(tmp_path):
    status, out, err = run(WORKER, tmp_path, "fork")
    assert status == 0 and out.count("done") == 2 and out.count("told: This process was forked") == 2, out + err


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_worker_may_have_a_job_of_its_own(method, tmp_path):
    status, out, err = run(WORKER, tmp_path, method, "alone")
    assert status == 0 and out.count("done") == 2 and out.count("size 1 1.0") == 2, out + err
    status, out, err = run(WORKER, tmp_path, method, ranks=0)
    assert status == 0 and out.count("done") == 1 and out.count("size 1 1.0") == 1, out + err
