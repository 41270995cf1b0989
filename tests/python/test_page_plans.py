# SPDX-License-Identifier: Apache-2.0
"""The Plans and GPUs that ruedarun --status, /metrics and the page's JSON tell of real jobs."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

BIN = Path(os.environ["RUEDA_BIN"])
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in ("PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE")}
LOOP = """
import sys, time, torch
import rueda.torch as hvd
hvd.init()
gradients = [torch.ones(1 << 16) for _ in range(4)]
window = hvd.empty(1 << 16)
for step in range(int(sys.argv[1])):
    handles = hvd.grouped_allreduce_async(gradients, name="group")
    hvd.synchronize(handles)
    hvd.allreduce_(window, name="window")
    hvd.allreduce(torch.ones(1), name="loss")
    hvd.broadcast(torch.ones(1 << 16), 0, name="parameters")
    hvd.allgather(torch.ones(1 << 12), name="outputs")
    time.sleep(0.002)
"""
NARROW = """
import time, torch
import rueda.torch as hvd
hvd.init()
layer = torch.nn.Linear(512, 512, bias=False)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(layer.parameters(), lr=0.1), named_parameters=layer.named_parameters(),
                                     compression=hvd.Compression.fp16)
while True:
    optimizer.zero_grad()
    layer(torch.ones(1, 512)).sum().backward()
    optimizer.step()
    hvd.allreduce(torch.ones(1), name="loss")
"""


@pytest.fixture(name="folder", autouse=True)
def own_folder(tmp_path):
    """Jobs of this test alone are known to its --status."""
    tmp_path.chmod(0o700)
    ENVIRONMENT["XDG_RUNTIME_DIR"] = str(tmp_path)
    (tmp_path / "loop.py").write_text(LOOP)
    return tmp_path


@contextlib.contextmanager
def job(*words, **environment):
    process = subprocess.Popen([BIN / "ruedarun", *map(str, words)], env={**ENVIRONMENT, **environment}, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=20)
        process.kill()
        process.communicate()


def status(*words):
    return subprocess.run([BIN / "ruedarun", "--status", *map(str, words)], env=ENVIRONMENT, capture_output=True, text=True, timeout=60)


def plan_of(process, wanted, seconds=60):
    """The plan in the job's status, once `wanted` says so."""
    plan, until = None, time.monotonic() + seconds
    while time.monotonic() < until:
        assert process.poll() is None, process.communicate()
        told = status("--json")
        plan = json.loads(told.stdout)["update"].get("plan") if told.returncode == 0 and told.stdout.strip() else None
        if plan and wanted(plan):
            return plan
        time.sleep(0.2)
    raise AssertionError(plan)


def routes_of(plan):
    return {(route["operation"], route["size"]): route for route in plan["routes"]}


def test_each_operation_has_its_route_and_counts(folder):
    with job("-np", 2, sys.executable, folder / "loop.py", 100000, RUEDA_CYCLE_TIME="2.5") as process:
        plan = plan_of(process, lambda plan: any(route["plans"] > 200 for route in plan["routes"]))
        routes = routes_of(plan)
        assert routes["allreduce", "4 B"]["route"] == "shared memory, one-shot", plan
        gradients = routes["allreduce", "1 MiB"]
        assert gradients["route"] == "shared memory, staged" and gradients["tensors"] == 4 * gradients["plans"], plan
        assert gradients["bytes"] == gradients["plans"] << 20 and gradients["ranks"] == 2
        assert 0 < gradients["fastest_us"] <= gradients["mean_us"] < 1e6
        assert "predicted_us" not in gradients, "there is no model of shared memory"
        assert routes["allreduce", "256 KiB"]["route"] == "shared memory, in place", plan
        assert routes["broadcast", "256 KiB"]["route"] == "shared memory, staged" and routes["allgather", "16 KiB"]["plans"] > 100, plan
        assert abs(sum(route["share"] for route in plan["routes"]) - 1) < 0.01
        assert plan["settings"]["cycle_ms"] == 2.5 and plan["settings"]["fusion_threshold"] == 64 << 20 and not plan["settings"]["is_tuned"]
        later = routes_of(plan_of(process, lambda later: routes_of(later)["allreduce", "1 MiB"]["plans"] > gradients["plans"]))
        assert later["allreduce", "1 MiB"]["plans"] > gradients["plans"]
        text = status().stdout
        assert "fusion up to 67108864 bytes, cycle 2.5 ms, chunks of 262144 bytes; not tuned" in text, text
        assert re.search(r"^allreduce float32 +<= 1 MiB +shared memory, staged +\d+ +4\.0 +[0-9.]+ [um]s +- +\d+ %$", text, re.M), text


def test_without_shared_memory_messages_are_named(folder):
    with job("--virtual-hosts", 2, "-np", 2, sys.executable, folder / "loop.py", 100000) as process:
        time.sleep(2)
        if process.poll() == 77:
            pytest.skip(process.communicate()[1])
        plan = plan_of(process, lambda plan: any(route["plans"] > 100 for route in plan["routes"]))
        routes = routes_of(plan)
        short, long = routes["allreduce", "4 B"], routes["allreduce", "1 MiB"]
        assert short["route"] == "TCP, recursive doubling" and long["route"] == "TCP, ring", plan
        assert routes["broadcast", "256 KiB"]["route"] == "TCP, tree"
        for route in (short, long):
            assert 0 < route["predicted_us"] < 1e6, "costs were measured at the start"
        assert "predicted_us" not in routes["broadcast", "256 KiB"], "the model is of allreduces"
        assert re.search(r"TCP, ring .* [0-9.]+ [um]s +[0-9.]+ [um]s ", status().stdout)


def test_hosts_in_pairs_go_through_their_memory_and_compression_is_named(folder):
    script = folder / "narrow.py"
    script.write_text(NARROW)
    with job("--virtual-hosts", 2, "-np", 4, sys.executable, script, 100000) as process:
        time.sleep(2)
        if process.poll() == 77:
            pytest.skip(process.communicate()[1])
        plan = plan_of(process, lambda plan: any(route["plans"] > 100 for route in plan["routes"])
                       and any(route["size"] == "1 MiB" and route.get("predicted_us", 0) > 0 for route in plan["routes"]))  # rank 0 knows the costs
        routes = routes_of(plan)
        long = [route for route in plan["routes"] if route["operation"] == "allreduce" and route["size"] == "1 MiB"]
        assert {route["route"] for route in long} <= {"shared memory, staged and TCP, ring", "shared memory, in place and TCP, ring"}, "hosts may differ"
        assert all(route["sent_as"] == "fp16" for route in long) and sum(route["ranks"] for route in long) >= 4, plan
        assert routes["allreduce", "4 B"]["sent_as"] == "none"


def test_the_tuner_tells_of_its_search(folder):
    with job("--autotune", "-np", 2, sys.executable, folder / "loop.py", 100000) as process:
        plan = plan_of(process, lambda plan: plan.get("settings", {}).get("tuner_samples", 0) > 2, 90)
        assert plan["settings"]["is_tuned"]
        assert "; tuned, " in status().stdout


def test_gpus_by_nvml(folder):
    fake = BIN.parent / "fakes" / "nvml"
    assert (fake / "libnvidia-ml.so.1").exists()
    with job("--page", 0, "-np", 1, "sleep", 60, LD_LIBRARY_PATH=str(fake)) as process:
        process.stderr.readline()
        until, gpus = time.monotonic() + 30, []
        while not gpus and time.monotonic() < until:
            told = status("--json").stdout
            gpus = json.loads(told)["update"]["hosts"][0]["gpus"] if told.strip() and json.loads(told)["update"]["hosts"] else []
            time.sleep(0.2)
        assert gpus[0]["name"] == "Fake H200" and 0.4 <= gpus[0]["busy"] < 1 and gpus[0]["celsius"] == 54, gpus
        assert gpus[1] == {"name": "Fake MIG", "memory_bytes": 10 << 30, "memory_used": 1 << 30}, "it knows no more"
        text = status().stdout
        assert re.search(r"^\S+, GPU 0 \(Fake H200\): 20\.0 of 80\.0 GiB, \d+ % busy, 54 degrees Celsius$", text, re.M), text
        assert "GPU 1 (Fake MIG): 1.0 of 10.0 GiB\n" in text
    with job("-np", 1, "sleep", 60) as process:
        time.sleep(1.5)
        assert json.loads(status("--json").stdout)["update"]["hosts"][0]["gpus"] == []
