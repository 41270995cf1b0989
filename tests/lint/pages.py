# SPDX-License-Identifier: Apache-2.0
"""Pages: links lead to files that exist, and rows of a table have as many cells as its header."""

import re
from pathlib import PurePosixPath

from sources import Problem, line_of

LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
CODE = re.compile(r"`[^`]*`")
FENCE = re.compile(r"^\s*```")
RULE = re.compile(r"^\|[-|: ]*-[-|: ]*\|$")


def normal(path):
    """A path without . and .. ; None if it leaves the tree."""
    parts = []
    for part in path.parts:
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


def lines_of(text):
    """(number, line) outside of blocks of code, with inline code blanked."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if FENCE.match(line):
            fenced = not fenced
        elif not fenced:
            yield number, CODE.sub(lambda found: "`" + "x" * (len(found[0]) - 2) + "`", line)


def check_links(tree):
    for path, text in sorted(tree.files.items()):
        if not path.endswith(".md"):
            continue
        for number, line in lines_of(text):
            for match in LINK.finditer(line):
                if re.match(r"[a-z]+:", match[1]):
                    continue
                target = normal(PurePosixPath(path).parent / match[1])
                if target is None or not (tree.root / target).exists():
                    yield Problem(path, number, "link", f"there is no {match[1]}")


def check_reached(tree):
    """Where docs/README.md lists pages, each page of docs has a link from another page."""
    if "docs/README.md" not in tree.files:
        return
    links = {(path, normal(PurePosixPath(path).parent / match[1])) for path, text in tree.files.items() if path.endswith(".md")
             for _, line in lines_of(text) for match in LINK.finditer(line)}
    reached = {target for path, target in links if path != target}
    for path in sorted(tree.files):
        if path.startswith("docs/") and path.endswith(".md") and path not in reached:
            yield Problem(path, 1, "unreached", "no other page links to this one; docs/README.md lists the pages")


MERMAID = re.compile(r"^```mermaid\n(.*?)^```", re.MULTILINE | re.DOTALL)


def check_pictures(tree):
    """Mermaid takes a ; for the end of a statement, and then draws no picture."""
    for path, text in sorted(tree.files.items()):
        for block in MERMAID.finditer(text) if path.endswith(".md") else ():
            first = line_of(text, block.start(1))
            for number, line in enumerate(block[1].splitlines(), first):
                if ";" in line:
                    yield Problem(path, number, "picture", "a ; ends a statement of mermaid; write a comma")


def cells(line):
    return len(re.findall(r"(?<!\\)\|", line)) - 1


def check_tables(tree):
    for path, text in sorted(tree.files.items()):
        if not path.endswith(".md"):
            continue
        columns, before = None, ""
        for number, line in lines_of(text):
            if not line.startswith("|"):
                columns = None
            elif RULE.match(line):
                columns = cells(line)
                if cells(before) != columns:
                    yield Problem(path, number, "table", f"{columns} columns under a header of {cells(before)} cells")
            elif columns is not None and cells(line) != columns:
                yield Problem(path, number, "table", f"{cells(line)} cells in a table of {columns} columns; the rest is not shown")
            before = line


MOST_WORDS = 16000
MOST_NUMBERS = 30  # of one README: figures are in docs/performance.md


def readmes(tree):
    return [(path, text) for path, text in sorted(tree.files.items()) if path.rpartition("/")[2] == "README.md"]


def words_of_readmes(tree):
    return sum(len(text.split()) for _, text in readmes(tree))


NUMBER = re.compile(r"(?<![\w.])\d[\d., ]*\d(?![\w])|(?<![\w.])\d(?![\w])")


def numbers_of(text):
    """How many numbers stand in the text of a page, without code, links and names such as `rank 0`."""
    lines = (line for _, line in lines_of(text) if not line.startswith("    "))
    return sum(len(NUMBER.findall(re.sub(r"\b[Rr]anks? \d+\b", "", CODE.sub("", LINK.sub("](", line))))) for line in lines)


def numbers_of_readmes(tree):
    return {path: numbers_of(text) for path, text in readmes(tree)}


def summary(tree):
    numbers = numbers_of_readmes(tree)
    return (f"{len(readmes(tree))} READMEs: {words_of_readmes(tree)} words, at most {MOST_WORDS}; {sum(numbers.values())} numbers outside of code, "
            f"{max(numbers.values(), default=0)} in one, at most {MOST_NUMBERS}")


def check_readme_lengths(tree):
    """A README is read in one go: 150 lines for the front page, 120 for others; a limit on the words of all."""
    for path, text in readmes(tree):
        lines, most = len(text.splitlines()), 150 if path == "README.md" else 120
        if lines > most:
            yield Problem(path, most + 1, "README length", f"{lines} lines, over {most}; move details to docs")
        if (numbers := numbers_of(text)) > MOST_NUMBERS:
            yield Problem(path, 1, "README numbers", f"{numbers} numbers, over {MOST_NUMBERS}; move figures to docs/performance.md")
    if (words := words_of_readmes(tree)) > MOST_WORDS:
        yield Problem("README.md", 1, "README length", f"{words} words in all READMEs, over {MOST_WORDS}; move details to docs")
