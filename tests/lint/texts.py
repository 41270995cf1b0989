# SPDX-License-Identifier: Apache-2.0
"""First lines, guards, conditionals, paths, and the names in core/README.md."""

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


def name_exists(name, sources):
    owner, _, function = name.rpartition("::")
    word = re.compile(rf"\b{re.escape(function)}\b" + (r"\s*\(" if owner else ""))
    declares_owner = re.compile(rf"\b(class|struct)\s+{re.escape(owner)}\b|\b{re.escape(owner)}::") if owner else None
    return any((declares_owner is None or declares_owner.search(text)) and word.search(text) for text in sources)


def check_life_of_a_tensor(tree):
    path = "core/README.md"
    section = re.search(r"^#+[^\n]*life of a tensor.*?(?=^#|\Z)", tree.files.get(path, ""), re.I | re.M | re.S)
    if section is None:
        return
    sources = [code_only(text) for file, text in tree.cpp() if not file.startswith("tests/")]
    for match in re.finditer(r"`([A-Za-z_]\w*(?:::\w+)*)(?:\(\))?`", section[0]):
        if not name_exists(match[1], sources):
            line = line_of(tree.files[path], section.start() + match.start())
            yield Problem(path, line, "life of a tensor", f"there is no {match[1]} any more")
