# SPDX-License-Identifier: Apache-2.0
"""The glossary: each term has one row; pages, and names in C++, do not have the words that it replaces."""

import re

from pages import lines_of
from sources import Problem, code_only

GLOSSARY = "docs/glossary.md"
READ_BY_ALL = ("docs/concepts/", "docs/tutorials/")
CODE = ("core", "ops", "frameworks", "launcher", "include", "examples", "python")


def rows(text):
    """(line, cells, the header's cells) of each row of each table."""
    header = None
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith("|"):
            header = None
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if header is None:
            header = cells
        elif set(line) - set("|-: "):
            yield number, cells, header


def terms(text):
    """(line, term) of the tables whose first column is `word`."""
    return [(number, cells[0]) for number, cells, header in rows(text) if header[0] == "word"]


def replaced(text):
    """(line, word, the term instead)."""
    return [(number, *cells[:2]) for number, cells, header in rows(text) if header[:2] == ["not", "but"]]


def replaced_names(text):
    """(name, the names instead) of the table of names that code does not have."""
    return [tuple(cells[:2]) for _, cells, header in rows(text) if header[0] == "name"]


def check_glossary(tree):
    text, first = tree.files.get(GLOSSARY, ""), {}
    for number, term in terms(text):
        known = first.setdefault(term.lower(), number)
        if known != number:
            yield Problem(GLOSSARY, number, "glossary", f"'{term}' stands in line {known}, too; a word has one meaning")
    for number, word, instead in replaced(text):
        if word.lower() in first:
            yield Problem(GLOSSARY, number, "glossary", f"'{word}' is a term in line {first[word.lower()]}, and replaced here")
        if instead.lower() not in first:
            yield Problem(GLOSSARY, number, "glossary", f"'{instead}', instead of '{word}', has no row of its own")


def plural(word):
    """A pattern of a word and its plural."""
    return r"\s+".join(map(re.escape, word.split()[:-1] + [re.sub(r"y$", "", word.split()[-1])])) + \
        (r"(?:y|ies)" if word.endswith("y") else r"(?:e?s)?")


def check_words(tree):
    words = {word: (re.compile(rf"\b{plural(word)}\b", re.IGNORECASE), instead)
             for _, word, instead in replaced(tree.files.get(GLOSSARY, ""))}
    for path, text in sorted(tree.files.items()):
        if not (path.endswith(".md") and (path.startswith(READ_BY_ALL) or path.rpartition("/")[2] == "README.md")):
            continue
        for number, line in lines_of(text):
            for word, (pattern, instead) in words.items():
                if pattern.search(line):
                    yield Problem(path, number, "glossary", f"'{word}' is a private word; the term is '{instead}' (docs/glossary.md)")


IDENTIFIER = re.compile(r"\b([A-Za-z_]\w*)\b(\s*\()?")
PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def is_called(identifier, name):
    """Whether the name, or its plural, is a word of the identifier: `wire`, `kWireBytes`, `own_wires_`. `place` has to be all of it: `in_place` is MPI's."""
    parts = {part.lower() for part in PART.findall(identifier)} - {"k"}
    words = {name, name + "s"}
    return bool(words & parts) and (name != "place" or len(parts) == 1)


def check_names(tree):
    """Names in C++. A function may be called `place()`, as that of GradientBuffers is."""
    names = dict(replaced_names(tree.files.get(GLOSSARY, "")))
    for path, text in tree.cpp(*CODE):
        for number, line in enumerate(code_only(text).splitlines(), 1):
            for identifier, call in IDENTIFIER.findall(line):
                for name in names:
                    if is_called(identifier, name) and not (call and name == "place"):
                        yield Problem(path, number, "glossary", f"'{identifier}': '{name}' may be many things; say {names[name]} (docs/glossary.md)")
