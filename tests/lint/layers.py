# SPDX-License-Identifier: Apache-2.0
"""Who may include whom: core/base <- core/control <- core/engine <- core/rueda.h <- ops <- frameworks <- python, examples."""

import re
from pathlib import PurePosixPath

from sources import CPP, Problem, includes

# Folder of the file -> folders and files whose headers it may include. The longest folder that fits counts.
CORE_ENGINE = ["core/base", "core/control", "core/observe", "core/engine", "core/rueda_version.h"]
UP_TO_FRAMEWORKS = ["core", "ops", "frameworks", "include", "rueda"]
LAYERS = {
    "core/base": ["core/base"],
    "core/control": ["core/base", "core/control"],
    "core/observe": ["core/base", "core/control", "core/observe"],
    "core/engine": CORE_ENGINE,
    "core": ["core"],
    "ops": ["core", "ops"],
    "ops/kernels": ["core/base", "ops/kernels"],
    "launcher": ["core/base", "core/observe", "ops/device_report.h", "launcher"],
    "frameworks": UP_TO_FRAMEWORKS,
    "include": UP_TO_FRAMEWORKS,
    "python": UP_TO_FRAMEWORKS + ["python"],
    "examples": UP_TO_FRAMEWORKS + ["examples"],
}
BACKENDS = {"local", "mpi", "shm", "tcp", "cuda", "nccl", "hierarchy"}
BACKENDS_OF_OTHERS = {"hierarchy": {"shm", "mpi", "nccl"}, "nccl": {"cuda"}}
# Vendor headers -> folders that may include them. Tests may include all.
VENDORS = [
    (re.compile(r"^mpi\.h$"), "MPI", ["ops/mpi", "tests/bench", "tests/multi"]),
    (re.compile(r"^nccl\.h$"), "NCCL", ["ops/nccl"]),
    (re.compile(r"^(cuda|cublas|cudart)[\w./]*\.h$"), "CUDA", ["ops/cuda", "ops/nccl", "ops/kernels"]),
    (re.compile(r"^(torch|ATen|c10)/"), "torch", ["frameworks", "include", "python", "examples"]),
]


def within(path, folders):
    return any(path == folder or path.startswith(folder + "/") for folder in folders)


def layer_of(path):
    fitting = [folder for folder in LAYERS if within(path, [folder])]
    return max(fitting, key=len) if fitting else None


def backend_of(path):
    """The backend folder in ops that a file is in, or None."""
    parts = path.split("/")
    return parts[1] if len(parts) > 2 and parts[0] == "ops" and parts[1] in BACKENDS else None


def is_ours(target):
    return "/" in target and target.split("/")[0] in {folder.split("/")[0] for folder in LAYERS} | {"tests"}


def backend_problem(path, target):
    theirs = backend_of(target)
    if theirs is None or not path.startswith("ops/"):
        return None
    mine = backend_of(path)
    if mine is not None:
        allowed = {mine} | BACKENDS_OF_OTHERS.get(mine, set())
        return None if theirs in allowed else f"backend {mine} must not include backend {theirs} ({target})"
    shared_file = path.count("/") == 1 and not path.endswith(".h")  # such as ops/defaults.cc, which lists them
    return None if shared_file else f"what backends share must not include backend {theirs} ({target})"


def check_layers(tree):
    for path, text in tree.cpp():
        layer = layer_of(path)
        for line, target, angled in includes(text):
            if path.startswith("tests/"):
                continue
            for pattern, vendor, folders in VENDORS:
                if pattern.match(target) and not within(path, folders):
                    yield Problem(path, line, "vendor", f"{target} of {vendor} belongs into {' or '.join(folders)} only")
            if angled or layer is None or not is_ours(target):
                continue
            if not within(target, LAYERS[layer]):
                yield Problem(path, line, "layer", f"{layer} may include {', '.join(LAYERS[layer])}, not {target}")
            if problem := backend_problem(path, target):
                yield Problem(path, line, "backend", problem)


def check_cycles(tree):
    graph = {path: [] for path, _ in tree.cpp()}
    for path, text in tree.cpp():
        beside = PurePosixPath(path).parent
        for _, target, angled in includes(text):
            graph[path] += [file for file in (target, str(beside / target)) if not angled and file in graph]
    state = {}

    def walk(path, trail):
        state[path] = "open"
        for target in graph[path]:
            if state.get(target) == "open":
                yield trail[trail.index(target):] + [target]
            elif target not in state:
                yield from walk(target, trail + [target])
        state[path] = "done"

    for path in sorted(graph):
        if path not in state and path.endswith(CPP):
            for cycle in walk(path, [path]):
                yield Problem(cycle[0], 1, "cycle", " -> ".join(cycle))
