#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""site.py OUTPUT: copies all pages, and the files that they link to, to OUTPUT/pages, and writes OUTPUT/mkdocs.yml.

Decisions are listed by their folder; all other pages are listed in docs/mkdocs.yml. A page that is in no list is an error, and so is
a listed page that does not exist. Marks for tables of settings and flags are replaced by these tables (source_tables.py).
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

sys.dont_write_bytecode = True

import source_tables

ROOT = Path(__file__).resolve().parents[1]
DECISIONS = Path("docs/decisions")
FIGURES = {Path("docs/performance.md"), Path("docs/training-figures.md")}
CODE = re.compile(r"`[^`\n]+`")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def pages() -> list[Path]:
    """Paths from the root of all pages of the sources."""
    found = []
    for folder, names, files in os.walk(ROOT):
        names[:] = [name for name in names if not name.startswith((".", "build", "runs"))]
        found += [(Path(folder) / file).relative_to(ROOT) for file in files if file.endswith(".md")]
    return sorted(found)


def linked(page: Path) -> list[Path]:
    """Files, other than pages, to which a page links."""
    targets = [ROOT / page.parent / match[1] for match in LINK.finditer((ROOT / page).read_text(encoding="utf-8")) if ":" not in match[1]]
    return [target.resolve().relative_to(ROOT) for target in targets if target.is_file() and target.suffix != ".md"]


def title(page: Path) -> str:
    return (ROOT / page).read_text(encoding="utf-8").split("\n", 1)[0].removeprefix("# ")


def refuse(message: str) -> int:
    print(f"site.py: error: {message}", file=sys.stderr)
    return 1


def copy(found: list[Path], folder: Path) -> None:
    """Copies pages, with their tables, and the files that they link to."""
    shutil.rmtree(folder, ignore_errors=True)
    for file in {*found, *(target for page in found for target in linked(page))}:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        if file in found:
            # A search lists other pages before decisions and figures.
            rank = "---\nsearch: {boost: 0.3}\n---\n" if file.parent == DECISIONS or file in FIGURES else ""
            # GitHub's tables need \| inside code, and those of MkDocs show the backslash.
            text = CODE.sub(lambda code: code[0].replace(r"\|", "|"), (ROOT / file).read_text(encoding="utf-8"))
            (folder / file).write_text(rank + source_tables.filled(ROOT, text), encoding="utf-8")
        else:
            shutil.copyfile(ROOT / file, folder / file)


def main() -> int:
    output = Path(sys.argv[1])
    settings = (ROOT / "docs/mkdocs.yml").read_text(encoding="utf-8")
    found = pages()
    decisions = sorted(page for page in found if page.parent == DECISIONS)
    listed = set(re.findall(r": (\S+\.md)$", settings, re.MULTILINE))
    forgotten = [str(page) for page in found if page not in decisions and str(page) not in listed]
    if forgotten:
        return refuse(f"no list in docs/mkdocs.yml has {', '.join(forgotten)}")
    if missing := sorted(listed - {str(page) for page in found}):
        return refuse(f"docs/mkdocs.yml lists {', '.join(missing)}, which does not exist")
    try:
        copy(found, output / "pages")
    except source_tables.TableError as error:
        return refuse(f"{error}; docs/source_tables.py reads these tables")
    lines = ["  - Decisions:", *(f"      - \"{title(page)}\": {page}" for page in decisions)]
    output.mkdir(parents=True, exist_ok=True)
    (output / "mkdocs.yml").write_text(settings + "\n".join(lines) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
