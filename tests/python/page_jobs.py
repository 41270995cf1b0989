# SPDX-License-Identifier: Apache-2.0
"""Jobs of ruedarun with a live page, for the tests of the page and of --status."""

import contextlib
import http.client
import json
import os
import signal
import subprocess
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
