# SPDX-License-Identifier: Apache-2.0
"""Ranks whose standard error is a full pipe that nobody reads for a while: the job goes on, and no last word is lost.

Runs build/bin/rank (tests/multi/rank_main.cc) without a launcher, which would read the pipe. RUEDA_BIN names the folder of the programs.
"""
import contextlib
import fcntl
import os
import socket
import subprocess
import threading
import time
from pathlib import Path

BIN = Path(os.environ["RUEDA_BIN"])
LAUNCHERS = ("RUEDA_", "HOROVOD_", "PMI", "SLURM_", "OMPI_", "TORCHELASTIC_", "HYDRA_", "MPI_")
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}


class FullPipe:
    """A pipe without room, until read() takes all that comes."""

    def __init__(self):
        self.out, self.into = os.pipe()
        fcntl.fcntl(self.into, fcntl.F_SETPIPE_SZ, 4096)
        os.set_blocking(self.into, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(self.into, b"." * 4096)
        os.set_blocking(self.into, True)
        self.text = b""

    def read(self):
        while piece := os.read(self.out, 65536):
            self.text += piece


@contextlib.contextmanager
def job(pipe, with_pipe, mode, *arguments, **settings):
    """Two ranks, of which those of `with_pipe` have the pipe; killed by their ids when the test ends."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        store = f"127.0.0.1:{probe.getsockname()[1]}"
    ranks = [subprocess.Popen([BIN / "rank", mode, *map(str, arguments)], stdout=subprocess.DEVNULL,
                              stderr=pipe.into if rank in with_pipe else subprocess.DEVNULL,
                              env={**CLEAN, "RUEDA_STORE": store, "RUEDA_RANK": str(rank), "RUEDA_SIZE": "2", **settings}) for rank in range(2)]
    os.close(pipe.into)
    try:
        yield ranks
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()


def test_a_reader_that_pauses_stops_no_job():
    """For 15 s nobody reads. Meanwhile rank 0 reports a stall, three times as long before the end as the watchdog allows it to be still."""
    pipe = FullPipe()
    with job(pipe, (0, 1), "late", 13, RUEDA_STALL_CHECK_TIME="1", RUEDA_WATCHDOG_TIME="4") as ranks:
        time.sleep(15)
        reader = threading.Thread(target=pipe.read)
        reader.start()
        assert [rank.wait(timeout=60) for rank in ranks] == [0, 0], pipe.text
        reader.join(timeout=60)
    assert b"stalled: allreduce 'late' is not complete" in pipe.text
    assert b"does not move" not in pipe.text


def test_a_stuck_process_ends_though_nobody_reads_and_tells_a_reader_who_comes_back():
    for comes_back in (False, True):
        pipe = FullPipe()
        with job(pipe, (1,), "stuck", RUEDA_WATCHDOG_TIME="2") as ranks:
            reader = threading.Thread(target=pipe.read)
            if comes_back:
                time.sleep(6)
                reader.start()
            assert ranks[1].wait(timeout=60) == 70, pipe.text
            ranks[0].wait(timeout=60)
            if comes_back:
                reader.join(timeout=60)
        assert (b"the background thread does not move" in pipe.text) == comes_back
        assert (b"allgather 'rows', moving data" in pipe.text) == comes_back, pipe.text
