# SPDX-License-Identifier: Apache-2.0
"""Jobs whose ranks the program numbers, and which find one another in a store that the program has given to init()."""

import functools
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time

import pytest
import warm_processes
from hand_started import BIN, CLEAN, Job, check, free_port, mpiexec

PATH = {"PYTHONPATH": os.environ.get("PYTHONPATH", ""), "OMP_NUM_THREADS": "1"}


def full(value):
    return pytest.param(value, marks=pytest.mark.full("core"))


# A rank: script.py KIND LOCATION RANK SIZE
BEGIN = """
import datetime, gc, os, sys, time, weakref
import torch, torch.distributed as dist
import rueda.torch as hvd

kind, location, rank, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])

class Files:
    '''What a program writes itself: wait() raises what it likes, and get() waits for ever.'''
    def path(self, key):
        return os.path.join(location, key)

    def set(self, key, value):
        with open(self.path(key) + ".new", "w") as file:
            file.write(value)
        os.rename(self.path(key) + ".new", self.path(key))

    def wait(self, keys, timeout):
        end = time.monotonic() + timeout.total_seconds()
        while not all(os.path.exists(self.path(key)) for key in keys):
            if time.monotonic() > end:
                raise LookupError("nothing there")
            time.sleep(0.01)

    def get(self, key):
        while not os.path.exists(self.path(key)):
            time.sleep(0.01)
        with open(self.path(key), "rb") as file:
            return file.read()

class OfTorch(dist.Store):
    '''A Store of torch's, in Python, with no more than it must have: check() is there, and does not work.'''
    def __init__(self):
        super().__init__()
        self.files = Files()
    def set(self, key, value):
        self.files.set(key, value)
    def get(self, key):
        return self.files.get(key)
    def wait(self, keys, timeout=datetime.timedelta(seconds=300)):
        self.files.wait(keys, timeout)

def tcp():
    host, port = location.rsplit(":", 1)
    return dist.TCPStore(host, int(port), is_master=rank == 0, wait_for_workers=False)

def prefixes():
    '''One server for all processes, and a job for each PART of them.'''
    part, (host, port) = os.environ["PART"], location.rsplit(":", 1)
    server = dist.TCPStore(host, int(port), is_master=rank == 0 and part == "0", wait_for_workers=False)
    return dist.PrefixStore(f"job{part}", server)

store = {"tcp": tcp, "file": lambda: dist.FileStore(location, size), "prefix": prefixes, "files": Files, "of_torch": OfTorch}[kind]()

def add_up():
    total = hvd.allreduce(torch.ones(1000) * (hvd.rank() + 1), op=hvd.Sum)[0].item()
    os.write(1, f"{hvd.rank()} {hvd.size()} {total}\\n".encode())
"""
ADD_UP = """
for job in range(3):
    hvd.init(store=store, rank=rank, size=size)
    add_up()
    hvd.shutdown()
"""


@functools.cache
def warm_server():
    return warm_processes.Server({**CLEAN, **PATH})


@pytest.fixture(scope="module", autouse=True)
def end_of_the_server():
    yield
    warm_server().close()


class Ranks(Job):
    """Processes that run BEGIN and `script`. `ranks`: which of them are started, in this order."""

    def __init__(self, folder, script, kind, location, size, ranks=None, delay=0.0, **environment):
        path = folder / f"script{time.monotonic_ns()}.py"
        path.write_text(BEGIN + textwrap.dedent(script))
        self.ranks = []
        for rank in range(size) if ranks is None else ranks:
            self.ranks.append(warm_server().start([path, kind, location, rank, size], {**CLEAN, **PATH, **environment}))
            time.sleep(delay)


def location_of(kind, folder):
    return f"127.0.0.1:{free_port()}" if kind in ("tcp", "prefix") else folder if kind in ("files", "of_torch") else folder / "store"


@pytest.mark.parametrize("kind", ["tcp", "files", full("file"), full("of_torch")])
def test_jobs_one_after_another(kind, tmp_path):
    with Ranks(tmp_path, ADD_UP, kind, location_of(kind, tmp_path), 3) as job:
        results = job.results()
    check(results)
    for rank, (_, out, _) in enumerate(results):
        assert out.split("\n") == [f"{rank} 3 6.0"] * 3 + [""]


def test_two_jobs_over_one_store(tmp_path):
    location = location_of("prefix", tmp_path)
    script = ADD_UP + "time.sleep(2)  # the server is in a rank of the first job\n"
    with Ranks(tmp_path, script, "prefix", location, 2, PART="0") as first, Ranks(tmp_path, script, "prefix", location, 2, PART="1") as second:
        for results in (first.results(), second.results()):
            check(results)
            assert [out.split("\n")[0] for _, out, _ in results] == ["0 2 3.0", "1 2 3.0"]


@pytest.mark.parametrize("kind", ["files", full("file")])
def test_ranks_that_come_late(kind, tmp_path):
    with Ranks(tmp_path, ADD_UP, kind, location_of(kind, tmp_path), 3, ranks=[2, 1, 0], delay=0.7) as job:
        check(job.results())


def test_the_address_of_a_job_that_failed_is_no_harm(tmp_path):
    with Ranks(tmp_path, ADD_UP, "files", tmp_path, 2, ranks=[0], RUEDA_START_TIMEOUT="0.5") as job:
        assert job.results()[0][0] != 0
    with Ranks(tmp_path, ADD_UP, "files", tmp_path, 2, ranks=[1, 0], delay=0.5) as job:
        check(job.results())


def test_the_secret_does_not_stay_in_the_store(tmp_path):
    with Ranks(tmp_path, ADD_UP, "files", tmp_path, 2) as job:
        check(job.results())
    left = [path.read_text() for path in tmp_path.iterdir() if path.name.startswith("rueda-root")]
    assert left == ["-"]


@pytest.mark.parametrize("kind", ["tcp", full("file"), full("files")])
def test_a_rank_that_never_comes_is_named(kind, tmp_path):
    begun = time.monotonic()
    with Ranks(tmp_path, ADD_UP, kind, location_of(kind, tmp_path), 3, ranks=[0, 1], RUEDA_START_TIMEOUT="1.5") as job:
        for status, _, err in job.results(30):
            assert status != 0 and "rank 2 of 3 did not come within 1.5 s" in err, err
    assert time.monotonic() - begun < 25


@pytest.mark.parametrize("kind", ["files", full("file"), full("of_torch")])
def test_rank_zero_that_never_comes_is_named_with_the_store(kind, tmp_path):
    name = {"file": "FileStore", "files": "Files", "of_torch": "OfTorch"}[kind]
    with Ranks(tmp_path, ADD_UP, kind, location_of(kind, tmp_path), 2, ranks=[1], RUEDA_START_TIMEOUT="1.5") as job:
        status, _, err = job.results(30)[0]
    assert status != 0 and "rank 0 of 2 did not come within" in err and f"nothing at the program's {name}" in err, err


def test_a_get_that_never_returns_does_not_keep_init(tmp_path):
    """init() gives up some seconds after its own time, and the process ends with a thread in there."""
    script = """
    from rueda.common.exceptions import HorovodInternalError
    class Hangs(Files):
        def wait(self, keys, timeout): pass
        def get(self, key): time.sleep(1000)
    try:
        hvd.init(store=Hangs(), rank=rank, size=size)
    except HorovodInternalError as error:
        print(error)
    """
    begun = time.monotonic()
    with Ranks(tmp_path, script, "files", tmp_path, 2, ranks=[1], RUEDA_START_TIMEOUT="1") as job:
        status, out, err = job.results(40)[0]
    assert status == 0 and "rank 0 of 2 did not come" in out, (out, err)
    assert "does not answer" in err and time.monotonic() - begun < 30, err


@pytest.mark.parametrize("rank, function", [(0, "set"), (1, "wait"), (1, "get")])
def test_what_the_store_raises_is_said(rank, function, tmp_path):
    script = f"""
    from rueda.common.exceptions import HorovodInternalError
    class Broken(Files):
        def wait(self, keys, timeout): pass
        def {function}(self, *_): raise ConnectionError("no route to the store")
    try:
        hvd.init(store=Broken(), rank=rank, size=size)
    except HorovodInternalError as error:
        print(error)
    """
    with Ranks(tmp_path, script, "files", tmp_path, 2, ranks=[rank], RUEDA_START_TIMEOUT="100") as job:
        begun = time.monotonic()
        status, out, err = job.results()[0]
    assert status == 0, err
    assert f"rank {rank} of 2" in out and "the program's Broken has failed: ConnectionError: no route to the store" in out, out
    assert time.monotonic() - begun < 90  # it does not wait for the end of the start


def test_a_server_that_has_gone_is_said(tmp_path):
    script = """
    from rueda.common.exceptions import HorovodInternalError
    if rank == 0:
        open(f"{os.path.dirname(__file__)}/there", "w").close()
        time.sleep(2)
        os._exit(0)
    while not os.path.exists(f"{os.path.dirname(__file__)}/there"):
        time.sleep(0.05)
    try:
        hvd.init(store=store, rank=rank, size=size)
    except HorovodInternalError as error:
        print(error)
    """
    with Ranks(tmp_path, script, "tcp", location_of("tcp", tmp_path), 2, RUEDA_START_TIMEOUT="20") as job:
        begun = time.monotonic()
        status, out, err = job.results()[1]
    assert status == 0 and "the program's TCPStore has failed" in out, (out, err)
    assert time.monotonic() - begun < 18


def test_ctrl_c_in_the_store_is_itself(tmp_path):
    script = """
    class Slow(Files):
        def set(self, key, value):
            os.write(1, b"in set\\n")
            time.sleep(30)
    try:
        hvd.init(store=Slow(), rank=rank, size=size)
    except KeyboardInterrupt:
        print("interrupted")
    """
    with Ranks(tmp_path, script, "files", tmp_path, 2, ranks=[0]) as job:
        assert job.ranks[0].stdout.readline() == "in set\n"
        job.ranks[0].send_signal(signal.SIGINT)
        out, err = job.ranks[0].communicate(timeout=20)
    assert "interrupted" in out, (out, err)


def test_nobody_calls_the_store_when_init_has_returned(tmp_path):
    script = """
    class Counts(Files):
        over = False
        def path(self, key):
            if self.over: os.write(1, b"after the end\\n")
            return super().path(key)
    store = Counts()
    for job in range(5):
        hvd.init(store=store, rank=rank, size=size)
        store.over = True
        add_up()
        time.sleep(0.5)
        hvd.shutdown()
        store.over = False
    gone = weakref.ref(store)
    del store
    hvd.init()  # a job without it
    gc.collect()
    assert gone() is None
    """
    with Ranks(tmp_path, script, "files", tmp_path, 2) as job:
        results = job.results()
    check(results)
    assert not any("after the end" in out for _, out, _ in results)


ARGUMENTS = """
def refused(words, **arguments):
    try:
        hvd.init(**arguments)
    except ValueError as error:
        assert words in str(error), error
    else:
        raise AssertionError(arguments)

refused("rank 2 is none of 2 ranks", store=store, rank=2, size=2)
refused("rank -1 is none of 2 ranks", store=store, rank=-1, size=2)
refused("rank 0 is none of 0 ranks", store=store, rank=0, size=0)
refused("is none of", store=store, rank=0, size=2**40)
refused("whole numbers", store=store, rank="0", size=1)
refused("whole numbers", store=store, rank=0)
refused("whole numbers", store=store, size=1)
refused("give store=, too", rank=0, size=1)
refused("has no set, get, wait", store=object(), rank=0, size=1)
refused("has no set, wait", store={}, rank=0, size=1)
refused("give one of them", store=store, rank=0, size=1, comm=[0])
hvd.init(store=store, rank=0, size=1)
hvd.init(store=store, rank=0, size=1)
add_up()
"""


def test_arguments_that_make_no_sense(tmp_path):
    with Ranks(tmp_path, ARGUMENTS, "files", tmp_path, 1) as job:
        check(job.results())


def test_a_job_that_begins_again_keeps_its_store(tmp_path):
    """As elastic.run does after a failure."""
    script = """
    from rueda.common import basics
    hvd.init(store=store, rank=rank, size=size, process_sets=[[0]])
    for job in range(2):
        basics.begin_again()
        add_up()
    """
    with Ranks(tmp_path, script, "files", tmp_path, 2) as job:
        results = job.results()
    check(results)
    assert [out for _, out, _ in results] == ["0 2 3.0\n" * 2, "1 2 3.0\n" * 2]


def test_ranks_that_differ_in_size(tmp_path):
    with Ranks(tmp_path, ADD_UP, "files", tmp_path, 2, ranks=[0], RUEDA_START_TIMEOUT="4") as first, \
            Ranks(tmp_path, ADD_UP, "files", tmp_path, 3, ranks=[1], RUEDA_START_TIMEOUT="4") as second:
        assert "it says that it is rank 1 of 3, and rank 0 starts a job of 2 ranks" in second.results()[0][2]
        assert first.results()[0][0] != 0


def test_workers_of_multiprocessing_may_be_ranks(tmp_path):
    script = tmp_path / "spawn.py"
    script.write_text(textwrap.dedent("""
        import os
        import torch
        import torch.distributed as dist
        import rueda.torch as hvd

        def rank_of(rank, location):
            hvd.init(store=dist.FileStore(location, 2), rank=rank, size=2)
            os.write(1, f"{hvd.allreduce(torch.ones(3) * rank, op=hvd.Sum)[0].item()}\\n".encode())

        if __name__ == "__main__":
            torch.multiprocessing.spawn(rank_of, (os.path.dirname(__file__) + "/store",), nprocs=2)
    """))
    done = subprocess.run([sys.executable, script], env={**CLEAN, **PATH, "PMI_RANK": "0", "PMI_SIZE": "1"}, capture_output=True, text=True,
                          timeout=120)
    assert done.returncode == 0 and done.stdout == "1.0\n1.0\n", done.stdout + done.stderr


UNDER_A_LAUNCHER = """
import os, sys
import torch, torch.distributed as dist
import rueda.torch as hvd
rank, size = (int(os.environ[name]) for name in sys.argv[2:4])
for job in range(2):  # ranks in the opposite order of the launcher's: the store wins
    hvd.init(store=dist.FileStore(sys.argv[1], size), rank=size - 1 - rank, size=size)
    values = hvd.allreduce(torch.ones(1000) * (hvd.rank() + 1), op=hvd.Sum)
    os.write(1, f"{rank}: {hvd.rank()} {hvd.size()} {values[0].item()}\\n".encode())
    hvd.shutdown()
"""


@pytest.mark.parametrize("launcher", ["ruedarun", "torchrun", full("mpiexec"), full("variables")])
def test_the_store_wins_over_a_launcher(launcher, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(UNDER_A_LAUNCHER)
    names = {"ruedarun": ["RUEDA_RANK", "RUEDA_SIZE"], "mpiexec": ["PMI_RANK", "PMI_SIZE"]}.get(launcher, ["RANK", "WORLD_SIZE"])
    command = {"ruedarun": [BIN / "ruedarun", "-np", "2", sys.executable],
               "mpiexec": [mpiexec(), "-n", "2", sys.executable],
               "torchrun": [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", f"--master-port={free_port()}"]}
    if launcher == "variables":
        with socket.socket() as nobody:  # bound, and nobody listens: whoever looks there finds nothing
            nobody.bind(("127.0.0.1", 0))
            others = {"RUEDA_STORE": f"127.0.0.1:{nobody.getsockname()[1]}", "RUEDA_RANK": "7", "RUEDA_SIZE": "9", "RUEDA_BOOTSTRAP": "slurm"}
            ranks = [{**PATH, **others, "RANK": str(rank), "WORLD_SIZE": "2"} for rank in range(2)]
            with Job([sys.executable, script, tmp_path / "store", *names], ranks) as job:
                results = job.results()
        check(results)
        out = "".join(out for _, out, _ in results)
    else:
        done = subprocess.run([*command[launcher], script, tmp_path / "store", *names], env={**CLEAN, **PATH}, capture_output=True, text=True,
                              timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        out = done.stdout
    assert out.count("0: 1 2 3.0") == out.count("1: 0 2 3.0") == 2, out


def test_a_store_in_cpp(tmp_path):
    for mode in ((), ("broken",), ("null",)):
        ranks = [subprocess.Popen([BIN / "store", tmp_path, str(rank), "3", *mode], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  env={**CLEAN, "RUEDA_START_TIMEOUT": "2" if mode else "30"}) for rank in range(3)]
        for rank, process in enumerate(ranks):
            out, err = process.communicate(timeout=60)
            if not mode:
                assert process.returncode == 0 and out == f"{rank} 3 6\n" * 3, (out, err)
            elif mode == ("null",):
                assert "the store is null" in err, err
            elif rank == 1:
                assert f"rank 1 of 3: get(" in err and f"of the folder {tmp_path} has failed: the disk is full" in err, err
