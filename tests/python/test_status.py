# SPDX-License-Identifier: Apache-2.0
"""ruedarun --status, of real jobs."""

import json
import os
import signal
import time

from page_jobs import BIN, ENVIRONMENT, Job, own_folder, status  # noqa: F401 - own_folder is a fixture


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


def test_whoever_asks_in_a_loop_leaves_ruedarun_its_time():
    with Job(1, "sleep", 30) as job:
        job.get("/status").read()
        began, answers = time.monotonic(), 0
        while time.monotonic() < began + 1:
            assert job.get("/status").read()
            answers += 1
        assert answers <= 25, "20 a second, and the one before"
