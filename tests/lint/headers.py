# SPDX-License-Identifier: Apache-2.0
"""Every header compiles alone. Those of torch and of backends whose vendor is not there are left out."""

import subprocess
from concurrent.futures import ThreadPoolExecutor

from sources import Problem, file_of, includes

OF_TORCH = ("include/rueda/torch/", "include/rueda/torch.h")
JOBS = 2


def compile_alone(tree, path, compiler, folders):
    command = [compiler, "-std=c++20", "-fsyntax-only", "-x", "c++", "-", f"-I{tree.root}", f"-I{tree.root}/include"]
    command += [f"-I{folder}" for folder in folders]
    done = subprocess.run(command, input=f'#include "{path}"\n', capture_output=True, text=True, timeout=120)
    return path, done.stderr if done.returncode else ""


def check_headers(tree, parts, compiler, folders, missing_vendors):
    """Of the headers below `parts`: problems, and at the end the number of those tried."""
    texts = dict(tree.cpp())

    def wants(path):
        """Whether it includes such a vendor's header, be it by another of ours."""
        seen, left = {path}, [path]
        while left:
            targets = {file_of(tree, target) or target for _, target, _ in includes(texts[left.pop()])}
            if targets & set(missing_vendors):
                return True
            left += [target for target in targets if target in texts and target not in seen]
            seen |= targets
        return False

    below = tuple(f"{part}/" for part in parts)
    paths = [path for path in texts
             if path.endswith(".h") and path.startswith(below) and not path.startswith(OF_TORCH) and not wants(path)]
    with ThreadPoolExecutor(JOBS) as pool:
        for path, errors in pool.map(lambda path: compile_alone(tree, path, compiler, folders), paths):
            if errors:
                yield Problem(path, 1, "alone", "does not compile by itself:\n" + errors)
    print(f"{len(paths)} headers compiled alone")
