# SPDX-License-Identifier: Apache-2.0
"""The public API is the folder include/rueda: its headers include only one another, and rueda.h stays small."""

import re

from sources import Problem, file_of, includes

FOLDER = "include/rueda/"
FRONT_DOOR = FOLDER + "rueda.h"
MOST_REACHED = 20


def reached_from(tree, start):
    """The headers of ours that `start` includes, it too, also by others."""
    seen, left = [start], [start]
    while left:
        for _, target, _ in includes(tree.files[left.pop()]):
            file = file_of(tree, target)
            if file and file not in seen:
                seen.append(file)
                left.append(file)
    return sorted(seen)


def check_public_headers(tree):
    for path, text in tree.cpp(FOLDER.rstrip("/")):
        for line, target, angled in includes(text):
            if not target.startswith("rueda/") and (not angled or file_of(tree, target)):
                yield Problem(path, line, "public", f"a public header includes {target}, which is not below {FOLDER}")
            elif target.startswith("rueda/") and file_of(tree, target) is None:
                yield Problem(path, line, "public", f"there is no {FOLDER}{target.removeprefix('rueda/')}")


def check_reach(tree):
    if FRONT_DOOR not in tree.files:
        return
    reached = reached_from(tree, FRONT_DOOR)
    if len(reached) > MOST_REACHED:
        yield Problem(FRONT_DOOR, 1, "reach", f"it reaches {len(reached)} headers; at most {MOST_REACHED}: {', '.join(reached)}")


def check_reference(tree):
    """The reference reads the whole folder, and nothing else of the sources."""
    doxyfile = tree.files.get("docs/Doxyfile")
    if doxyfile is None:
        return
    found = re.search(r"^INPUT = ([^\n]*)", doxyfile, re.MULTILINE)
    sources = [name for name in (found[1].split() if found else []) if not name.endswith(".md")]
    if sources != [FOLDER.rstrip("/")] or "RECURSIVE = YES" not in doxyfile:
        yield Problem("docs/Doxyfile", 1, "reference", f"INPUT is the pages and {FOLDER.rstrip('/')}, with RECURSIVE = YES; it is {sources}")


def summary(tree):
    reached = reached_from(tree, FRONT_DOOR) if FRONT_DOOR in tree.files else []
    return f"rueda.h reaches {len(reached)} headers of ours, at most {MOST_REACHED}: " + \
        ", ".join(path.removeprefix(FOLDER) for path in reached)
