# SPDX-License-Identifier: Apache-2.0
"""The steps of a check, in the order of their worth. Each takes a Context and the seconds that it may run."""

from __future__ import annotations

import json
import shutil
import socket
import sysconfig
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from machine import BUNDLE, Failed, LeftOut, Machine, last_words
from record import Record

MANY_ON_ONE = {"NCCL_MULTI_RANK_GPU_ENABLE": "1"}  # NCCL's own word for several ranks on one GPU


@dataclass
class Context:
    machine: Machine
    record: Record
    step: str = ""

    def figure(self, name: str, value: float, unit: str, **more: object) -> None:
        self.record.figure(self.step, name, value, unit, **more)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Step:
    name: str
    seconds: float  # its own limit
    run: Callable[[Context, float], None]


def conformance_of(ranks: int, more: dict[str, str]) -> Callable[[Context, float], None]:
    def run(context: Context, seconds: float) -> None:
        machine = context.machine
        output = machine.must(*machine.ranks(ranks, machine.program("device_conformance")), seconds=seconds, more={"RUEDA_LOG_LEVEL": "info", **more})
        if more and "NCCL" not in output:
            raise Failed(f"{ranks} ranks passed, but not by NCCL: {last_words(output)}")

    return run


def pack(context: Context, seconds: float) -> None:
    machine, end = context.machine, time.monotonic() + seconds
    for size in ("4K", "64K", "1M", "16M", "64M"):
        results = machine.scratch / f"pack-{size}.json"
        machine.must(*machine.ranks(1, machine.program("rueda-bench"), "pack", "--device", "cuda", "--count", 160, "--bytes", bytes_of(size),
                                    "--steps", 30, "--warmup", 5, "--json", results), seconds=end - time.monotonic())
        for row in json.loads(results.read_text()):
            goal = {"goal": ">= 0.90 of a copy", "met": row["share"] >= 0.9} if bytes_of(size) >= 1 << 20 else {}
            context.figure(f"{row['what']}, 160 x {size}", row["median_us"], "us", beside=("copy", row["copy_median_us"]), **goal)


def bytes_of(size: str) -> int:
    return int(size.rstrip("KM")) * {"K": 1 << 10, "M": 1 << 20}.get(size[-1], 1)


def allreduce(context: Context, seconds: float) -> None:
    machine, end = context.machine, time.monotonic() + seconds
    for ranks, memory in ((1, "ordinary"), (2, "ordinary"), (2, "window")):
        results = machine.scratch / f"allreduce-{ranks}-{memory}.json"
        machine.must(*machine.ranks(ranks, machine.program("rueda-bench"), "allreduce", "--device", "cuda", "--against", "nccl", "--memory", memory,
                                    "--sizes", "4,4K,64K,1M,16M,64M,256M", "--steps", 200, "--warmup", 20, "--json", results),
                     seconds=end - time.monotonic(), more=MANY_ON_ONE)
        for row in json.loads(results.read_text()):
            theirs = row["against"]["median_us"]
            if row["wrong"]:
                raise Failed(f"{row['wrong']} elements of {row['bytes']} bytes are wrong on {ranks} ranks")
            met = row["against"]["ratio"] >= 0.98 if row["bytes"] >= 16 << 20 else row["median_us"] - theirs <= 10
            goal = ">= 0.98 of NCCL's speed" if row["bytes"] >= 16 << 20 else "NCCL's time + 10 us"
            context.figure(f"allreduce, {ranks} ranks, {memory}, {row['bytes']} B", row["median_us"], "us", beside=("NCCL", theirs), goal=goal, met=met)


def train(context: Context, seconds: float, name: str, *flags: object, ranks: int = 1, more: dict[str, str] | None = None) -> dict[str, object]:
    """The summary of a run of train_bert."""
    machine = context.machine
    output = machine.scratch / name
    words = machine.ranks(ranks, machine.program("train_bert"), "--output", output, "--cache", machine.scratch / "cache", "--save", "no", *flags)
    machine.must(*words, seconds=seconds, more=more)
    return json.loads((output / "summary.json").read_text())


def learns(context: Context, seconds: float) -> None:
    """F1 on the sample after 400 steps, beside the host's."""
    flags = ("--steps", 400, "--eval-first", "no")
    with ThreadPoolExecutor() as both:
        found = list(both.map(lambda device: train(context, seconds, f"learns-{device}", *flags, "--device", device), ("cuda", "cpu")))
    scores = [float(dict(summary)["f1"]) for summary in found]  # type: ignore[arg-type]
    context.figure("F1 after 400 steps", scores[0], "%", beside=("cpu", scores[1]), goal="within 10 of the cpu's", met=abs(scores[0] - scores[1]) <= 10)


def sharded(context: Context, seconds: float) -> None:
    flags = ("--steps", 30, "--eval-first", "no", "--dropout", 0, "--shard", "yes")
    losses = [float(train(context, seconds / 2, f"sharded-{device}", *flags, "--device", device, ranks=2)["loss_last"])  # type: ignore[arg-type]
              for device in ("cuda", "cpu")]
    context.figure("loss after 30 steps, 2 ranks, --shard yes", losses[0], "", beside=("cpu", losses[1]), goal="within 1 %",
                   met=abs(losses[0] - losses[1]) <= 0.01 * losses[1])


def checkpoint(context: Context, layers: int, hidden: int, seconds: float) -> Path:
    folder = context.machine.scratch / f"bert-{layers}-{hidden}"
    if not folder.exists():
        context.machine.must("python3", BUNDLE / "checkpoint.py", folder, layers, hidden, seconds=seconds)
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
            theirs = plain(context, model, kind, ranks, end - time.monotonic())
            context.figure(f"train_bert, {kind}, {ranks} ranks", ours[0], "samples/s", beside=("plain torch", theirs))
            context.figure(f"the same, of --sync never, {kind}, {ranks} ranks", ours[0] / ours[1], "", goal=">= 0.95", met=ours[0] >= 0.95 * ours[1])


def samples(summary: dict[str, object]) -> float:
    return float(summary["samples_per_s"])  # type: ignore[arg-type]


def plain(context: Context, model: Path, kind: str, ranks: int, seconds: float) -> float:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with ThreadPoolExecutor() as all_ranks:
        outputs = list(all_ranks.map(lambda rank: context.machine.must("python3", BUNDLE / "plain_bert.py", model, 16, 384, 40, kind, port, rank, ranks,
                                                                        seconds=seconds), range(ranks)))
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
    context.figure("host waits in a step of train_bert", (counts[1] - counts[0]) / 20, "", goal="0", met=counts[1] == counts[0])


def sanitizer(tool: str, program: str, *flags: object) -> Callable[[Context, float], None]:
    def run(context: Context, seconds: float) -> None:
        machine = context.machine
        found = shutil.which("compute-sanitizer")
        if not found:
            raise LeftOut("compute-sanitizer is not on the PATH")
        output = machine.must(*machine.ranks(1, found, "--tool", tool, "--error-exitcode", 9, machine.program(program), *flags), seconds=seconds)
        if "ERROR SUMMARY: 0 errors" not in output and "0 hazards displayed" not in output:
            raise Failed(f"compute-sanitizer has not said that there are no errors: {last_words(output)}")

    return run


def compile_modules(machine: Machine, seconds: float) -> None:
    """rueda._core and rueda._torch for this machine's Python, into the bundle's folder python."""
    if not machine.torch:
        raise LeftOut("this machine's python3 has no torch")
    source, package = BUNDLE / "source", BUNDLE / "python" / "rueda"
    if shutil.which("g++") is None:
        raise LeftOut("there is no g++ to compile the Python modules")
    if not package.exists():
        shutil.copytree(source / "python" / "rueda", package, ignore=shutil.ignore_patterns("*.so"))
    build = (package / "_build.py").read_text()
    (package / "_build.py").write_text("\n".join(line if not line.startswith("RUEDARUN") else f'RUEDARUN = "{BUNDLE}/bin/ruedarun"' for line in build.splitlines()) + "\n")
    suffix, objects = sysconfig.get_config_var("EXT_SUFFIX"), machine.scratch
    includes = [f"-I{source}", f"-I{source}/include", f"-isystem{sysconfig.get_path('include')}", f"-isystem{machine.torch}/include",
                f"-isystem{machine.torch}/include/torch/csrc/api/include"]
    options = ["-std=c++20", "-O1", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off", "-DFMT_HEADER_ONLY=1", "-DRUEDA_PYTHON_MPI=1"]
    modules = {name: files for name, *files in (line.split() for line in (source / "python" / "modules.txt").read_text().splitlines())}

    def compile_one(file: str) -> None:
        machine.must("g++", *options, *includes, "-c", source / "python" / "src" / file, "-o", objects / f"{file}.o", seconds=seconds)

    with ThreadPoolExecutor() as cores:
        list(cores.map(compile_one, sorted({file for files in modules.values() for file in files})))
    libraries = [BUNDLE / "lib" / "librueda.so.0"]
    of_torch = [BUNDLE / "lib" / "librueda_torch.so.0", *(machine.torch / "lib" / f"lib{name}.so" for name in ("torch_python", "torch_cpu", "c10"))]
    for name, files in modules.items():
        machine.must("g++", "-shared", *(objects / f"{file}.o" for file in files), *libraries, *(of_torch if name == "_torch" else ()), "-o",
                     package / f"{name}{suffix}", seconds=seconds)


def python(context: Context, seconds: float) -> None:
    machine, end = context.machine, time.monotonic() + seconds
    compile_modules(machine, seconds)
    context.figure("the Python modules compiled in", seconds - (end - time.monotonic()), "s")
    for ranks in (1, 2):
        machine.must(*machine.ranks(ranks, "python3", BUNDLE / "device_training.py"), seconds=end - time.monotonic())
    machine.must(*machine.ranks(2, "python3", BUNDLE / "04_python" / "mnist.py"), seconds=end - time.monotonic())


def graph(context: Context, seconds: float) -> None:
    machine, end = context.machine, time.monotonic() + seconds
    if not (BUNDLE / "python").exists():
        raise LeftOut("the Python modules are not compiled: the step python does that")
    for ranks in (1, 2):
        output = machine.must(*machine.ranks(ranks, "python3", BUNDLE / "graph_allreduce.py"), seconds=end - time.monotonic(), more=MANY_ON_ONE)
        for size, captured, plain_time in (line.split() for line in output.splitlines() if len(line.split()) == 3 and line.split()[0].isdigit()):
            context.figure(f"allreduce in a graph, {ranks} ranks, {size} B", float(captured), "us", beside=("as it is", float(plain_time)))


STEPS = (
    Step("conformance.1", 60, conformance_of(1, {})),
    Step("conformance.2.host", 60, conformance_of(2, {})),
    Step("conformance.2.nccl", 60, conformance_of(2, MANY_ON_ONE)),
    Step("memcheck", 90, sanitizer("memcheck", "device_conformance")),
    Step("racecheck", 60, sanitizer("racecheck", "rueda-bench", "pack", "--device", "cuda", "--count", "8", "--bytes", "4096", "--steps", "2", "--warmup", "1")),
    Step("pack", 60, pack),
    Step("allreduce", 90, allreduce),
    Step("host_waits", 60, host_waits),
    Step("learns", 90, learns),
    Step("speed", 150, speed),
    Step("python", 150, python),
    Step("graph", 60, graph),
    Step("sharded", 60, sharded),
)

