# SPDX-License-Identifier: Apache-2.0
"""ruedarun --doctor: this machine, hosts that do not answer, and virtual hosts with planted faults.

RUEDA_BIN names the folder of the programs. Traffic stays on this machine; that of virtual hosts inside of their namespaces."""

import contextlib
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from test_ruedarun import RUEDARUN, clean_environment, default_signals

HOSTS = Path(RUEDARUN).resolve().parent / "rueda-hosts"
SECONDS = 120  # torch's import on a busy machine, too
ROWS = re.compile(r"^(ok|warning|error) +(\S.*?)  +(\S.*?)(?: Remedy: (.*))?$")


def doctor(*words, before=None, program=(), **settings):
    """Exit status and text on stdout."""
    done = subprocess.run([RUEDARUN, "--doctor", *words, *program], capture_output=True, text=True, timeout=SECONDS,
                          stdin=subprocess.DEVNULL, env=clean_environment(**settings), preexec_fn=before)
    return done.returncode, done.stdout, done.stderr


def examined(*words, **more):
    """Exit status and JSON."""
    status, out, err = doctor("--json", *words, **more)
    assert out, err
    answer = json.loads(out)
    assert answer["ok"] == (status == 0)
    return status, answer


def of_check(answer, check, state=None):
    return [each for each in answer["findings"] if each["check"] == check and state in (None, each["state"])]


def remote_shell(folder, text):
    script = folder / "shell"
    script.write_text("#!/bin/sh\nhost=$1\nshift\n" + text)
    script.chmod(0o755)
    return str(script)


def test_this_machine_is_examined_and_each_line_has_a_state_and_a_remedy():
    status, out, err = doctor()
    lines = out.splitlines()
    rows = [ROWS.match(line) for line in lines[:-1]]
    assert rows and all(rows), out
    for row in rows:
        assert (row[1] == "ok") == (row[4] is None), row[0]
    errors = sum(row[1] == "error" for row in rows)
    assert re.match(rf"{errors} errors?, \d+ warnings?, \d+ ok on 1 host\.$", lines[-1])
    assert status == (1 if errors else 0)
    assert "/dev/shm" in out and "cores" in out and "MPI" in out, err


def test_json_says_the_same():
    _, out, _ = doctor()
    _, answer = examined()
    for each in answer["findings"]:
        assert each["sentence"] in out or "memory" in each["check"], each  # what is free changes
    assert [host["host"] for host in answer["hosts"]] == [socket.gethostname()]
    assert of_check(answer, "versions", "ok"), answer


def test_few_open_files_are_an_error():
    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

    status, answer = examined(before=few)
    assert status == 1
    found = of_check(answer, "open files", "error")
    assert len(found) == 1 and "64 files" in found[0]["sentence"] and "ulimit -Hn" in found[0]["remedy"]
    assert not of_check(examined()[1], "open files", "error")


def names_what_is_left(left):
    left.write_bytes(b"x" * 4096)
    assert not any(str(left) in each["remedy"] for each in of_check(examined()[1], "left files"))  # a job may have made it just now
    hour_ago = time.time() - 3600
    os.utime(left, (hour_ago, hour_ago))
    found = of_check(examined()[1], "left files", "warning")
    assert len(found) == 1 and str(left) in found[0]["remedy"] and re.search("rm |lsof ", found[0]["remedy"])
    with left.open("rb"):
        assert not any(str(left) in each["remedy"] for each in of_check(examined()[1], "left files"))


def test_what_a_job_that_was_killed_has_left_is_named_and_stays():
    left = Path("/dev/shm/mpich_shm_test_doctor")
    try:
        for _ in range(5):
            with contextlib.suppress(FileNotFoundError):  # a job of another test has ended, and has cleaned up
                return names_what_is_left(left)
        raise AssertionError("the file does not stay")
    finally:
        left.unlink(missing_ok=True)


def test_a_host_that_does_not_exist_is_named_with_the_remedy(tmp_path):
    shell = remote_shell(tmp_path, 'echo "ssh: Could not resolve hostname $host" >&2\nexit 255\n')
    status, answer = examined("-H", "localhost,no-such-host", "--remote-shell", shell)
    assert status == 1
    found = of_check(answer, "hosts", "error")
    assert len(found) == 1 and found[0]["hosts"] == ["no-such-host"]
    assert "Could not resolve hostname no-such-host" in found[0]["sentence"]
    assert "no-such-host true" in found[0]["remedy"]
    assert answer["hosts"] == [{"host": "localhost", "answered": True}, {"host": "no-such-host", "answered": False}]


def test_a_host_without_ruedarun_is_named_with_the_path(tmp_path):
    shell = remote_shell(tmp_path, 'echo "sh: 1: exec: ruedarun: not found" >&2\nexit 127\n')
    status, answer = examined("-H", "far", "--remote-shell", shell)
    found = of_check(answer, "hosts", "error")
    assert status == 1 and str(Path(RUEDARUN).resolve()) in found[0]["remedy"], found


def test_a_host_that_says_nothing_is_given_up(tmp_path):
    shell = remote_shell(tmp_path, "exec sleep 600\n")
    status, answer = examined("-H", "localhost,silent", "--remote-shell", shell, "--start-timeout", "1")
    found = of_check(answer, "hosts", "error")
    assert status == 1 and found[0]["hosts"] == ["silent"] and "within 1" in found[0]["sentence"], found


def test_two_hosts_are_connected_and_measured(tmp_path):
    """Both are this machine, over loopback."""
    shell = remote_shell(tmp_path, 'exec /bin/sh -c "$*"\n')
    status, answer = examined("-H", "localhost,other", "--remote-shell", shell, RUEDA_RAILS="lo")
    assert status == 0, answer
    assert len(answer["links"]) == 1
    link = answer["links"][0]
    assert link["problem"] == "" and link["round_trip_ns"] > 0
    assert link["sent_bytes_per_second"] > 1e6 and link["received_bytes_per_second"] > 1e6
    assert of_check(answer, "clocks", "ok") and of_check(answer, "links", "ok")
    assert of_check(answer, "names", "warning")[0]["sentence"].startswith("It finds no address of other")


def test_a_program_that_is_not_there_is_an_error(tmp_path):
    status, answer = examined(program=["no-such-program"])
    assert status == 1 and "no-such-program" in of_check(answer, "program", "error")[0]["sentence"]
    status, answer = examined(program=[sys.executable, "no-such-file.py"])
    assert status == 1 and "no-such-file.py" in of_check(answer, "program", "error")[0]["sentence"]


def test_the_python_of_the_program_is_asked(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("raise SystemExit('the doctor runs no program')\n")
    (tmp_path / "torch.py").write_text("__version__ = '9.8.7+test'\n")
    module = tmp_path / "rueda"
    (module / "torch").mkdir(parents=True)
    (module / "__init__.py").write_text("")
    (module / "_build.py").write_text("TORCH_VERSION = '9.8.0'\n")
    (module / "torch" / "__init__.py").write_text("")
    status, answer = examined(program=[sys.executable, str(script)], PYTHONPATH=str(tmp_path))
    found = of_check(answer, "Python")
    assert len(found) == 1 and "torch 9.8.7+test" in found[0]["sentence"] and found[0]["state"] == "ok", (status, answer)
    assert of_check(answer, "program", "ok")
    (module / "torch" / "__init__.py").write_text("raise ImportError('rueda.torch was built for torch 9.7')\n")
    status, answer = examined(program=[sys.executable, str(script)], PYTHONPATH=str(tmp_path))
    assert status == 1 and "rueda.torch: rueda.torch was built for torch 9.7" in of_check(answer, "Python", "error")[0]["sentence"]
    (tmp_path / "torch.py").write_text("raise OSError('libtorch_cpu.so is of another world')\n")
    status, answer = examined(program=[sys.executable, str(script)], PYTHONPATH=str(tmp_path))
    assert status == 1 and "libtorch_cpu.so is of another world" in of_check(answer, "Python", "error")[0]["sentence"]


def has_mark(process, mark):
    try:
        return mark in Path(f"/proc/{process}/environ").read_bytes()
    except OSError:
        return False


def processes_with(mark):
    return [int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit() and has_mark(each.name, mark)]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("hosts", ["localhost", "other"])
def test_nothing_stays_when_ruedarun_ends_during_an_import(tmp_path, how, hosts):
    begun = tmp_path / "begun"
    (tmp_path / "torch.py").write_text("import pathlib, subprocess, time\n"
                                       "child = subprocess.Popen(['sleep', '300'])\n"
                                       f"pathlib.Path({str(begun)!r}).touch()\ntime.sleep(300)\n")
    mark = f"RUEDA_TEST_OF_DOCTOR={tmp_path}".encode()
    shell = remote_shell(tmp_path, 'exec /bin/sh -c "$*"\n')
    settings = clean_environment(PYTHONPATH=str(tmp_path), RUEDA_TEST_OF_DOCTOR=str(tmp_path))
    with subprocess.Popen([RUEDARUN, "--doctor", "-H", hosts, "--remote-shell", shell, sys.executable], env=settings, preexec_fn=default_signals,
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as doctor_process:
        until = time.monotonic() + SECONDS
        while not begun.exists() and time.monotonic() < until:
            time.sleep(0.05)
        assert begun.exists() and len(processes_with(mark)) >= 3
        doctor_process.send_signal(how)
        doctor_process.wait(SECONDS)
    until = time.monotonic() + SECONDS / 4
    while processes_with(mark) and time.monotonic() < until:
        time.sleep(0.05)
    left = processes_with(mark)
    for process in left:
        os.kill(process, signal.SIGKILL)
    assert not left


def test_lines_of_another_host_end_without_control_characters(tmp_path):
    shell = remote_shell(tmp_path, "printf 'Permission \\033[31mdenied.\\r\\n' >&2\nexit 255\n")
    status, out, err = doctor("-H", "far", "--remote-shell", shell)
    assert status == 1 and "Permission ?[31mdenied.)" in out and "ssh-copy-id far" in out, out
    assert not re.search(r"[\x00-\x09\x0b-\x1f]", out + err)


@pytest.mark.parametrize("end,remedy", [(2, "Install the same Rueda there"), (126, "Install Rueda there"), (3, "far .* --version")])
def test_the_way_out_depends_on_how_the_start_failed(tmp_path, end, remedy):
    """The last line of each host is its own, although the names are alike."""
    shell = remote_shell(tmp_path, f'echo "of $host" >&2\nexit {end}\n')
    _, answer = examined("-H", "far,far-2", "--remote-shell", shell)
    found = of_check(answer, "hosts", "error")
    assert [(each["hosts"], re.search(r"\((of .*)\)", each["sentence"])[1]) for each in found] == [(["far"], "of far"), (["far-2"], "of far-2")]
    assert re.search(remedy, found[0]["remedy"]), found


def test_ssh_asks_no_question(tmp_path):
    ssh = tmp_path / "ssh"
    ssh.write_text("#!/bin/sh\necho \"words: $*\" >&2\nexit 255\n")
    ssh.chmod(0o755)
    _, answer = examined("-H", "far", PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert "BatchMode=yes" in of_check(answer, "hosts", "error")[0]["sentence"]


def test_more_ranks_than_cores_are_a_warning():
    found = of_check(examined("-np", "4096")[1], "cores", "warning")
    assert len(found) == 1 and "4096 ranks" in found[0]["sentence"]


# Virtual hosts

@pytest.fixture(name="virtual", scope="module")
def virtual_hosts():
    done = subprocess.run([HOSTS, "with", "1", "--rate", "1gbit", "--", "true"], capture_output=True, text=True, timeout=SECONDS)
    if done.returncode == 77:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr


def on_virtual_hosts(count, rate, commands, *words):
    """The doctor's answer on hosts with two cards each, after these commands of rueda-hosts."""
    script = "".join(f"{HOSTS} {command} >&2 && " for command in commands)
    hosts = ",".join(f"h{number}" for number in range(count))
    script += f"exec {RUEDARUN} --doctor --json -H {hosts} --remote-shell {HOSTS} {' '.join(words)}"
    done = subprocess.run([HOSTS, "with", str(count), "--rails", "2", "--rate", rate, "--", "/bin/sh", "-c", script],
                          capture_output=True, text=True, timeout=SECONDS, stdin=subprocess.DEVNULL, env=clean_environment())
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def megabits(link):
    return min(link["sent_bytes_per_second"], link["received_bytes_per_second"]) * 8e-6


def test_a_limited_card_is_named_with_its_figures(virtual):
    status, answer = on_virtual_hosts(2, "200mbit", ["rate h1 1 20mbit"])
    assert status == 0, answer
    rates = {link["from_card"]: megabits(link) for link in answer["links"]}
    assert 100 < rates["eth0"] < 260 and 8 < rates["eth1"] < 30, rates
    slow = [each for each in of_check(answer, "bandwidth", "warning") if "eth1" in each["sentence"]]
    assert len(slow) == 1 and slow[0]["hosts"] == ["h0", "h1"], answer
    assert re.search(r"0\.0\d+ Gbit/s .*back", slow[0]["sentence"]) and "tc qdisc show dev eth1" in slow[0]["remedy"]
    assert of_check(answer, "names", "ok") and of_check(answer, "clocks", "ok")


def test_the_limited_card_of_three_hosts_is_that_of_one(virtual):
    _, answer = on_virtual_hosts(3, "200mbit", ["rate h1 1 20mbit"])
    slow = [each for each in of_check(answer, "bandwidth", "warning") if "usual here" in each["sentence"]]
    assert [each["hosts"] for each in slow] == [["h1"]] and "eth1 of h1" in slow[0]["sentence"], answer
    assert len(answer["links"]) == 6


def test_a_pulled_cable_is_named_and_a_lost_host_is_an_error(virtual):
    status, answer = on_virtual_hosts(3, "200mbit", ["link h2 1 down"])
    found = of_check(answer, "connections")
    assert status == 0 and [each["state"] for each in found] == ["warning"], answer
    assert found[0]["hosts"] == ["h2"] and "eth1 reaches no other host" in found[0]["sentence"]
    assert "RUEDA_RAILS=eth0" in found[0]["remedy"]
    status, answer = on_virtual_hosts(3, "200mbit", ["link h2 0 down", "link h2 1 down"])
    lost = of_check(answer, "hosts", "error") + of_check(answer, "connections", "error")
    assert status == 1 and lost and all(each["hosts"] == ["h2"] for each in lost), answer


def test_a_chosen_card_that_is_absent_is_an_error(virtual):
    status, answer = examined("--virtual-hosts", "2", RUEDA_RAILS="no-such-card,eth0")
    found = of_check(answer, "network cards", "error")
    assert status == 1 and "no-such-card" in found[0]["sentence"] and found[0]["hosts"] == ["h0", "h1"], answer
    assert not of_check(answer, "connections")


def has_netem():
    tried = "unshare --net tc qdisc add dev lo root netem delay 1ms"
    return subprocess.run(tried.split(), capture_output=True, timeout=SECONDS).returncode == 0


def test_a_long_way_is_measured(virtual):
    if not has_netem():
        pytest.skip("this kernel has no netem, which delays packets")
    delay = "exec h1 sh -c 'tc qdisc replace dev eth1 root netem delay 20ms'"
    _, answer = on_virtual_hosts(2, "max", [delay])
    trips = {link["from_card"]: link["round_trip_ns"] for link in answer["links"]}
    assert trips["eth1"] >= 20e6 > trips["eth0"], trips
    assert "eth1" in of_check(answer, "latency", "warning")[0]["sentence"]


def test_ruedarun_makes_virtual_hosts_for_it(virtual):
    status, answer = examined("--virtual-hosts", "2", "--rate", "200mbit")
    assert status == 0 and [host["host"] for host in answer["hosts"]] == ["h0", "h1"], answer
    assert 100 < megabits(answer["links"][0]) < 260
