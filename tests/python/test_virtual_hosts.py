# SPDX-License-Identifier: Apache-2.0
"""Jobs on hosts of their own: ruedarun --virtual-hosts, and the program rueda-hosts that makes them.

Needs root and network namespaces, and is skipped without. RUEDA_BIN names the folder of the programs. All traffic stays
inside the namespaces made here."""
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

BIN = Path(os.environ["RUEDA_BIN"]).resolve()
HOSTS = BIN / "rueda-hosts"
SECONDS = 40  # the longest wait
ALL_OVER = 5  # seconds from the failure, as promised to users
SETTINGS = ("RUEDA_", "OMP_", "MPIR_", "FI_", "HYDRA_")


def environment(**settings):
    return {name: value for name, value in os.environ.items() if not name.startswith(SETTINGS)} | settings


def hosts(*words, **settings):
    """rueda-hosts: exit status, output, errors."""
    done = subprocess.run([HOSTS, *words], capture_output=True, text=True, timeout=SECONDS, env=environment(**settings))
    return done.returncode, done.stdout, done.stderr


def seen_outside():
    """Hosts that stay, others' too, and the mounts that hold them."""
    root = Path("/run/rueda-hosts")
    mounts = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if "rueda-hosts" in line]
    return sorted(root.iterdir()) if root.exists() else [], mounts


@pytest.fixture(autouse=True, scope="module")
def possible():
    status, _, err = hosts("with", "1", "--rate", "1gbit", "--", "true")
    if status == 77:
        pytest.skip(err)
    assert status == 0, err


@pytest.fixture(autouse=True)
def nothing_is_left_outside(possible):
    before = seen_outside()
    yield
    assert seen_outside() == before
    networks = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, timeout=SECONDS).stdout
    assert not re.search(r"^(h\d+|switch|test-\d+)\b", networks, re.M), networks


def namespaces(pid):
    """Of networks and mounts, other than ours."""
    try:
        found = {os.readlink(f"/proc/{pid}/ns/{kind}") for kind in ("net", "mnt")}
    except OSError:
        return set()
    return found - {os.readlink(f"/proc/self/ns/{kind}") for kind in ("net", "mnt")}


def inhabitants(spaces):
    """{pid: command} of the processes in any of them: they keep it alive."""
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return {pid: Path(f"/proc/{pid}/comm").read_text().strip() for pid in pids if namespaces(pid) & spaces}


class Job:
    """A ruedarun with virtual hosts, and the namespaces that it has made."""

    def __init__(self, *words, **settings):
        self.process = subprocess.Popen([BIN / "ruedarun", *map(str, words)], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, text=True, env=environment(**settings), start_new_session=True)
        self.pid = self.process.pid
        self.spaces = set()

    def next_line(self):
        line = self.process.stdout.readline()
        assert line, self.end()
        return line.strip()

    def wait_until_running(self, ranks):
        """{rank: pid}, when all have printed it."""
        lines = [self.process.stdout.readline() for _ in range(ranks)]
        found = {int(rank): int(pid) for rank, pid in re.findall(r"rank (\d+) is process (\d+)", "".join(lines))}
        assert len(found) == ranks, (lines, self.end())
        self.spaces = namespaces(self.pid).union(*map(namespaces, found.values()))
        assert len(self.spaces) >= 4, "two networks, with mounts for each"
        return found

    def end(self):
        """Exit status, lines on stdout, stderr, seconds until it had ended."""
        begin = time.monotonic()
        try:
            out, err = self.process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.kill(self.pid, signal.SIGKILL)
            pytest.fail(f"not over after {SECONDS} s: {self.process.communicate()}")
        return self.process.returncode, out.splitlines(), err, time.monotonic() - begin

    def check_nothing_is_left(self, seconds):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and inhabitants(self.spaces):
            time.sleep(0.02)
        assert not inhabitants(self.spaces), "processes are left on the hosts"


def job(*words, **settings):
    return Job(*words, **settings).end()[:3]


def bytes_sent(err):
    return {(host, card): int(count)
            for host, card, count in re.findall(r"^ruedarun: (h\d+) (eth\d): (\d+) bytes sent, \d+ received$", err, re.M)}


def test_results_are_right_and_travel_over_the_cards():
    status, out, err = job("--virtual-hosts", 2, "--rate", "200mbit", "-np", 4, BIN / "allreduce")
    assert status == 0, err
    assert sorted(out) == [f"[{rank}] rank {rank} of 4: average 1.50, highest loss 3.5" for rank in range(4)]
    assert err.startswith("ruedarun: 2 virtual hosts, h0 to h1, 1 rail of 200mbit each"), err
    sent = bytes_sent(err)
    assert set(sent) == {("h0", "eth0"), ("h1", "eth0")}
    assert min(sent.values()) > 4_000_000, "each host has to send as much as the tensor holds"


def test_each_card_carries_an_allreduce_once():
    size, steps, count = 4 << 20, 6, 4
    status, _, err = job("--virtual-hosts", count, "--rate", "1gbit", "-np", 2 * count, BIN / "rueda-bench", "allreduce",
                         "--sizes", size, "--steps", steps, "--warmup", 2, RUEDA_SHORT_BYTES="0")  # no messages are timed
    assert status == 0, err
    sent = bytes_sent(err)
    least = 2 * (count - 1) / count * size * (steps + 2)  # a flat ring of all ranks would send 1.17 times that
    assert len(sent) == count and min(sent.values()) >= least, sent
    assert max(sent.values()) <= 1.02 * least, (sent, least)


@pytest.mark.parametrize("network", ["tcp", pytest.param("mpi", marks=pytest.mark.full("core"))])
@pytest.mark.parametrize("suite", ["allreduce", "allgather", "broadcast", "reducescatter", "strides"])
def test_operations_conform_on_hosts_of_different_size(suite, network):
    status, _, err = job("--virtual-hosts", 3, "--rate", "1gbit", "-np", 5, BIN / "conformance", suite, RUEDA_NETWORK=network)
    assert status == 0, err
    assert len(bytes_sent(err)) == 3


def test_ranks_stand_in_blocks_on_hosts_of_different_names():
    script = "echo $(hostname) $RUEDA_LOCAL_RANK $RUEDA_LOCAL_SIZE $RUEDA_CROSS_RANK $RUEDA_CROSS_SIZE $FI_TCP_IFACE $PWD"
    status, out, err = job("--virtual-hosts", 2, "-np", 3, "/bin/sh", "-c", script)
    assert status == 0, err
    assert sorted(out) == [f"[{rank}] {words} eth0 {os.getcwd()}"
                           for rank, words in enumerate(["h0 0 2 0 2", "h0 1 2 0 1", "h1 0 1 1 2"])]


def test_a_second_rail_carries_what_it_is_asked_to():
    status, _, err = job("--virtual-hosts", 2, "--rails", 2, "--network-interface", "eth1", "-np", 2, BIN / "allreduce")
    sent = bytes_sent(err)
    assert status == 0 and len(sent) == 4, err
    for host in ("h0", "h1"):
        assert sent[host, "eth1"] > 4_000_000 > 100_000 > sent[host, "eth0"], sent


def test_it_is_said_what_carries_data_between_hosts():
    def said(*options, ranks=2, **settings):
        status, _, err = job("--virtual-hosts", 2, *options, "-np", ranks, BIN / "allreduce", **settings)
        assert status == 0, err
        return re.findall(r"^\[0\] rueda: data between hosts: (.*)$", err, re.M)
    assert said("--rails", 2, ranks=3) == ["tcp over 2 cards (eth0, eth1)"]
    assert said(RUEDA_RAILS="eth0") == ["tcp over 1 card (eth0)"]
    assert said(RUEDA_ENCRYPT="1")[0] in [f"tcp over 1 card (eth0); encryption: {cipher}" for cipher in ("AES-256-GCM", "ChaCha20-Poly1305")]
    script = f"[ $RUEDA_RANK != 2 ] || export RUEDA_ENCRYPT=1; exec {BIN / 'allreduce'}"
    status, _, err = job("--virtual-hosts", 3, "-np", 3, "/bin/sh", "-c", script)
    assert status == 0 and re.search(r"tcp over 1 card \(eth0\); encryption: none, \S+$", err, re.M), err
    assert said(RUEDA_NETWORK="mpi") == ["mpi, because RUEDA_NETWORK=mpi"]
    assert said(FI_PROVIDER="sockets") == ["mpi, because FI_PROVIDER=sockets"]
    assert said(RUEDA_LOG_LEVEL="error") == []


def test_what_messages_cost_is_kept_in_a_profile(tmp_path):
    profile = tmp_path / "profile"
    for how in ("measured", f"from {profile}"):
        status, out, err = job("--virtual-hosts", 2, "-np", 4, BIN / "allreduce", RUEDA_PROFILE=str(profile), RUEDA_LOG_LEVEL="info")
        assert status == 0 and len(out) == 4, err
        assert len(re.findall(rf"tcp: a message takes [0-9.]+ us and [0-9.]+ ns a byte \({how}\); allreduces of all 4 ranks of "
                              r"up to \d+ bytes go by recursive doubling", err)) == 1, err
        lines = profile.read_text().splitlines()
        assert len(lines) == 2 and re.fullmatch(r"tcp message_us=[0-9.]+ byte_ns=[0-9.]+", lines[1]), lines


def test_the_benchmark_of_works_alone_between_hosts():
    options = ("--level", "backend", "--sizes", "4,64K,1M", "--steps", 5, "--warmup", 1)
    status, out, err = job("--no-prefix", "--virtual-hosts", 4, "-np", 4, BIN / "rueda-bench", "allreduce", *options)
    assert status == 0, err
    rows = [line.split() for line in out if "ordinary" in line]
    assert [row[0] for row in rows] == ["4", "65536", "1048576"] and all(row[8] == "0" for row in rows), out


def test_a_killed_rank_is_named_with_its_host():
    running = Job("--virtual-hosts", 2, "-np", 4, BIN / "rank", "reduces", 30)
    pids = running.wait_until_running(4)
    os.kill(pids[3], signal.SIGKILL)
    status, _, err, seconds = running.end()
    assert status == 128 + 9 and seconds < ALL_OVER, err
    words = r"^ruedarun: rank 3 \(process {} on h1\) was killed by signal 9 \(Killed\)"
    assert re.search(words.format(pids[3]), err, re.M), err
    told = dict(re.findall(r"^\[(\d)\] error: rank (\d) \(process \d+ on h[01]\) is lost", err, re.M))
    # Who hears late may name one that has ended for the same reason.
    assert set(told) == set("012") and "3" in told.values(), err
    assert len(bytes_sent(err)) == 2, "also then"
    running.check_nothing_is_left(1)


def test_a_pulled_cable_is_named_by_its_card():
    running = Job("--virtual-hosts", 2, "--rails", 2, "-np", 2, BIN / "rank", "reduces", 30, RUEDA_NETWORK_DEADLINE="1")
    running.wait_until_running(2)
    assert hosts("of", str(running.pid), "link", "h1", "1", "down")[0] == 0
    status, _, err, seconds = running.end()
    assert status != 0 and seconds < 10, err
    # Whoever ends first ends the other.
    assert re.search(r"^\[(\d)\] error: rank \d \(process \d+ on h\d\) is lost: its process does not answer over eth1 any more \(.+\); it may be "
                     r"alive\. The job cannot go on; start it again\.$", err, re.M), err
    running.check_nothing_is_left(1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_ended_job_takes_its_hosts_along(number):
    running = Job("--virtual-hosts", 2, "-np", 4, BIN / "rank", "reduces", 30)
    running.wait_until_running(4)
    os.kill(running.pid, number)
    status, _, err, seconds = running.end()
    assert status == 128 + number and seconds < ALL_OVER, err
    assert len(bytes_sent(err)) == 2, err
    running.check_nothing_is_left(1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("wait", [0, 0.05, 0.2])
def test_a_signal_while_the_hosts_are_made(number, wait):
    running = Job("--virtual-hosts", 20, "--rails", 3, "-np", 20, "sleep", "30")
    deadline = time.monotonic() + SECONDS
    while not namespaces(running.pid) and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(wait)
    running.spaces = namespaces(running.pid)
    os.kill(running.pid, number)
    status, _, err, seconds = running.end()
    assert running.spaces and status in (128 + number, -number) and seconds < ALL_OVER, err
    running.check_nothing_is_left(2)


def test_a_killed_ruedarun_leaves_nothing():
    running = Job("--virtual-hosts", 2, "-np", 4, BIN / "rank", "reduces", 30)
    running.wait_until_running(4)
    running.process.kill()
    running.end()
    running.check_nothing_is_left(ALL_OVER)


def test_a_host_runs_commands_on_itself_and_on_others():
    for path in (["h0"], ["h1"], ["h1", "h0"], ["h1", "h1"]):
        words = [word for host in path for word in (HOSTS, "exec", host)]
        assert hosts("with", "2", "--", *words, "sh", "-c", "hostname; cat /sys/class/net/eth0/carrier") == (0, f"{path[-1]}\n1\n", ""), path


def test_hosts_of_a_running_job_can_be_changed_from_outside():
    jobs = [Job("--virtual-hosts", 2, "--rate", "1gbit", "-np", 2, BIN / "rank", "reduces", 30) for _ in range(2)]
    for running in jobs:
        running.wait_until_running(2)
    assert not jobs[0].spaces & jobs[1].spaces, "each has its own"
    of = ("of", str(jobs[0].pid))
    assert hosts(*of, "list")[:2] == (0, "h0 eth0=10.77.0.1 rate=1gbit delay=none\nh1 eth0=10.77.0.2 rate=1gbit delay=none\n")
    assert hosts(*of, "exec", "h1", "hostname")[:2] == (0, "h1\n")
    assert hosts(*of, "rate", "h1", "0", "50mbit")[0] == 0
    assert "rate 50Mbit" in hosts(*of, "exec", "h1", "tc", "qdisc", "show", "dev", "eth0")[1]
    assert hosts(*of, "link", "h1", "0", "down")[0] == 0
    assert hosts(*of, "exec", "h1", "cat", "/sys/class/net/eth0/carrier")[1] == "0\n"
    assert hosts(*of, "link", "h1", "0", "up")[0] == 0
    for running in jobs:
        os.kill(running.pid, signal.SIGTERM)
        assert running.end()[0] == 128 + signal.SIGTERM
        running.check_nothing_is_left(1)


def test_hosts_that_stay():
    bed = {"RUEDA_BED": f"test-{os.getpid()}"}
    try:
        assert hosts("up", "2", "--rails", "2", **bed)[0] == 0
        assert hosts("exec", "h0", BIN / "ruedarun", "-H", "h0:1,h1:1", "-np", "2", BIN / "allreduce",
                     HYDRA_LAUNCHER_EXEC=str(HOSTS), **bed)[0] == 0
        sent = [int(count) for count in re.findall(r"(\d+) bytes sent", hosts("stats", **bed)[1])]
        assert len(sent) == 4 and sum(sent) > 8_000_000
        with subprocess.Popen([HOSTS, "exec", "h1", "sleep", "60"], env=environment(**bed)) as sleeper:
            while Path(f"/proc/{sleeper.pid}/comm").read_text().strip() != "sleep":
                time.sleep(0.01)
            status, _, err = hosts("up", "2", **bed)
            assert status == 2 and f"process {sleeper.pid} is on the hosts" in err, "of others who use them"
            assert hosts("down", **bed)[0] == 0
            assert sleeper.wait(SECONDS) == -signal.SIGTERM
    finally:
        assert hosts("down", **bed)[0] == 0


def test_a_card_that_is_out_at_the_start_is_named():
    bed = {"RUEDA_BED": f"test-{os.getpid()}"}
    try:
        assert hosts("up", "3", "--rails", "2", **bed)[0] == 0
        assert hosts("link", "h1", "1", "down", **bed)[0] == 0
        status, _, err = hosts("exec", "h0", BIN / "ruedarun", "-H", "h0:1,h1:1,h2:1", "-np", "3", BIN / "allreduce",
                               HYDRA_LAUNCHER_EXEC=str(HOSTS), **bed)
        assert status == 0 and "tcp over 2 cards (eth0, eth1); to h1 eth0 only" in err, err
    finally:
        assert hosts("down", **bed)[0] == 0


def test_hosts_left_half_made_are_made_anew():
    bed = {"RUEDA_BED": f"test-{os.getpid()}"}
    folder = Path("/run/rueda-hosts") / bed["RUEDA_BED"]
    try:
        with subprocess.Popen([HOSTS, "up", "50"], env=environment(**bed)) as making:
            deadline = time.monotonic() + SECONDS
            while not (folder / "h1").exists() and time.monotonic() < deadline:
                time.sleep(0.005)
            making.kill()
        assert folder.exists()
        assert hosts("up", "1", **bed)[0] == 0
        assert hosts("list", **bed)[1].startswith("h0 eth0=10.77.0.1 ")
    finally:
        assert hosts("down", **bed)[0] == 0


def test_where_they_cannot_be_made_it_is_said(tmp_path):
    for tool in ("env", "bash", "readlink", "sed"):
        found = subprocess.run(["which", tool], capture_output=True, text=True, check=True).stdout.strip()
        (tmp_path / tool).symlink_to(found)
    status, _, err = job("--virtual-hosts", 2, "-np", 2, "/bin/true", PATH=str(tmp_path))
    assert status == 77
    assert err == "rueda-hosts: no virtual hosts on this machine: no 'ip'; apt-get install iproute2\n"
    status, _, err = job("--virtual-hosts", 3, "-np", 2, "/bin/true")
    assert status == 2 and err == "ruedarun: error: --virtual-hosts 3 is more than -np 2; give every host a rank\n"


@pytest.mark.parametrize("suite", ["allreduce", "adasum", "broadcast", "mismatches"])
def test_ranks_that_find_one_another_by_a_folder(suite, tmp_path):
    """MPI does not begin: control and data between hosts go by TCP from the start."""
    status, out, err = job("--virtual-hosts", 2, "-np", 4, BIN / "conformance", suite, RUEDA_BOOTSTRAP=f"file:{tmp_path / 'job'}")
    assert status == 0 and "tcp over 1 card (eth0)" in err, err


def test_a_ruedarun_that_stops_for_a_while_loses_no_host_and_no_output():
    """The ranks wait meanwhile, as with any slow reader. No host counts as lost, whose network would be given up after 10 s."""
    script = "for step in $(seq 40); do seq -f \"$step-%g\" 2000; sleep 0.05; done"
    running = Job("--virtual-hosts", 2, "-np", 2, "/bin/bash", "-c", script)
    lines = []
    while {line[:4] for line in lines} != {"[0] ", "[1] "}:
        lines.append(running.next_line())
    os.kill(running.pid, signal.SIGSTOP)
    time.sleep(15)
    os.kill(running.pid, signal.SIGCONT)
    lines += running.process.stdout.read().splitlines()
    status, _, err, _ = running.end()
    assert status == 0, err
    assert sorted(lines) == sorted(f"[{rank}] {step}-{line}" for rank in (0, 1) for step in range(1, 41) for line in range(1, 2001))


def test_a_host_that_the_network_has_lost_is_found_while_its_ranks_write():
    running = Job("--virtual-hosts", 2, "-np", 2, "/bin/sh", "-c", "while :; do echo $RUEDA_RANK; sleep 0.1; done")
    while not running.next_line().startswith("[1]"):
        pass
    assert hosts("of", str(running.pid), "link", "h1", "0", "down")[0] == 0
    status, _, err, seconds = running.end()
    assert status == 128 + 9 and re.search(r"^ruedarun: rank 1 \(process \d+ on h1\) was killed .*its agent .* has gone", err, re.M), err
    assert seconds < 18, "10 s for the network, and then an end as after any failure"
