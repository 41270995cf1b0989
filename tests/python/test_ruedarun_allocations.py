# SPDX-License-Identifier: Apache-2.0
"""ruedarun where the environment speaks of a resource manager or of another launcher that is not there."""

import os
import socket

import pytest
from test_ruedarun import RUEDARUN, run

HERE = socket.gethostname()


def environments(tmp_path, hosts):
    """What each manager sets for a job on these hosts, two ranks on each."""
    lines = tmp_path / "hosts"
    lines.write_text("".join(f"{host}\n{host}\n" for host in hosts))
    queues = tmp_path / "queues"
    queues.write_text("".join(f"{host} 2 all.q@{host} UNDEF\n" for host in hosts))
    list_of_hosts, count = ",".join(hosts), str(len(hosts))
    return {
        "slurm": {"SLURM_JOB_ID": "1", "SLURM_NNODES": count, "SLURM_JOB_NUM_NODES": count, "SLURM_JOB_NODELIST": list_of_hosts,
                  "SLURM_NODELIST": list_of_hosts, "SLURM_TASKS_PER_NODE": f"2(x{count})"},
        "pbs": {"PBS_JOBID": "1", "PBS_NODEFILE": str(lines)},
        "lsf": {"LSB_JOBID": "1", "LSF_BINDIR": "/no/lsf", "LSB_MCPU_HOSTS": " ".join(f"{host} 2" for host in hosts)},
        "grid_engine": {"JOB_ID": "1", "SGE_ROOT": "/no/sge", "ARC": "lx-amd64", "PE_HOSTFILE": str(queues)},
        "load_leveler": {"LOADL_HOSTFILE": str(lines), "MP_CHILD": "0"},
        "cobalt": {"COBALT_JOBID": "1", "COBALT_NODEFILE": str(lines)},
    }


MANAGERS = ("slurm", "pbs", "lsf", "grid_engine", "load_leveler", "cobalt")


@pytest.fixture
def nothing(tmp_path):
    """A PATH without srun, ssh and all others."""
    folder = tmp_path / "bin"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("manager", MANAGERS)
def test_a_job_on_this_host_needs_nothing_of_the_manager(manager, tmp_path, nothing):
    variables = environments(tmp_path, [HERE])[manager]
    status, out, err = run("-np", "2", "/bin/sh", "-c", "echo $RUEDA_LOCAL_SIZE", PATH=str(nothing), **variables)
    assert status == 0, err
    assert sorted(out) == ["[0] 2", "[1] 2"]


@pytest.mark.parametrize("manager", MANAGERS)
def test_other_hosts_without_the_managers_program_are_an_error_at_once(manager, tmp_path, nothing):
    variables = environments(tmp_path, [HERE, "no-such-host"])[manager]
    status, out, err = run("-np", "2", "/bin/true", PATH=str(nothing), **variables)
    assert status == 2 and out == [] and len(err.splitlines()) == 1, err
    assert manager == "load_leveler" or ("no-such-host" in err and "-H localhost" in err and any(name in err for name in variables))
    assert manager != "load_leveler" or "--launcher hydra" in err
    status, out, err = run("-np", "2", "-H", "localhost", "/bin/echo", "ok", PATH=str(nothing), **variables)
    assert status == 0 and sorted(out) == ["[0] ok", "[1] ok"], err


def test_srun_that_does_not_work_is_named_at_once(tmp_path, nothing):
    srun = nothing / "srun"
    srun.write_text("#!/bin/sh\necho srun: error: Invalid job id >&2\nexit 1\n")
    srun.chmod(0o755)
    variables = environments(tmp_path, [HERE, "no-such-host"])["slurm"]
    status, _, err = run("-np", "2", "--start-timeout", "600", "/bin/true", PATH=str(nothing), **variables)
    assert status == 1
    assert "srun: error: Invalid job id" in err
    assert "ruedarun: srun ended with status 1, and ranks 0, 1 did not start" in err and "SLURM_JOB_NODELIST" in err


def test_a_file_of_hosts_that_is_not_there():
    status, _, err = run("-np", "2", "/bin/true", PBS_NODEFILE="/no/such/file")
    assert status == 2 and "PBS_NODEFILE" in err and "/no/such/file" in err and "-H localhost" in err


def test_hosts_for_ssh_where_it_is_missing(nothing):
    status, _, err = run("-np", "2", "-H", "no-such-host:2", "/bin/true", PATH=str(nothing))
    assert status == 2 and "no ssh" in err and "no-such-host" in err


def test_what_an_outer_launcher_has_left_does_not_mislead_the_ranks():
    left = {"PMI_FD": "99", "PMI_RANK": "5", "PMI_SIZE": "9", "PMI_PORT": "nowhere:1", "PMI_JOBID": "1.0", "PMIX_RANK": "5",
            "PMIX_NAMESPACE": "x", "HYDI_CONTROL_FD": "98", "MPI_LOCALRANKID": "5", "MPI_LOCALNRANKS": "9",
            "SLURM_STEP_NUM_TASKS": "9", "SLURM_MPI_TYPE": "pmi2"}
    allreduce = os.path.join(os.path.dirname(RUEDARUN), "allreduce")
    status, out, err = run("-np", "2", allreduce, **left)
    assert status == 0 and len(out) > 0, err
    status, out, _ = run("-np", "1", "/bin/sh", "-c", "echo $PMI_RANK $PMI_SIZE $MPI_LOCALNRANKS $PMIX_RANK $PMI_PORT", **left)
    assert (status, out) == (0, ["[0] 0 1 1"])


def test_a_job_inside_a_job():
    status, out, err = run("-np", "2", RUEDARUN, "-np", "2", "/bin/sh", "-c", "echo $RUEDA_RANK of $RUEDA_SIZE")
    assert status == 0, err
    assert sorted(out) == [f"[{outer}] [{inner}] {inner} of 2" for outer in (0, 1) for inner in (0, 1)]
