# SPDX-License-Identifier: Apache-2.0
"""rueda.run: a function on several ranks, from a Python program; and scripts started in other ways."""
import os
import subprocess
import sys
from pathlib import Path

import pytest

import rueda

BIN = Path(os.environ["RUEDA_BIN"])
os.environ["PATH"] = f"{BIN}{os.pathsep}{os.environ['PATH']}"


def sum_of_ranks(factor, offset=0):
    import torch

    import rueda.torch as hvd
    hvd.init()
    return hvd.rank(), hvd.allreduce(torch.tensor([hvd.rank() * factor + offset]), op=hvd.Sum).item()


def test_a_function_on_three_ranks():
    assert rueda.run(sum_of_ranks, args=(10,), kwargs={"offset": 1}, np=3) == [(0, 33), (1, 33), (2, 33)]


def test_a_function_that_is_a_closure_and_needs_no_rank():
    words = "hello"
    assert rueda.run(lambda: words.upper(), num_proc=2) == ["HELLO", "HELLO"]


def fails(on):
    import rueda.torch as hvd
    hvd.init()
    if hvd.rank() == on:
        raise KeyError("no such thing")
    hvd.barrier()


def test_an_exception_is_told_with_its_rank():
    with pytest.raises(RuntimeError, match="rank 1 of 2 has raised") as raised:
        rueda.run(fails, args=(1,), np=2)
    assert "no such thing" in str(raised.value) and "in fails" in str(raised.value)


def test_a_rank_that_dies_is_named():
    with pytest.raises(RuntimeError, match="ended"):
        rueda.run(lambda: os._exit(3), np=2)


def test_what_rueda_does_not_have():
    with pytest.raises(ValueError, match="Gloo"):
        rueda.run(fails, use_gloo=True)


def counts_to_ten(lost):
    import torch

    import rueda.torch as hvd
    hvd.init()
    state = hvd.elastic.ObjectState(count=0)

    @hvd.elastic.run
    def train(state):
        while state.count < 10 or hvd.size() < 2:
            if os.environ["RUEDA_WORKER"] == lost and state.count == 5:
                os._exit(9)
            state.count += 0 if state.count >= 10 else 1
            state.commit()
            hvd.allreduce(torch.ones(1))
        return os.environ["RUEDA_WORKER"], state.count, hvd.local_rank()

    return train(state)


def test_an_elastic_job_gives_the_results_of_those_that_are_left(capfd):
    assert rueda.run(counts_to_ten, args=("1",), np=2, min_np=1) == [("0", 10, 0), ("2", 10, 1)]
    assert "ended with status 9; going on with 1 rank" in capfd.readouterr().err


def test_an_elastic_job_keeps_the_local_rank_of_those_that_are_left(capfd):
    assert rueda.run(counts_to_ten, args=("0",), np=2, min_np=1) == [("1", 10, 1), ("2", 10, 0)]


def test_an_elastic_job_that_fails_is_told():
    with pytest.raises(RuntimeError, match="rueda.run"):
        rueda.run(counts_to_ten, args=("0",), np=2, min_np=2, reset_limit=0)


def test_flags_of_elastic_jobs_are_ruedaruns(tmp_path):
    script = tmp_path / "hosts"
    script.write_text("#!/bin/sh\necho localhost\n")
    script.chmod(0o755)
    assert rueda.run(lambda: os.environ["RUEDA_WORKER"], np=2, host_discovery_script=str(script), slots=2, cooldown_range=[1, 2]) == ["0", "1"]
    with pytest.raises(RuntimeError, match="status 2"):
        rueda.run(fails, np=2, max_np=1, min_np=1)


SCRIPT = """
import sys
import torch
import rueda.torch as hvd
hvd.init()
# In one piece: mpiexec mixes what ranks write.
sys.stdout.write(f"{hvd.allreduce(torch.ones(1), op=hvd.Sum).item()} {hvd.rank()} {hvd.size()}\\n")
"""


def lines_of(*command, **environment):
    done = subprocess.run([*map(str, command), sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60,
                          env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr
    return sorted(done.stdout.splitlines())


def test_plain_python_is_one_rank():
    assert lines_of() == ["1.0 0 1"]


def test_mpiexec():
    assert lines_of(Path(sys.executable).parent / "mpiexec", "-n", 2) == ["2.0 0 2", "2.0 1 2"]


# What srun leaves in the environment of a task.
TASK_OF_SRUN = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_NTASKS": "2", "SLURM_PROCID": "1",
                "SLURM_LOCALID": "1"}


def test_srun_with_pmi():
    # The server of PMI, which Slurm's plugin is, is Hydra's here.
    assert lines_of(Path(sys.executable).parent / "mpiexec", "-launcher", "fork", "-hosts", "localhost", "-n", 2,
                    **TASK_OF_SRUN) == ["2.0 0 2", "2.0 1 2"]


@pytest.mark.parametrize("environment, words", [
    ({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "3"}, ["mpirun of Open MPI has started 3 processes", "Use ruedarun"]),
    ({"RANK": "0", "WORLD_SIZE": "4", "TORCHELASTIC_RUN_ID": "none"}, ["torchrun has started 4 processes", "Use ruedarun"])])
def test_a_launcher_that_rueda_does_not_understand(environment, words):
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, env={**os.environ, **environment})
    assert done.returncode == 1
    assert all(each in done.stderr for each in [*words, "HorovodInternalError", "this one has found no other"]), done.stderr


def test_a_task_of_srun_without_its_nodes():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, env={**os.environ, **TASK_OF_SRUN})
    assert done.returncode == 1 and "srun has left no SLURM_STEP_NODELIST. Set RUEDA_STORE=HOST:PORT" in done.stderr, done.stderr


@pytest.mark.parametrize("environment, words", [
    ({"PMIX_NAMESPACE": "x", **TASK_OF_SRUN}, ["srun has started 2 processes", "srun --mpi=pmi2"]),
    ({"PMIX_NAMESPACE": "x", "OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"}, ["mpirun of Open MPI has started 2 processes"]),
    ({}, ["speaks PMIx", "unset PMIX_RANK"])], ids=["srun", "mpirun", "one_rank"])
@pytest.mark.parametrize("command", [[sys.executable, "-c", SCRIPT], [BIN / "allreduce"]], ids=["python", "c++"])
def test_a_launcher_that_speaks_pmix(command, environment, words):
    """MPICH from PyPI does not speak it, and would end the process with words of its own."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ, **environment, "PMIX_RANK": "0"})
    assert done.returncode == 1
    assert all(each in done.stderr for each in words) and "error stack" not in done.stderr, done.stderr


def test_a_batch_script_of_slurm_is_one_rank():
    assert lines_of(SLURM_JOB_ID="7", SLURM_NTASKS="2", SLURM_PROCID="0") == ["1.0 0 1"]


FORKS = """
import os
import torch
import rueda.torch as hvd

class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 16
    def __getitem__(self, i):
        assert hvd.rank() == rank and hvd.size() == 2 and hvd.is_initialized() and hvd.global_process_set.ranks == [0, 1]
        return torch.tensor(i * i)

hvd.init()
rank = hvd.rank()
for _ in range(2):
    total = sum(batch.sum() for batch in torch.utils.data.DataLoader(Squares(), batch_size=4, num_workers=2))
    assert hvd.allreduce(total).item() == 1240, total
pending = hvd.allreduce_async(torch.ones(1), name=f"of {rank}")
child = os.fork()
if child == 0:
    for act in (lambda: hvd.allreduce(torch.ones(1)), lambda: hvd.synchronize(pending)):
        try:
            act()
            os._exit(1)
        except ValueError as error:
            print(error, flush=True)
    os._exit(0)
hvd.allreduce(torch.ones(1), name=f"of {1 - rank}")
hvd.synchronize(pending)
assert os.waitpid(child, 0)[1] == 0
print("done", flush=True)
"""


def test_workers_of_a_data_loader_may_be_forked():
    done = subprocess.run([BIN / "ruedarun", "--no-prefix", "-np", "2", sys.executable, "-c", FORKS], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("done") == 2 and done.stdout.count("was forked") == 4


def test_a_killed_rank_is_named_to_the_others():
    script = """
import os, signal, torch
import rueda.torch as hvd
hvd.init()
for step in range(100):
    try:
        hvd.allreduce(torch.ones(1), name="step")
    except hvd.HorovodInternalError as error:
        print("told:", error, flush=True)
        raise SystemExit(7)
    if step == 50 and hvd.rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([BIN / "ruedarun", "--no-prefix", "-np", "2", sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and "told:" in done.stdout and "rank 1" in done.stdout, done.stdout + done.stderr
