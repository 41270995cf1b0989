#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""site.py OUTPUT: copies all pages, and the files that they link to, to OUTPUT/pages, and writes OUTPUT/mkdocs.yml.

Decisions are listed by their folder; all other pages are listed in docs/mkdocs.yml. A page that is in no list is an error.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
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


def main() -> int:
    output = Path(sys.argv[1])
    settings = (ROOT / "docs/mkdocs.yml").read_text(encoding="utf-8")
    found = pages()
    decisions = sorted(page for page in found if page.parent == Path("docs/decisions"))
    listed = set(re.findall(r": (\S+\.md)$", settings, re.MULTILINE))
    forgotten = [str(page) for page in found if page not in decisions and str(page) not in listed]
    if forgotten:
        print(f"site.py: error: no list in docs/mkdocs.yml has {', '.join(forgotten)}", file=sys.stderr)
        return 1
    shutil.rmtree(output / "pages", ignore_errors=True)
    for file in {*found, *(target for page in found for target in linked(page))}:
        (output / "pages" / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / file, output / "pages" / file)
    lines = ["  - Decisions:", *(f"      - \"{title(page)}\": {page}" for page in decisions)]
    output.mkdir(parents=True, exist_ok=True)
    (output / "mkdocs.yml").write_text(settings + "\n".join(lines) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
