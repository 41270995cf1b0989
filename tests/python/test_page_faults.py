# SPDX-License-Identifier: Apache-2.0
"""A fault of one rank is named right, on the page and in the terminal: both tell what ruedarun --status tells."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

BIN = Path(os.environ["RUEDA_BIN"])
PROGRAM = Path(__file__).parents[2] / "bench/faulty_training.py"
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in ("PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE")}


@contextlib.contextmanager
def job(folder, *words, ranks=3, options=()):
    """Gives a function that returns the status of a job with a fault."""
    folder.chmod(0o700)
    environment = {**ENVIRONMENT, "XDG_RUNTIME_DIR": str(folder)}
    started = subprocess.Popen([BIN / "ruedarun", "--page", "0", *options, "-np", str(ranks), sys.executable, PROGRAM, *map(str, words)], env=environment, cwd=folder,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def status(*flags):
        done = subprocess.run([BIN / "ruedarun", "--status", str(started.pid), *flags], env=environment, capture_output=True, text=True, timeout=60)
        return done.stdout

    try:
        yield status
    finally:
        started.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            started.communicate(timeout=30)
        started.kill()
        started.communicate()


def wait_for(status, is_so, seconds=90):
    until, told = time.monotonic() + seconds, {}
    while time.monotonic() < until:
        with contextlib.suppress(ValueError):
            told = json.loads(status("--json"))
            if is_so(told):
                return told
        time.sleep(0.3)
    raise AssertionError(told)


@pytest.mark.parametrize("fault, phase, options", [("data", "data", []), ("compute", "forward", []), ("garbage", "garbage", []),
                                                   ("compute", "forward", ["--mean-loss"])])
def test_a_late_rank_is_named_with_its_phase(tmp_path, fault, phase, options):
    words = f"waiting for rank 1 ({phase})"
    with job(tmp_path, fault, 1, "--milliseconds", 12, *options) as status:
        told = wait_for(status, lambda told: words in told["update"]["line"]["text"])
        assert words in status()
        told = wait_for(status, lambda told: told["update"]["late"]["what_if"])
        late = next(rank for rank in told["update"]["late"]["ranks"] if rank["rank"] == 1)
        assert late["phase"] == phase, late
        # A rank with many objects also collects them before its fault begins.
        assert phase == "garbage" or 40 <= late["since_step"] <= 90, late
        assert [each["rank"] for each in told["update"]["late"]["what_if"]] == [1]
        wait_for(status, lambda told: any(event["kind"] == "straggler" and event["rank"] == 1 for event in told["update"]["events"]))


@pytest.mark.parametrize("options", [[], ["--mean-loss"]])
def test_a_stuck_rank_is_named(tmp_path, options):
    with job(tmp_path, "stuck", 2, *options) as status:
        told = wait_for(status, lambda told: told["update"]["line"]["text"].startswith("stalled"))
        assert "rank 2" in told["update"]["line"]["text"] and "forward" in told["update"]["line"]["text"]
        assert "the others wait for rank 2 (forward)" in status()


def test_a_mismatch_is_told_in_words(tmp_path):
    with job(tmp_path, "mismatch", 1, "--after", 200, options=("--grace", "20")) as status:
        told = wait_for(status, lambda told: any(event["kind"] == "error" for event in told["update"]["events"]))
        words = [event["text"] for event in told["update"]["events"] if event["kind"] == "error"]
        assert len(words) == 1 and "'allreduce.sum'" in words[0] and "[3]" in words[0] and "[4]" in words[0] and "rank 1" in words[0], words
        assert words[0] in status()


@pytest.mark.skipif(os.geteuid() != 0, reason="hosts and their cards need root")
def test_a_slow_card_is_named(tmp_path):
    with job(tmp_path, "card", 1, "--width", 4096, "--after", 20, options=("--virtual-hosts", "3", "--rate", "200mbit")) as status:
        told = wait_for(status, lambda told: "; card" in told["update"]["line"]["text"], 120)
        words = told["update"]["line"]["text"].split("; card")[1]
        host = told["job"]["hosts"][1]["name"]
        assert f" of {host} " in words and "MB/s, the cards of other hosts" in words, words
        assert words in status()
        time.sleep(6)
        for _ in range(20):
            time.sleep(0.5)
            said = status()
            assert "; card" in said and "waiting for rank" not in said, said
        assert [event["text"] for event in told["update"]["events"] if event["kind"] == "slow card"][0].startswith("card")
        told = wait_for(status, lambda told: True)
        assert not [event for event in told["update"]["events"] if event["kind"] == "straggler"], "they only wait for the card"
        assert all(each["faster_percent"] < 50 for each in told["update"]["late"].get("what_if", [])), told["update"]["late"]
