# SPDX-License-Identifier: Apache-2.0
"""Strangers who try to reach a job of several hosts: a user of one of its hosts without rights, and a host that is not of the job.

They look for open ports and Unix sockets, connect, say nothing, nonsense or half a greeting, and keep connections open.
RUEDA_ATTACK_SECONDS is for how long. Needs root and network namespaces; all traffic stays inside the namespaces made here.
RUEDA_BIN names the folder of the programs."""
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from test_virtual_hosts import HOSTS, environment, nothing_is_left_outside, possible

__all__ = ["nothing_is_left_outside", "possible"]  # fixtures

BIN = Path(os.environ["RUEDA_BIN"]).resolve()
SECONDS = float(os.environ.get("RUEDA_ATTACK_SECONDS", "6"))

# Sums whose values every rank knows.
WORK = """
import statistics, sys, time
import torch
import rueda.torch as hvd

hvd.init()
size, times, end, step = hvd.size(), [], time.monotonic() + float(sys.argv[1]), 0
while not hvd.broadcast_object(time.monotonic() > end, 0, name="over"):
    for _ in range(50):
        step += 1
        values = torch.arange(16384, dtype=torch.float32) + step * (hvd.rank() + 1)
        begin = time.perf_counter()
        hvd.allreduce_(values, op=hvd.Sum, name="values")
        times.append(time.perf_counter() - begin)
        right = size * torch.arange(16384, dtype=torch.float32) + step * size * (size + 1) / 2
        assert torch.equal(values, right), (hvd.rank(), step)
if hvd.rank() == 0:
    print("steps", step, "seconds", statistics.median(times))
"""

# argv: seconds, connections a second, a file with the ports that are open on a host of the job, addresses.
ATTACK = r"""
import random, re, socket, sys, time

end, rate, known, addresses = time.monotonic() + float(sys.argv[1]), float(sys.argv[2]), open(sys.argv[3], "r+"), sys.argv[4:]
WORDS = [b"", b"\xff" * 4096, b"GET / HTTP/1.1\r\n\r\n", b"RdeH\x02\0\0\0" + b"\0" * 30, b"\x15\0\0\0\0rueda", b"cmd=init pmi_version=1\n", b"\0" * 100]
held, scanned, met = [], 0, 0


def greet(connection):
    global met
    met += 1
    try:
        connection.send(random.choice(WORDS))
    except OSError:
        pass
    held.append(connection)
    if len(held) > 300:
        held.pop(random.randrange(len(held))).close()


def try_port(address, port):
    connection = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    connection.settimeout(0.05)
    try:
        connection.connect((address, port))
    except OSError:
        return connection.close()
    greet(connection)


def try_unix(name):
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.settimeout(0.05)
    try:
        connection.connect("\0" + name)
    except OSError:
        return connection.close()
    greet(connection)


def listening():
    ports = set()
    for table in ("tcp", "tcp6"):
        for line in open(f"/proc/net/{table}").read().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A":
                ports.add(int(fields[1].rpartition(":")[2], 16))
    return ports


def share(ports):
    known.seek(0)
    known.truncate()
    known.write(" ".join(map(str, ports)))
    known.flush()


def shared():
    known.seek(0)
    return map(int, known.read().split())


on_a_host_of_the_job = addresses[0].startswith("127.")
print("begins", flush=True)
while time.monotonic() < end:
    begin = time.monotonic()
    for _ in range(round(rate / 20)):
        try_port(random.choice(addresses), random.randrange(1024, 65536))
        scanned += 1
    if on_a_host_of_the_job:
        share(listening())
    for port in shared():
        for address in addresses:
            try_port(address, port)
    for name in re.findall(r"@(rueda-\S+)", open("/proc/net/unix").read()):
        try_unix(name)
    time.sleep(max(0.01, 0.05 - (time.monotonic() - begin)))
print("scanned", scanned, "met", met)
"""

# On h0, of hosts h0, h1 and the stranger h2: the job without and with the attack. argv: seconds, folder.
DRIVER = """
import os, re, subprocess, sys, tempfile

seconds, folder, bin = float(sys.argv[1]), sys.argv[2], sys.argv[3]
hosts = [bin + "/rueda-hosts", "exec"]
listed = subprocess.run([bin + "/rueda-hosts", "list"], capture_output=True, text=True, check=True).stdout
address = dict(re.findall(r"(h\\d+) eth0=(\\S+)", listed))
ruedarun = [bin + "/ruedarun", "--no-prefix", "-H", "h0:2,h1:2", "--remote-shell", "sh " + folder + "/shell.sh", "-np", "4"]
nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


def job(length):
    done = subprocess.run([*ruedarun, sys.executable, folder + "/work.py", str(length)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=length + 60)
    print("job", done.returncode, done.stdout.replace("\\n", " | "), flush=True)


job(seconds / 2)
attack = ["/usr/bin/python3", "-c", open(folder + "/attack.py").read(), str(seconds + 12), "400"]
known = tempfile.NamedTemporaryFile(dir="/tmp")
os.chmod(known.name, 0o666)
attackers = [subprocess.Popen([*hosts, "h0", *nobody, *attack, known.name, "127.0.0.1", "::1", address["h0"]], stdout=subprocess.PIPE, text=True),
             subprocess.Popen([*hosts, "h2", *nobody, *attack, known.name, address["h0"], address["h1"]], stdout=subprocess.PIPE, text=True)]
for attacker in attackers:
    attacker.stdout.readline()
for _ in range(4):
    job(0.2)
job(seconds)
for attacker in attackers:
    out, _ = attacker.communicate(timeout=seconds + 60)
    print("attacker", attacker.returncode, out.strip(), flush=True)
"""


# As ssh does: a host, and words for its shell.
SHELL = 'host=$1; shift; exec {}/rueda-hosts exec "$host" sh -c "$*"\n'


def test_strangers_change_nothing(tmp_path):
    for name, text in (("work.py", WORK), ("attack.py", ATTACK), ("driver.py", DRIVER), ("shell.sh", SHELL.format(BIN))):
        (tmp_path / name).write_text(text)
    done = subprocess.run([HOSTS, "with", "3", "--rate", "1gbit", "--", sys.executable, tmp_path / "driver.py", str(SECONDS), str(tmp_path), BIN],
                          capture_output=True, text=True, timeout=4 * SECONDS + 240, env=environment())
    out = done.stdout
    assert done.returncode == 0, out + done.stderr
    jobs = re.findall(r"^job (-?\d+) (.*)", out, re.M)
    assert len(jobs) == 6 and all(status == "0" and "steps" in words for status, words in jobs), out
    attackers = re.findall(r"^attacker 0 scanned (\d+) met (\d+)", out, re.M)
    assert len(attackers) == 2 and all(int(met) > 0 for _, met in attackers), out  # they have found open ports
    quiet, attacked = (float(re.search(r"seconds (\S+)", jobs[index][1])[1]) for index in (0, -1))
    print(f"\nmedian of an allreduce of 64 KiB, 4 ranks on 2 hosts: {quiet * 1e6:.0f} us, attacked {attacked * 1e6:.0f} us, ratio {attacked / quiet:.2f}; "
          f"attackers tried {attackers[0][0]} and {attackers[1][0]} ports, met {attackers[0][1]} and {attackers[1][1]}")


# Rank 0 sends bytes that are easily found.
TELLS = """
import torch
import rueda.torch as hvd

hvd.init()
words = b"bytes of the gradients " if hvd.rank() == 0 else b"."
values = torch.frombuffer(bytearray((words * 100_000)[:100_000]), dtype=torch.uint8)
hvd.broadcast_(values, 0, name="name of the tensor")
assert bytes(values[:22].tolist()) == b"bytes of the gradients"
print("told", flush=True)
"""

# On h0: the job, and what its card sees. argv: folder, programs.
LISTENS = """
import socket, subprocess, sys, threading

folder, bin = sys.argv[1:]
card = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
card.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 20)
card.bind(("eth0", 0))
card.settimeout(1)
seen, over = [], threading.Event()


def listen():
    while True:
        try:
            seen.append(card.recv(1 << 17))
        except TimeoutError:
            if over.is_set():
                return


ear = threading.Thread(target=listen)
ear.start()
job = subprocess.run([bin + "/ruedarun", "-H", "h0,h1", "--remote-shell", "sh " + folder + "/shell.sh", "-np", "2", sys.executable, folder + "/tells.py"],
                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
over.set()
ear.join()
print("job", job.returncode, job.stdout.count("told"), job.stdout, "bytes", sum(map(len, seen)))
for words in (b"bytes of the gradients", b"name of the tensor", b"told"):
    print(words.decode(), any(words in packet for packet in seen))
"""


@pytest.mark.parametrize("encrypt", ["0", "1"])
def test_who_listens_between_the_hosts_reads_data_only_where_it_is_not_encrypted(tmp_path, encrypt):
    for name, text in (("tells.py", TELLS), ("listens.py", LISTENS), ("shell.sh", SHELL.format(BIN))):
        (tmp_path / name).write_text(text)
    done = subprocess.run([HOSTS, "with", "2", "--", sys.executable, tmp_path / "listens.py", tmp_path, BIN], capture_output=True, text=True,
                          timeout=120, env=environment(RUEDA_ENCRYPT=encrypt))
    out = done.stdout
    assert re.search(r"^job 0 2 ", out, re.M) and int(re.search(r"bytes (\d+)", out)[1]) > 100_000, out + done.stderr
    assert f"bytes of the gradients {encrypt == '0'}" in out, out
    assert "name of the tensor False" in out and "told False" in out, out


def test_encryption_and_a_network_without_it_exclude_each_other(tmp_path):
    (tmp_path / "work.py").write_text(WORK)
    done = subprocess.run([BIN / "ruedarun", "--virtual-hosts", "2", "-np", "2", sys.executable, tmp_path / "work.py", "0"], capture_output=True,
                          text=True, timeout=60, env=environment(RUEDA_ENCRYPT="1", RUEDA_NETWORK="mpi"))
    assert done.returncode != 0
    assert done.stderr.count("RUEDA_ENCRYPT=1 encrypts data that tcp sends, but it goes by mpi, because RUEDA_NETWORK=mpi. Set RUEDA_NETWORK=tcp") == 2, done.stderr
