# SPDX-License-Identifier: Apache-2.0
"""The files of a tree, and C++ text without what is not code."""

import functools
import os
import re
from pathlib import Path

CPP = (".h", ".cc", ".cu")
SKIPPED_FOLDERS = {".git", ".venv", "__pycache__", ".pytest_cache", "runs"}
LARGEST = 1 << 20

NOT_CODE = re.compile(r"""
    (?P<comment>//[^\n]*|/\*.*?\*/)
  | R"(?P<fence>[^(\s]{0,16})\(.*?\)(?P=fence)"
  | "(?:\\.|[^"\\\n])*"
  | (?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'
""", re.VERBOSE | re.DOTALL)
PREPROCESSOR = re.compile(r"^[ \t]*#(?:[^\n\\]|\\\n|\\.)*", re.MULTILINE)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)


class Problem:
    """One broken rule in one place."""

    def __init__(self, path, line, rule, message):
        self.path, self.line, self.rule, self.message = path, line, rule, message

    def __str__(self):
        return f"{self.path}:{self.line}: {self.rule}: {self.message}"


class Tree:
    """All text files below a folder, by path from there."""

    def __init__(self, root):
        self.root = Path(root)
        self.files = {}
        for folder, names, files in os.walk(self.root):
            names[:] = [name for name in names if name not in SKIPPED_FOLDERS and not name.startswith("build")]
            for file in files:
                self.read(Path(folder) / file)

    def read(self, path):
        if path.is_symlink() or path.stat().st_size > LARGEST:
            return
        try:
            self.files[path.relative_to(self.root).as_posix()] = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            pass  # not text

    def cpp(self, *folders):
        """(path, text) of the C++ files, of all or of those folders."""
        for path, text in sorted(self.files.items()):
            if path.endswith(CPP) and (not folders or path.startswith(tuple(f + "/" for f in folders))):
                yield path, text


@functools.lru_cache(maxsize=None)
def code_only(text):
    """The same text with comments and the insides of literals blanked, so that lines and braces can be counted."""
    def blank(match):
        kept = "".join("\n" if c == "\n" else " " for c in match[0])
        return kept if match["comment"] else '"' + kept[1:-1] + '"'
    return NOT_CODE.sub(blank, text)


def file_of(tree, target):
    """The path of our file that is included by that name from a root of ours, or None."""
    return next((file for file in (target, "include/" + target) if file in tree.files), None)


@functools.lru_cache(maxsize=None)
def declarations(text):
    """code_only(text) with preprocessor lines blanked, too."""
    return PREPROCESSOR.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), code_only(text))


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def includes(text):
    """(line, target, whether in angle brackets)."""
    for match in INCLUDE.finditer(text):
        yield line_of(text, match.start()), match[2], match[1] == "<"
