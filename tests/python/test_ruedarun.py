# SPDX-License-Identifier: Apache-2.0
"""ruedarun as users run it. The ranks are small shell commands; RUEDA_BIN names the folder of the programs."""

import os
import re
import signal
import stat
import subprocess
import sys
import time

import pytest

RUEDARUN = os.path.join(os.environ.get("RUEDA_BIN", "build/bin"), "ruedarun")
SECONDS = 20


def clean_environment(**settings):
    """Without what a job or a resource manager around the tests may have set."""
    others = ("RUEDA_", "OMP_", "MPIR_", "FI_", "PYTHONUNBUFFERED", "SLURM", "PBS_", "LSB_", "HYDRA_", "PMI")
    return {name: value for name, value in os.environ.items() if not name.startswith(others)} | settings


def default_signals():
    """A shell without job control has them ignored in what it starts in the background: these tests, too."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


class Job:
    """A ruedarun in a process group of its own, ended with all that is in it."""

    def __init__(self, *words, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, before=default_signals, **settings):
        self.process = subprocess.Popen([RUEDARUN, *words], stdin=stdin, stdout=subprocess.PIPE, stderr=stderr, text=True,
                                        env=clean_environment(**settings), start_new_session=True, preexec_fn=before)

    def end(self, given=None):
        """Exit status, lines on stdout, text on stderr."""
        try:
            out, err = self.process.communicate(given, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            out, err = self.process.communicate()
            pytest.fail(f"ruedarun did not end within {SECONDS} s; stdout: {out!r} stderr: {err!r}")
        return self.process.returncode, out.splitlines(), err


def run(*words, given=None, **settings):
    return Job(*words, stdin=subprocess.PIPE if given is not None else subprocess.DEVNULL, **settings).end(given)


def shell(ranks, script, *options, **settings):
    return run(*options, "-np", str(ranks), "/bin/sh", "-c", script, **settings)


@pytest.fixture(name="shell_here")
def remote_shell_of_this_machine(tmp_path_factory):
    """In place of ssh: each host that it is given is this machine."""
    script = tmp_path_factory.mktemp("shell") / "shell"
    script.write_text('#!/bin/sh\nshift\nexec /bin/sh -c "$*"\n')
    script.chmod(0o755)
    return str(script)


def lives(process):
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):  # gone before it was opened, or before it was read
        return False


def test_lines_have_a_prefix_and_stay_whole():
    status, out, err = shell(3, 'for i in 1 2 3; do printf "%s" "a$i"; sleep 0.02; echo " b"; done; echo oops >&2')
    assert status == 0
    for rank in range(3):
        assert [line for line in out if line.startswith(f"[{rank}] ")] == [f"[{rank}] a{i} b" for i in (1, 2, 3)]
    assert len(out) == 9
    assert sorted(err.splitlines()) == [f"[{rank}] oops" for rank in range(3)]


def test_a_last_line_without_an_end_and_long_lines_are_kept():
    status, out, _ = shell(2, "head -c 300000 /dev/zero | tr '\\0' x; echo; printf tail")
    assert status == 0
    assert sorted(out) == sorted(f"[{rank}] {text}" for rank in (0, 1) for text in ("x" * 300000, "tail"))


def test_nothing_is_lost_at_the_end():
    status, out, _ = shell(2, "seq 1 20000")
    assert status == 0
    for rank in (0, 1):
        lines = [line for line in out if line.startswith(f"[{rank}] ")]
        assert lines == [f"[{rank}] {number}" for number in range(1, 20001)]


def test_no_prefix_passes_output_on_as_it_is():
    job = Job("--no-prefix", "-np", "1", "printf", "a\\nb")
    assert job.process.communicate(timeout=SECONDS)[0] == "a\nb"


def test_everything_after_the_program_belongs_to_it():
    words = ["--help", "-np", "5", ":", "", "a b", "*", "\\", "--", "$HOME", "line\nend"]
    status, out, _ = run("--no-prefix", "-np", "1", "printf", "<%s>", *words)
    assert status == 0
    assert "\n".join(out) == "".join(f"<{word}>" for word in words)


def test_standard_input_goes_to_rank_0():
    status, out, _ = run("-np", "3", "/bin/sh", "-c", 'echo "$RUEDA_RANK:$(cat)"', given="one two")
    assert status == 0
    assert sorted(out) == ["[0] 0:one two", "[1] 1:", "[2] 2:"]


def test_more_input_than_any_buffer_holds():
    status, out, _ = run("-np", "2", "/bin/sh", "-c", "sleep 0.3; wc -c", given="x" * 3_000_000)
    assert status == 0
    assert sorted(out) == ["[0] 3000000", "[1] 0"]


def test_input_that_nobody_reads():
    status, _, _ = run("-np", "2", "true", given="x" * 50_000)
    assert status == 0


def test_environment_of_the_ranks():
    names = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE")
    for beginning in ("RUEDA_", "HOROVOD_"):
        script = "echo " + " ".join(f"${beginning}{name}" for name in names) + " $PMI_RANK $PMI_SIZE $MPIR_CVAR_CH4_NETMOD $FI_PROVIDER"
        status, out, _ = shell(3, script)
        assert status == 0
        assert sorted(out) == [f"[{rank}] {rank} 3 {rank} 3 0 1 {rank} 3 ofi tcp" for rank in range(3)]
    _, out, _ = shell(1, "echo $MPIR_CVAR_CH4_NETMOD $FI_PROVIDER", MPIR_CVAR_CH4_NETMOD="ucx", FI_PROVIDER="verbs")
    assert out == ["[0] ucx verbs"]
    _, out, _ = shell(1, "env | grep RUEDA_LAUNCH || echo none")
    assert out == ["[0] none"]


def test_values_of_any_kind_reach_the_ranks_of_every_host(shell_here):
    values = {"LINES": "a\nb\n\nc", "BASH_FUNC_greet%%": "() {  echo hello\n}", "LONG": "x" * 131000, "EMPTY": ""}
    program = "import os\nfor name in %r: print(name, repr(os.environ[name]))" % list(values)
    for options in ((), ("-H", "hosta:1,hostb:1", "--remote-shell", shell_here)):
        status, out, err = run(*options, "-np", "2", sys.executable, "-c", program, **values)
        assert status == 0, err
        for rank in (0, 1):
            assert [line for line in out if line.startswith(f"[{rank}] ")] == [f"[{rank}] {name} {value!r}" for name, value in values.items()]


def test_ranks_are_bound_where_they_divide_the_cores_evenly():
    cores = sorted(os.sched_getaffinity(0))
    ask = [sys.executable, "-c", "import os; print(sorted(os.sched_getaffinity(0)))"]
    bound = run("-np", str(len(cores)), *ask)[1]
    assert sorted(bound) == sorted(f"[{rank}] [{core}]" for rank, core in enumerate(cores))
    for options in (("--bind", "none", "-np", str(len(cores))), ("-np", str(len(cores) + 1))):
        assert all(line.endswith(f"] {cores}") for line in run(*options, *ask)[1])
    assert f"bound to the cores {cores[0]}" in run("--verbose", "-np", str(len(cores)), "true")[2]


def test_threads_for_each_rank():
    cores = len(os.sched_getaffinity(0))
    for ranks in (1, 2, 2 * cores):
        _, out, _ = shell(ranks, "echo $OMP_NUM_THREADS")
        assert out and all(line.endswith(f"] {max(1, cores // ranks)}") for line in out)
    _, out, _ = shell(1, "echo $OMP_NUM_THREADS", OMP_NUM_THREADS="7")
    assert out == ["[0] 7"]


def test_output_files(tmp_path):
    status, out, _ = shell(2, "echo out$RUEDA_RANK; echo err$RUEDA_RANK >&2", "--output-filename", str(tmp_path / "logs"))
    assert status == 0 and sorted(out) == ["[0] out0", "[1] out1"]
    for rank in (0, 1):
        assert (tmp_path / "logs" / f"rank.{rank}" / "stdout").read_text() == f"out{rank}\n"
        assert (tmp_path / "logs" / f"rank.{rank}" / "stderr").read_text() == f"err{rank}\n"


@pytest.mark.parametrize("words, expected", [
    ([], "-np N"),
    (["-np"], "-np needs a value"),
    (["-np", "0", "true"], "'0'"),
    (["-np", "4097", "true"], "from 1 to 4096"),
    (["-np", "true"], "'true'"),
    (["-np", "2"], "which program"),
    (["-np", "2", "/no/such/program"], "no such program: '/no/such/program'"),
    (["-np", "2", "no-such-program"], "not in PATH"),
    (["-np", "2", "--frobnicate", "true"], "--frobnicate"),
    (["-np", "1", "--output-filename", "/dev/null/x", "true"], "/dev/null/x"),
    (["-np", "2", "--min-np", "3", "true"], "must ascend"),
    (["-np", "2", "--max-np", "3", "true"], "--min-np N"),
    (["-np", "2", "--min-np", "1", "--launcher", "hydra", "true"], "Hydra ends a job"),
    (["-np", "2", "--config-file", "/no/such/file", "true"], "/no/such/file"),
    (["-np", "2", "--cycle-time-ms", "fast", "true"], "RUEDA_CYCLE_TIME=fast"),
])
def test_usage_errors_are_one_line(words, expected):
    status, out, err = run(*words)
    assert status == 2 and out == [] and len(err.splitlines()) == 1
    assert err.startswith("ruedarun: error: ") and expected in err


def test_a_file_that_is_not_executable(tmp_path):
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    status, _, err = run("-np", "1", str(script))
    assert status == 2 and "not executable" in err and "chmod" in err


def test_another_mpiexec_is_refused(tmp_path):
    fake = tmp_path / "mpiexec"
    fake.write_text("#!/bin/sh\necho some other MPI 1.2\n")
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    status, _, err = run("--launcher", "hydra", "-np", "1", "true", RUEDA_MPIEXEC=str(fake))
    assert status == 2 and "not Hydra" in err and "some other MPI 1.2" in err and "RUEDA_MPIEXEC" in err
    status, _, err = run("--launcher=hydra", "-np", "1", "true", RUEDA_MPIEXEC=str(tmp_path / "missing"))
    assert status == 2 and "no mpiexec at" in err


def test_hydra_starts_the_agents_where_it_is_asked_to():
    status, out, err = shell(3, "echo $RUEDA_RANK of $RUEDA_SIZE", "--launcher", "hydra", "--mpi-args=-bind-to none", "--verbose")
    assert status == 0 and sorted(out) == [f"[{rank}] {rank} of 3" for rank in range(3)], err
    assert "mpiexec" in err and "-bind-to none" in err
    status, _, err = shell(2, "[ $RUEDA_RANK = 1 ] && exit 7; sleep 60", "--launcher", "hydra")
    assert status == 7 and re.search(r"rank 1 \(process \d+ on \S+\) ended with status 7", err), err


def test_settings_are_checked_once_and_listed():
    status, _, err = run("-np", "2", "true", RUEDA_FUSION_THRESHOLD="many")
    assert status == 2 and len(err.splitlines()) == 1 and "RUEDA_FUSION_THRESHOLD=many" in err
    status, out, _ = run("--print-config", HOROVOD_FUSION_THRESHOLD="1024")
    row = [line.split() for line in out if line.startswith("RUEDA_FUSION_THRESHOLD")][0]
    assert status == 0 and row[1:3] == ["1024", "HOROVOD_FUSION_THRESHOLD"]


def test_flags_of_horovodrun_reach_the_ranks(tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text("params:\n  cycle-time-ms: 4\n  fusion-threshold-mb: 1\nlogging:\n  level: ERROR\n")
    script = "echo $RUEDA_FUSION_THRESHOLD $RUEDA_CYCLE_TIME $RUEDA_LOG_LEVEL $RUEDA_LOG_HIDE_TIME $FI_PROVIDER"
    status, out, err = shell(2, script, "--config-file", str(config), "--fusion-threshold-mb", "2",
                             "--log-without-timestamp", "--tcp", FI_PROVIDER="other")
    assert status == 0 and err == ""
    assert sorted(out) == [f"[{rank}] 2097152 4 error 1 tcp" for rank in (0, 1)]
    status, out, _ = run("--config-file", str(config), "--print-config")
    rows = {line.split()[0]: line.split()[1:3] for line in out}
    assert status == 0 and rows["RUEDA_CYCLE_TIME"] == ["4", "--cycle-time-ms"]


def test_what_has_no_effect_is_told_once():
    status, out, err = shell(2, "echo ok", "--gloo", HOROVOD_ENABLE_ASYNC_COMPLETION="1", HOROVOD_NUM_NCCL_STREAMS="2", HOROVOD_LOG_LEVEL="error")
    assert status == 0 and sorted(out) == ["[0] ok", "[1] ok"]
    assert sorted(err.splitlines()) == ["ruedarun: --gloo is ignored: there is no Gloo in Rueda",
                                        "ruedarun: HOROVOD_ENABLE_ASYNC_COMPLETION is ignored: the host never waits for a device"]


def test_hosts_from_a_file(tmp_path, shell_here):
    hosts = tmp_path / "hosts"
    hosts.write_text("hosta slots=1  # both are this machine\nhostb slots=2\n")
    script = "echo $RUEDA_LOCAL_RANK $RUEDA_LOCAL_SIZE $RUEDA_CROSS_RANK $RUEDA_CROSS_SIZE"
    status, out, _ = shell(3, script, "--hostfile", str(hosts), "--remote-shell", shell_here)
    assert status == 0 and sorted(out) == ["[0] 0 1 0 2", "[1] 0 2 1 2", "[2] 1 2 0 1"]


def test_rank_0_on_another_host_reads_the_standard_input(shell_here):
    options = ("-H", "hosta:1,hostb:1", "--remote-shell", shell_here)
    status, out, err = run(*options, "-np", "2", "/bin/sh", "-c", "sleep 0.2; wc -c", given="x" * 3_000_000)
    assert status == 0 and sorted(out) == ["[0] 3000000", "[1] 0"], err
    status, _, err = run(*options, "-np", "2", "true", given="x" * 3_000_000)
    assert status == 0, err
    job = Job(*options, "-np", "2", "/bin/sh", "-c", "read line; echo got $line", stdin=subprocess.PIPE)
    time.sleep(0.3)
    assert sorted(job.end("word\n")[1]) == ["[0] got word", "[1] got"]


def test_labels_and_a_choice_of_ranks(shell_here, tmp_path):
    options = ("-H", "hosta:1,hostb:2", "--remote-shell", shell_here)
    status, out, _ = shell(3, "echo ok", *options, "--label", "host")
    assert status == 0 and sorted(out) == ["[hosta:0] ok", "[hostb:1] ok", "[hostb:2] ok"]
    status, out, err = shell(3, "echo ok; echo no >&2", "--output", "0,2", "--output-filename", str(tmp_path))
    assert status == 0 and sorted(out) == ["[0] ok", "[2] ok"] and sorted(err.splitlines()) == ["[0] no", "[2] no"]
    assert (tmp_path / "rank.1" / "stdout").read_text() == "ok\n"


def test_a_host_that_cannot_be_reached_is_told():
    start = time.monotonic()
    status, _, err = shell(2, "sleep 60", "-H", "localhost:1,no-such-host:1", "--start-timeout", "1",
                           HYDRA_LAUNCHER_EXEC="/bin/false")
    assert status != 0 and time.monotonic() - start < 6
    assert re.search(r"^ruedarun: false no-such-host ended with status 1, and rank 1 did not start; ", err, re.M), err


def test_a_remote_shell_that_does_not_end_is_named(tmp_path):
    """The job is over, and its agents have gone."""
    script = tmp_path / "shell"
    script.write_text('#!/bin/sh\nshift\n/bin/sh -c "$*"\nexec sleep 60\n')
    script.chmod(0o755)
    status, out, err = shell(2, "echo ok", "-H", "localhost:1,hostb:1", "--remote-shell", str(script))
    assert status == 1 and sorted(out) == ["[0] ok", "[1] ok"]
    assert re.search(r"^ruedarun: all ranks have ended, and these have not within 10 s: \S+/shell hostb ", err, re.M), err


def test_the_words_of_a_remote_shell_that_fails_are_shown(tmp_path):
    script = tmp_path / "shell"
    script.write_text("#!/bin/sh\necho Permission denied >&2\nexit 255\n")
    script.chmod(0o755)
    status, _, err = shell(2, "sleep 60", "-H", "localhost:1,hostb:1", "--remote-shell", str(script))
    assert status == 1 and "Permission denied\n" in err and "shell hostb ended with status 255, and rank 1 did not start" in err, err


def test_time_in_the_prefix():
    _, out, _ = shell(1, "echo ok", "-prefix-timestamp")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \[0\] ok", out[0])


def test_information():
    status, out, _ = run("--version")
    assert status == 0 and out[0].startswith("ruedarun ")
    status, out, _ = run("--check-build")
    assert status == 0 and any("mpiexec" in line for line in out) and any("MPICH" in line for line in out)
    for library in ("CUDA", "NCCL"):  # built or not, a line each, with the reason where something is missing
        assert sum(re.fullmatch(rf" *(\[X\] {library} \d+\.\d+.*|\[ \] {library}) \(.+\)", line) is not None for line in out) == 1
    status, out, _ = run("--help")
    assert status == 0 and any("--output-filename" in line for line in out)
