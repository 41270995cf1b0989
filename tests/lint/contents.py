# SPDX-License-Identifier: Apache-2.0
"""Tables of contents in READMEs: the folders and files that they name exist."""

import re
from pathlib import PurePosixPath

from glossary import rows
from pages import normal, readmes
from sources import Problem

FIRST_COLUMNS = ("folder", "file")
WHOLE_TABLES = ("core", "ops", "launcher", "frameworks/torch")
# A folder, a source file, or one without its ending. `rueda-bench`, `summary.json` and `init()` are no such names.
NAME = re.compile(r"`([a-z][a-z0-9_/]*(?:\.(?:h|cc|cu|py))?)`")
PROGRAM = re.compile(r"\badd_executable\(\s*(\w+)")


def known_paths(tree):
    """Each folder and file, with and without the file's ending."""
    paths = set()
    for path in tree.files:
        pure = PurePosixPath(path)
        paths |= {path, str(pure.with_suffix(""))} | {str(folder) for folder in pure.parents}
    return paths


def exists(paths, folders, name):
    """Whether the name is a path from the root on, or ends the path of a file or folder in one of the folders."""
    return name in paths or any(path.startswith(f"{folder}/") and f"/{path}".endswith(f"/{name}") for folder in folders for path in paths)


def missing_in_row(paths, home, cells):
    """Names that exist nowhere: for the first cell below the README's folder, for others below the first cell's folders."""
    names = [name.rstrip("/") for name in NAME.findall(cells[0])]
    listed = [normal(PurePosixPath(home) / name) for name in names]
    beside = str(PurePosixPath(listed[0]).parent) if listed else home
    yield from (name for name, path in zip(names, listed) if not {name, path, f"{beside}/{name}"} & paths)
    folders = [path for path in listed if any(other.startswith(f"{path}/") for other in paths)] or [home]
    for name in (found.rstrip("/") for cell in cells[1:] for found in NAME.findall(cell)):
        if f"{home}/{name}" not in paths and not exists(paths, [*folders, "include"], name):
            yield name


def named_folders(home, text):
    """The folders in the first column of the tables of contents."""
    return {normal(PurePosixPath(home) / name.rstrip("/")) for _, cells, header in rows(text) if header[0] in FIRST_COLUMNS for name in NAME.findall(cells[0])}


def check_every_folder(tree):
    """The table of contents of a README above has each folder of the product's C++, or a folder around it."""
    for home in WHOLE_TABLES:
        named = named_folders(home, tree.files.get(f"{home}/README.md", ""))
        if not named:
            continue  # no table of contents
        folders = {str(PurePosixPath(path).parent) for path, _ in tree.cpp(home)} - {home}
        for folder in sorted(folders):
            if not named & {folder, *map(str, PurePosixPath(folder).parents)}:
                yield Problem(f"{home}/README.md", 1, "contents", f"no row has the folder {folder}")


def check_contents(tree):
    paths = known_paths(tree)
    programs = {name for path, text in tree.files.items() if path.endswith("CMakeLists.txt") for name in PROGRAM.findall(text)}
    for path, text in readmes(tree):
        home = str(PurePosixPath(path).parent)
        for number, cells, header in rows(text):
            if header[0] in FIRST_COLUMNS and header[1:2] == ["contents"]:
                for name in missing_in_row(paths | programs, home, cells):
                    yield Problem(path, number, "contents", f"there is no {name}")
