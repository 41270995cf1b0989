# SPDX-License-Identifier: Apache-2.0
"""The elastic job that fault_campaign.py disturbs: its events, the faults, and the times that pass after them."""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import selectors
import signal
import statistics
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(os.environ.get("RUEDA_BIN", ROOT / "build/bin"))
TIMEOUT = 120  # seconds, with whatever has to come next
STEPS_BETWEEN = 3
STOPPED = 0.3  # seconds
UNTIL_SPARE_WAITS = {"python": 3.0, "c++": 0.3}  # seconds from its call of init()
SLOWED, RATE = "1mbit", "max"  # of a virtual host's network
LOSES_NOBODY = {"stop", "slow", "spare"}
SHUTDOWN = 0.05  # seconds, about
SAMPLES = 480  # of an epoch, as in elastic_steps


class Stuck(Exception):
    """What did not come."""


@dataclass
class Measured:
    """Milliseconds of each fault."""

    named: list[float] = field(default_factory=list)
    failed: list[float] = field(default_factory=list)
    generation: list[float] = field(default_factory=list)
    step: list[float] = field(default_factory=list)
    again: list[float] = field(default_factory=list)
    ended: list[float] = field(default_factory=list)
    undisturbed: list[float] = field(default_factory=list)  # steps


class Job:
    """`stop`: the file that ends it."""

    def __init__(self, options: argparse.Namespace, kind: str, ranks: int, parameters: int, stop: Path):
        self.ranks, self.measured, self.stop = ranks, Measured(), stop
        self.pids: dict[int, int] = {}
        self.names: dict[int, str] = {}  # of the hosts
        self.last_step: dict[int, float] = {}
        self.hosts = options.hosts
        self.spares, self.until_spare_waits = options.spares, UNTIL_SPARE_WAITS[options.program]
        self.waiting: dict[int, float] = {}  # processes in init(), and since when
        hosts = ["--virtual-hosts", str(options.hosts)] if options.hosts else []
        if kind in ("joining", "spare", "start"):  # its slot would not be used again
            hosts += ["--blacklist", "never"]
        if options.hosts or kind in ("joining", "spare"):  # else it waits for longer each time
            hosts += ["--blacklist-cooldown-range", "1", "1"]
        program = [BIN / "elastic_steps"] if options.program == "c++" else [sys.executable, ROOT / "bench/elastic_steps.py"]
        command = [BIN / "ruedarun", *hosts, "--spares", str(options.spares), "-np", str(ranks), "--min-np", "1", *program, str(parameters), str(stop)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        env=os.environ | {"OMP_NUM_THREADS": "1", "RUEDA_NETWORK_DEADLINE": "2"} | ({"SHARDED": "1"} if options.sharded else {}))
        self.said: list[str] = []
        self.unread = b""

    def lines(self, timeout: float):
        """All that comes within so many seconds from the call."""
        end = time.monotonic() + timeout
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while True:
                while b"\n" in self.unread:
                    line, self.unread = self.unread.split(b"\n", 1)
                    yield line.decode(errors="replace") + "\n"
                left = end - time.monotonic()
                if left <= 0 or not selector.select(left):
                    raise Stuck(f"nothing has come to its end within {timeout:.0f} s:\n{''.join(self.said[-40:])}")
                chunk = os.read(self.process.stdout.fileno(), 1 << 16)
                if not chunk:
                    raise Stuck(f"ruedarun has ended:\n{''.join(self.said[-40:])}")
                self.unread += chunk

    def events(self, timeout: float = TIMEOUT):
        """(name, worker, time, further words) of all that comes; a line of ruedarun's is ("said", 0, time, [line])."""
        for line in self.lines(timeout):
            self.said.append(line)
            words = line.split()
            found = "event" in words[:2] and words[words.index("event") + 1:]
            if found:
                event = (found[0], int(found[1]), float(found[2]), found[3:])
                if event[0] == "process":
                    self.pids[event[1]], self.names[event[1]] = int(event[3][0]), event[3][1]
                elif event[0] == "waits":
                    self.waiting[event[1]] = event[2]
                elif event[0] == "begins":
                    self.waiting.pop(event[1], None)
                yield event
            elif line.startswith("ruedarun: "):
                yield "said", 0, time.time(), [line]

    def wait_for_steps(self) -> set[int]:
        """Until all ranks have made some steps together, and the spares wait: the workers of the ranks."""
        made: dict[int, int] = {}
        for name, worker, at, more in self.events():
            if name == "step" and int(more[0]) == self.ranks:
                made[worker] = made.get(worker, 0) + 1
                if made[worker] > 1:
                    self.measured.undisturbed.append(1000 * (at - self.last_step[worker]))
                self.last_step[worker] = at
            elif name in ("generation", "said"):
                made.clear()
            spares = [worker for worker, since in self.waiting.items() if at - since >= self.until_spare_waits]
            if len(spares) >= self.spares and len(made) == self.ranks and min(made.values()) >= STEPS_BETWEEN:
                return set(made)
        raise AssertionError

    def agent_of(self, worker: int) -> int:
        return int(Path(f"/proc/{self.pids[worker]}/stat").read_text().rpartition(")")[2].split()[1])

    def disturb(self, kind: str, members: set[int]) -> None:
        time.sleep(random.random() * statistics.median(self.measured.undisturbed) / 1000)
        if kind in LOSES_NOBODY:
            self.trouble(kind, members)
            return
        lost = {min(members)} if kind == "root" else set(random.sample(sorted(members), 2 if kind == "two" else 1))
        began = time.time()
        if kind == "agent":
            agent = self.agent_of(min(lost))
            lost = {worker for worker in members if self.agent_of(worker) == agent}
            os.kill(agent, signal.SIGKILL)
        elif kind == "cable":
            host = random.choice(sorted({self.names[worker] for worker in members} - {"h0"}))
            lost = {worker for worker in members if self.names[worker] == host}
            self.network("link", host, "0", "down")
        else:
            for worker in lost:
                os.kill(self.pids[worker], signal.SIGKILL)
        self.follow(kind, began, members, members - lost)

    def trouble(self, kind: str, members: set[int]) -> None:
        """Something that loses no rank: all have to make a step after it."""
        began, lasts = time.time(), STOPPED
        if kind == "stop":
            victim = self.pids[random.choice(sorted(members))]
            os.kill(victim, signal.SIGSTOP)
            time.sleep(STOPPED)
            os.kill(victim, signal.SIGCONT)
        elif kind == "slow":
            host = f"h{random.randrange(self.hosts)}"
            self.network("rate", host, "0", SLOWED)
            time.sleep(STOPPED)
            self.network("rate", host, "0", RATE)
        else:
            lasts = 0.0
            victim = random.choice(sorted(self.waiting))
            del self.waiting[victim]
            os.kill(self.pids.pop(victim), signal.SIGKILL)
        stepped = set()
        for name, worker, at, more in self.events():
            if name == "said" and kind != "spare":
                raise Stuck(f"nobody is lost, and ruedarun says: {more[0]}")
            if name == "step" and at > began + lasts:
                stepped.add(worker)
            if stepped >= members:
                self.measured.step.append(1000 * (at - began))
                return

    def network(self, *words: str) -> None:
        subprocess.run([BIN / "rueda-hosts", "of", str(self.process.pid), *words], check=True, stdout=subprocess.DEVNULL, timeout=60)

    def follow(self, kind: str, began: float, members: set[int], others: set[int]) -> None:
        failed, formed, stepped, again, named, waits_for = {}, set(), set(), {}, False, kind
        for name, worker, at, more in self.events():
            after = 1000 * (at - began)
            if after < 0:
                continue
            if name == "said" and not named:
                named = True
                self.measured.named.append(after)
            if name == "process" and waits_for == "joining":
                time.sleep(random.random() / 20)
                self.waiting.pop(worker, None)
                os.kill(self.pids.pop(worker), signal.SIGKILL)
                waits_for = ""
            if name == "fails" and worker in others:
                failed.setdefault(worker, after)
            if name == "generation" and worker in others and worker not in formed:
                formed.add(worker)
                if formed == others:
                    self.measured.failed.append(max(failed.values(), default=after))
                    self.measured.generation.append(after)
            if name == "step" and worker in formed and worker not in stepped:
                stepped.add(worker)
                if stepped == others:
                    self.measured.step.append(after)
            if stepped == others and waits_for == "cable":
                for host in range(1, self.hosts):
                    self.network("link", f"h{host}", "0", "up")
                waits_for = ""
            if name == "step" and int(more[0]) == self.ranks and worker in formed | set(self.pids) - members:
                again[worker] = after
            if named and stepped == others and len(again) == self.ranks and waits_for not in ("joining", "cable"):
                self.measured.again.append(max(again.values()))
                return

    def disturb_start(self, longest: float) -> None:
        """Kills one of its processes within so many seconds from now, or the first one as soon as there is one."""
        def kill() -> None:
            while not self.pids and self.process.poll() is None:
                time.sleep(0.002)
            os.kill(random.choice(list(self.pids.values())), signal.SIGKILL)

        later = threading.Timer(random.random() * longest, kill)
        later.start()
        self.wait_for_steps()
        later.join()
        self.wait_for_steps()  # of all ranks: the kill may have come after the first ones

    def disturb_end(self, members: set[int]) -> list[str] | None:
        """Kills one of its processes that ends. The others have to end, and ruedarun if need be names the lost one.
        The words of the event that ends the job, if it has ended well."""
        self.stop.touch()
        next(name for name, *_ in self.events() if name == "over")
        time.sleep(random.random() * SHUTDOWN)
        victim, began = random.choice(sorted(members)), time.time()
        with contextlib.suppress(ProcessLookupError):  # it has ended
            os.kill(self.pids[victim], signal.SIGKILL)
        found, status = self.finish()
        self.measured.ended.append(1000 * (time.time() - began))
        if status == 0 and found:
            return found
        if f"(process {self.pids[victim]}" not in "".join(self.said):
            raise Stuck(f"process {self.pids[victim]} was killed at the end, and nobody says so; ruedarun's status is {status}:\n{''.join(self.said[-40:])}")
        return None

    def finish(self) -> tuple[list[str] | None, int]:
        """The words of the event that ends the job, and ruedarun's status."""
        self.stop.touch()
        found = None
        longest_epoch = SAMPLES / self.ranks * max(self.measured.undisturbed, default=0.0) / 1000
        with contextlib.suppress(Stuck):
            for name, _, _, more in self.events(TIMEOUT + longest_epoch):
                if name == "end":
                    found = more
        return found, self.process.wait(TIMEOUT)

    def end_well(self) -> list[str]:
        """The words of the event that ends the job. Throws Stuck if there are none, or ruedarun has failed."""
        found, status = self.finish()
        if status != 0 or found is None:
            raise Stuck(f"the job has not ended well:\n{''.join(self.said[-40:])}")
        return found
