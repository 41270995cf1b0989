# SPDX-License-Identifier: Apache-2.0
"""Who may include whom: include/rueda <- core/base <- core/control <- core/engine <- core <- ops <- frameworks <- python, examples."""

import re
from pathlib import PurePosixPath

from sources import Problem, file_of, includes

# Folder of the file -> folders and files whose headers it may include. The longest folder that fits counts.
CORE_ENGINE = ["core/base", "core/control", "core/observe", "core/engine"]
UP_TO_FRAMEWORKS = ["core", "ops", "frameworks", "rueda/torch", "rueda/torch.h"]
# Public headers are plain types and declarations, below all other layers; those of torch are for torch's layers only.
PUBLIC = "rueda"
PUBLIC_TORCH = ["rueda/torch", "rueda/torch.h"]
LAYERS = {
    "core/base": ["core/base"],
    "core/control": ["core/base", "core/control"],
    "core/observe": ["core/base", "core/control", "core/observe"],
    "core/engine": CORE_ENGINE,
    "core": ["core"],
    "ops": ["core", "ops"],
    "ops/kernels": ["core/base", "ops/kernels"],
    "launcher": ["core/base", "core/observe", "core/control/membership", "core/control/messages/message_pair.h", "ops/setup/device_report.h", "launcher"],
    "frameworks": UP_TO_FRAMEWORKS,
    "include/rueda": [],
    "include/rueda/torch": PUBLIC_TORCH,
    "include/rueda/torch.h": PUBLIC_TORCH,
    "python": UP_TO_FRAMEWORKS + ["python"],
    "examples": UP_TO_FRAMEWORKS + ["examples"],
}
MOST_ROOMS = 16
BACKENDS = {"local", "mpi", "shm", "tcp", "cuda", "nccl", "hierarchy"}
BACKENDS_OF_OTHERS = {"hierarchy": {"shm", "mpi", "nccl"}, "nccl": {"cuda"}}
# Vendor headers -> folders that may include them. Tests may include all.
VENDORS = [
    (re.compile(r"^mpi\.h$"), "MPI", ["ops/mpi", "include/rueda/mpi.h", "bench", "tests/multi"]),
    (re.compile(r"^nccl\.h$"), "NCCL", ["ops/nccl"]),
    (re.compile(r"^(cuda|cublas|cudart)[\w./]*\.h$"), "CUDA", ["ops/cuda", "ops/nccl", "ops/kernels", "bench"]),
    (re.compile(r"^elfutils/"), "elfutils", ["launcher/stacks"]),
    (re.compile(r"^(torch|ATen|c10)/"), "torch", ["frameworks", "include/rueda/torch", "python", "examples", "bench"]),
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
    return "/" in target and target.split("/")[0] in {folder.split("/")[0] for folder in LAYERS} | {"tests", PUBLIC}


def may_include(layer, target):
    return within(target, LAYERS[layer]) or (within(target, [PUBLIC]) and not within(target, PUBLIC_TORCH))


def backend_problem(path, target):
    theirs = backend_of(target)
    if theirs is None or not path.startswith("ops/"):
        return None
    mine = backend_of(path)
    if mine is not None:
        allowed = {mine} | BACKENDS_OF_OTHERS.get(mine, set())
        return None if theirs in allowed else f"backend {mine} must not include backend {theirs} ({target})"
    # ops/setup puts a job together from them.
    return None if path.startswith("ops/setup/") else f"what backends share must not include backend {theirs} ({target})"


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
            if not may_include(layer, target):
                yield Problem(path, line, "layer", f"{layer} may include {', '.join([PUBLIC] + LAYERS[layer])}, not {target}")
            if problem := backend_problem(path, target):
                yield Problem(path, line, "backend", problem)


def include_graph(tree):
    """Our own files that each file includes, by path."""
    graph = {path: [] for path, _ in tree.cpp()}
    for path, text in tree.cpp():
        beside = PurePosixPath(path).parent
        for _, target, angled in includes(text):
            graph[path] += [file for file in (file_of(tree, target), str(beside / target)) if not angled and file in graph]
    return graph


def check_cycles(tree):
    """No cycle of files."""
    yield from cycles_of(include_graph(tree), "cycle")


def folder_of(tree, path):
    """Its folder; x.h beside a folder x is the door of that folder, and belongs to it."""
    door = str(PurePosixPath(path).with_suffix(""))
    behind = path.endswith(".h") and any(file.startswith(door + "/") for file in tree.files)
    return door if behind else str(PurePosixPath(path).parent)


def is_door(tree, path):
    return folder_of(tree, path) != str(PurePosixPath(path).parent)


def folder_graph(tree):
    """The folders whose headers each folder includes."""
    folders = {}
    for path, targets in include_graph(tree).items():
        if path.startswith("tests/"):
            continue
        folder = folder_of(tree, path)
        others = {folder_of(tree, target) for target in targets} - {folder}
        folders.setdefault(folder, set()).update(others)
    return {folder: sorted(others) for folder, others in folders.items()}


def check_folder_cycles(tree):
    """No cycle of folders: the folders of a tree can be listed from the ground up."""
    yield from cycles_of(folder_graph(tree), "folder cycle")


def rooms_of(tree):
    """The rooms of each folder; a room is a header with its source."""
    rooms = {}
    for path, _ in tree.cpp():
        if not path.startswith("tests/"):
            rooms.setdefault(folder_of(tree, path), set()).add(PurePosixPath(path).stem)
    return rooms


def check_rooms(tree):
    for folder, names in sorted(rooms_of(tree).items()):
        if len(names) > MOST_ROOMS:
            yield Problem(folder, 1, "rooms", f"{len(names)} headers with their sources; at most {MOST_ROOMS} belong into a folder")


def summary(tree):
    """Cycles of folders, the headers that count as doors of a folder, and the folder with most rooms."""
    folders, rooms = folder_graph(tree), rooms_of(tree)
    doors = [path for path, _ in tree.cpp() if is_door(tree, path) and not path.startswith("tests/")]
    fullest = max(sorted(rooms), key=lambda folder: len(rooms[folder]), default=".")
    return (f"{len(folders)} folders: {len(list(cycles_of(folders, 'folder cycle')))} cycles; a header beside a folder of its name counts to that folder: "
            f"{', '.join(doors) or 'none'}\n"
            f"most rooms (a header with its source): {len(rooms.get(fullest, ()))} in {fullest}, at most {MOST_ROOMS}")


def cycles_of(graph, rule):
    state = {}

    def walk(path, trail):
        state[path] = "open"
        for target in graph.get(path, ()):
            if state.get(target) == "open":
                yield trail[trail.index(target):] + [target]
            elif target not in state:
                yield from walk(target, trail + [target])
        state[path] = "done"

    for path in sorted(graph):
        if path not in state:
            for cycle in walk(path, [path]):
                yield Problem(cycle[0], 1, rule, " -> ".join(cycle))
