# SPDX-License-Identifier: Apache-2.0
"""The steps of a check, in the order of their worth. Each takes a Context and the seconds that it may run."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import socket
import sysconfig
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from machine import BUNDLE, Done, Failed, LeftOut, Machine, last_words
from record import Record

MANY_ON_ONE = {"NCCL_MULTI_RANK_GPU_ENABLE": "1"}  # NCCL's own word for several ranks on one GPU


@dataclass
class Context:
    machine: Machine
    record: Record
    step: str = ""

    def figure(self, name: str, value: float, unit: str, **more: object) -> None:
        self.record.figure(self.step, name, value, unit, **more)  # type: ignore[arg-type]

    def must_meet(self, name: str, value: float, unit: str, *, goal: str, met: bool, **more: object) -> None:
        """A figure that is wrong, not slow, where it misses its goal. Throws Failed."""
        self.figure(name, value, unit, goal=goal, met=met, **more)
        if not met:
            raise Failed(f"{name} is {value:.6g}; the goal is {goal}")


@dataclass(frozen=True)
class Step:
    name: str
    seconds: float  # its own limit
    run: Callable[[Context, float], None]
    of_torch: bool = False  # its programs use torch


def conformance(ranks: int) -> Callable[[Context, float], None]:
    def run(context: Context, seconds: float) -> None:
        machine = context.machine
        machine.must(*machine.ranks(ranks, machine.program("device_conformance")), seconds=seconds)

    return run


def conformance_by_nccl(context: Context, seconds: float) -> None:
    """Two ranks on one GPU, where this NCCL allows it; else later steps know that it does not."""
    machine = context.machine
    machine.one_rank_only = "two ranks by NCCL have not passed the conformance"
    done = machine.run(*machine.ranks(2, machine.program("device_conformance")), seconds=seconds, more={**MANY_ON_ONE, "NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT"})
    refusal = refused_by_nccl(done)
    if refusal:
        machine.one_rank_only = refusal
        raise LeftOut(refusal)
    if done.status != 0:
        raise Failed(f"device_conformance: status {done.status}: {last_words(done.output)}")
    if not re.search(r"nranks 2\b.*Init COMPLETE", done.output):
        raise Failed(f"2 ranks passed, but NCCL has not said that it connected them: {last_words(done.output)}")
    if "no graph is captured" in done.output:
        raise Failed(f"2 ranks passed by NCCL, but not in a graph: {last_words(done.output)}")
    machine.one_rank_only = ""


def refused_by_nccl(done: Done) -> str:
    """Why NCCL has not connected two ranks on one GPU, from the words of the programs; empty where it has not refused."""
    found = re.search(r"(Duplicate GPU detected.*|go by way of the host, not by NCCL: .*)", done.output)
    return f"this NCCL does not take two ranks on one GPU: {found[1].strip()}" if found else ""


def rows_of(results: Path) -> list[dict[str, Any]]:
    """What rueda-bench has measured."""
    rows = json.loads(results.read_text())
    if not rows:
        raise Failed(f"{results.name} has no rows: nothing was measured")
    return rows


def pack(context: Context, seconds: float) -> None:
    machine, end = context.machine, time.monotonic() + seconds
    for size in ("4K", "64K", "1M", "16M", "64M"):
        results = machine.scratch / f"pack-{size}.json"
        machine.must(*machine.ranks(1, machine.program("rueda-bench"), "pack", "--device", "cuda", "--count", 160, "--bytes", bytes_of(size),
                                    "--steps", 30, "--warmup", 5, "--json", results), seconds=end - time.monotonic())
        for row in rows_of(results):
            goal = {"goal": ">= 0.90 of a copy", "met": row["share"] >= 0.9} if bytes_of(size) >= 1 << 20 else {}
            context.figure(f"{row['what']}, 160 x {size}", row["median_us"], "us", beside=("copy", row["copy_median_us"]), **goal)


def bytes_of(size: str) -> int:
    return int(size.rstrip("KM")) * {"K": 1 << 10, "M": 1 << 20}.get(size[-1], 1)


def allreduce(context: Context, seconds: float) -> None:
    end, faults = time.monotonic() + seconds, []
    for ranks in (1, 2):
        if ranks > 1 and context.machine.one_rank_only:
            continue
        try:
            allreduce_beside_nccl(context, end - time.monotonic(), ranks)
        except Failed as error:  # the others may tell more
            faults.append(f"{ranks} ranks: {error}")
    if faults:
        raise Failed("; ".join(faults))
    if context.machine.one_rank_only:
        raise LeftOut(f"two ranks: {context.machine.one_rank_only}")


def allreduce_beside_nccl(context: Context, seconds: float, ranks: int) -> None:
    machine = context.machine
    results = machine.scratch / f"allreduce-{ranks}.json"
    machine.must(*machine.ranks(ranks, machine.program("rueda-bench"), "allreduce", "--device", "cuda", "--against", "nccl",
                                "--sizes", "4,4K,64K,1M,16M,64M,256M", "--steps", 200, "--warmup", 20, "--json", results), seconds=seconds, more=MANY_ON_ONE)
    for row in rows_of(results):
        theirs = row["against"]["median_us"]
        if row["wrong"]:
            raise Failed(f"{row['wrong']} elements of {row['bytes']} bytes are wrong")
        large = row["bytes"] >= 16 << 20
        met = row["against"]["ratio"] >= 0.98 if large else row["median_us"] - theirs <= 10
        context.figure(f"allreduce, {ranks} ranks, {row['bytes']} B", row["median_us"], "us", beside=("NCCL", theirs),
                       goal=">= 0.98 of NCCL's speed" if large else "NCCL's time + 10 us", met=met)


def train(context: Context, seconds: float, name: str, *flags: object, ranks: int = 1, more: dict[str, str] | None = None) -> dict[str, object]:
    """The summary of a run of train_bert."""
    machine = context.machine
    output = machine.scratch / name
    words = machine.ranks(ranks, machine.program("train_bert"), "--output", output, "--save", "no", *flags)
    machine.must(*words, seconds=seconds, more=more)
    return json.loads((output / "summary.json").read_text())


def learns(context: Context, seconds: float) -> None:
    """F1 on the sample after 400 steps, beside the host's."""
    flags = ("--steps", 400, "--eval-first", "no")
    with ThreadPoolExecutor() as both:
        found = list(both.map(lambda device: train(context, seconds, f"learns-{device}", *flags, "--device", device), ("cuda", "cpu")))
    scores = [float(summary["f1"]) for summary in found]  # type: ignore[arg-type]
    if scores[1] < 20:
        raise Failed(f"F1 is {scores[1]} on the host: it has learned nothing, so the device's {scores[0]} says nothing")
    context.must_meet("F1 after 400 steps", scores[0], "%", beside=("cpu", scores[1]), goal="within 10 of the cpu's", met=abs(scores[0] - scores[1]) <= 10)


def sharded(context: Context, seconds: float) -> None:
    """A ShardedModel, then train_bert with a ShardedOptimizer."""
    machine, end = context.machine, time.monotonic() + seconds
    for ranks in (1, 2):
        output = machine.must(*machine.ranks(ranks, machine.program("device_sharding")), seconds=end - time.monotonic())
        apart = [float(words[1]) for words in map(str.split, output.splitlines()) if words[:1] == ["apart"]]
        if len(apart) != ranks:
            raise Failed(f"{len(apart)} of {ranks} ranks have said how far apart losses are: {last_words(output)}")
        context.must_meet(f"a loss of a ShardedModel, {ranks} ranks, is off the cpu's by", max(apart), "", goal="<= 1e-6 of it", met=all(each <= 1e-6 for each in apart))
    flags = ("--steps", 30, "--eval-first", "no", "--dropout", 0, "--shard", "yes")
    losses = [float(train(context, end - time.monotonic(), f"sharded-{device}", *flags, "--device", device, ranks=2)["loss_last"])  # type: ignore[arg-type]
              for device in ("cuda", "cpu")]
    context.must_meet("loss after 30 steps, 2 ranks, --shard yes", losses[0], "", beside=("cpu", losses[1]), goal="within 1 %",
                      met=abs(losses[0] - losses[1]) <= 0.01 * losses[1])


def checkpoint(context: Context, layers: int, hidden: int, seconds: float) -> Path:
    folder = context.machine.scratch / f"bert-{layers}-{hidden}"
    if not folder.exists():
        context.machine.must(*context.machine.python(BUNDLE / "checkpoint.py", folder, layers, hidden), seconds=seconds)
    return folder


def speed(context: Context, seconds: float) -> None:
    """Samples a second, alone and on two ranks that share the GPU, beside plain torch."""
    end = time.monotonic() + seconds
    model = checkpoint(context, 12, 768, seconds)
    shape = ("--model", model, "--dummy", "yes", "--batch", 16, "--max-length", 384, "--stride", 64, "--device", "cuda", "--eval-first", "no")
    for kind in ("float32", "bf16"):
        flags = (*shape, "--steps", 40, *(("--autocast", "bf16") if kind == "bf16" else ()))
        for ranks in (1, 2):
            ours = [samples(train(context, end - time.monotonic(), f"speed-{kind}-{ranks}-{sync}", *flags, "--sync", sync, ranks=ranks))
                    for sync in ("every_step", "never")]
            theirs = plain(context, model, kind, ranks, end - time.monotonic()) if has_transformers() else None
            context.figure(f"train_bert, {kind}, {ranks} ranks", ours[0], "samples/s", beside=theirs and ("plain torch", theirs))
            context.figure(f"the same, of --sync never, {kind}, {ranks} ranks", ours[0] / ours[1], "", goal=">= 0.95", met=ours[0] >= 0.95 * ours[1])
    if not has_transformers():
        raise LeftOut("plain torch: this machine's python3 has no transformers")


def has_transformers() -> bool:
    return importlib.util.find_spec("transformers") is not None


def samples(summary: dict[str, object]) -> float:
    """A second, in the middle step: the first also starts CUDA, and plain torch's is not counted."""
    return 1000 * float(summary["samples_per_step"]) / float(summary["step_ms"])  # type: ignore[arg-type]


def plain(context: Context, model: Path, kind: str, ranks: int, seconds: float) -> float:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with ThreadPoolExecutor() as all_ranks:
        outputs = list(all_ranks.map(lambda rank: context.machine.must(
            *context.machine.python(BUNDLE / "plain_bert.py", model, 16, 384, 40, kind, port, rank, ranks), seconds=seconds), range(ranks)))
    return min(float(line.split()[1]) for output in outputs for line in output.splitlines() if line.startswith("samples_per_s"))


def host_waits(context: Context, seconds: float) -> None:
    """Calls in which the host waits for the device: those of 20 more steps."""
    counts = []
    for steps in (20, 40):
        name = f"waits-{steps}"
        file = context.machine.scratch / f"{name}.json"
        train(context, seconds / 2, name, "--dummy", "yes", "--steps", steps, "--device", "cuda", "--eval-first", "no",
              more={"CUDA_INJECTION64_PATH": str(BUNDLE / "lib/libhost_waits.so"), "RUEDA_HOST_WAITS": str(file)})
        written = list(file.parent.glob(f"{file.name}.*"))
        if not written:
            raise Failed("CUDA did not load libhost_waits.so, or it could not subscribe to CUPTI")
        counts.append(sum(sum(json.loads(each.read_text()).values()) for each in written))
        if counts[-1] == 0:
            raise Failed("CUPTI has counted no call in which the host waits; a whole run has some, so it counts nothing")
    context.must_meet("host waits in a step of train_bert", (counts[1] - counts[0]) / 20, "", goal="0", met=counts[1] == counts[0])


def sanitizer(tool: str, program: str, *flags: object) -> Callable[[Context, float], None]:
    def run(context: Context, seconds: float) -> None:
        machine = context.machine
        found = shutil.which("compute-sanitizer", path=f"{os.environ.get('PATH', os.defpath)}:/usr/local/cuda/bin")
        if not found:
            raise LeftOut("compute-sanitizer is neither on the PATH nor in /usr/local/cuda/bin")
        done = machine.run(*machine.ranks(1, found, "--tool", tool, "--error-exitcode", 9, machine.program(program), *flags), seconds=seconds)
        output = done.output
        if "Device not supported" in output:
            raise LeftOut(f"compute-sanitizer does not work on this machine: {last_words(output)}")
        if done.status != 0:
            raise Failed(f"compute-sanitizer --tool {tool}: status {done.status}: {last_words(output)}")
        if "ERROR SUMMARY: 0 errors" not in output and "0 hazards displayed" not in output:
            raise Failed(f"compute-sanitizer has not said that there are no errors: {last_words(output)}")

    return run


def compile_modules(machine: Machine, seconds: float) -> None:
    """rueda._core and rueda._torch for this machine's Python, into the bundle's folder python."""
    end = time.monotonic() + seconds
    source, package = BUNDLE / "source", BUNDLE / "python" / "rueda"
    if shutil.which("g++") is None:
        raise LeftOut("there is no g++ to compile the Python modules")
    if not package.exists():
        shutil.copytree(source / "python" / "rueda", package, ignore=shutil.ignore_patterns("*.so"))
        shutil.copytree(source / "python" / "rueda_backend", BUNDLE / "python" / "rueda_backend")
    build = (package / "_build.py").read_text()
    (package / "_build.py").write_text("\n".join(line if not line.startswith("RUEDARUN") else f"RUEDARUN = {str(BUNDLE / 'bin' / 'ruedarun')!r}" for line in build.splitlines()) + "\n")
    suffix, objects = sysconfig.get_config_var("EXT_SUFFIX"), machine.scratch
    includes = [f"-I{source}", f"-I{source}/include", f"-isystem{sysconfig.get_path('include')}", f"-isystem{machine.torch}/include",
                f"-isystem{machine.torch}/include/torch/csrc/api/include"]
    options = ["-std=c++20", "-O1", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off", "-DFMT_HEADER_ONLY=1", "-DRUEDA_PYTHON_MPI=1"]
    modules = {name: files for name, *files in (line.split() for line in (source / "python" / "modules.txt").read_text().splitlines())}

    def compile_one(file: str) -> None:
        machine.must("g++", *options, *includes, "-c", source / "python" / "src" / file, "-o", objects / f"{file}.o", seconds=end - time.monotonic())

    with ThreadPoolExecutor() as cores:
        list(cores.map(compile_one, sorted({file for files in modules.values() for file in files})))
    libraries = [BUNDLE / "lib" / "librueda.so.0"]
    of_torch = [BUNDLE / "lib" / "librueda_torch.so.0", *(machine.torch / "lib" / f"lib{name}.so" for name in ("torch_python", "torch_cpu", "c10"))]
    for name, files in modules.items():
        machine.must("g++", "-shared", *(objects / f"{file}.o" for file in files), *libraries, *(of_torch if name == "_torch" else ()), "-o",
                     package / f"{name}{suffix}", seconds=end - time.monotonic())


def python(context: Context, seconds: float) -> None:
    machine, end = context.machine, time.monotonic() + seconds
    compile_modules(machine, seconds)
    context.figure("the Python modules compiled in", seconds - (end - time.monotonic()), "s")
    for ranks in (1, 2):
        machine.must(*machine.ranks(ranks, *machine.python(BUNDLE / "device_training.py")), seconds=end - time.monotonic())
    machine.must(*machine.ranks(2, *machine.python(BUNDLE / "03_python" / "mnist.py")), seconds=end - time.monotonic())


def need_modules() -> None:
    if not list((BUNDLE / "python" / "rueda").glob("_torch*.so")):
        raise LeftOut("the Python modules are not compiled: the step python does that")


def groups(context: Context, seconds: float) -> None:
    """torch.distributed over Rueda: one rank; two by the host, and by NCCL where it allows them on one GPU."""
    machine, end = context.machine, time.monotonic() + seconds
    need_modules()
    ways: list[tuple[int, dict[str, str]]] = [(1, {}), (2, {})]
    if not machine.one_rank_only:
        ways.append((2, MANY_ON_ONE))
    for ranks, more in ways:
        output = machine.must(*machine.ranks(ranks, *machine.python(BUNDLE / "device_groups.py")), seconds=end - time.monotonic(), more=more)
        if output.count("as on the host") != ranks:
            raise Failed(f"device_groups.py has not said on {ranks} ranks that all is as on the host: {last_words(output)}")
    if machine.one_rank_only:
        raise LeftOut(f"two ranks by NCCL: {machine.one_rank_only}")


def window(context: Context, seconds: float) -> None:
    """A training step whose gradients lie in a device window."""
    machine, end = context.machine, time.monotonic() + seconds
    need_modules()
    for ranks in (1,) if machine.one_rank_only else (1, 2):
        output = machine.must(*machine.ranks(ranks, *machine.python(BUNDLE / "window_training.py")), seconds=end - time.monotonic(), more=MANY_ON_ONE)
        found = [words for words in map(str.split, output.splitlines()) if len(words) == 3 and words[0].replace(".", "").isdigit()]
        if len(found) != 1:
            raise Failed(f"window_training.py has not said its three numbers once: {last_words(output)}")
        with_window, without, apart = map(float, found[0])
        context.figure(f"a step with device_window, {ranks} ranks", with_window, "us", beside=("without", without))
        context.must_meet(f"parameters with device_window, {ranks} ranks, are off by", apart, "", goal="<= 1e-5", met=apart <= 1e-5)
    if machine.one_rank_only:
        raise LeftOut(f"two ranks: {machine.one_rank_only}")


def graph(context: Context, seconds: float) -> None:
    machine, end = context.machine, time.monotonic() + seconds
    need_modules()
    for ranks in (1,) if machine.one_rank_only else (1, 2):
        output = machine.must(*machine.ranks(ranks, *machine.python(BUNDLE / "graph_allreduce.py")), seconds=end - time.monotonic(), more=MANY_ON_ONE)
        found = [words for words in map(str.split, output.splitlines()) if len(words) == 3 and words[0].isdigit()]
        if not found:
            raise Failed(f"graph_allreduce.py has measured nothing: {last_words(output)}")
        for size, captured, plain_time in found:
            context.figure(f"allreduce in a graph, {ranks} ranks, {size} B", float(captured), "us", beside=("as it is", float(plain_time)))
    if machine.one_rank_only:
        raise LeftOut(f"two ranks: {machine.one_rank_only}")


STEPS = (
    Step("conformance.1", 60, conformance(1)),
    Step("conformance.2.host", 60, conformance(2)),
    Step("conformance.2.nccl", 60, conformance_by_nccl),
    Step("memcheck", 90, sanitizer("memcheck", "device_conformance")),
    Step("racecheck", 60, sanitizer("racecheck", "rueda-bench", "pack", "--device", "cuda", "--count", "8", "--bytes", "4096", "--steps", "2", "--warmup", "1")),
    Step("pack", 60, pack),
    Step("allreduce", 90, allreduce),
    Step("host_waits", 60, host_waits, of_torch=True),
    Step("learns", 90, learns, of_torch=True),
    Step("speed", 150, speed, of_torch=True),
    Step("python", 150, python, of_torch=True),
    Step("groups", 90, groups, of_torch=True),
    Step("graph", 60, graph, of_torch=True),
    Step("window", 60, window, of_torch=True),
    Step("sharded", 60, sharded, of_torch=True),
)

