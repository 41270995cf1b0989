# SPDX-License-Identifier: Apache-2.0
"""ruedarun in environments that lack something which most have, and beside readers that pause."""

import os
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from test_ruedarun import RUEDARUN, SECONDS, Job, clean_environment, lives, run, shell

ALLREDUCE = os.path.join(os.path.dirname(RUEDARUN), "allreduce")


def test_ranks_that_send_both_their_outputs_elsewhere(tmp_path):
    status, out, err = run("-np", "2", "/bin/sh", "-c", f'exec "{ALLREDUCE}" >{tmp_path}/log.$RUEDA_RANK 2>&1')
    assert (status, out, err) == (0, [], "")
    for rank in (0, 1):
        assert f"rank {rank} of 2: average 0.50" in (tmp_path / f"log.{rank}").read_text()


def test_a_program_in_the_background_of_a_script_survives_its_terminal():
    """As `nohup` would: both streams to a file, SIGHUP ignored."""
    def before():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    job = Job("-np", "2", "/bin/sh", "-c", "echo up; sleep 0.5; echo done", before=before)
    job.process.stdout.readline()
    job.process.send_signal(signal.SIGHUP)
    status, out, err = job.end()
    assert status == 0 and sum("done" in line for line in out) == 2, err


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- 2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams(closed, tmp_path):
    done = subprocess.run(["/bin/sh", "-c", f'"{RUEDARUN}" -np 2 /bin/sh -c ": >{tmp_path}/\\$RUEDA_RANK; cat" {closed}'], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, env=clean_environment(), timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1"]


@pytest.mark.parametrize("variables", [
    {"HOME": ""}, {"HOME": "/no/such/home"}, {"TMPDIR": "/no/such/folder/" + "x" * 200}, {"TERM": ""}, {"LANG": "nonsense"},
    {"SLURM_JOB_ID": "1", "SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_LOCALID": "0", "SLURM_STEP_NUM_TASKS": "4"},
    {"PBS_JOBID": "1"}, {"RANK": "3", "WORLD_SIZE": "9", "MASTER_ADDR": "nowhere"},
], ids=lambda variables: ",".join(variables))
def test_variables_that_are_empty_stale_or_wrong(variables):
    status, out, err = run("-np", "2", ALLREDUCE, **variables)
    assert status == 0 and len(out) == 2, err


def test_without_home_and_without_an_environment():
    done = subprocess.run([RUEDARUN, "-np", "2", ALLREDUCE], capture_output=True, text=True, env={}, timeout=SECONDS)
    assert done.returncode == 0 and done.stdout.count("average 0.50") == 2, done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="takes the number of another user")
def test_a_user_whom_no_file_names():
    done = subprocess.run([RUEDARUN, "-np", "2", ALLREDUCE], capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"}, timeout=SECONDS,
                          cwd="/", preexec_fn=lambda: (os.setgid(54321), os.setuid(54321)))
    assert done.returncode == 0 and done.stdout.count("average 0.50") == 2, done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a name and a network of its own")
@pytest.mark.parametrize("network", ["ip addr add 127.0.0.1/8 dev lo; ip link set lo up", "ip link set lo up; ip addr del 127.0.0.1/8 dev lo"],
                         ids=["unknown_name", "ipv6_only"])
def test_a_host_without_a_name_that_resolves_or_without_ipv4(network):
    script = f"hostname no-such-name; {network} 2>/dev/null; exec \"$0\" -np 2 \"$1\""
    done = subprocess.run(["unshare", "--net", "--uts", "/bin/sh", "-c", script, RUEDARUN, ALLREDUCE], capture_output=True, text=True,
                          env=clean_environment(), timeout=SECONDS)
    if "unshare" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 0 and done.stdout.count("average 0.50") == 2, done.stderr


def test_few_open_files():
    """64 ranks with 128: it works, or one line says what is missing."""
    def before():
        resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
    status, out, err = Job("-np", "64", "/bin/sh", "-c", "ulimit -n", before=before).end()
    assert (status == 0 and len(out) == 64) or (status == 1 and re.search(r"Too many open files; 64 ranks of a host need \d+ open files: raise ulimit -n", err)), err

    def low():
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, 1024))
    status, out, err = Job("-np", "64", "/bin/sh", "-c", "ulimit -n", before=low).end()
    assert status == 0 and sorted(out) == sorted(f"[{rank}] 200" for rank in range(64)), err


def test_ranks_raise_their_limit_of_open_files():
    def low():
        resource.setrlimit(resource.RLIMIT_NOFILE, (70, 1024))
    status, out, err = Job("-np", "32", ALLREDUCE, before=low).end()
    assert status == 0 and "Too many open files" not in err, err


def test_a_working_folder_that_has_gone(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    done = subprocess.run(["/bin/sh", "-c", f'cd {folder} && rmdir {folder} && "$0" -np 1 /bin/echo ok', os.path.abspath(RUEDARUN)],
                          capture_output=True, text=True, env=clean_environment(), timeout=SECONDS)
    assert done.returncode != 0 and "ruedarun: " in done.stderr and "folder" in done.stderr and "terminate" not in done.stderr


def test_a_copy_on_a_full_disk_is_told_and_is_a_failure(tmp_path):
    (tmp_path / "rank.0").mkdir()
    (tmp_path / "rank.0" / "stdout").symlink_to("/dev/full")
    status, out, err = shell(2, "echo a; sleep 0.2; echo b", "--output-filename", str(tmp_path))
    assert status == 1 and sorted(out) == ["[0] a", "[0] b", "[1] a", "[1] b"]
    assert err == "ruedarun: cannot write a file of --output-filename: No space left on device\n"


WRITES = "import sys\nfor number in range({}): print('x' * 99 + str(number % 10))\nprint('done', file=sys.stderr)"


def test_a_reader_that_pauses_for_long_costs_lines_and_never_the_job():
    lines = 400_000  # 40 MB, more than is held
    job = Job("--no-prefix", "-np", "1", sys.executable, "-c", WRITES.format(lines), stderr=subprocess.DEVNULL)
    process = job.process
    os.read(process.stdout.fileno(), 1)
    deadline = time.monotonic() + 60
    while Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().strip() and time.monotonic() < deadline:
        time.sleep(0.1)  # the rank, and its agent, end while nobody reads
    assert time.monotonic() < deadline
    out = process.stdout.read()
    assert process.wait(timeout=SECONDS) == 0
    assert 80_000 < out.count("\n") < lines


def test_lines_that_are_dropped_are_counted():
    lines = 400_000
    job = Job("--no-prefix", "-np", "1", sys.executable, "-c", WRITES.format(lines), stderr=subprocess.STDOUT)
    time.sleep(8)
    out = job.process.stdout.read().splitlines()
    assert job.process.wait(timeout=SECONDS) == 0
    missing = sum(int(found[1]) for line in out if (found := re.match(r"ruedarun: (\d+) lines of the ranks' output are missing here", line)))
    assert missing > 0
    assert abs(missing + sum(line.startswith("xxx") for line in out) - lines) <= 2


def test_a_slow_reader_gets_every_line():
    lines = 300_000
    job = Job("--no-prefix", "-np", "1", sys.executable, "-c", WRITES.format(lines))
    count = 0
    while piece := os.read(job.process.stdout.fileno(), 1 << 20):
        count += piece.count(b"\n")
        time.sleep(0.01)
    assert job.end()[0] == 0 and count == lines


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_signals_work_while_nobody_reads(sent):
    job = Job("--no-prefix", "-np", "2", "yes")
    time.sleep(1)
    ranks = [int(pid) for pid in Path("/proc").iterdir() if pid.name.isdigit() for pid in [pid.name] if below(int(pid), job.process.pid)]
    begin = time.monotonic()
    job.process.send_signal(sent)
    assert job.process.wait(timeout=SECONDS) == 128 + sent
    assert time.monotonic() - begin < 3 and not any(map(lives, ranks))
    job.process.stdout.close()


def below(pid, ancestor):
    try:
        while pid > 1:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            if pid == ancestor:
                return True
    except OSError:
        pass
    return False
