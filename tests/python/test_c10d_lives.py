# SPDX-License-Identifier: Apache-2.0
"""Groups of torch.distributed over Rueda that time out, end before their Works, begin anew, or end with a process."""

import subprocess
import sys

import pytest
from c10d_programs import ENVIRONMENT, run, script  # noqa: F401 - script is a fixture


@pytest.mark.parametrize("what", ["future", "backward"])
def test_a_timeout_holds_for_futures(script, what):  # noqa: F811 - a fixture
    """The one of a call, and those of DistributedDataParallel, where a rank has fewer batches."""
    out = run(script(f"""
        rank, size = begin(seconds=6)
        store = dist.distributed_c10d._get_default_store()
        dist.all_reduce(torch.ones(1))
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
        def wait():
            if {what!r} == "future":
                dist.all_reduce(torch.ones(1), async_op=True).get_future().wait()
            else:
                model(torch.ones(2, 4)).sum().backward()
        if rank == 0:
            say(error_of(wait))
            store.set("over", "1")
        while not store.check(["over"]):
            time.sleep(0.01)
        os._exit(0)
    """), launcher="torchrun")
    assert "all_reduce number" in out and "Timed out after 6000 ms. It waits for other ranks:   not submitted by: rank 1 " in out, out


def test_the_future_of_a_work_that_outlives_its_group(script):  # noqa: F811 - a fixture
    out = run(script("""
        rank, size = begin()
        works = [dist.all_reduce(torch.ones(2), async_op=True) for _ in range(3)]
        kept = works[0].get_future()
        works[1].wait()
        while not works[2].is_completed():
            time.sleep(0.01)
        late = dist.all_reduce(torch.ones(2), async_op=True)  # nobody waits for it before the end
        dist.barrier()
        dist.destroy_process_group()
        time.sleep(1.5)  # the time that Futures have at the end of a group
        begin()
        for future in (kept, works[1].get_future(), works[2].get_future(), late.get_future()):
            say(future.wait()[0].tolist())
        del works, late, future
        gc.collect()
        dist.destroy_process_group()
    """), launcher="torchrun")
    assert out == "[2.0, 2.0]\n" * 8


def test_a_child_of_multiprocessing_that_fails(script):  # noqa: F811 - a fixture
    """The others would wait for ever: they wait for no operation."""
    for failure in ('raise ValueError("as a program may")', "sys.exit(3)"):
        path = script(f"""
            import torch.multiprocessing
            def work(rank, folder):
                dist.init_process_group("rueda", init_method=f"file://{{folder}}/store", rank=rank, world_size=2)
                dist.barrier()
                if rank == 1:
                    {failure}
                while True:
                    time.sleep(1)
            if __name__ == "__main__":
                import tempfile
                say(error_of(lambda: torch.multiprocessing.spawn(work, (tempfile.mkdtemp(dir=os.path.dirname(__file__)),), nprocs=2)))
        """)
        done = subprocess.run(["timeout", "-k", "5", "60", sys.executable, path], capture_output=True, text=True, env=ENVIRONMENT)
        assert done.returncode == 0, (done.stdout, done.stderr)
        assert ("ValueError: as a program may" if "raise" in failure else "process 1 terminated with exit code 3") in done.stdout, done


def test_children_of_multiprocessing_end_together(script):  # noqa: F811 - a fixture
    """The first one ends while another still receives, however they were started, and whether they destroy the group."""
    path = script("""
        import multiprocessing, tempfile
        def work(rank, folder, destroys):
            dist.init_process_group("rueda", init_method=f"file://{folder}/store", rank=rank, world_size=3)
            dist.barrier()
            if rank == 0:
                time.sleep(1)
                dist.send(torch.full((3,), 7.0), 1)
            if rank == 1:
                values = torch.zeros(3)
                dist.recv(values, 0)
                say(values.tolist())
            if destroys:
                dist.destroy_process_group()
        if __name__ == "__main__":
            for method in ("spawn", "fork"):
                for destroys in (True, False):
                    folder = tempfile.mkdtemp(dir=os.path.dirname(__file__))
                    ranks = [multiprocessing.get_context(method).Process(target=work, args=(rank, folder, destroys)) for rank in range(3)]
                    for each in ranks:
                        each.start()
                    for each in ranks:
                        each.join()
                    say(method, destroys, [each.exitcode for each in ranks])
    """)
    done = subprocess.run(["timeout", "-k", "5", "90", sys.executable, path], capture_output=True, text=True, env=ENVIRONMENT)
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert done.stdout.splitlines() == [line for method in ("spawn", "fork") for destroys in (True, False)
                                        for line in ("[7.0, 7.0, 7.0]", f"{method} {destroys} [0, 0, 0]")], done
    assert "lost" not in done.stderr, done.stderr


def test_a_group_made_anew_knows_nothing_of_the_one_before(script, tmp_path):  # noqa: F811 - a fixture
    """With one store: barriers that wait, messages from any rank, and pairs one of whose ranks has given up."""
    out = run(script(f"""
        folder = {str(tmp_path)!r}
        for life in range(3):
            rank, size = begin(seconds=20)
            if rank == 1:
                time.sleep(0.5)
                open(f"{{folder}}/arrived{{life}}", "w").close()
            dist.group.WORLD.monitored_barrier()
            late = not os.path.exists(f"{{folder}}/arrived{{life}}")
            dist.group.WORLD.monitored_barrier()
            values = torch.zeros(1)
            sender = 1 + life % 2
            if rank == 0:
                say(life, "late" if late else "waited", dist.recv(values), values.item() == sender)
            elif rank == sender:
                dist.send(torch.full((1,), float(sender)), 0)
            some = dist.new_group([0, 1], use_local_synchronization=True, timeout=datetime.timedelta(seconds=2)) if rank < 2 else None
            if rank == 0:
                say(life, error_of(lambda: dist.recv(values, 1, group=some)) == "none")
            elif rank == 1 and life != 0:
                dist.send(torch.ones(1), 0, group=some)
            elif rank == 1:
                time.sleep(3)
            dist.destroy_process_group()
    """), ranks=3, launcher="torchrun")
    assert out.splitlines() == ["0 waited 1 True", "0 False", "1 waited 2 True", "1 True", "2 waited 1 True", "2 True"], out


def test_operations_write_into_parameters_of_any_format(script):  # noqa: F811 - a fixture
    out = run(script("""
        rank, size = begin()
        torch.manual_seed(rank)
        model = torch.nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
        turned = torch.nn.Parameter(torch.randn(3, 4).t())
        for each in [*model.parameters(), turned]:
            dist.broadcast(each, 0)
        torch.manual_seed(0)
        wanted = torch.nn.Conv2d(3, 4, 3)
        say(all(torch.equal(got, each) for got, each in zip(model.parameters(), wanted.parameters())), torch.equal(turned, torch.randn(3, 4).t()))
        parts = [torch.full((4, 3), float(each)).t().contiguous().t() for each in range(size)]
        dist.scatter(turned, parts if rank == 0 else None)
        say(turned.sum().item() == 12 * rank)
        with torch.inference_mode():
            values = torch.full((3, 4), float(rank + 1)).t()
            work = dist.broadcast(values, 1, async_op=True)
        work.wait()
        say(values.sum().item())
        with torch.inference_mode():
            values = torch.full((3, 4), float(rank + 1)).t()
            future = dist.broadcast(values, 1, async_op=True).get_future()
        say(future.wait()[0].sum().item())
    """))
    assert sorted(out.splitlines()) == sorted(["True True", "True", "24.0", "24.0"] * 2), out


def test_a_message_that_its_group_does_not_wait_for(script):  # noqa: F811 - a fixture
    out = run(script("""
        rank, size = begin()
        work = dist.irecv(torch.ones(1), 1 - rank)
        dist.destroy_process_group()
        say(error_of(work.wait))
    """), launcher="torchrun")
    assert out.count("the group was shut down") == 2 and "init()" not in out, out
