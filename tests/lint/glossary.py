# SPDX-License-Identifier: Apache-2.0
"""The glossary: each term has one row, and pages do not have the words that it replaces."""

import re

from pages import lines_of
from sources import Problem

GLOSSARY = "docs/glossary.md"
READ_BY_ALL = ("docs/concepts/", "docs/tutorials/")


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
