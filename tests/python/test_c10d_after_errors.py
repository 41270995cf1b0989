# SPDX-License-Identifier: Apache-2.0
"""Groups of torch.distributed over Rueda after errors that a program catches: what is told, when, and what works then. Beside it: gloo."""

import re
import textwrap

import pytest
from c10d_programs import LAUNCHERS, run, script  # noqa: F401 - script is a fixture

BEGIN_EITHER = """
def begin_either(seconds=20):
    dist.init_process_group(os.environ["BACKEND"], timeout=datetime.timedelta(seconds=seconds))
    return dist.get_rank(), dist.get_world_size()
"""


def lines_of_both(path, **options):
    """The same from Rueda and gloo."""
    ours, theirs = (sorted(run(path, seconds=60, BACKEND=backend, **options).splitlines()) for backend in ("rueda", "gloo"))
    assert ours == theirs
    return ours


@pytest.fixture
def either(script):
    return lambda text: script(BEGIN_EITHER + "\n" + textwrap.dedent(text))


def test_operations_after_a_batch_that_has_failed(either):
    lines = lines_of_both(either("""
        rank, size = begin_either()
        caught = 0
        try:
            dist.batch_isend_irecv([dist.P2POp(dist.isend, torch.ones(2), 1 - rank), dist.P2POp(dist.irecv, torch.ones(2).to_sparse(), 1 - rank)])
        except Exception:
            caught += 1
        values = torch.ones(3)
        gathered = torch.zeros(4)
        dist.all_reduce(values)
        dist.all_gather_into_tensor(gathered, torch.full((2,), float(rank)))
        received = torch.zeros(2)
        operations = [dist.P2POp(dist.isend, torch.full((2,), 5.0 + rank), 1 - rank, tag=7), dist.P2POp(dist.irecv, received, 1 - rank, tag=7)]
        for work in dist.batch_isend_irecv(operations):
            work.wait()
        say(caught, values.tolist(), gathered.tolist(), received.tolist() == [6.0 - rank] * 2)
        os._exit(0)
    """))
    assert lines == ["1 [2.0, 2.0, 2.0] [0.0, 0.0, 1.0, 1.0] True"] * 2


def test_threads_of_one_group(either):
    lines = lines_of_both(either("""
        rank, size = begin_either()
        wrong = []
        def batches(tag):
            for i in range(100):
                received = torch.zeros(2)
                operations = [dist.P2POp(dist.isend, torch.full((2,), float(i)), 1 - rank, tag=tag), dist.P2POp(dist.irecv, received, 1 - rank, tag=tag)]
                for work in dist.batch_isend_irecv(operations):
                    work.wait()
                if received.tolist() != [i, i]:
                    wrong.append(("batch", tag, i, received.tolist()))
        def sums():
            for i in range(100):
                values = torch.full((1000,), float(i))
                dist.all_reduce(values)
                if not (values == 2 * i).all():
                    wrong.append(("sum", i, values[0].item()))
        def noted(work, *arguments):
            try:
                work(*arguments)
            except Exception as error:
                wrong.append(str(error))
        threads = [threading.Thread(target=noted, args=each) for each in ((batches, 1), (batches, 2), (sums,))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        say(len(wrong), wrong[:3])
        dist.destroy_process_group()
    """))
    assert lines == ["0 []"] * 2


@pytest.mark.parametrize("launcher, lost", [("torchrun", 1), ("ruedarun", 1), ("ruedarun", 0)])
def test_a_lost_rank_ends_monitored_barrier(script, launcher, lost, tmp_path):
    """Rank 0 has the store under ruedarun, so it is lost, too."""
    run(script(f"""
        rank, size = begin()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # torchrun ends the others at once
        dist.group.WORLD.monitored_barrier()
        if rank == {lost}:
            time.sleep(0.5)
            open({str(tmp_path / 'killed')!r}, "w").write(str(time.time()))
            os.kill(os.getpid(), signal.SIGKILL)
        words = error_of(dist.group.WORLD.monitored_barrier)
        open({str(tmp_path / 'told')!r} + str(rank), "w").write(f"{{time.time()}} {{words}}")
        os._exit(7)
    """), ranks=3, launcher=launcher, seconds=60, status=1 if launcher == "torchrun" else 137)
    killed = float((tmp_path / "killed").read_text())
    for rank in {0, 1, 2} - {lost}:
        when, words = (tmp_path / f"told{rank}").read_text().split(" ", 1)
        assert 0 < float(when) - killed < 1, words
        assert words.startswith("DistBackendError") and f"rank {lost}" in words and "is lost" in words, words


def test_monitored_barrier_after_a_late_rank(script):
    out = run(script("""
        rank, size = begin()
        world = dist.group.WORLD
        if rank == 1:
            time.sleep(1.5)
        begun = time.monotonic()
        words = error_of(lambda: world.monitored_barrier(datetime.timedelta(seconds=1), wait_all_ranks=True))
        say(f"rank {rank} after {time.monotonic() - begun:.1f}: {words}")
        dist.barrier()
        say("again", rank, error_of(lambda: world.monitored_barrier(datetime.timedelta(seconds=20))))
        say("torch", error_of(dist.monitored_barrier))
        dist.destroy_process_group()
    """), ranks=3)
    told = {int(rank): (float(seconds), words) for rank, seconds, words in re.findall(r"rank (\d) after (\S+): (.*)", out)}
    assert "Rank 1 failed to pass monitoredBarrier in 1000 ms" in told[0][1] and 0.9 < told[0][0] < 1.5, out
    assert "Rank 1 came too late to monitoredBarrier number 1" in told[1][1] and told[1][0] < 0.5, out
    assert "Rank 2 successfully reached monitoredBarrier" in told[2][1] and "It has missed: 1." in told[2][1], out
    assert all(words.startswith("DistBackendError") for _, words in told.values()), out
    assert all(f"again {rank} none" in out for rank in range(3)), out
    assert out.count("torch ValueError: monitored_barrier is only implemented for GLOO backend") == 3, "docs/tutorials/from-gloo.md says so"


def test_tags_below_zero(script):
    out = run(script("""
        rank, size = begin()
        box = torch.zeros(1)
        for action in (lambda: dist.send(box, 1 - rank, tag=-1), lambda: dist.recv(box, 1 - rank, tag=-2), lambda: dist.recv(box, tag=-3)):
            say(error_of(action))
        works = [dist.isend(torch.full((1,), 4.0 + rank), 1 - rank, tag=0), dist.irecv(box, 1 - rank, tag=0)]
        for work in works:
            work.wait()
        say("then", box.item() == 5.0 - rank)
        dist.destroy_process_group()
    """))
    wanted = [f"ValueError: rueda: {name} has the tag {tag}; give 0 or more" for name, tag in (("send", -1), ("recv", -2), ("recv", -3))]
    assert sorted(out.splitlines()) == sorted(2 * [*wanted, "then True"])


def test_messages_without_the_other_rank(script):
    out = run(script("""
        rank, size = begin(1)
        dist.barrier()
        store = dist.distributed_c10d._get_default_store()
        if rank == 0:
            say("recv", error_of(lambda: dist.recv(torch.ones(1), 1)))
            say("send", error_of(lambda: dist.send(torch.ones(1), 2)))
            time.sleep(0.5)
            say("later", error_of(lambda: dist.send(torch.ones(1), 1)))
            say("any", error_of(lambda: dist.recv(torch.ones(1))))
            store.set("over", "1")
        else:
            while not store.check(["over"]):
                time.sleep(0.01)
            begun = time.monotonic()
            words = error_of(lambda: dist.recv(torch.ones(1), 0))
            say("other", rank, time.monotonic() - begun < 0.7, words)
        dist.barrier()
        os._exit(0)
    """), ranks=3, launcher="torchrun")
    told = dict(line.split(" ", 1) for line in out.splitlines() if not line.startswith("other"))
    assert re.search(r"DistBackendError: .*Timed out after 1000 ms\. Rank 1 has not called send with that tag\. If ranks are slow", told["recv"]), out
    assert "Rank 2 has not called recv with that tag." in told["send"], out
    ended = r"messages between the ranks 0 and 1 of the group: rank 1 had no message for this one within 1000 ms\. All later messages between them fail, too"
    assert re.search("DistBackendError: .*" + ended, told["later"]), out
    assert "No rank has called send with that tag." in told["any"], out
    assert "stalled" not in out and "init:" not in out and "of a job" not in out, out
    for rank in (1, 2):
        assert re.search(rf"other {rank} True DistBackendError: .*rank 0 had no message of this one within 1000 ms", out), out


def test_a_group_that_its_callback_destroys(script):
    for launcher in LAUNCHERS:
        out = run(script("""
            rank, size = begin()
            kept = dist.all_reduce(torch.ones(4), async_op=True).get_future()
            def destroy(ended):
                dist.destroy_process_group()
                return ended.value()[0] + 1
            say(dist.all_reduce(torch.ones(4), async_op=True).get_future().then(destroy).wait().tolist(), kept.wait()[0].tolist(), dist.is_initialized())
        """), launcher=launcher, seconds=60)
        assert out == "[3.0, 3.0, 3.0, 3.0] [2.0, 2.0, 2.0, 2.0] False\n" * 2
