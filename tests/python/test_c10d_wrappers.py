# SPDX-License-Identifier: Apache-2.0
"""What others have built upon torch.distributed gives the same values under Rueda as under gloo.

The programs are c10d/four_ranks.py and c10d/two_ranks.py. One process runs them all, and forks the ranks."""

import re
import subprocess
import sys

import pytest
import torch
from c10d_programs import ENVIRONMENT, HERE, script  # noqa: F401 - script is a fixture

PROGRAMS = [(size, name) for size, module in ((4, "four_ranks"), (2, "two_ranks"))
            for name in re.findall(r"^def ([a-z]\w*)", (HERE / "c10d" / f"{module}.py").read_text(), re.MULTILINE)]


@pytest.fixture(scope="module", name="results")
def folder_with_results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wrappers")
    environment = {**ENVIRONMENT, "TORCHINDUCTOR_CACHE_DIR": str(folder / "compiled"), "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    done = subprocess.run(["timeout", "-k", "5", "500", sys.executable, HERE / "c10d" / "run_under_both.py", folder],
                          capture_output=True, text=True, env=environment)
    assert done.returncode == 0, (done.stdout, done.stderr)
    return folder


@pytest.mark.parametrize("size, name", PROGRAMS, ids=[name for _, name in PROGRAMS])
def test_program(size, name, results):
    for rank in range(size):
        ours, theirs = (torch.load(results / f"{backend} {name} {rank}") for backend in ("rueda", "gloo"))
        if isinstance(ours, str):
            pytest.skip(ours)
        for values in (ours, theirs):
            assert "failed" not in values, values["failed"]
        assert ours and all(each.isfinite().all() for each in ours)
        torch.testing.assert_close(ours, theirs, msg=lambda words: f"rank {rank} of {size}: {words}")


def test_spawned_ranks(script):  # noqa: F811 - a fixture
    path = script("""
        import torch.multiprocessing
        def work(rank, folder, queue):
            values = []
            for backend in ("rueda", "gloo"):
                dist.init_process_group(backend, init_method=f"file://{folder}/{backend}", rank=rank, world_size=2)
                values.append(torch.arange(5.0) * (rank + 3))
                dist.all_reduce(values[-1], dist.ReduceOp.PRODUCT)
                dist.barrier()
                dist.destroy_process_group()
            queue.put((rank, [each.tolist() for each in values]))
            if rank == 1:
                raise ValueError("as a program may")
        if __name__ == "__main__":
            queue = torch.multiprocessing.get_context("spawn").SimpleQueue()
            say(error_of(lambda: torch.multiprocessing.spawn(work, (os.path.dirname(__file__), queue), nprocs=2)))
            say(*sorted(queue.get() for _ in range(2)))
    """)
    done = subprocess.run(["timeout", "-k", "5", "120", sys.executable, path], capture_output=True, text=True, env={**ENVIRONMENT, "GLOO_SOCKET_IFNAME": "lo"})
    assert done.returncode == 0, (done.stdout, done.stderr)
    error, values = done.stdout.splitlines()
    assert error.startswith("ProcessRaisedException:") and "Process 1 terminated" in error and "ValueError: as a program may" in error
    wanted = [[12.0 * each * each for each in range(5)]] * 2
    assert values == f"{(0, wanted)} {(1, wanted)}"
