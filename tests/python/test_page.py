# SPDX-License-Identifier: Apache-2.0
"""The live page of a job, and ruedarun --status, of real processes."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

BIN = Path(os.environ["RUEDA_BIN"])
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in ("PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE")}


@pytest.fixture(name="folder", autouse=True)
def own_folder(tmp_path):
    """Jobs of this test alone are known to its --status."""
    tmp_path.chmod(0o700)
    ENVIRONMENT["XDG_RUNTIME_DIR"] = str(tmp_path)
    return tmp_path


class Job:
    """ruedarun with a page, and what its line on stderr says."""

    def __init__(self, ranks, *command, options=("--page", "0"), **settings):
        self.process = subprocess.Popen([BIN / "ruedarun", *map(str, options), "-np", str(ranks), *map(str, command)], env=ENVIRONMENT | settings,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.first = ""
        if "--page" in options:
            self.first = self.process.stderr.readline()
            if "--virtual-hosts" in options and "virtual host" in self.first:
                self.first = self.process.stderr.readline()
            assert "the page of this job is http://127.0.0.1:" in self.first, self.first + self.process.stderr.read()
            address, self.token = self.first.split("http://")[1].strip().split("/?token=")
            self.port = int(address.split(":")[1])

    def get(self, path, token=True, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request("GET", f"{path}?token={self.token}" if token else path, headers=headers)
        return connection.getresponse()

    def post(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("POST", f"{path}?token={self.token}", headers={"Origin": f"http://127.0.0.1:{self.port}"})
        return json.loads(connection.getresponse().read())

    def end(self):
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out, err

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.communicate(timeout=20)
        self.process.kill()
        self.process.wait()


def events_of(answer, seconds):
    """(name, data) of each event, as they come."""
    until, name = time.monotonic() + seconds, ""
    while time.monotonic() < until and (line := answer.readline()):
        if line.startswith(b"event: "):
            name = line[7:].strip().decode()
        elif line.startswith(b"data: "):
            yield name, json.loads(line[6:])


def first_event(answer, seconds, wanted):
    for name, data in events_of(answer, seconds):
        if wanted(name, data):
            return data
    return None


def status(*words):
    return subprocess.run([BIN / "ruedarun", "--status", *map(str, words)], env=ENVIRONMENT, capture_output=True, text=True, timeout=30)


def test_only_who_has_the_token_sees_the_page():
    with Job(1, "sleep", 30) as job:
        assert job.get("/", token=False).status == 401
        assert job.get("/events", token=False).status == 401
        assert job.get("/", token=False, Cookie=f"rueda-{job.port}={'0' * 32}").status == 401
        assert job.get("/", Origin="http://evil.example").status == 403
        assert job.get("/", Host="evil.example").status == 403
        assert job.get("/status", Host=f"evil.example:{job.port}").status == 403
        answer = job.get("/")
        assert answer.status == 200 and answer.getheader("Content-Type").startswith("text/html")
        assert answer.getheader("Cache-Control") == "no-store"
        assert "default-src 'none'" in answer.getheader("Content-Security-Policy")
        cookie = answer.getheader("Set-Cookie")
        assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
        assert job.get("/page.js", token=False, Cookie=cookie.split(";")[0]).status == 200
        assert job.get("/page.js", token=False).status == 401
        assert job.get("/none").status == 404
        connection = http.client.HTTPConnection("127.0.0.1", job.port, timeout=10)
        connection.request("POST", f"/?token={job.token}", body="")
        assert connection.getresponse().status == 403  # no page of ours has sent it


def test_events_follow_the_job():
    with Job(3, BIN / "marked_training", 3000, 2, 8, 100) as job:
        answer = job.get("/events")
        assert answer.status == 200 and answer.getheader("Content-Type") == "text/event-stream"
        names, found, phases, late = set(), {}, set(), None
        for name, data in events_of(answer, 30):
            names.add(name)
            found.update(data if name == "update" else {"job": data})
            phases |= {span[1] for span in data.get("spans", ())}
            late = data.get("late", late) if name == "update" else late
            if late and late["steps"] == 100 and late["ranks"][0].get("since_step", 0) > 90 and found["progress"]["step"] > 250:
                break
        assert names == {"job", "update"}
        assert found["job"]["ranks"][2]["state"] == "running" and found["job"]["hosts"][0]["cores"] >= 1
        assert found["progress"]["total"] == 3000 and found["progress"]["samples_per_s"] > 0
        assert found["scalars"]["loss"][0][1] > 0
        assert {"data", "forward", "wait", "moves"} <= phases, phases
        worst = late["ranks"][0]
        assert worst["rank"] == 2 and worst["phase"] == "data" and 4 < worst["late_ms"] < 16, late
        assert 95 <= worst["since_step"] <= 110, late
        assert late["what_if"][0]["rank"] == 2 and late["what_if"][0]["faster_percent"] > 40, late
        assert "waiting for rank 2 (data)" in found["line"]["text"], found["line"]
        metrics = job.get("/metrics").read().decode()
        assert 'rueda_job_ranks{state="running"} 3' in metrics and "rueda_job_rank_late_seconds{rank=\"2\"}" in metrics


def test_who_comes_late_sees_the_history():
    with Job(2, BIN / "marked_training", 3000, 1, 8, 50) as job:
        time.sleep(3)
        seen = first_event(job.get("/events"), 10, lambda name, data: data.get("late", {}).get("steps") == 100)
        assert seen and seen["late"]["ranks"][0]["rank"] == 1
        assert 40 <= seen["late"]["ranks"][0]["since_step"] <= 60, "nobody has watched at that time"


def test_a_killed_rank_appears_within_a_second():
    with Job(2, "sleep", 30) as job:
        answer = job.get("/events")
        first = first_event(answer, 10, lambda name, data: name == "job" and data["ranks"][1]["state"] == "running")
        before = time.monotonic()
        os.kill(first["ranks"][1]["process"], signal.SIGKILL)
        lost = first_event(answer, 10, lambda name, data: any(event["kind"] == "lost" for event in data.get("events", ())))
        assert time.monotonic() - before < 1
        assert lost["events"][0]["rank"] == 1 and "was killed by signal 9" in lost["events"][0]["text"]
        end = first_event(answer, 10, lambda name, data: any(event["kind"] == "end" for event in data.get("events", ())))
        assert lost["line"]["state"] == "lost" and end
        answer.read()  # raises an error where the stream is cut off
        assert answer.isclosed() and job.end()[0] == 128 + 9, "the stream ends with the job"


def test_status_as_text_and_as_json():
    nothing = status()
    assert nothing.returncode == 1 and "no job of this user runs" in nothing.stderr
    with Job(2, BIN / "marked_training", 3000, 1, 8, 0, options=()) as job:
        time.sleep(1.5)
        text = status()
        assert text.returncode == 0 and not text.stderr
        lines = text.stdout.splitlines()
        assert lines[0].startswith("running, step "), text.stdout
        assert lines[1].split() == ["rank", "host", "process", "state", "step", "phase", "late", "ms"]
        assert lines[2].split()[0] == "0" and lines[3].split()[3] == "running" and int(lines[3].split()[4]) > 10
        assert 5 < float(lines[3].split()[-1]) < 16, text.stdout
        known = json.loads(status(job.process.pid, "--json").stdout)
        assert known["job"]["command"].endswith("marked_training 3000 1 8 0") and known["ranks"][1]["step"] > 10
        assert known["update"]["line"]["state"] == "running"
        wrong = status(job.process.pid + 1)
        assert wrong.returncode == 1 and "process number" in wrong.stderr
        with Job(1, "sleep", 30, options=()) as other:
            time.sleep(0.5)
            both = status().stdout.splitlines()
            assert len(both) == 2 and {int(line.split()[0]) for line in both} == {job.process.pid, other.process.pid}
            assert len(json.loads(status("--json").stdout)) == 2


def test_nothing_is_said_of_the_page_by_default(folder):
    with Job(2, BIN / "marked_training", 20, options=()) as job:
        assert job.end() == (0, "", "")
    assert list((folder / "rueda").iterdir()) == [], "no socket is left"
    with Job(1, "sleep", 30, options=("--no-page",)) as job:
        time.sleep(0.5)
        assert list((folder / "rueda").iterdir()) == []
        assert status().returncode == 1


def switches(pid):
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)


def test_nothing_moves_while_nobody_watches():
    with Job(2, "sleep", 30) as job:
        answer = job.get("/events")
        first = first_event(answer, 10, lambda name, data: name == "update" and data.get("hosts"))
        assert first
        agent = int(Path(f"/proc/{job_rank(job)}/stat").read_text().rsplit(")", 1)[1].split()[1])
        before = switches(job.process.pid), switches(agent)
        time.sleep(1)
        assert switches(agent) - before[1] >= 4 and switches(job.process.pid) - before[0] >= 4, "somebody watches"
        answer.close()
        time.sleep(9)  # the server notices, and lingers
        before = switches(job.process.pid), switches(agent)
        time.sleep(3)
        assert (switches(job.process.pid), switches(agent)) == before


def job_rank(job):
    return json.loads(status(job.process.pid, "--json").stdout)["ranks"][0]["process"]


def sockets_of(job):
    found = 0
    for link in Path(f"/proc/{job.process.pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            found += os.readlink(link).startswith("socket:")
    return found


def resident_bytes(job):
    return int(Path(f"/proc/{job.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def steps_per_second(job, seconds):
    def step():
        known = json.loads(status(job.process.pid, "--json").stdout)
        return known["ranks"][0]["step"], time.monotonic()

    first, begin = step()
    time.sleep(seconds)
    last, end = step()
    return (last - first) / (end - begin)


def client(job, text, stack):
    """A connection that sends this, and takes next to nothing."""
    each = stack.enter_context(socket.socket())
    each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    each.connect(("127.0.0.1", job.port))
    each.sendall(text.encode())
    return each


def falls_to(limit, value, seconds):
    until = time.monotonic() + seconds
    while value() > limit and time.monotonic() < until:
        time.sleep(0.1)
    return value() <= limit


def test_slow_readers_and_a_crowd_do_not_disturb_the_job():
    with Job(2, BIN / "marked_training", 100_000) as job, contextlib.ExitStack() as stack:
        rest = f"?token={job.token} HTTP/1.1\r\nHost: localhost\r\n\r\n"
        time.sleep(1)
        alone = steps_per_second(job, 3)
        before = sockets_of(job)
        for _ in range(6):
            client(job, f"GET /dygraphs/dygraph.min.js{rest}" * 50, stack)  # more than the kernel keeps
        with contextlib.ExitStack() as crowd:
            for _ in range(40):
                client(job, f"GET /events{rest}", crowd)
            time.sleep(0.5)
            assert sockets_of(job) >= before + 6 + 10
            crowded = steps_per_second(job, 3)
        assert alone > 100 and crowded > 0.7 * alone, (alone, crowded)
        assert falls_to(before + 6, lambda: sockets_of(job), 8), "the crowd has gone"
        assert falls_to(before, lambda: sockets_of(job), 15), "slow readers are dropped"
        assert job.get("/").status == 200 and job.process.poll() is None


def test_strangers_get_no_memory_and_no_places_of_others():
    with Job(1, "sleep", 60) as job, contextlib.ExitStack() as stack:
        assert job.get("/").status == 200
        assert falls_to(0, lambda: job_connections(job), 10)
        memory, sockets = resident_bytes(job), sockets_of(job)
        for text in (b"", b"\0" * 4096, b"GET " + b"/" * 100_000, b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 5_000_000, b"GET /events HTTP/1.1\r\n"):
            with socket.create_connection(("127.0.0.1", job.port), timeout=20) as each:
                with contextlib.suppress(OSError):
                    each.sendall(text)
                    assert len(text) < 1 << 20, "all of an endless request has been read"
        dripping = [client(job, "G", stack) for _ in range(60)]
        for _ in range(5):
            for each in dripping:
                with contextlib.suppress(OSError):
                    each.sendall(b"G")
            assert job.get("/").status == 200
        assert sockets_of(job) <= sockets + 16 + 6, "strangers have 16 places"
        assert resident_bytes(job) < memory + (24 << 20)
        until = time.monotonic() + 7
        while time.monotonic() < until:  # a byte now and then gives no more time
            for each in dripping:
                with contextlib.suppress(OSError):
                    each.sendall(b"G")
            time.sleep(0.2)
        assert falls_to(sockets, lambda: sockets_of(job), 5)


def job_connections(job):
    """Connections to the page that ruedarun has open."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(line[1] == f"0100007F:{job.port:04X}" and line[3] == "01" for line in lines)


def test_a_job_that_ends_at_its_start():
    for _ in range(100):
        with Job(1, "true") as job:
            try:
                assert job.process.wait(timeout=20) == 0
            except subprocess.TimeoutExpired:
                pytest.fail("ruedarun does not end")


def test_the_page_of_virtual_hosts_is_seen_from_outside():
    able = subprocess.run([BIN / "ruedarun", "--no-page", "--virtual-hosts", "1", "-np", "1", "true"], env=ENVIRONMENT, capture_output=True,
                          text=True, timeout=60)
    if able.returncode == 77:
        pytest.skip(able.stderr)
    with Job(2, "sleep", 60, options=("--virtual-hosts", 2, "--page", 0)) as job:
        assert job.get("/").status == 200 and job.get("/", token=False).status == 401
        time.sleep(1)
        ranks = json.loads(job.get("/status").read())["ranks"]
        assert len(ranks) == 2 and all(rank["process"] > 0 for rank in ranks)
        for rank in ranks:
            assert b"RUEDA_PAGE_SOCKET" not in Path(f"/proc/{rank['process']}/environ").read_bytes()
        lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        inode = next(line[9] for line in lines if line[1] == f"0100007F:{job.port:04X}" and line[3] == "0A")
        owners = {int(link.parts[2]) for link in Path("/proc").glob("[0-9]*/fd/*") if is_link_to(link, f"socket:[{inode}]")}
        assert owners == {job.process.pid}, "agents and ranks do not inherit it"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = subprocess.run([BIN / "ruedarun", "--virtual-hosts", "2", "--page", port, "-np", "2", "echo", "started"], env=ENVIRONMENT,
                              capture_output=True, text=True, timeout=60)
        assert done.returncode == 2 and "Address already in use" in done.stderr and "started" not in done.stdout


def is_link_to(link, target):
    try:
        return os.readlink(link) == target
    except OSError:
        return False


def test_a_port_that_is_taken():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = subprocess.run([BIN / "ruedarun", "--page", str(port), "-np", "1", "echo", "started"], env=ENVIRONMENT, capture_output=True,
                              text=True, timeout=30)
        assert done.returncode == 2 and "started" not in done.stdout
        assert f"--page: cannot use 127.0.0.1:{port} (Address already in use)" in done.stderr
    with Job(1, "sleep", 30) as job:
        done = subprocess.run([BIN / "ruedarun", "--page", str(job.port), "-np", "1", "true"], env=ENVIRONMENT, capture_output=True, text=True,
                              timeout=30)
        assert done.returncode == 2, "two jobs do not share a port"


def test_an_elastic_job_loses_a_rank_and_goes_on():
    with Job(3, BIN / "elastic_training", 400, 1_000_000, 0.01, options=("--page", "0", "--min-np", "2", "--spares", "1")) as job:
        answer = job.get("/events")
        first = first_event(answer, 30, lambda name, data: name == "job" and len(data["ranks"]) == 3 and data["spares"] == 1
                            and all(rank["state"] == "running" for rank in data["ranks"]))
        assert first["elastic"] and first["lost"] == first["joined"] == 0
        os.kill(first["ranks"][1]["process"], signal.SIGKILL)
        began, events, jobs = time.monotonic(), {}, [first]

        def is_whole_again(name, data):
            jobs.extend([data] if name == "job" else [])
            events.update({event["kind"]: (event.get("rank"), time.monotonic() - began) for event in data.get("events", ())})
            return {"lost", "joined", "generation"} <= events.keys() and jobs[-1]["generation"] > first["generation"] and len(jobs[-1]["ranks"]) == 3

        assert first_event(answer, 30, is_whole_again), (events, jobs[-1])
        assert events["lost"][0] == 1 and events["lost"][1] < 1, events
        then, processes = jobs[-1], [{rank["process"] for rank in each["ranks"]} for each in (first, jobs[-1])]
        assert then["lost"] == then["joined"] == 1 and [rank["rank"] for rank in then["ranks"]] == [0, 1, 2]
        assert processes[0] & processes[1] == {first["ranks"][0]["process"], first["ranks"][2]["process"]}
        step = first_event(answer, 10, lambda name, data: "progress" in data)["progress"]["step"]
        assert first_event(answer, 10, lambda name, data: data.get("progress", {}).get("step", 0) > step + 20)["line"]["state"] == "running"
        said = status(job.process.pid)
        assert said.returncode == 0 and "lost" in said.stdout and "generation" in said.stdout, said.stdout


def test_status_names_the_page_and_finds_a_job_by_its_number(folder):
    """The job has another folder than the terminal, and its line is not on a terminal."""
    with Job(2, "sleep", 30, options=()) as job:
        here = dict(ENVIRONMENT)
        other = folder / "other"
        other.mkdir(mode=0o700)
        ENVIRONMENT["XDG_RUNTIME_DIR"] = str(other)
        try:
            assert status().returncode == 1
            until = time.monotonic() + 20
            while not (said := status(job.process.pid, "--json")).stdout and time.monotonic() < until:
                time.sleep(0.1)
            page = json.loads(said.stdout)["page"]
            assert f"page {page}\n" in status(job.process.pid).stdout
        finally:
            ENVIRONMENT.update(here)
        job.port, job.token = int(page.split(":")[2].split("/")[0]), page.split("token=")[1]
        assert job.get("/status").status == 200 and job.get("/page").status == 404, "strangers of the port are told no address"


def test_a_job_that_does_not_answer_is_named():
    with Job(1, "sleep", 30) as frozen, Job(1, "sleep", 30) as other:
        frozen.get("/status").read()
        os.kill(frozen.process.pid, signal.SIGSTOP)
        try:
            began = time.monotonic()
            said = status()
            assert time.monotonic() - began < 15 and said.returncode == 0
            assert f"the job of process {frozen.process.pid} does not answer" in said.stderr and other.token in said.stdout
        finally:
            os.kill(frozen.process.pid, signal.SIGCONT)


def test_the_late_rank_of_a_later_generation_is_named():
    """Worker 3 takes the place of a killed one, and is rank 2 from then on. Workers have other numbers than ranks, and one waits as a spare."""
    options = ("--page", "0", "--min-np", "2", "--spares", "1")
    with Job(3, BIN / "elastic_training", 400, 1_000_000, 0.01, options=options, LATE_WORKER="3") as job:
        answer = job.get("/events")
        job_facts, steps, late = {}, [], {}

        def hears(is_so):
            def hear(name, data):
                if name == "job":
                    job_facts.update(data)
                if "late" in data:
                    late.update(data["late"])
                steps.extend([data["progress"]["step"]] if "progress" in data else [])
                return is_so(data)
            return hear

        def has_all(_):
            running = job_facts.get("ranks") and all(rank["state"] == "running" for rank in job_facts["ranks"])
            return running and job_facts["spares"] == 1 and len(late.get("ranks", ())) == len(job_facts["ranks"]) == 3 and late["steps"] > 20

        for generation, (killed, lost) in enumerate(((1, 1), (0, 2)), 1):
            assert first_event(answer, 60, hears(has_all)), (job_facts, late)
            first = job_facts["generation"]
            os.kill(job_facts["ranks"][killed]["process"], signal.SIGKILL)
            assert first_event(answer, 30, hears(lambda _: job_facts["lost"] == lost))
            assert first_event(answer, 30, hears(lambda _: job_facts["generation"] > first))
            late.clear()
            assert first_event(answer, 60, hears(has_all)), (generation, job_facts, late)
            slow = 3 - generation  # its rank now
            assert first_event(answer, 60, hears(lambda data, slow=slow: f"waiting for rank {slow} (worker 3)" in data.get("line", {}).get("text", ""))), (
                job_facts, late)
            assert {rank["rank"] for rank in late["ranks"]} == {0, 1, 2}
            worst = max(late["ranks"], key=lambda rank: rank["late_ms"])
            assert worst["rank"] == slow and 15 < worst["late_ms"] < 60 and late["what_if"][0]["rank"] == slow, late
        assert steps == sorted(steps) and steps[-1] > 60, "they go on"
        names = {rank["name"]: rank.get("rank") for rank in json.loads(job.get("/status").read())["ranks"]}
        members = {name: rank for name, rank in names.items() if rank is not None}
        assert set(members.values()) == {0, 1, 2} and members["rank 1 (worker 3)"] == 1, names
        assert sorted(name for name in names if name not in members)[:2] == ["worker 0", "worker 1"], names
        assert sum(name.endswith(", a spare") for name in names) == 1, names
        counted = [rank["step"] for rank in json.loads(job.get("/status").read())["ranks"] if "rank" in rank]
        assert max(counted) - min(counted) <= 1, "all count from the same step"
        metrics = job.get("/metrics").read().decode()
        assert {line.split('"')[1] for line in metrics.splitlines() if line.startswith("rueda_job_rank_")} == {"0", "1", "2"}, metrics
        stacks = job.post("/stacks")
        assert stacks["text"].startswith("3 ranks: the main threads are at "), stacks["text"]
        assert sorted(rank for group in stacks["groups"] for rank in group["ranks"]) == [0, 1, 2]
        assert [group["name"].endswith(", a spare") for group in stacks["groups"] if not group["ranks"]] == [True], stacks["text"]


def test_stacks_and_a_dump_at_one_time(folder):
    with Job(12, BIN / "marked_training", 100_000, options=("--page", "0", "--dump-folder", str(folder / "dumps"))) as job:
        answer = job.get("/events")
        assert first_event(answer, 60, lambda name, data: data.get("progress", {}).get("step", 0) > 5)
        for milliseconds in (20, 100, 300):
            made = {}
            asks = [threading.Thread(target=lambda path=path: made.update({path: job.post(path)})) for path in ("/stacks", "/dump")]
            asks[0].start()
            time.sleep(milliseconds / 1e3)
            asks[1].start()
            for each in asks:
                each.join(60)
            assert made["/stacks"]["silent"] == [] and len(made["/stacks"]["ranks"]) == 12, made["/stacks"]["notes"]
            files = os.listdir(made["/dump"]["folder"])
            assert sum(name.startswith("rank_") for name in files) == 12, files
