# SPDX-License-Identifier: Apache-2.0
"""Signals that ruedarun inherits or is sent: what becomes of them in the ranks."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from test_ruedarun import RUEDARUN, SECONDS, Job, clean_environment, default_signals, remote_shell_of_this_machine, run

__all__ = ["remote_shell_of_this_machine"]  # a fixture

MASKS = ["/bin/grep", "-E", "^(Sig[^Q]|ShdPnd)", "/proc/self/status"]


def text_of(process, name):
    try:
        return Path(f"/proc/{process}/{name}").read_text()
    except OSError:
        return ""


def state_of(process):
    return text_of(process, "stat").rpartition(")")[2].split()[0]


def below(process):
    """Every process below this one."""
    parents = {int(entry.name): int(text.rpartition(")")[2].split()[1])
               for entry in Path("/proc").iterdir() if entry.name.isdigit() and (text := text_of(entry.name, "stat"))}
    found = [process]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found[1:]


def wait_until(what):
    deadline = time.monotonic() + SECONDS
    while not what():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.02)


def lines_of(job, count):
    return sorted(job.process.stdout.readline().rstrip("\n") for _ in range(count))


def ignore(*numbers):
    def before():
        default_signals()
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)
    return before


def block(*numbers):
    def before():
        default_signals()
        signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    return before


@pytest.mark.parametrize("options", [(), ("-H", "hosta:1,hostb:1")])
@pytest.mark.parametrize("before", [
    default_signals, ignore(signal.SIGHUP), ignore(signal.SIGINT, signal.SIGQUIT), ignore(signal.SIGPIPE, signal.SIGCHLD),
    ignore(signal.SIGTERM, signal.SIGUSR1, signal.SIGTSTP, signal.SIGTTIN), block(signal.SIGUSR1, signal.SIGTERM, signal.SIGCHLD),
], ids=["plain", "nohup", "background", "pipe", "others", "blocked"])
def test_a_rank_inherits_what_a_program_started_directly_does(before, options, shell_here):
    direct = subprocess.run(MASKS, stdout=subprocess.PIPE, text=True, preexec_fn=before, check=True, timeout=SECONDS)
    status, out, err = Job(*options, "--remote-shell", shell_here, "-np", "2", *MASKS, before=before).end()
    assert status == 0, err
    for rank in (0, 1):
        assert [line.removeprefix(f"[{rank}] ") for line in out if line.startswith(f"[{rank}]")] == direct.stdout.splitlines()


@pytest.mark.parametrize("sent", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGQUIT])
def test_a_signal_that_was_ignored_at_the_start_does_nothing(sent):
    job = Job("-np", "2", "/bin/sh", "-c", "echo up; read go; echo done", stdin=subprocess.PIPE, before=ignore(sent))
    lines_of(job, 2)
    job.process.send_signal(sent)
    if sent == signal.SIGHUP:  # a terminal that closes reaches all
        for process in below(job.process.pid):
            try:
                os.kill(process, sent)
            except ProcessLookupError:
                pass
    time.sleep(0.2)
    status, out, err = job.end("\n")
    assert status == 0 and "[0] done" in out, err


CATCHES = ("trap 'echo usr1' USR1; trap 'echo quit' QUIT; trap 'echo cont' CONT; trap 'echo usr2; exit 0' USR2; echo up; "
           "while :; do sleep 0.02; done")


@pytest.mark.parametrize("options", [(), ("-H", "hosta:1,hostb:1")])
def test_signals_of_batch_systems_reach_every_rank_and_the_job_goes_on(options, shell_here):
    job = Job(*options, "--remote-shell", shell_here, "-np", "2", "/bin/bash", "-c", CATCHES)
    assert lines_of(job, 2) == ["[0] up", "[1] up"]
    for sent, word in ((signal.SIGUSR1, "usr1"), (signal.SIGQUIT, "quit"), (signal.SIGUSR1, "usr1"), (signal.SIGCONT, "cont")):
        job.process.send_signal(sent)
        assert lines_of(job, 2) == [f"[0] {word}", f"[1] {word}"]
    job.process.send_signal(signal.SIGUSR2)
    status, out, err = job.end()
    assert status == 0 and sorted(out) == ["[0] usr2", "[1] usr2"], err
    assert "ruedarun:" not in err


@pytest.mark.parametrize("sent, trapped", [(signal.SIGTERM, "TERM"), (signal.SIGINT, "INT"), (signal.SIGHUP, "TERM")])
def test_ranks_have_time_to_save(sent, trapped):
    script = f"trap 'sleep 1.5; echo saved; exit 0' {trapped}; echo up; while :; do sleep 0.02; done"
    job = Job("-np", "2", "/bin/bash", "-c", script)
    lines_of(job, 2)
    job.process.send_signal(sent)
    status, out, err = job.end()
    assert status == 128 + sent and sorted(out) == ["[0] saved", "[1] saved"], err


def test_helpers_of_a_rank_live_until_it_has_saved():
    """As the workers of a DataLoader: the signal is for the process that has joined the job."""
    program = ("import os, signal, subprocess, sys, time\nimport rueda\nrueda.init()\n"
               "helper = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
               "def save(*_):\n    time.sleep(0.5)\n    print('alive' if helper.poll() is None else 'dead', flush=True)\n"
               "    helper.kill()\n    os._exit(0)\n"
               "signal.signal(signal.SIGTERM, save)\nprint('up', flush=True)\ntime.sleep(60)\n")
    job = Job("-np", "2", "/bin/sh", "-c", '"$0" -c "$1"; true', sys.executable, program,
              PYTHONPATH=os.environ.get("PYTHONPATH", ""))
    assert lines_of(job, 2) == ["[0] up", "[1] up"]
    job.process.terminate()
    status, out, err = job.end()
    assert status == 128 + signal.SIGTERM and sorted(out) == ["[0] alive", "[1] alive"], err


@pytest.mark.parametrize("sent", [signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT])
def test_ranks_that_do_not_handle_it_die_of_it_and_are_named(sent):
    job = Job("-np", "2", "/bin/sh", "-c", "ulimit -c 0; echo up; exec sleep 60")
    lines_of(job, 2)
    job.process.send_signal(sent)
    status, _, err = job.end()
    assert status == 128 + sent
    assert re.search(rf"ruedarun: rank \d \(process \d+ on \S+\) was killed by signal {sent.value} ", err), err
    assert "ended by" not in err, "nobody has asked for the end of the job"


def test_a_signal_before_the_ranks_have_started_is_for_them(tmp_path):
    """They have it blocked, so that it waits until their handler is there."""
    slow = tmp_path / "shell"
    slow.write_text(f'#!/bin/sh\nshift\nwhile [ ! -e {tmp_path}/go ]; do sleep 0.02; done\nexec /bin/sh -c "$*"\n')
    slow.chmod(0o755)
    program = ("import signal\nsignal.signal(signal.SIGUSR1, lambda *_: print('got it'))\n"
               "signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])\nprint('end')\n")
    job = Job("-H", "hosta:1,hostb:1", "--remote-shell", str(slow), "-np", "2", sys.executable, "-c", program, before=block(signal.SIGUSR1))
    wait_until(lambda: any(text_of(process, "comm") == "shell\n" for process in below(job.process.pid)))
    job.process.send_signal(signal.SIGUSR1)
    wait_until(lambda: re.search(r"^S\w+Pnd:\s+0{16}\nS\w+Pnd:\s+0{16}$", text_of(job.process.pid, "status"), re.M))
    (tmp_path / "go").touch()
    status, out, err = job.end()
    assert status == 0, err
    assert sorted(out) == ["[0] end", "[0] got it", "[1] end", "[1] got it"]


def test_ranks_stop_and_continue_with_ruedarun(tmp_path):
    program = (f"import os, time\nprint(os.getpid())\nwhile not os.path.exists('{tmp_path}/go'): time.sleep(0.02)\n"
               "print('done')")
    process = subprocess.Popen([RUEDARUN, "-np", "2", sys.executable, "-c", program], stdout=subprocess.PIPE, text=True,
                               env=clean_environment(), process_group=0, preexec_fn=default_signals)
    ranks = [process.stdout.readline().split()[1] for _ in range(2)]
    process.send_signal(signal.SIGTSTP)
    wait_until(lambda: [state_of(one) for one in (process.pid, *ranks)] == ["T"] * 3)
    process.send_signal(signal.SIGCONT)
    (tmp_path / "go").touch()
    out, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 0 and sorted(out.splitlines()) == ["[0] done", "[1] done"]


def test_where_nobody_could_continue_it_ruedarun_does_not_stop():
    job = Job("-np", "1", "/bin/sh", "-c", "echo up; read go; echo done", stdin=subprocess.PIPE)  # leads its session
    lines_of(job, 1)
    job.process.send_signal(signal.SIGTSTP)
    time.sleep(0.2)
    assert job.end("\n")[:2] == (0, ["[0] done"])
