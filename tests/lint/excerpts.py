# SPDX-License-Identifier: Apache-2.0
"""Code on pages: a block below a line `<!-- from FILE -->` stands in that file, line by line. Each program of a tutorial has such a line."""

import re
import textwrap
from pathlib import PurePosixPath

from sources import Problem, line_of

TUTORIALS = "docs/tutorials/"
MARK = re.compile(r"<!-- from (\S+) -->")
BLOCK = re.compile(r"^(?P<before>[^\n]*)\n```(?P<language>\w+)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
COMPARED = {"cpp": (".h", ".cc", ".cu"), "python": (".py",)}


def has(file, code):
    """Whether lines stand in a file one after the other, perhaps with another indentation."""
    lines, wanted = file.splitlines(), code.splitlines()
    return any(textwrap.dedent("\n".join(lines[start:start + len(wanted)])).splitlines() == wanted for start in range(len(lines)))


def check_excerpts(tree):
    for path, text in sorted(tree.files.items()):
        for block in BLOCK.finditer(text) if path.endswith(".md") else ():
            line, mark = line_of(text, block.start("code")), MARK.fullmatch(block["before"])
            if mark is None:
                if path.startswith(TUTORIALS) and block["language"] in COMPARED:
                    yield Problem(path, line, "excerpt", "no line <!-- from FILE --> before this block names the program that has it")
            elif mark[1] not in tree.files:
                yield Problem(path, line, "excerpt", f"there is no {mark[1]}")
            elif PurePosixPath(mark[1]).suffix not in COMPARED.get(block["language"], ()):
                yield Problem(path, line, "excerpt", f"{mark[1]} is not in the language {block['language']}")
            elif not has(tree.files[mark[1]], textwrap.dedent(block["code"])):
                yield Problem(path, line, "excerpt", f"{mark[1]} does not have these lines")
