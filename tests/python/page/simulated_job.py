#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A simulated job behind the live page: serves the page's files and a feed of `ruedarun`'s form, without a job.

    python3 simulated_job.py --ranks 8 --straggler 3@10 --lose 5@25 --stall 6@40 --end 60

The straggler loads data slowly, a stalled rank never leaves its data, and a lost rank ends the job's steps for 2 s.
"""

import argparse
import http.server
import json
import math
import random
import statistics
import threading
import time
from pathlib import Path

from lateness import Arrivals, late_of

ASSETS = Path(__file__).resolve().parents[3] / "launcher" / "page" / "assets"
POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'"
KINDS = {".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css", ".txt": "text/plain"}
INTERVAL = 0.2
KEPT = 60.0  # seconds of spans
LATE_STEPS = 100
# Shares of a step's own time.
SHARES = {"data": 0.06, "forward": 0.30, "backward": 0.52}
CARDS = {"eth0": 25e6, "eth1": 25e6}  # the limit in bytes a second; 0: unknown


class SimulatedJob:
    """Steps in real time, computed when somebody asks. All functions may be called by any thread."""

    def __init__(self, ranks=4, step_seconds=0.1, total=2000, hosts=None, seed=1, program_logs=True, cards=None, idle_cards=()):
        self.lock = threading.RLock()
        self.random = random.Random(seed)
        self.rank_count, self.step_seconds, self.total, self.program_logs = ranks, step_seconds, total, program_logs
        self.host_count = hosts or max(1, ranks // 8)
        self.cards, self.idle_cards = cards or CARDS, idle_cards
        self.started_at = time.time()
        self.clock = 0.0  # the end of the last step
        self.step = 0
        self.spans, self.spans_before = [], 0  # (rank, phase, step, begin, end); so many were dropped
        self.spans_of_step = []  # of the step that goes on
        self.scalars = {}
        self.events = []
        self.arrivals = []  # of the last steps
        self.states = ["running"] * ranks
        self.words = [""] * ranks
        self.slow, self.slow_since = {}, {}  # rank: (phase, factor); rank: (step, time)
        self.stuck = None  # (rank, since)
        self.ended = None  # the state that stays
        self.job_version = 1
        self.lost = 0
        self.predicts = True  # the cost model
        self.gpus = 0  # of each host; only the first one knows how busy it is

    def now(self):
        return time.time() - self.started_at

    # Faults.
    def begin_straggler(self, rank, phase="data", factor=6.0):
        with self.lock:
            self.advance()
            first = self.step + 2  # the step that goes on stays as it is
            self.slow[rank] = (phase, factor)
            self.slow_since[rank] = (first, self.now())
            self.tell("straggler", rank, f"rank {rank} is late since step {first:,}, in {phase}")

    def lose(self, rank):
        with self.lock:
            self.states[rank] = "lost"
            self.words[rank] = "was killed by signal 9 (Killed)"
            self.lost += 1
            self.job_version += 1
            self.tell("lost", rank, f"rank {rank} (process {4711 + rank} on {self.host_of(rank)}) was killed by signal 9 (Killed)")

    def find(self, rank):
        """It was not lost."""
        with self.lock:
            self.states[rank], self.words[rank] = "running", ""
            self.job_version += 1

    def stall(self, rank):
        with self.lock:
            self.advance()
            now = self.now()
            self.spans += [(other, phase, step, begin, min(end, now)) for other, phase, step, begin, end in self.spans_of_step if begin < now]
            self.stuck = (rank, now)
            self.tell("stall", rank, self.line(now)["text"])

    def go_on(self):
        """After a stall."""
        with self.lock:
            self.spans += self.open_spans(self.now())
            self.stuck, self.clock = None, self.now()

    def end(self, state="ended"):
        with self.lock:
            self.advance()
            self.ended = state
            self.states = ["ended" if one == "running" else one for one in self.states]
            self.job_version += 1
            self.tell("end", 0, f"the job has ended after {self.step:,} steps")

    def tell(self, kind, rank, text):
        self.events.append({"at": time.time(), "kind": kind, "rank": rank, "text": text})

    def host_of(self, rank):
        return f"h{rank * self.host_count // self.rank_count}"

    # Steps.
    def advance(self):
        """All steps up to now."""
        with self.lock:
            while not self.stuck and not self.ended and self.step < self.total:
                begin, spans = self.clock, []
                end = self.one_step(begin, spans)
                if end > self.now():
                    self.spans_of_step = spans
                    break
                self.clock, self.step = end, self.step + 1
                self.spans += spans
                self.log()
            oldest = self.clock - KEPT
            drop = next((index for index, span in enumerate(self.spans) if span[4] >= oldest), len(self.spans))
            if drop > len(self.spans) // 4:
                del self.spans[:drop]
                self.spans_before += drop

    def one_step(self, begin, spans):
        step, arrivals, rng = self.step + 1, {}, random.Random(self.step * 7919 + 1)
        ranks = [rank for rank in range(self.rank_count) if self.states[rank] == "running"]
        for rank in ranks:
            at = begin
            for phase, share in SHARES.items():
                seconds = self.step_seconds * share * max(0.5, rng.gauss(1, 0.04))
                if self.slow.get(rank, ("", 0))[0] == phase and step >= self.slow_since[rank][0]:
                    seconds *= self.slow[rank][1]
                spans.append((rank, phase, step, at, at + seconds))
                at += seconds
                if phase == "forward" and rng.random() < 0.002:
                    spans.append((rank, "garbage", step, at, at + 0.3 * self.step_seconds))
                    at += 0.3 * self.step_seconds
            arrivals[rank] = at
        if not ranks:
            return math.inf
        last = max(arrivals.values())
        moved = last + 0.06 * self.step_seconds
        end = moved + 0.05 * self.step_seconds
        for rank, at in arrivals.items():
            spans += [(rank, "wait", step, at, last)] if last > at else []
            spans += [(rank, "moves", step, last, moved), (rank, "step", step, moved, end)]
            if step % 50 == 0:
                spans.append((rank, "evaluation", step, end, end + 2 * self.step_seconds))
            if step % 200 == 0 and rank == 0:
                spans.append((rank, "checkpoint", step, end + 2 * self.step_seconds, end + 3 * self.step_seconds))
        if end <= self.now():
            self.arrivals = [*self.arrivals[-LATE_STEPS + 1:], Arrivals(begin, arrivals, end)]
        return end + (2 * self.step_seconds if step % 50 == 0 else 0) + (self.step_seconds if step % 200 == 0 else 0)

    def log(self):
        if not self.program_logs:
            return
        step, noise = self.step, self.random.gauss(0, 1)
        add = lambda tag, number: self.scalars.setdefault(tag, []).append([step, number])
        add("loss", round(0.2 + 4 * math.exp(-step / 250) + 0.06 * noise, 4))
        add("learning rate", 1e-4 * min(step / 100, max(0, 1 - step / self.total)))
        add("samples/s", round(8 * self.rank_count / self.last_seconds(), 2))
        add("gradient norm", round(abs(1.5 + 3 * math.exp(-step / 150) + 0.3 * noise), 3))
        if step % 50 == 0:
            add("evaluation/f1", round(85 - 70 * math.exp(-step / 400), 2))

    def last_seconds(self):
        return self.arrivals[-1].end - self.arrivals[-1].begin

    # Messages of the feed.
    def job(self):
        with self.lock:
            return {"version": 1, "command": "python train.py --model bert-base --batch 8", "started_at": self.started_at, "elastic": self.lost > 0,
                    "generation": 1 + self.lost, "spares": 0, "lost": self.lost, "joined": 0,
                    "ranks": [{"rank": rank, "name": f"rank {rank}", "host": self.host_of(rank), "process": 4711 + rank, "state": self.states[rank], "words": self.words[rank]}
                              for rank in range(self.rank_count)],
                    "hosts": [{"name": f"h{host}", "cores": 16, "memory_bytes": 64e9,
                               "cards": [{"name": card, "limit_bytes_per_s": limit} for card, limit in self.cards.items()]} for host in range(self.host_count)]}

    def update(self, reader):
        """All that is new to a reader."""
        with self.lock:
            self.advance()
            now = self.now()
            message = {"now": now, "line": self.line(now), "hosts": self.load(now)}
            if self.step:
                message["progress"] = self.progress(now)
            if spans := self.new_spans(reader, now):
                message["spans"] = [[rank, phase, step, round(begin, 6), round(end, 6)] for rank, phase, step, begin, end in spans]
            if scalars := {tag: points[reader.points.get(tag, 0):] for tag, points in self.scalars.items() if len(points) > reader.points.get(tag, 0)}:
                message["scalars"] = scalars
                reader.points = {tag: len(points) for tag, points in self.scalars.items()}
            if events := self.events[reader.events:]:
                message["events"] = events
                reader.events = len(self.events)
            if self.arrivals and now >= reader.late_at:
                reader.late_at = now + (0.4 if self.rank_count <= 64 else 2)
                message["late"] = late_of(self.arrivals, self.slow, self.slow_since)
            if now >= reader.plan_at and self.step:
                reader.plan_at = now + 1
                message["plan"] = self.plan()
            if (operations := self.operations(now)) != reader.operations:
                message["operations"] = reader.operations = operations
            return message

    def new_spans(self, reader, now):
        spans = self.spans[max(0, reader.spans - self.spans_before):]
        reader.spans = self.spans_before + len(self.spans)
        return spans + self.open_spans(now)

    def open_spans(self, now):
        """Spans that still go on: they come again, with the same begin and a later end."""
        if self.ended or self.step == 0:
            return []
        if self.stuck:
            rank, since = self.stuck
            return [(other, "data" if other == rank else "wait", self.step + 1, since, now) for other in range(self.rank_count)
                    if self.states[other] == "running"]
        return [(rank, phase, step, begin, now) for rank, phase, step, begin, end in self.spans_of_step if begin < now < end]

    def plan(self):
        """As if each step were one fused allreduce of gradients and a short one, and a broadcast at the start."""
        steps, common = self.step, {"inside": "in place", "ends_on_device": False, "ranks": self.rank_count}
        kinds = [("allreduce", "float32", "16 MiB", 2**24, "hierarchy-tcp", "ring", "shared memory, in place and TCP, ring", "fp16", 3 * steps, 38, 4100, 0.9),
                 ("allreduce", "float32", "4 B", 4, "hierarchy-tcp", "recursive doubling", "shared memory, in place and TCP, recursive doubling", "none", steps, 1, 61, 0.1)]
        kinds += [("broadcast", "float32", f"{2**size} B", 2**size, "hierarchy-tcp", "tree", "shared memory, in place and TCP, tree", "none", 1, 1, 100, 0)
                  for size in range(10)]
        routes = [{**common, "operation": operation, "dtype": dtype, "size": size, "most_bytes": most, "backend": backend, "between": between, "route": route,
                   "sent_as": sent_as, "plans": plans * self.rank_count, "tensors": tensors * plans * self.rank_count, "bytes": most * plans,
                   "mean_us": mean, "fastest_us": 0.9 * mean, "share": share} for
                  operation, dtype, size, most, backend, between, route, sent_as, plans, tensors, mean, share in kinds]
        for route in routes[:2]:
            route |= {"recent_us": 1.1 * route["mean_us"], "per_s": 10.0}
            if self.predicts:
                route["predicted_us"] = 0.8 * route["mean_us"]
        settings = {"fusion_threshold": 64 << 20, "cycle_ms": 1.0, "chunk_bytes": 256 << 10, "is_tuned": True, "tuner_samples": steps // 10,
                    "tuner_words": "keeps the defaults"}
        return {"routes": routes, "more": 0, "uncounted": 0, "settings": settings}

    def progress(self, now):
        seconds = statistics.fmean(step.end - step.begin for step in self.arrivals)
        waits = [step.last - at for step in self.arrivals[-20:] for at in step.ranks.values()]
        return {"step": self.step, "total": self.total, "samples_per_s": 8 * self.rank_count / seconds, "step_ms": 1e3 * seconds,
                "wait_ms": 1e3 * statistics.fmean(waits), "ends_at": self.started_at + now + (self.total - self.step) * seconds}

    def line(self, now):
        if self.ended:
            return {"state": self.ended, "text": f"ended after {self.step:,} steps"}
        if self.stuck:
            rank, since = self.stuck
            return {"state": "stalled", "rank": rank, "text": f"stalled, step {self.step:,} of {self.total:,}; no step for {now - since:.0f} s, "
                                                              f"the others wait for rank {rank} (data)"}
        if not self.step:
            return {"state": "starting", "text": "starting: all ranks run, no step yet"}
        progress = self.progress(now)
        text = f"running, step {self.step:,} of {self.total:,}, {progress['samples_per_s']:,.1f} samples/s"
        if progress["ends_at"] < 2**33:
            text += time.strftime(", ends at %H:%M", time.localtime(progress["ends_at"]))
        for rank, (phase, _) in self.slow.items():
            text += f"; {progress['wait_ms']:.1f} ms a step waiting for rank {rank} ({phase})"
        return {"state": "running", "text": text}

    def load(self, now):
        moves = not self.stuck and not self.ended
        rate = lambda host, card, name: (12e6 + 10e6 * math.sin(now / 3 + host + card)) * moves * (name not in self.idle_cards)
        gpu = lambda number: {"name": "GPU", "memory_bytes": 80e9, "memory_used": 61e9, **({} if number else {"busy": 0.7 + 0.2 * math.sin(now), "celsius": 54})}
        return [{"name": f"h{host}", "gpus": [gpu(number) for number in range(self.gpus)], "busy": 0.55 + 0.4 * math.sin(now / 5 + host) if moves else 0.04, "memory_used": 21e9 + 3e9 * math.sin(now / 9 + host), "load": 3.5,
                 "cards": [{"name": name, "sent_per_s": rate(host, card, name), "received_per_s": 0.95 * rate(host, card, name)}
                           for card, name in enumerate(self.cards)]} for host in range(self.host_count)]

    def operations(self, now):
        if not self.stuck or self.ended:
            return []
        return [{"rank": rank, "name": f"rank {rank}", "activity": f"{phase} for {now - since:.1f} s"} for rank, phase, _, since, _ in self.open_spans(now)]


class Reader:
    """How far one connection has read."""

    def __init__(self):
        self.spans = self.events = self.late_at = self.plan_at = self.job = 0
        self.points, self.operations = {}, []


class PageServer(http.server.ThreadingHTTPServer):
    """The page and its feed on a port of loopback."""

    daemon_threads = True

    def __init__(self, job, port=0):
        super().__init__(("127.0.0.1", port), PageRequest)
        self.job, self.is_open = job, True
        self.address = f"http://127.0.0.1:{self.server_port}/"

    def start(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def cut(self, seconds):
        """Ends the connections, and refuses new ones for so long."""
        self.is_open = False
        threading.Timer(seconds, lambda: setattr(self, "is_open", True)).start()

    def handle_error(self, request, client_address):
        pass  # a browser went away


class PageRequest(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        path = self.path.split("?")[0]
        if path == "/events":
            return self.send_feed()
        file = (ASSETS / (path.lstrip("/") or "index.html")).resolve()
        if not file.is_relative_to(ASSETS) or not file.is_file():
            return self.send_error(404)
        content = file.read_bytes()
        self.send_response(200)
        self.send_header("Content-Type", KINDS[file.suffix])
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(content)

    def send_feed(self):
        if not self.server.is_open:
            return self.connection.close()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(b"retry: 500\n\n")
        job, reader = self.server.job, Reader()
        while self.server.is_open:
            if reader.job != job.job_version:
                reader.job = job.job_version
                self.send_event("job", job.job())
            self.send_event("update", job.update(reader))
            time.sleep(INTERVAL)

    def send_event(self, name, message):
        self.wfile.write(f"event: {name}\ndata: {json.dumps(message)}\n\n".encode())
        self.wfile.flush()

    def log_message(self, *_):
        pass


def fault(text):
    rank, _, seconds = text.partition("@")
    return int(rank), float(seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8123)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--hosts", type=int, help="default: one for 8 ranks")
    parser.add_argument("--step", type=float, default=0.1, help="seconds of a step")
    parser.add_argument("--total", type=int, default=2000, help="steps")
    for name in ("straggler", "lose", "stall"):
        parser.add_argument(f"--{name}", type=fault, action="append", default=[], metavar="RANK@SECONDS")
    parser.add_argument("--end", type=float, metavar="SECONDS")
    arguments = parser.parse_args()
    job = SimulatedJob(arguments.ranks, arguments.step, arguments.total, arguments.hosts)
    for act, faults in ((job.begin_straggler, arguments.straggler), (job.lose, arguments.lose), (job.stall, arguments.stall)):
        for rank, seconds in faults:
            threading.Timer(seconds, act, [rank]).start()
    if arguments.end:
        threading.Timer(arguments.end, job.end).start()
    server = PageServer(job, arguments.port)
    print(server.address, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
