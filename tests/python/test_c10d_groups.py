# SPDX-License-Identifier: Apache-2.0
"""Groups of torch.distributed over Rueda: how they are found, begin, lose ranks, and end."""

import re
import subprocess
import sys
import textwrap
import time

import pytest
from c10d_programs import ENVIRONMENT, LAUNCHERS, run, script  # noqa: F401 - script is a fixture

KILLED, ALONE = "was killed by signal 9 (Killed)", "ended without shutdown()"


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
        assert (KILLED if launcher == "ruedarun" else ALONE) in words, words
        assert "is lost" in (tmp_path / f"again{rank}").read_text()


def test_the_launcher_tells_of_ranks_that_the_program_numbers(script):
    """And of a group of some of them."""
    out = run(script("""
        os.environ["RANK"] = str(3 - int(os.environ["RANK"]))
        rank, size = begin()
        some = dist.new_group([1, 3])
        dist.all_reduce(torch.ones(1))
        if rank == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        say(rank, error_of(lambda: dist.all_reduce(torch.ones(1), group=some if rank == 1 else None)))
        os._exit(7)
    """), ranks=4, status=137)
    assert len(re.findall(rf"DistBackendError: .*rank [13] \(process \d+ on \S+\) is lost: its process {re.escape(KILLED)}", out)) == 3, out


def test_a_launcher_above_torchrun_does_not_know_its_ranks(script):
    """The rank of ruedarun is torchrun itself."""
    path = script("""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        rank, size = begin()
        dist.all_reduce(torch.ones(1))
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        say(rank, error_of(lambda: dist.all_reduce(torch.ones(1))))
        os._exit(7)
    """)
    command = [*map(str, LAUNCHERS["ruedarun"](1)), *map(str, LAUNCHERS["torchrun"](2)[1:]), str(path)]
    done = subprocess.run(["timeout", "-k", "5", "60", *command], capture_output=True, text=True, env=ENVIRONMENT)
    assert re.search(rf"0 DistBackendError: .*rank 1 \(process \d+ on \S+\) is lost: its process {re.escape(ALONE)}", done.stdout), (done.stdout, done.stderr)


def test_an_exception_of_a_rank_is_named_behind_the_errors_of_others(script):
    """Their processes end first."""
    path = script("""
        rank, size = begin()
        dist.all_reduce(torch.ones(1))
        if rank == 1:
            raise ValueError("planted")
        dist.all_reduce(torch.ones(1))
    """)
    shell = f"{sys.executable} {path}; status=$?; [ $RUEDA_RANK = 1 ] && sleep 1; exit $status"
    command = [*map(str, LAUNCHERS["ruedarun"](3)[:-1]), "sh", "-c", shell]
    done = subprocess.run(["timeout", "-k", "5", "60", *command], capture_output=True, text=True, env=ENVIRONMENT)
    lines = re.findall(r"^ruedarun: (rank .*)$", done.stderr, re.M)
    about = r"\(process \d+ on \S+\) ended with status 1"
    assert done.returncode == 1 and len(lines) == 2, done.stderr
    assert re.match(rf"rank [02] {about} after a failed operation: .*rank 1 shut down without it", lines[0]), lines
    assert re.fullmatch(rf"rank 1 {about}; it had told of no failed operation", lines[1]), lines


def test_a_lost_rank_ends_a_receive_from_any_source(script, tmp_path):
    run(script(f"""
        rank, size = begin()
        dist.all_reduce(torch.ones(1))
        if rank == 1:
            time.sleep(0.5)
            os.kill(os.getpid(), signal.SIGKILL)
        open({str(tmp_path / 'told')!r} + str(rank), "w").write(error_of(lambda: dist.recv(torch.ones(1))))
        os._exit(7)
    """), ranks=3, status=137)
    for rank in (0, 2):
        words = (tmp_path / f"told{rank}").read_text()
        assert "recvAnySource" in words and "rank 1" in words and "is lost" in words, words


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


def test_a_group_that_is_split(script):
    """torch.distributed.split_group() asks for a GPU; the method below it does not."""
    out = run(script("""
        rank, size = begin()
        world = dist.group.WORLD
        half = world.split_group([0, 2], datetime.timedelta(seconds=30), None, "half", "the even ranks")
        assert (half is None) == (rank == 1)
        if half:
            values = torch.full((3,), float(rank))
            half.allreduce(values).wait()
            assert values.tolist() == [2.0] * 3 and (half.rank(), half.size()) == (rank // 2, 2)
        world.barrier().wait()
        say("rank", rank, "good")
        dist.destroy_process_group()
    """), ranks=3)
    assert sorted(out.splitlines()) == ["rank 0 good", "rank 1 good", "rank 2 good"]


def test_devices_of_the_backend(script):
    """Torch has no CUDA here: groups for devices begin and end, without a tensor there."""
    out = run(script("""
        from rueda import _build
        dist.init_process_group("cpu:gloo,cuda:rueda", timeout=datetime.timedelta(seconds=60))
        values = torch.ones(2)
        dist.all_reduce(values)
        dist.barrier()
        other = dist.new_group([0])
        say(dist.Backend.backend_capability["rueda"] == (["cpu", "cuda"] if _build.CUDA else ["cpu"]), values.tolist(),
            dist.group.WORLD._get_backend(torch.device("cuda")).name())
        dist.destroy_process_group()
    """))
    assert out == "True [2.0, 2.0] rueda\n" * 2


def test_a_group_beside_one_with_a_device(script):
    """With device_id torch calls the parent's backend on ranks outside of a new group, too."""
    out = run(script("""
        from rueda import _build
        begin()
        if _build.CUDA:
            dist.group.WORLD.bound_device_id = torch.device("cuda:0")  # as init_process_group(device_id=...) does where there is a device
        first = dist.new_group([0])
        values = torch.ones(2)
        dist.all_reduce(values)
        say(values.tolist(), dist.get_rank(first) == (0 if dist.get_rank() == 0 else -1))
        dist.destroy_process_group()
    """))
    assert out == "[2.0, 2.0] True\n" * 2


LEFT = """
    def left():
        return (len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd")),
                len([line for line in open("/proc/self/maps") if "rueda" in line]), len([line for line in open("/proc/self/maps") if "/dev/shm/" in line]))
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


@pytest.mark.parametrize("launcher, times", [("torchrun", 4), ("ruedarun", 4), pytest.param("torchrun", 20, marks=pytest.mark.full("torch"))])
def test_exit_without_destroy(script, launcher, times):
    path = script("""
        rank, size = begin()
        keep = [dist.all_reduce(torch.ones(100), async_op=True).get_future().then(lambda ended: ended.value()) for _ in range(10)]
        say("end")
    """)
    for _ in range(times):
        assert run(path, launcher=launcher, seconds=60) == "end\n" * 2


def test_an_exception_ends_its_rank_at_once(script, tmp_path):
    """The other rank computes, and hears of it later: torchrun has to know before that."""
    began = time.monotonic()
    run(script(f"""
        rank, size = begin()
        dist.all_reduce(torch.ones(1))
        if rank == 0:
            open({str(tmp_path / 'raised')!r}, "w").write(str(time.time()))
            raise RuntimeError("a bad sample")
        signal.signal(signal.SIGTERM, lambda *_: (open({str(tmp_path / 'told')!r}, "w").write(str(time.time())), os._exit(0)))
        time.sleep(40)
    """), launcher="torchrun", status=1)
    assert float((tmp_path / "told").read_text()) - float((tmp_path / "raised").read_text()) < 10
    assert time.monotonic() - began < 40


def test_threads_drop_groups_with_operations_in_flight(script):
    """The last reference to a tensor with a Python object goes with its group."""
    out = run(script("""
        rank, size = begin()
        from rueda import _torch
        def make_and_drop(thread):
            for number in range(60):
                group = _torch.ProcessGroup(dist.HashStore(), 0, 1, "rueda", f"g{thread}.{number}", [0], datetime.timedelta(seconds=20))
                for _ in range(20):
                    tensor = torch.ones(50)
                    tensor.note = [1]
                    group.allreduce([tensor])
                    del tensor
                del group
        threads = [threading.Thread(target=make_and_drop, args=(thread,)) for thread in range(2)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        say("dropped")
        dist.destroy_process_group()
    """), ranks=1)
    assert "dropped" in out and "open files" not in out


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
