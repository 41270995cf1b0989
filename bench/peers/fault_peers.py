# SPDX-License-Identifier: Apache-2.0
"""Jobs of torchrun and torchft that lose ranks, for bench/fault_campaign.py --against. torchft and its tools belong to the Python that runs this."""

from __future__ import annotations

import importlib.util
import os
import queue
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PATIENCE = 60  # seconds, until a peer counts as not come back
STEPS_BETWEEN = 3


class NotBack(Exception):
    """The peer has not trained on in time."""


class Broken(Exception):
    """The peer does not train at all here."""


class PeerJob:
    """Processes that print events, as bench/elastic_steps.py does: "event NAME RANK TIME MORE…"."""

    name = ""

    def __init__(self, ranks: int, parameters: int) -> None:
        self.ranks, self.parameters = ranks, parameters
        self.events: queue.Queue[list[str]] = queue.Queue()
        self.processes: list[subprocess.Popen] = []
        self.pids: dict[int, int] = {}  # of each rank
        self.errors = tempfile.TemporaryFile()

    def run(self, *command: object, **environment: str) -> subprocess.Popen:
        process = subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, stderr=self.errors, text=True, start_new_session=True,
                                   env=os.environ | {"OMP_NUM_THREADS": "1"} | environment)
        self.processes.append(process)
        threading.Thread(target=self.read, args=(process,), daemon=True).start()
        return process

    def read(self, process: subprocess.Popen) -> None:
        for line in process.stdout:
            words = line.split()
            if "event" in words:
                self.events.put(words[words.index("event") + 1:])

    def next_events(self) -> Iterator[tuple[str, int, float, list[str]]]:
        end = time.monotonic() + PATIENCE
        while True:
            try:
                name, rank, at, *more = self.events.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                raise NotBack from None
            if name == "process":
                self.pids[int(rank)] = int(more[0])
            yield name, int(rank), float(at), more

    def wait_for_steps(self) -> None:
        made: dict[int, int] = {}
        for name, rank, _, more in self.next_events():
            if name == "step" and int(more[1]) == self.ranks:
                made[rank] = made.get(rank, 0) + 1
            if len(made) == self.ranks and min(made.values()) >= STEPS_BETWEEN:
                return

    def lose_one(self) -> dict[str, float]:
        """Milliseconds from a SIGKILL to the first step of all others, and to one of all ranks."""
        self.wait_for_steps()
        victim = random.choice(sorted(self.pids))
        others, gone = set(self.pids) - {victim}, self.pids[victim]
        began = time.time()
        os.kill(gone, signal.SIGKILL)
        self.replace(victim)
        found: dict[str, float] = {}
        stepped, again = set(), {}
        for name, rank, at, more in self.next_events():
            if name != "step" or at < began or int(more[0]) == gone:
                continue
            if rank in others and int(more[1]) == self.ranks - 1:
                stepped.add(rank)
                if stepped == others:
                    found.setdefault("step", 1000 * (at - began))
            if int(more[1]) == self.ranks and (self.pids[victim] != gone):
                again.setdefault(rank, 1000 * (at - began))
            if len(again) == self.ranks:
                return found | {"again": max(again.values())}
        raise AssertionError

    def begin(self) -> None:
        self.start()
        try:
            self.wait_for_steps()
        except NotBack:
            self.errors.seek(0)
            raise Broken(f"{self.name} does not train:\n{self.errors.read()[-2000:].decode(errors='replace')}") from None

    def start(self) -> None:
        raise NotImplementedError

    def replace(self, rank: int) -> None:
        """Where the peer leaves it to its user."""

    def end(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        for pid in self.pids.values():  # torchrun gives each rank a session of its own
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for process in self.processes:
            process.wait()
        self.errors.close()


class Torchrun(PeerJob):
    """It starts all ranks again, and they begin anew."""

    name = "torchrun"

    def start(self) -> None:
        self.run(sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={self.ranks}", "--max-restarts=1000",
                 HERE / "torchrun_steps.py", self.parameters)


class Torchft(PeerJob):
    """A replica for each rank. Its user starts one again; here at once."""

    name = "torchft"
    heartbeat_ms = 5000  # without which a replica is lost
    port = 29510

    def start(self) -> None:
        self.run(sys.executable, "-c", "import signal; from torchft.coordination import LighthouseServer; "
                 f"server = LighthouseServer(bind='127.0.0.1:{self.port}', min_replicas=1, join_timeout_ms=100, quorum_tick_ms=10, "
                 f"heartbeat_timeout_ms={self.heartbeat_ms}); signal.pause()")
        for rank in range(self.ranks):
            self.replace(rank)

    def replace(self, rank: int) -> None:
        self.run(sys.executable, HERE / "torchft_steps.py", self.parameters, rank, TORCHFT_LIGHTHOUSE=f"http://127.0.0.1:{self.port}")


class TunedTorchft(Torchft):
    name = "torchft-tuned"
    heartbeat_ms = 500
    port = 29511


PEERS = {peer.name: peer for peer in (Torchrun, Torchft, TunedTorchft)}


def missing(name: str) -> str:
    """Why the peer cannot be measured here; empty: it can."""
    if name not in PEERS:
        return f"{name}: there are {', '.join(PEERS)}"
    package = "torch" if name == "torchrun" else "torchft"
    return "" if importlib.util.find_spec(package) else f"{name}: {sys.executable} has no package {package} (pip install torchft-nightly)"


def campaign(name: str, ranks: int, parameters: int, faults: int) -> tuple[dict[str, list[float]], int]:
    """Milliseconds of each fault, by name, and how often training has not come back."""
    measured: dict[str, list[float]] = {}
    not_back = 0
    job: Any = None
    try:
        for _ in range(faults):
            if job is None:
                job = PEERS[name](ranks, parameters)
                job.begin()
            try:
                for figure, value in job.lose_one().items():
                    measured.setdefault(figure, []).append(value)
            except NotBack:
                not_back += 1
                job.end()
                job = None
    finally:
        if job is not None:
            job.end()
    return measured, not_back
