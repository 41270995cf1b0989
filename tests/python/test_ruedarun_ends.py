# SPDX-License-Identifier: Apache-2.0
"""The ends of jobs: by failures, by signals, by --stop-after. No process of a job outlives it."""

import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from test_ruedarun import RUEDARUN, SECONDS, Job, clean_environment, lives, shell


def test_the_status_of_the_failing_rank():
    start = time.monotonic()
    status, _, err = shell(3, "[ $RUEDA_RANK = 1 ] && exit 7; sleep 60")
    assert status == 7 and re.search(r"rank 1 \(process \d+ on \S+\) ended with status 7", err)
    assert time.monotonic() - start < 5


def test_ranks_that_fail_together_all_speak():
    start = time.monotonic()
    status, _, err = shell(3, "sleep 0.$RUEDA_RANK; echo reason >&2; exit 3")
    assert status == 3 and err.count("reason") == 3
    assert time.monotonic() - start < 2, "nobody is left to wait for"


def test_a_killed_rank_ends_the_job():
    start = time.monotonic()
    status, out, err = shell(3, "echo $$; [ $RUEDA_RANK = 2 ] && sleep 0.3 && kill -9 $$; sleep 60")
    assert status == 128 + 9 and re.search(r"rank 2 \(process \d+ on \S+\) was killed by signal 9 \(Killed\)", err)
    assert time.monotonic() - start < 5
    assert len(out) == 3 and not any(lives(line.split()[1]) for line in out)


STUBBORN = 'trap "" INT TERM; setsid sleep 60 & echo $$ $!; wait; sleep 60'


@pytest.mark.parametrize("sent, expected", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_end_everything(sent, expected):
    job = Job("-np", "3", "--grace", "1s", "/bin/sh", "-c", STUBBORN)
    lines = [job.process.stdout.readline() for _ in range(3)]
    start = time.monotonic()
    job.process.send_signal(sent)
    status, _, _ = job.end()
    assert status == expected
    assert time.monotonic() - start < 2.5
    processes = [process for line in lines for process in line.split()[1:]]
    assert len(processes) == 6 and not any(map(lives, processes)), "also those that left the rank's session"


def test_a_second_interrupt_kills():
    job = Job("-np", "2", "/bin/sh", "-c", STUBBORN)
    processes = [process for _ in range(2) for process in job.process.stdout.readline().split()[1:]]
    job.process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    start = time.monotonic()
    job.process.send_signal(signal.SIGINT)
    assert job.end()[0] == 130
    assert time.monotonic() - start < 0.7 and not any(map(lives, processes))


def test_ranks_do_not_outlive_a_killed_ruedarun():
    job = Job("-np", "2", "/bin/sh", "-c", 'trap "" INT TERM; echo $$; while :; do sleep 0.1; done')
    processes = [job.process.stdout.readline().split()[1] for _ in range(2)]
    job.process.kill()
    job.process.wait(timeout=SECONDS)
    deadline = time.monotonic() + 5
    while any(map(lives, processes)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(lives, processes))


def test_a_second_signal_of_the_same_wish_is_no_hurry():
    """A terminal that closes, and `timeout`, send one to the process and one to its group."""
    job = Job("-np", "2", "/bin/sh", "-c", "trap 'sleep 0.3; echo saved; exit 0' TERM; echo up; while :; do sleep 0.02; done")
    for _ in range(2):
        job.process.stdout.readline()
    job.process.terminate()
    job.process.terminate()
    status, out, err = job.end()
    assert status == 143 and sorted(out) == ["[0] saved", "[1] saved"], err


def test_other_children_of_a_script_that_becomes_ruedarun_live(tmp_path):
    script = f'exec > >(sleep 0.2; cat >{tmp_path}/log); exec "$0" -np 2 echo ok'
    done = subprocess.run(["/bin/bash", "-c", script, RUEDARUN], env=clean_environment(), timeout=SECONDS)
    deadline = time.monotonic() + 5
    while not (tmp_path / "log").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.1)
    assert done.returncode == 0 and sorted((tmp_path / "log").read_text().split("\n")) == ["", "[0] ok", "[1] ok"]


def test_ruedarun_dies_with_many_copies_of_output_and_takes_all_along(tmp_path):
    """Their descriptors have numbers above those of its agent's connection."""
    job = Job("--output-filename", str(tmp_path), "-np", "120", "sleep", "60")
    deadline = time.monotonic() + SECONDS
    while len(found := processes_named("sleep", job.process.pid)) < 120 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(found) == 120
    job.process.kill()
    job.process.wait(timeout=SECONDS)
    deadline = time.monotonic() + 5
    while any(map(lives, found)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(lives, found))


def processes_named(name, ancestor):
    """Those below the ancestor."""
    parents, names = {}, {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                before, _, after = (folder / "stat").read_text().rpartition(")")
                parents[int(folder.name)], names[int(folder.name)] = int(after.split()[1]), before.partition("(")[2]
            except OSError:
                pass

    def is_below(process):
        while process := parents.get(process, 0):
            if process == ancestor:
                return True
        return False
    return [process for process, its in names.items() if its == name and is_below(process)]


def test_what_ranks_leave_running_is_ended():
    status, out, _ = shell(1, "setsid sleep 60 >/dev/null 2>&1 & echo $!")
    assert status == 0 and not lives(out[0].split()[1])


def test_a_reader_that_goes_away_ends_the_job():
    job = Job("-np", "2", "yes")
    job.process.stdout.readline()
    job.process.stdout.close()
    assert job.process.wait(timeout=SECONDS) == 128 + signal.SIGPIPE


SAVES = "trap 'echo saved; exit 0' TERM; echo up; while :; do sleep 0.05; done"


def test_stop_after_lets_ranks_save_and_end():
    status, out, err = shell(2, SAVES, "--stop-after", "1s")
    assert status == 0, err
    assert sorted(out) == ["[0] saved", "[0] up", "[1] saved", "[1] up"]
    assert "ruedarun: --stop-after 1s: the ranks are asked to stop" in err and "all ranks have ended" in err


def test_stop_after_of_ranks_that_do_not_save_is_a_failure():
    status, _, err = shell(2, "sleep 60", "--stop-after", "1")
    assert status == 128 + signal.SIGTERM
    assert "was killed by signal 15" in err and "all ranks have ended" not in err


def test_stop_after_ends_what_goes_on():
    begin = time.monotonic()
    status, _, err = shell(2, "trap '' TERM; while :; do sleep 0.05; done", "--stop-after", "1s", "--grace", "1s")
    assert status == 128 + signal.SIGTERM
    assert "ranks still run 1 s after they were asked to stop" in err
    assert time.monotonic() - begin < 10


def test_stop_after_a_job_that_is_over_before_does_nothing():
    status, out, err = shell(1, "echo done", "--stop-after", "10m")
    assert (status, out, err) == (0, ["[0] done"], "")
