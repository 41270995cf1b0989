# SPDX-License-Identifier: Apache-2.0
"""The live page of a job, of real processes."""

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
from page_jobs import BIN, ENVIRONMENT, Job, events_of, first_event, own_folder, status  # noqa: F401 - own_folder is a fixture


def test_only_who_has_the_token_sees_the_page():
    with Job(1, "sleep", 30) as job:
        assert job.get("/", token=False).status == 401
        assert job.get("/events", token=False).status == 401
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
        assert job.get("/page.js", token=False, Cookie=f"{cookie.split('=')[0]}={'0' * 32}").status == 401
        assert job.get("/page.js", token=False).status == 401
        assert job.get("/none").status == 404
        connection = http.client.HTTPConnection("127.0.0.1", job.port, timeout=10)
        connection.request("POST", f"/?token={job.token}", body="")
        assert connection.getresponse().status == 403  # no page of ours has sent it


def test_dumps_are_at_least_a_second_apart(folder):
    def ask():
        connection = http.client.HTTPConnection("127.0.0.1", job.port, timeout=60)
        connection.request("POST", f"/dump?token={job.token}", headers={"Origin": f"http://127.0.0.1:{job.port}"})
        return connection

    with Job(1, "sleep", 30, options=("--page", "0", "--dump-folder", folder)) as job:
        first = ask()
        time.sleep(0.1)
        second = ask().getresponse()
        assert second.status == 429 and b"ask again" in second.read()
        assert first.getresponse().status == 200
        time.sleep(1)
        assert ask().getresponse().status == 200


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


def test_stacks_and_a_dump_at_one_time(folder):
    with Job(12, BIN / "marked_training", 100_000, options=("--page", "0", "--dump-folder", str(folder / "dumps"))) as job:
        answer = job.get("/events")
        assert first_event(answer, 60, lambda name, data: data.get("progress", {}).get("step", 0) > 5)
        for milliseconds in (20, 100, 300):
            time.sleep(1)  # dumps are a second apart
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
