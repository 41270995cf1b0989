# SPDX-License-Identifier: Apache-2.0
"""A Slurm of two nodes on this machine, with its own munge; needs root and Debian's packages."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

PROGRAMS = ("slurmctld", "slurmd", "srun", "sinfo", "munged")
SECONDS = 40


def missing():
    """Why there can be no cluster; None if there can."""
    if os.geteuid() != 0:
        return "a Slurm of one's own needs root"
    path = f"{os.environ['PATH']}:/usr/sbin"
    absent = [program for program in PROGRAMS if shutil.which(program, path=path) is None]
    return f"not installed: {', '.join(absent)}" if absent else None


def free_ports(count):
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


CONFIGURATION = """ClusterName=t
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/run/munge.socket
CredType=cred/munge
SlurmctldPort={ports[0]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
TmpFS={folder}/tmp-%n
SlurmctldPidFile={folder}/run/ctld.pid
SlurmdPidFile={folder}/run/d-%n.pid
SlurmctldLogFile={folder}/log/ctld.log
SlurmdLogFile={folder}/log/d-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SchedulerType=sched/builtin
SelectType=select/linear
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
SwitchType=switch/none
KillWait=5
NodeName=n[0-1] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{ports[1]}-{ports[2]}] CPUs=64 State=UNKNOWN
PartitionName=p Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:8
"""


class SlurmCluster:
    """Nodes n0 and n1. `environment` is that of its users; leaving the context ends all its daemons by their ids."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.daemons = []
        self.of_node = {}  # which of them is the slurmd of a node
        self.environment = {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf"), "PATH": f"{os.environ['PATH']}:/usr/sbin"}

    def start(self, *command, user=None):
        log = (self.folder / "log" / Path(command[0]).name).open("ab")
        self.daemons.append(subprocess.Popen(command, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, user=user,
                                             group=user))

    def __enter__(self):
        for name in ("run", "state", "log", "spool-n0", "spool-n1", "tmp-n0", "tmp-n1", "munge"):
            (self.folder / name).mkdir(parents=True)
        self.folder.chmod(0o755)
        first, second = adjacent_ports()
        configuration = CONFIGURATION.format(host=socket.gethostname(), folder=self.folder, ports=[*free_ports(1), first, second])
        (self.folder / "slurm.conf").write_text(configuration)
        key = self.folder / "munge" / "key"
        key.write_bytes(os.urandom(128))
        for path in (key, key.parent, self.folder / "run", self.folder / "log"):
            shutil.chown(path, "munge", "munge")
        key.chmod(0o400)
        (self.folder / "run").chmod(0o755)
        run = self.folder / "run"
        self.start("munged", "--foreground", f"--socket={run}/munge.socket", f"--pid-file={run}/munge.pid",
                   f"--log-file={self.folder}/log/munge.log", f"--seed-file={run}/munge.seed", f"--key-file={key}", "--force", user="munge")
        self.wait_for(lambda: (run / "munge.socket").exists())
        self.start("slurmctld", "-D", "-i")
        for node in ("n0", "n1"):
            self.start_node(node)
        self.wait_for(self.is_idle)
        return self

    def __exit__(self, *_):
        with contextlib.suppress(TimeoutError):  # a step that has not quite ended would look for its daemons for ever
            self.wait_for(self.is_idle)
        for daemon in reversed(self.daemons):
            with contextlib.suppress(ProcessLookupError):
                daemon.send_signal(signal.SIGTERM)
        for daemon in reversed(self.daemons):
            try:
                daemon.wait(timeout=10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    def fail(self, node, processes):
        """All processes of a node end at once: its slurmd, and these, which it has started."""
        daemon = self.daemons[self.of_node[node]]
        for pid in [daemon.pid, *processes]:
            os.kill(pid, signal.SIGKILL)
        daemon.wait()
        self.run("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test")

    def repair(self, node):
        self.start_node(node)
        self.run("scontrol", "update", f"NodeName={node}", "State=RESUME")
        self.wait_for(self.is_idle)

    def start_node(self, node):
        self.of_node[node] = len(self.daemons)
        self.start("slurmd", "-D", "-N", node)

    def run(self, *command):
        subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=20, check=True)

    def is_idle(self):
        states = subprocess.run(["sinfo", "-h", "-N", "-o", "%T"], env=self.environment, capture_output=True, text=True, timeout=20).stdout
        return states.split() == ["idle", "idle"]

    def wait_for(self, ready):
        end = time.monotonic() + SECONDS
        while not ready():
            if time.monotonic() > end:
                logs = "".join(f"{path.name}:\n{path.read_text(errors='replace')[-1500:]}\n" for path in (self.folder / "log").iterdir())
                raise TimeoutError(f"Slurm did not start within {SECONDS} s\n{logs}")
            time.sleep(0.1)


def adjacent_ports():
    """Slurm wants the ports of its nodes in one range."""
    while True:
        (first,) = free_ports(1)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", first + 1))
            except (OSError, OverflowError):
                continue
            return first, first + 1
