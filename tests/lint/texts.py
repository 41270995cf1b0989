# SPDX-License-Identifier: Apache-2.0
"""First lines, guards, conditionals and paths."""

import re

from sources import CPP, Problem, code_only, line_of

SPDX = "SPDX-License-Identifier: Apache-2.0"
LICENSED = CPP + (".py", ".cmake", ".proto", ".sh", "CMakeLists.txt")
# Paths of one machine; put together here so that this file does not name them.
FOREIGN_PATHS = re.compile(r"\.\./" + r"shared\b|(?<![\w./-])/" + r"work/")
MAY_NAME_PATHS = {".ci/run"}
CONDITIONAL = re.compile(r"^[ \t]*#[ \t]*(if|ifdef|ifndef|elif)\b", re.MULTILINE)


def check_first_lines(tree):
    for path, text in sorted(tree.files.items()):
        if not (path.endswith(LICENSED) or text.startswith("#!")):
            continue
        lines = text.splitlines()
        first = lines[1] if text.startswith("#!") and len(lines) > 1 else (lines or [""])[0]
        if SPDX not in first:
            yield Problem(path, 1, "licence", f"the first line must say {SPDX}")


def check_guards(tree):
    for path, text in tree.cpp():
        if path.endswith(".h") and not re.search(r"^#pragma once$", text, re.MULTILINE):
            yield Problem(path, 1, "guard", "a header must say #pragma once")


def check_conditionals(tree):
    for path, text in tree.cpp():
        if path.startswith(("ops/cuda/", "ops/nccl/", "tests/")):
            continue
        for match in CONDITIONAL.finditer(code_only(text)):
            yield Problem(path, line_of(text, match.start()), "conditional", "no #if: platforms and options are folders that CMake adds")


def check_paths(tree):
    for path, text in sorted(tree.files.items()):
        if path in MAY_NAME_PATHS:
            continue
        for match in FOREIGN_PATHS.finditer(text):
            yield Problem(path, line_of(text, match.start()), "path",
                          f"'{match[0]}' exists on one machine only; data is found by RUEDA_DATA")
