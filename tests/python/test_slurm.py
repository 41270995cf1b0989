# SPDX-License-Identifier: Apache-2.0
"""Jobs that srun starts, with PMI, with PMIx and without both, in a Slurm that these tests start themselves."""

import contextlib
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
from hand_started import BIN, CLEAN, LAUNCHERS, SUITES, Job, check, free_port
from slurm_cluster import SlurmCluster, missing

ELASTIC = Path(__file__).parent / "programs" / "elastic_sums.py"


@pytest.fixture(scope="module")
def cluster():
    if why := missing():
        if os.environ.get("CI"):
            pytest.fail(why)
        pytest.skip(why)
    with tempfile.TemporaryDirectory(prefix="rueda-slurm-") as folder, SlurmCluster(folder) as started:
        yield started


def srun(cluster, *words, **settings):
    environment = {name: value for name, value in cluster.environment.items() if name == "SLURM_CONF" or not name.startswith(LAUNCHERS)}
    return subprocess.run(["srun", *map(str, words)], env={**environment, **settings}, capture_output=True, text=True, timeout=90)


def need(cluster, plugin):
    listed = srun(cluster, "--mpi=list")
    if plugin not in listed.stdout + listed.stderr:
        pytest.skip(f"this Slurm has no plugin mpi_{plugin}")


# The plugin of Slurm, settings, and how the ranks then say that they find one another. MPI says nothing.
WAYS = {"none": ("none", {"RUEDA_STORE": "127.0.0.1:29817"}, "by store"),
        "pmi": ("pmi2", {"RUEDA_BOOTSTRAP": "pmi"}, "by pmi, PMI-2"),
        "mpi": ("pmi2", {"RUEDA_BOOTSTRAP": "mpi"}, None),
        "pmix": ("pmix", {"RUEDA_BOOTSTRAP": "pmix"}, "by pmix")}


def srun_by(cluster, way, *words):
    plugin, settings, _ = WAYS[way]
    need(cluster, plugin)
    return srun(cluster, f"--mpi={plugin}", *words, RUEDA_LOG_LEVEL="info", **settings)


def check_way(done, way):
    found = WAYS[way][2]
    assert done.returncode == 0, done.stdout + done.stderr
    if found is None:
        assert "are found" not in done.stderr, done.stderr
    else:
        assert f"the others are found {found}" in done.stderr, done.stderr


@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.parametrize("way", WAYS)
def test_conformance(cluster, way, suite):
    """The nodes are names that nobody resolves; both are this machine."""
    check_way(srun_by(cluster, way, "-N", 2, "-n", 3, BIN / "conformance", suite), way)


@pytest.mark.parametrize("way", WAYS)
def test_on_one_node(cluster, way):
    check_way(srun_by(cluster, way, "-N", 1, "-n", 4, BIN / "conformance", "allreduce"), way)


def test_the_address_follows_from_the_step(cluster):
    script = f"export SLURM_STEP_NODELIST=localhost; exec {BIN / 'conformance'} allgather"
    done = srun(cluster, "--mpi=none", "-N", 1, "-n", 3, "/bin/sh", "-c", script, RUEDA_SECRET="0123456789abcdef")
    assert done.returncode == 0, done.stdout + done.stderr


def test_two_steps_at_a_time(cluster):
    script = f"export SLURM_STEP_NODELIST=localhost; exec {BIN / 'rank'} reduces 1"
    environment = {name: value for name, value in cluster.environment.items() if name == "SLURM_CONF" or not name.startswith(LAUNCHERS)}
    steps = [subprocess.Popen(["srun", "--mpi=none", "-N", "1", "-n", "2", "/bin/sh", "-c", script], env=environment, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True) for _ in range(2)]
    for step in steps:
        out, _ = step.communicate(timeout=90)
        assert step.returncode == 0, out


@pytest.fixture
def pmi2(cluster):
    """The cluster, if its Slurm has PMI-2."""
    need(cluster, "pmi2")
    return cluster


@pytest.fixture
def pmix(cluster):
    """The cluster, if its Slurm has PMIx."""
    need(cluster, "pmix")
    return cluster


@pytest.mark.parametrize("way", ["pmi", "pmix"])
def test_in_place_of_an_mpi_that_is_not_there(cluster, way, tmp_path):
    """As in a Python environment without MPICH: librueda alone. Nobody names the way."""
    plugin = WAYS[way][0]
    need(cluster, plugin)
    shutil.copy(BIN.parent / "lib" / "librueda.so.0", tmp_path / "librueda.so.0")
    check_way(srun(cluster, f"--mpi={plugin}", "-N", 2, "-n", 3, BIN / "conformance", "allgather", LD_LIBRARY_PATH=str(tmp_path),
                   RUEDA_LOG_LEVEL="info"), way)


def test_pmix_ends_with_the_start(pmix):
    """Jobs follow one another in a process. Nothing of MPI is loaded, and libpmix has no thread left."""
    script = """
import os, rueda
for _ in range(3):
    rueda.init()
    rueda.shutdown()
maps, threads = open("/proc/self/maps").read(), len(os.listdir("/proc/self/task"))
os.write(1, f"libpmix: {'/libpmix' in maps}, MPI: {'/libmpi' in maps or '/librueda_mpi' in maps}, threads: {threads}\\n".encode())
"""
    done = srun(pmix, "--mpi=pmix", "-N", 2, "-n", 3, sys.executable, "-c", script, RUEDA_BOOTSTRAP="pmix",
                PYTHONPATH=os.environ.get("PYTHONPATH", ""))
    assert done.returncode == 0 and done.stdout == "libpmix: True, MPI: False, threads: 1\n" * 3, done.stdout + done.stderr


@pytest.mark.parametrize("absent", [0, 1])
def test_a_task_that_pmix_waits_for_in_vain(pmix, absent):
    script = f'if [ "$PMIX_RANK" = {absent} ]; then exit 0; fi; exec {BIN / "rank"} reduces 1'
    done = srun(pmix, "--mpi=pmix", "-N", 2, "-n", 3, "/bin/sh", "-c", script, RUEDA_BOOTSTRAP="pmix", RUEDA_START_TIMEOUT="1.5")
    assert done.returncode != 0 and done.stderr.count(f"rank {absent} of 3 did not come within") == 2, done.stderr


def test_a_task_that_is_killed_before_all_have_come(pmix):
    """Slurm ends the step, and names the task."""
    script = f"""
if [ "$PMIX_RANK" = 2 ]; then exec timeout -s KILL 1 {BIN / 'rank'} reduces 1; fi
if [ "$PMIX_RANK" = 0 ]; then sleep 3; fi
exec {BIN / 'rank'} reduces 1
"""
    begin = time.monotonic()
    done = srun(pmix, "--mpi=pmix", "-N", 1, "-n", 3, "/bin/sh", "-c", script, RUEDA_BOOTSTRAP="pmix", RUEDA_START_TIMEOUT="10")
    assert done.returncode != 0 and re.search("tasks? (0-|1-)?2: Killed", done.stderr), done.stderr
    assert time.monotonic() - begin < 25


def test_a_task_that_never_calls_init(pmi2):
    """The barrier of PMI-2 has no time limit of its own."""
    script = f'if [ "$SLURM_PROCID" = 1 ]; then exit 0; fi; exec {BIN / "rank"} reduces 1'
    done = srun(pmi2, "--mpi=pmi2", "-N", 2, "-n", 3, "/bin/sh", "-c", script, RUEDA_BOOTSTRAP="pmi", RUEDA_START_TIMEOUT="1.5")
    assert done.returncode != 0 and "waits until every process has called init()" in done.stderr, done.stderr


@pytest.mark.parametrize("way", ["none", "pmix"])
def test_a_task_that_is_killed_is_named(cluster, way):
    script = f"""
if [ "$SLURM_PROCID" = 2 ]; then exec timeout -s KILL 2 {BIN / 'rank'} reduces 30; fi
exec {BIN / 'rank'} reduces 30
"""
    done = srun_by(cluster, way, "-N", 1, "-n", 3, "/bin/sh", "-c", script)
    assert done.returncode != 0 and len(re.findall("error: rank 2 .*is lost", done.stderr)) == 2, done.stderr


def munge_of(cluster):
    return {"RUEDA_MUNGE_SOCKET": str(cluster.folder / "run" / "munge.socket"), "RUEDA_LOG_LEVEL": "info"}


@pytest.mark.parametrize("nodes", [1, 2])
def test_ranks_agree_on_a_secret_by_munge(cluster, nodes):
    script = f"export SLURM_STEP_NODELIST=localhost; exec {BIN / 'conformance'} allgather"
    done = srun(cluster, "--mpi=none", "-N", nodes, "-n", 4, "/bin/sh", "-c", script, **munge_of(cluster))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "with munge" in done.stderr and "RUEDA_SECRET" not in done.stderr, done.stderr


def test_a_secret_takes_the_place_of_munge(cluster):
    script = f"export SLURM_STEP_NODELIST=localhost; exec {BIN / 'rank'} reduces 1"
    done = srun(cluster, "--mpi=none", "-N", 1, "-n", 2, "/bin/sh", "-c", script, **munge_of(cluster), RUEDA_SECRET="0123456789abcdef")
    assert done.returncode == 0 and "munge" not in done.stderr and "Set RUEDA_SECRET" not in done.stderr, done.stdout + done.stderr


@pytest.mark.skipif(Path("/run/munge/munge.socket.2").exists(), reason="munge's daemon runs on this machine")
def test_a_rank_of_each_host_says_why_it_does_without_munge(cluster):
    script = f"export SLURM_STEP_NODELIST=localhost; exec {BIN / 'rank'} reduces 1"
    done = srun(cluster, "--mpi=none", "-N", 2, "-n", 4, "/bin/sh", "-c", script)
    assert done.returncode == 0 and "Set RUEDA_SECRET" in done.stderr, done.stdout + done.stderr
    warned = re.findall(rf"warning: rank (\d) on {socket.gethostname()} starts without munge: \w.*set RUEDA_SECRET to the same", done.stderr)
    assert sorted(warned) == ["0", "2"], done.stderr


def test_a_munge_that_the_user_names_is_not_done_without(cluster):
    """On one host it is there, and on the other it is not."""
    script = f"""
export SLURM_STEP_NODELIST=localhost
if [ "$SLURM_NODEID" = 1 ]; then export RUEDA_MUNGE_SOCKET=/nowhere/munge.socket; fi
exec {BIN / 'rank'} reduces 1
"""
    done = srun(cluster, "--mpi=none", "-K", "-N", 2, "-n", 2, "/bin/sh", "-c", script, **munge_of(cluster))
    assert done.returncode != 0, done.stdout
    assert f"rank 1 on {socket.gethostname()} has no munge at RUEDA_MUNGE_SOCKET=/nowhere/munge.socket: " in done.stderr, done.stderr


def credential_at(port):
    """Rank 0 gives it to everybody who connects."""
    end = time.monotonic() + 20
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
                return connection.makefile().read()
        except ConnectionRefusedError:
            assert time.monotonic() < end
            time.sleep(0.05)


def munge(cluster, program, *words, text=None, user=None):
    return subprocess.run([program, "--socket", cluster.folder / "run" / "munge.socket", *words], input=text, capture_output=True, text=True,
                          user=user, timeout=20)


def by_slurm(cluster, port, rank):
    """As srun describes the ranks of a step of two on this host."""
    return {"SLURM_STEP_ID": "0", "SLURM_JOB_ID": "77", "SLURM_PROCID": str(rank), "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NUM_NODES": "1",
            "SLURM_STEP_NODELIST": "localhost", "SLURM_STEP_RESV_PORTS": f"{port}-{port}", **munge_of(cluster)}


def test_another_user_cannot_join(cluster):
    port, nobody = free_port(), pwd.getpwnam("nobody").pw_uid
    for name in ("bin/rank", "lib/librueda.so.0"):  # the build may lie where others cannot read
        copy = cluster.folder / "build" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(BIN.parent / name, copy)
    with Job([BIN / "rank", "reduces", "1"], [by_slurm(cluster, port, 0)]) as first:
        refused = munge(cluster, "unmunge", text=credential_at(port), user=nobody)
        assert refused.returncode != 0 and "Unauthorized" in refused.stdout + refused.stderr, refused
        environment = {**CLEAN, **by_slurm(cluster, port, 1), "LD_LIBRARY_PATH": str(cluster.folder / "build" / "lib")}
        stranger = subprocess.run([cluster.folder / "build" / "bin" / "rank", "reduces", "1"], env=environment, user=nobody, group=nobody,
                                  cwd="/", capture_output=True, text=True, timeout=60)
        assert stranger.returncode != 0 and f"at localhost:{port} is a job of another user: Unauthorized" in stranger.stderr, stranger.stderr
        with Job([BIN / "rank", "reduces", "1"], [by_slurm(cluster, port, 1)]) as second:
            check(second.results())
        check(first.results())


@contextlib.contextmanager
def giving(text):
    """A port at which the first guest gets `text`."""
    def give():
        guest, _ = server.accept()
        guest.sendall(text.encode())
        guest.close()

    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(20)
        thread = threading.Thread(target=give)
        thread.start()
        yield server.getsockname()[1]
        thread.join()


def test_a_credential_of_another_user_leads_nowhere(cluster):
    """Somebody else has taken the port of rank 0 on this host."""
    forged = munge(cluster, "munge", "--string", "01020304", user=pwd.getpwnam("nobody").pw_uid).stdout.strip()
    with giving(forged) as port, Job([BIN / "rank", "reduces", "1"], [by_slurm(cluster, port, 1)]) as job:
        status, _, err = job.results()[0]
    assert status != 0 and "is a job of another user: it was made by user" in err, err


def test_a_rank_that_comes_after_the_life_of_the_credential(cluster):
    """munge says that it has expired, and has been opened before, but still opens it."""
    port = free_port()
    with Job([BIN / "rank", "reduces", "1"], [by_slurm(cluster, port, 0)]) as first:
        endpoint = munge(cluster, "unmunge", "--metadata", "/dev/null", text=credential_at(port)).stdout
        old = munge(cluster, "munge", "--ttl", "1", "--restrict-uid", str(os.geteuid()), "--string", endpoint).stdout.strip()
        time.sleep(2.5)
        assert "Expired" in munge(cluster, "unmunge", text=old).stdout
        with giving(old) as port, Job([BIN / "rank", "reduces", "1"], [by_slurm(cluster, port, 1)]) as second:
            check(second.results())
        check(first.results())


def parent_of(process):
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


class ElasticJob:
    """Four ranks on two nodes, in an allocation that goes on without a node."""

    def __init__(self, cluster, log):
        environment = {name: value for name, value in cluster.environment.items() if name == "SLURM_CONF" or not name.startswith(LAUNCHERS)}
        command = ["salloc", "-Q", "--no-kill", "-N", "2", "--ntasks-per-node=2", BIN / "ruedarun", "--verbose", "--spares", "0", "-np", "4",
                   "--min-np", "2", sys.executable, ELASTIC, "6000", "1", "0.005"]
        self.log = log
        with log.open("w") as said:
            self.process = subprocess.Popen(list(map(str, command)), stdout=said, stderr=subprocess.STDOUT, env=environment)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def wait_for(self, pattern):
        for _ in range(600):
            if found := re.search(pattern, self.log.read_text()):
                return found
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        pytest.fail(f"no line has {pattern}:\n{self.log.read_text()[-4000:]}")

    def pid(self, worker):
        return int(self.wait_for(rf"worker {worker} is process (\d+)")[1])

    def check_end(self):
        assert self.process.wait(120) == 0, self.log.read_text()[-4000:]
        assert re.search(r"epochs: 1, applied: \{1: \d+", self.log.read_text())


def test_an_elastic_job_in_an_allocation(cluster, tmp_path):
    """A rank is killed, and the node of the others gets the notice that scancel sends: its ranks leave, and the job goes on without both."""
    with ElasticJob(cluster, tmp_path / "said") as job:
        job.wait_for(r"step 10\b")
        agent = parent_of(job.pid(2))
        os.kill(job.pid(3), signal.SIGKILL)
        job.wait_for(r"was killed by signal 9 \(Killed\); going on with 3 ranks")
        os.kill(agent, signal.SIGTERM)
        job.wait_for(r"is to go \(its agent has got SIGTERM\): its ranks leave the job")
        job.wait_for(r"have left; going on with 2 ranks|has left; going on with 2 ranks")
        job.check_end()


def test_an_elastic_job_goes_on_without_a_node_that_fails(cluster, tmp_path):
    """Every process of the node ends at once, and Slurm then takes it out of the allocation, which stays (--no-kill)."""
    with ElasticJob(cluster, tmp_path / "said") as job:
        job.wait_for(r"step 10\b")
        ranks = [job.pid(2), job.pid(3)]
        agent = parent_of(ranks[0])
        cluster.fail("n1", [parent_of(agent), agent, *ranks])
        try:
            job.wait_for(r"going on with 2 ranks")
            job.wait_for(r"begins as rank 0 of 2 at step [1-9]")
            job.check_end()
        finally:
            cluster.repair("n1")


def test_an_elastic_script_of_sruns_ends_with_words(cluster):
    """Without ruedarun no rank goes on: the others name the lost one."""
    script = f"""
if [ "$SLURM_PROCID" = 2 ]; then exec timeout -s KILL 20 {sys.executable} {ELASTIC} 100000 1 0.01; fi
exec {sys.executable} {ELASTIC} 100000 1 0.01
"""
    done = srun(cluster, "--mpi=none", "--no-kill", "-N", 2, "-n", 3, "/bin/sh", "-c", script, **WAYS["none"][1], OMP_NUM_THREADS="1",
                PYTHONPATH=os.environ.get("PYTHONPATH", ""))
    assert done.returncode != 0 and re.search("HorovodInternalError: .*rank 2 .*is lost", done.stderr), done.stderr
    assert done.stderr.count("only an elastic job can, which ruedarun --min-np starts") == 2, done.stderr
