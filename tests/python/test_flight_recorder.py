# SPDX-License-Identifier: Apache-2.0
"""The record of a group's operations, as torch's own tool reads it: what ranks did differently, and which rank is missing."""

import pickle
import subprocess
import sys

import pytest
from c10d_programs import ENVIRONMENT, run, script  # noqa: F401 - script is a fixture
from hand_started import free_port

TOOL = [sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace"]


def analysed(folder):
    """What torchfrtrace says of the dumps in a folder."""
    done = subprocess.run([*TOOL, str(folder), "--prefix", "rank"], capture_output=True, text=True, env=ENVIRONMENT, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def entries_of(folder, rank):
    with open(folder / f"rank{rank}", "rb") as file:
        return pickle.load(file)


WRITE = """
def write(folder):
    open(f"{folder}/rank{dist.get_rank()}", "wb").write(rueda.torch.distributed.flight_record())
"""


def test_operations_that_agree(script, tmp_path):
    folder = tmp_path / "dumps"
    folder.mkdir()
    run(script(WRITE + f"""
rank, size = begin()
pair = dist.new_group([0, 2], group_desc="pair")
value, parts = torch.ones(2, 3), [torch.empty(2, 3) for _ in range(size)]

def the_line_that_calls():
    dist.all_reduce(value)

the_line_that_calls()
dist.all_gather(parts, value)
dist.all_gather_into_tensor(torch.empty(6, 3), value)
dist.reduce_scatter_tensor(torch.empty(1), torch.ones(3))
dist.reduce_scatter(torch.empty(2, 3), parts)
dist.broadcast(value, 1)
dist.reduce(value, 2)
dist.gather(value, parts if rank == 0 else None, dst=0)
dist.scatter(value, parts if rank == 0 else None, src=0)
dist.all_to_all_single(torch.empty(3), torch.ones(3))
dist.barrier()
if rank != 1:
    dist.all_reduce(value, group=pair)
if rank == 0:
    dist.send(value, 1)
elif rank == 1:
    dist.recv(value, 0)
write({str(folder)!r})
dist.barrier()
dist.destroy_process_group()
"""), ranks=3, TORCH_FR_BUFFER_SIZE="100")
    record = entries_of(folder, 0)
    assert record["version"] == "2.10" and record["comm_lib_version"] == "rueda"
    assert sorted(group["ranks"] for group in record["pg_config"].values()) == ["[0, 1, 2]", "[0, 1]", "[0, 2]"], record["pg_config"]
    first = record["entries"][0]
    assert first["profiling_name"] == "nccl:all_reduce" and first["input_sizes"] == first["output_sizes"] == [[2, 3]]
    assert first["input_dtypes"] == ["Float"] and first["state"] == "completed" and first["retired"] and first["collective_seq_id"] == 1
    assert "the_line_that_calls" in [frame["name"] for frame in first["frames"]]
    assert all(entry["state"] == "completed" for entry in record["entries"]), record["entries"]
    assert [entry["profiling_name"] for entry in record["entries"]][-1] == "nccl:send 0->1"
    said = analysed(folder)
    assert "MISMATCH" not in said and "missing ranks" not in said, said


@pytest.mark.parametrize("odd, words", [("torch.ones(5)", "SIZE_OR_SYNTAX_MISMATCH"), ("torch.ones(4, dtype=torch.float64)", "COLLECTIVE_DTYPE_MISMATCH")])
def test_a_mismatch_is_found_in_the_files_that_a_failure_leaves(script, tmp_path, odd, words):
    folder = tmp_path / "dumps"
    folder.mkdir()
    run(script(f"""
        rank, size = begin()
        for _ in range(3):
            dist.all_reduce(torch.ones(4))
        assert "differ in" in error_of(lambda: dist.all_reduce({odd} if rank == 1 else torch.ones(4)))
        os._exit(0)
    """), TORCH_FR_BUFFER_SIZE="100", TORCH_FR_DUMP_TEMP_FILE=str(folder / "rank"))
    last = entries_of(folder, 0)["entries"][-1]
    assert (last["collective_seq_id"], last["state"], last["retired"]) == (4, "scheduled", True), last
    assert entries_of(folder, 0)["pg_status"]["0"]["last_completed_collective"] == 3
    said = analysed(folder)
    assert words in said and "Culprit rank" in said and "script.py" in said, said


def test_another_operation_is_found(script, tmp_path):
    folder = tmp_path / "dumps"
    folder.mkdir()
    run(script("""
        rank, size = begin()
        dist.all_reduce(torch.ones(4))
        words = error_of(lambda: dist.barrier() if rank == 1 else dist.broadcast(torch.ones(4), 0))
        assert "differ in" in words, words
        os._exit(0)
    """), TORCH_FR_BUFFER_SIZE="100", TORCH_FR_DUMP_TEMP_FILE=str(folder / "rank"))
    said = analysed(folder)
    assert "COLLECTIVE_TYPE_MISMATCH" in said and "Culprit rank" in said and "script.py" in said, said


def test_a_rank_that_has_not_called_is_found(script, tmp_path):
    folder = tmp_path / "dumps"
    folder.mkdir()
    run(script(WRITE + f"""
rank, size = begin()
dist.all_reduce(torch.ones(4))
dist.all_reduce(torch.ones(4))
if rank != 1:
    work = dist.all_reduce(torch.ones(4), async_op=True)
write({str(folder)!r})
time.sleep(1)  # the others write, too
os._exit(0)
"""), ranks=3, TORCH_FR_BUFFER_SIZE="100")
    assert [entry["state"] for entry in entries_of(folder, 0)["entries"]] == ["completed", "completed", "scheduled"]
    assert "missing ranks: {1}" in analysed(folder)


def test_the_ring_keeps_the_last_operations(script, tmp_path):
    run(script(WRITE + f"""
rank, size = begin()
works = [dist.all_reduce(torch.ones(1), async_op=True) for _ in range(50)]
write({str(tmp_path)!r})
for work in works:
    work.wait()
dist.destroy_process_group()
"""), TORCH_FR_BUFFER_SIZE="8", TORCH_INCLUDE_STACK_TRACE="0")
    entries = entries_of(tmp_path, 0)["entries"]
    assert [entry["record_id"] for entry in entries] == list(range(42, 50)) and "frames" not in entries[0]


def test_dumps_while_threads_free_tensors_of_python(script):
    """The end of a tensor that Python knows takes Python's lock; a thread that has it may wait for the record."""
    out = run(script("""
        import pickle
        rank, size = begin()
        groups = [dist.new_group() for _ in range(4)]
        over = threading.Event()

        def operate(group):
            for step in range(400):
                tensor = torch.ones(1 + step % 50)
                tensor.note = object()
                work = dist.all_reduce(tensor, group=group, async_op=True)
                if step % 3 == 0:
                    while not work.is_completed():
                        pass
                elif step % 3 == 1:
                    work.get_future().then(lambda ended: ended.value())
                del tensor, work  # nobody waits
            dist.barrier(group=group)

        def dump():
            while not over.is_set():
                assert len(pickle.loads(rueda.torch.distributed.flight_record())["entries"]) <= 3

        threads = [threading.Thread(target=operate, args=[group]) for group in groups]
        dumpers = [threading.Thread(target=dump) for _ in range(2)]
        for thread in threads + dumpers:
            thread.start()
        for thread in threads:
            thread.join()
        over.set()
        for thread in dumpers:
            thread.join()
        say(rank, "good")
        dist.destroy_process_group()
    """), TORCH_FR_BUFFER_SIZE="3", seconds=100)
    assert sorted(out.splitlines()) == ["0 good", "1 good"]


def test_without_a_size_nothing_is_kept(script, tmp_path):
    run(script(WRITE + f"""
rank, size = begin()
dist.all_reduce(torch.ones(1))
write({str(tmp_path)!r})
dist.destroy_process_group()
"""))
    assert entries_of(tmp_path, 0)["entries"] == []


def test_the_server_of_torch_serves_it(script):
    out = run(script("""
        import json, urllib.request
        from torch._C._distributed_c10d import _WorkerServer
        rank, size = begin()
        dist.all_reduce(torch.ones(3))
        server = _WorkerServer("127.0.0.1", 0)
        request = urllib.request.Request(f"http://127.0.0.1:{server.port}/handler/rueda_trace_json", method="POST")
        record = json.load(urllib.request.urlopen(request, timeout=20))
        say(rank, record["entries"][0]["profiling_name"], record["entries"][0]["state"])
        server.shutdown()
        dist.destroy_process_group()
    """), TORCH_FR_BUFFER_SIZE="100")
    assert sorted(out.splitlines()) == ["0 nccl:all_reduce completed", "1 nccl:all_reduce completed"]


def test_the_page_of_torch_shows_it(script):
    for package in ("tabulate", "jinja2", "requests"):
        pytest.importorskip(package)
    port = free_port()
    out = run(script(f"""
        import urllib.request
        from rueda.torch.debug_page import GroupsHandler
        from torch.distributed.debug import start_debug_server, stop_debug_server
        rank, size = begin()
        dist.all_reduce(torch.ones(3))
        start_debug_server(port={port}, handlers=[GroupsHandler()])
        dist.barrier()
        if rank == 0:
            end = time.monotonic() + 60
            while True:
                try:
                    page = urllib.request.urlopen("http://127.0.0.1:{port}/rueda", timeout=20).read().decode()
                    break
                except OSError:
                    assert time.monotonic() < end
                    time.sleep(0.2)
            say("all_reduce" in page, "COMPLETED" in page.upper())
        dist.barrier()
        if rank == 0:
            stop_debug_server()
        os._exit(0)
    """), TORCH_FR_BUFFER_SIZE="100")
    assert out == "True True\n", out
