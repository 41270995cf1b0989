# SPDX-License-Identifier: Apache-2.0
"""The processes of a job, by their environment."""

import time
from pathlib import Path


def _environment(pid):
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _is_below(pid, ancestor):
    while pid > 1:
        if pid == ancestor:
            return True
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return False
    return False


def process_with(setting, job, seconds=30):
    """The process with that setting in its environment, as `RANK=1`, below the process `job` of a launcher. Waits for it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for each in Path("/proc").glob("[0-9]*"):
            if setting.encode() in _environment(each.name) and _is_below(int(each.name), job):
                return int(each.name)
        time.sleep(0.02)
    raise AssertionError(f"below process {job} none with {setting} has begun in {seconds} s")


def process_of_worker(worker, job, seconds=30):
    """Of an elastic job."""
    return process_with(f"RUEDA_WORKER={worker}", job, seconds)
