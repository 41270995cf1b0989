# SPDX-License-Identifier: Apache-2.0
"""init_process_group("rueda"): torch.distributed over Rueda, by torchrun and by ruedarun."""

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from hand_started import CLEAN, RUEDARUN

HERE = Path(__file__).parent
ENVIRONMENT = {**CLEAN, "PYTHONPATH": os.environ.get("PYTHONPATH", ""), "OMP_NUM_THREADS": "1"}
LAUNCHERS = {"torchrun": lambda ranks: [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"],
             "ruedarun": lambda ranks: [RUEDARUN, "--no-prefix", "-np", ranks, sys.executable]}
BEGIN = """
import datetime, gc, os, signal, sys, threading, time
import torch, torch.distributed as dist
import rueda.torch.distributed

def begin(seconds=60):
    dist.init_process_group("rueda", timeout=datetime.timedelta(seconds=seconds))
    return dist.get_rank(), dist.get_world_size()

def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())

def error_of(action):
    try:
        action()
    except Exception as error:
        return f"{type(error).__name__}: {error}".replace("\\n", " ")
    return "none"
"""


def run(script, ranks=2, launcher="ruedarun", seconds=120, status=0, **environment):
    """Standard output of all ranks of a script, which ends with that status."""
    command = [*map(str, LAUNCHERS[launcher](ranks)), str(script)]
    done = subprocess.run(["timeout", "-k", "5", str(seconds), *command], capture_output=True, text=True, env={**ENVIRONMENT, **environment})
    assert done.returncode == status, (done.stdout, done.stderr)
    return done.stdout


@pytest.fixture
def script(tmp_path):
    def write(text):
        path = tmp_path / "script.py"
        path.write_text(BEGIN + textwrap.dedent(text))
        return path
    return write


@pytest.mark.parametrize("ranks, launcher", [(2, "torchrun"), pytest.param(3, "torchrun", marks=pytest.mark.full("torch")), (4, "ruedarun")])
def test_values(ranks, launcher):
    out = run(HERE / "c10d" / "values.py", ranks, launcher, seconds=300)
    assert sorted(re.findall(r"rank (\d) good", out)) == [str(rank) for rank in range(ranks)]


def test_one_rank(script):
    out = run(script("""
        rank, size = begin()
        tensor = torch.arange(4.0)
        dist.all_reduce(tensor)
        output = torch.empty(4)
        dist.all_gather_into_tensor(output, tensor)
        dist.reduce_scatter_tensor(output, tensor)
        dist.barrier()
        say(size, output.tolist())
        dist.destroy_process_group()
    """), ranks=1)
    assert out == "1 [0.0, 1.0, 2.0, 3.0]\n"


def test_broken_order_is_told_by_both_sides(script):
    out = run(script("""
        rank, size = begin()
        tensor = torch.ones(4)
        dist.all_reduce(tensor)
        wrong = (lambda: dist.all_reduce(torch.ones(4))) if rank == 0 else (lambda: dist.broadcast(torch.ones(5), 0))
        say("sync", error_of(wrong))
        work = dist.all_reduce(torch.ones(4 + rank), async_op=True)
        say("future", error_of(work.get_future().wait))
        work = dist.all_reduce(torch.ones(4, dtype=[torch.float32, torch.int64][rank]), async_op=True)
        say("wait", error_of(work.wait))
        tensor = torch.ones(4)
        dist.all_reduce(tensor)
        say("goes on", tensor.tolist())
        dist.destroy_process_group()
    """))
    for kind in ("sync", "future", "wait"):
        lines = [line for line in out.splitlines() if line.startswith(kind)]
        assert len(lines) == 2, out
        assert all(re.search(r"(DistBackendError|RuntimeError): .*number [234] of group '.*' on rank [01] of 2", line) for line in lines), out
    sync = [line for line in out.splitlines() if line.startswith("sync")]
    assert all("allreduce of float32 [4]" in line and "broadcast of float32 [5]" in line for line in sync), out
    assert out.count("goes on [2.0, 2.0, 2.0, 2.0]") == 2


def test_timeouts(script):
    out = run(script("""
        rank, size = begin()
        dist.group.WORLD._get_backend(torch.device("cpu"))._set_default_timeout(datetime.timedelta(seconds=1))
        begun = time.monotonic()
        if rank == 0:
            say("barrier", error_of(dist.barrier))
            say("took", time.monotonic() - begun)
            work = dist.all_reduce(torch.ones(1), async_op=True)
            say("wait", error_of(lambda: work.wait(datetime.timedelta(seconds=0.2))))
            say("recv", error_of(lambda: dist.recv(torch.ones(1), 1)))
            say("monitored", error_of(lambda: dist.group.WORLD.monitored_barrier(datetime.timedelta(seconds=0.3))))
        else:
            time.sleep(4)
            dist.barrier()
            dist.all_reduce(torch.ones(1))
        dist.destroy_process_group()
    """))
    lines = dict(line.split(" ", 1) for line in out.splitlines())
    for kind in ("barrier", "wait", "recv"):
        assert " Timed out after " in lines[kind], out
    assert 0.9 < float(lines["took"]) < 3
    assert "Rank 1 failed to pass monitoredBarrier in 300 ms" in lines["monitored"], out


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_killed_rank_is_named(script, launcher, tmp_path):
    out = run(script(f"""
        rank, size = begin()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # torchrun ends the others at once
        dist.all_reduce(torch.ones(1))
        if rank == 1:
            time.sleep(0.5)
            open({str(tmp_path / 'killed')!r}, "w").write(str(time.time()))
            os.kill(os.getpid(), signal.SIGKILL)
        words = error_of(lambda: dist.all_reduce(torch.ones(1)))
        open({str(tmp_path / 'told')!r} + str(rank), "w").write(f"{{time.time()}} {{words}}")
        again = error_of(lambda: dist.all_reduce(torch.ones(1)))
        open({str(tmp_path / 'again')!r} + str(rank), "w").write(again)
        os._exit(7)
    """), ranks=3, launcher=launcher, status=1 if launcher == "torchrun" else 137)
    killed = float((tmp_path / "killed").read_text())
    for rank in (0, 2):
        when, words = (tmp_path / f"told{rank}").read_text().split(" ", 1)
        assert float(when) - killed < 1, words
        assert words.startswith("DistBackendError") and "rank 1" in words and "is lost" in words, words
        assert "is lost" in (tmp_path / f"again{rank}").read_text()


def test_abort(script):
    out = run(script("""
        rank, size = begin()
        dist.all_reduce(torch.ones(1))
        if rank == 0:
            time.sleep(0.3)
            dist.group.WORLD._get_backend(torch.device("cpu")).abort()
        say(rank, error_of(lambda: [dist.all_reduce(torch.ones(1)) for _ in range(2)] if rank else time.sleep(1)))
        dist.destroy_process_group()
    """))
    assert re.search(r"1 DistBackendError: .*rank 0.*aborted", out), out


def test_futures_and_callbacks(script):
    out = run(script("""
        rank, size = begin()
        seen = []
        for i in range(100):
            future = dist.all_reduce(torch.ones(4), async_op=True).get_future()
            then = future.then(lambda ended: (seen.append(threading.current_thread().name), ended.value()[0] + 1)[1])
            dist.all_reduce(torch.ones(1))
            assert then.wait().tolist() == [size + 1.0] * 4
        # A callback that waits for another operation's Future.
        def nested(ended):
            return dist.all_reduce(ended.value()[0], async_op=True).get_future().wait()[0]
        future = dist.all_reduce(torch.ones(2), async_op=True).get_future().then(nested)
        say(len(seen), future.wait().tolist())
        dist.destroy_process_group()
    """))
    assert out == "100 [4.0, 4.0]\n" * 2


def test_ddp_and_hooks(script):
    out = run(script("""
        from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
        from torch.nn.parallel import DistributedDataParallel
        rank, size = begin()
        gloo = dist.new_group(backend="gloo")
        def train(group, hook=None, **options):
            torch.manual_seed(3)
            model = torch.nn.Sequential(torch.nn.Linear(30, 40), torch.nn.BatchNorm1d(40), torch.nn.Linear(40, 7))
            model = DistributedDataParallel(model, process_group=group, **options)
            if hook:
                hook(model, group)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            torch.manual_seed(rank)
            for _ in range(5):
                optimizer.zero_grad()
                model(torch.randn(16, 30)).square().mean().backward()
                optimizer.step()
            return [each.detach().clone() for each in model.parameters()]
        def compressed(model, group):
            model.register_comm_hook(group, default_hooks.fp16_compress_hook)
        def shared(model, group):
            if group is not gloo:
                rueda.torch.distributed.share_buckets(model)
        def powersgd(model, group):
            model.register_comm_hook(powerSGD_hook.PowerSGDState(group, start_powerSGD_iter=2, matrix_approximation_rank=2), powerSGD_hook.powerSGD_hook)
        for hook, options in [(None, {}), (None, {"gradient_as_bucket_view": True}), (None, {"find_unused_parameters": True}),
                              (compressed, {}), (powersgd, {}), (shared, {}), (shared, {"gradient_as_bucket_view": True}),
                              (shared, {"find_unused_parameters": True, "bucket_cap_mb": 0.001})]:
            ours, theirs = train(dist.group.WORLD, hook, **options), train(gloo, hook, **options)
            for a, b in zip(ours, theirs):
                torch.testing.assert_close(a, b)
        say("equal")
        dist.destroy_process_group()
    """))
    assert out == "equal\n" * 2


def test_shared_buckets(script):
    out = run(script("""
        from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
        from torch.nn.parallel import DistributedDataParallel
        def is_shared(tensor):
            for line in open("/proc/self/maps"):
                begin, end = (int(word, 16) for word in line.split()[0].split("-"))
                if begin <= tensor.data_ptr() < end:
                    return line.split()[1].endswith("s")
        def backward(model):
            model(torch.ones(2, 30)).sum().backward()
        def made(share, group=None):
            model = DistributedDataParallel(torch.nn.Linear(30, 500), gradient_as_bucket_view=True, process_group=group)
            if share:
                rueda.torch.distributed.share_buckets(model)
            for _ in range(3):
                model.zero_grad(set_to_none=False)
                backward(model)
            return model
        begin()
        say([is_shared(made(share).module.weight.grad) for share in (False, True)])
        model = made(True)
        values = model.module.weight.grad
        moved = made(True)
        fixed = DistributedDataParallel(torch.nn.Linear(30, 500), gradient_as_bucket_view=True)
        backward(fixed)
        backward(fixed)
        seen = fixed.module.weight.grad.numpy()
        rueda.torch.distributed.share_buckets(fixed)
        backward(fixed)
        assert seen.ctypes.data == fixed.module.weight.grad.data_ptr() and (seen == 6).all(), seen
        say(error_of(lambda: rueda.torch.distributed.share_buckets(moved)).split(":")[0])
        say(error_of(lambda: made(True, dist.new_group(backend="gloo"))))
        dist.destroy_process_group()
        assert (values == 2).all()
    """))
    words = "ValueError: share_buckets(): the model's process group is of backend 'gloo'; it must be 'rueda'"
    assert sorted(out.splitlines()) == sorted(2 * ["[False, True]", "RuntimeError", words])


def test_a_group_without_its_lost_rank(script):
    out = run(script("""
        from torch.distributed import distributed_c10d
        rank, size = begin(20)
        other = dist.new_group(ranks=[0, 2], use_local_synchronization=True) if rank != 1 else None
        if rank == 1:
            dist.all_reduce(torch.ones(2))
            os._exit(0)
        values = torch.ones(2)
        dist.all_reduce(values)
        say(error_of(lambda: dist.all_reduce(values)).split(":")[0])
        group = dist.shrink_group([1], shrink_flags=distributed_c10d.SHRINK_ABORT if rank else distributed_c10d.SHRINK_DEFAULT)
        values = torch.full((3,), float(dist.get_rank() + 1))
        dist.all_reduce(values)
        assert values.tolist() == [3.0] * 3 and dist.get_world_size() == 2 and dist.group.WORLD is group
        dist.broadcast(values, 1)
        again = dist.new_group([0, 1])
        dist.all_reduce(values, group=again)
        say("rank", dist.get_rank(), "good")
        dist.destroy_process_group()
    """), ranks=3)
    assert sorted(out.splitlines()) == ["DistBackendError"] * 2 + ["rank 0 good", "rank 1 good"]


def test_completion_hooks(script):
    out = run(script("""
        rank, size = begin()
        seen = []
        dist.group.WORLD._register_on_completion_hook(lambda info: seen.append((str(info.op_type), info.seq, info.active_duration.total_seconds())))
        dist.all_reduce(torch.ones(2))
        work = dist.all_reduce(torch.ones(2), async_op=True)
        dist.broadcast(torch.ones(2), 0)
        work.wait()
        dist.group.WORLD._wait_for_pending_works()
        say([(name, number) for name, number, _ in sorted(seen, key=lambda each: each[1])], all(0 <= seconds < 5 for *_, seconds in seen))
        say(error_of(lambda: dist.group.WORLD._register_on_completion_hook(print)).split(":")[0])
        dist.destroy_process_group()
    """))
    assert sorted(out.splitlines()) == 2 * ["RuntimeError"] + 2 * ["[('OpType.ALLREDUCE', 1), ('OpType.ALLREDUCE', 2), ('OpType.BROADCAST', 3)] True"]


def test_fsdp(script):
    out = run(script("""
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
        rank, size = begin()
        torch.manual_seed(1)
        plain = torch.nn.Sequential(*[torch.nn.Linear(16, 16) for _ in range(3)])
        state = {name: value.clone() for name, value in plain.state_dict().items()}
        for allocate in (False, True):
            model = torch.nn.Sequential(*[torch.nn.Linear(16, 16) for _ in range(3)])
            model.load_state_dict(state)
            mesh = init_device_mesh("cpu", (size,))
            for layer in model:
                fully_shard(layer, mesh=mesh)
            fully_shard(model, mesh=mesh)
            for each in [*model, model]:
                each.set_allocate_memory_from_process_group_for_comm(allocate)
            batches = [torch.randn(4, 16, generator=torch.Generator().manual_seed(other)) for other in range(size)]
            for _ in range(3):
                model.zero_grad()
                model(batches[rank]).square().mean().backward()
            plain.zero_grad()
            sum(plain(batch).square().mean() for batch in batches).div(size).backward()
            for ours, theirs in zip(model.parameters(), plain.parameters()):
                torch.testing.assert_close(ours.grad.full_tensor(), theirs.grad)
        say("equal")
        dist.destroy_process_group()
    """))
    assert out == "equal\n" * 2


LEFT = """
    def left():
        return (len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd")),
                len([line for line in open("/proc/self/maps") if "rueda" in line]), len(os.listdir("/dev/shm")))
    def settled(wanted):
        end = time.monotonic() + 5
        while left()[0] > wanted[0] and time.monotonic() < end:
            time.sleep(0.01)
        gc.collect()
"""


def test_many_groups_leave_nothing(script):
    out = run(script(textwrap.dedent(LEFT) + textwrap.dedent("""
        rank, size = begin()
        store = dist.distributed_c10d._get_default_store()
        def round_():
            groups = [dist.new_group() for _ in range(10)]
            order = groups if rank == 0 else groups[::-1]
            works = [dist.all_reduce(torch.ones(3), group=group, async_op=True) for group in order]
            for work in works:
                work.wait()
            peer = torch.empty(2)
            work = dist.isend(torch.ones(2), 1 - rank, group=groups[0])
            dist.recv(peer, 1 - rank, group=groups[0])
            work.wait()
            works[0].get_future().wait()
            for group in order:
                dist.destroy_process_group(group)
            dist.barrier()
        round_()
        time.sleep(0.5)
        round_()
        before = left()
        for _ in range(3):
            round_()
        settled(before)
        after = left()
        say("same" if after[0] <= before[0] and after[1] <= before[1] + 1 and after[3] <= before[3] else (before, after))
        dist.destroy_process_group()
    """)))
    assert out == "same\n" * 2


def test_groups_of_some_ranks(script):
    out = run(script("""
        rank, size = begin()
        groups = {ranks: dist.new_group(list(ranks)) for ranks in [(0, 2), (1, 2), (1,), (2, 0)]}
        for ranks, group in groups.items():
            if rank in ranks:
                tensor = torch.full((2,), float(rank))
                dist.all_reduce(tensor, group=group)
                assert tensor.tolist() == [float(sum(ranks))] * 2
        mine, all_ = dist.new_subgroups(1)
        say("good")
        dist.destroy_process_group()
    """), ranks=3)
    assert out == "good\n" * 3


@pytest.mark.parametrize("launcher, times", [("torchrun", 2), ("ruedarun", 4), pytest.param("torchrun", 20, marks=pytest.mark.full("torch"))])
def test_exit_without_destroy(script, launcher, times):
    path = script("""
        rank, size = begin()
        keep = [dist.all_reduce(torch.ones(100), async_op=True).get_future().then(lambda ended: ended.value()) for _ in range(10)]
        say("end")
    """)
    for _ in range(times):
        assert run(path, launcher=launcher, seconds=60) == "end\n" * 2


def test_fork_after_init(script):
    out = run(script("""
        rank, size = begin()
        dist.all_reduce(torch.ones(1))
        work = dist.all_reduce(torch.ones(1), async_op=True)
        work.get_future().wait()
        child = os.fork()
        if child == 0:
            words = error_of(lambda: dist.all_reduce(torch.ones(1)))
            sys.exit(3 if "forked" in words else 4)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        tensor = torch.ones(1)
        dist.all_reduce(tensor)
        say(status, tensor.item())
        dist.destroy_process_group()
    """), seconds=60)
    assert out == "3 2.0\n" * 2


def test_destroy_in_another_order(script):
    out = run(script("""
        rank, size = begin()
        groups = [dist.new_group() for _ in range(3)]
        for group in groups if rank == 0 else groups[::-1]:
            dist.destroy_process_group(group)
        dist.destroy_process_group()
        dist.init_process_group("rueda")
        dist.barrier()
        say("good")
    """), seconds=60)
    assert out == "good\n" * 2


def test_found_without_an_import(tmp_path, script):
    """What pip installs: entry points, here in a folder of the test."""
    about = tmp_path / "rueda-0.1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: rueda\nVersion: 0.1.0\n")
    (about / "entry_points.txt").write_text("[torch.backends]\nrueda = rueda_backend:register\n")
    path = tmp_path / "plain.py"
    path.write_text("import torch, torch.distributed as dist, sys\n"
                    "assert not any(name.startswith('rueda.') for name in sys.modules)\n"
                    "dist.init_process_group()\n"
                    "print(dist.get_backend_config(), flush=True)\n"
                    "dist.all_reduce(torch.ones(1))\n"
                    "dist.destroy_process_group()\n")
    for launcher in LAUNCHERS:
        out = run(path, launcher=launcher, RUEDA_DEFAULT_BACKEND="1", PYTHONPATH=f"{ENVIRONMENT['PYTHONPATH']}:{tmp_path}")
        assert out.count("cpu:rueda") == 2


def test_variables_under_ruedarun(script):
    path = script("""
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
        say(*(os.environ.get(name, "-") for name in names))
    """)
    lines = sorted(run(path, launcher="ruedarun").splitlines())
    assert re.fullmatch(r"0 2 0 2 127.0.0.1 \d+", lines[0]) and lines[1] == lines[0].replace("0 2 0", "1 2 1", 1)
    given = {"MASTER_ADDR": "node7", "MASTER_PORT": "4242", "WORLD_SIZE": "9"}
    assert sorted(run(path, launcher="ruedarun", **given).splitlines()) == ["- 9 - - node7 4242"] * 2


def test_suite_of_torch():
    """A part of PyTorch's own tests; all of them: torch_suite.py."""
    done = subprocess.run(["timeout", "-k", "5", "300", sys.executable, HERE / "torch_suite.py", "--as-gloo", "-k", "test_all_reduce_sum",
                           "-k", "test_send_recv", "-k", "test_monitored_barrier_gloo", "-k", "test_DistributedDataParallel_requires_grad"],
                          capture_output=True, text=True, env=ENVIRONMENT)
    assert done.returncode == 0, (done.stdout[-3000:], done.stderr[-3000:])
    assert int(re.search(r"(\d+) passed, 0 failed", done.stdout)[1]) >= 10
