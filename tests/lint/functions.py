# SPDX-License-Identifier: Apache-2.0
"""Names of functions in READMEs and in docs/concepts: each is a member of the class, or in the namespace, that the page says."""

import re

from classes import CLASS, end_of_block, members, without_templates
from glossary import rows
from pages import readmes
from sources import Problem, declarations, line_of

CONCEPTS = "docs/concepts/"
OF_OTHERS = ("torch::", "at::", "c10::", "std::", "testing::", "Rueda::")  # Rueda::torch is a target of CMake
SPAN = re.compile(r"`[^`\n]+`")
QUALIFIED = re.compile(r"(?<![\w:.])(\w+(?:::~?\w+)+)")
NAMESPACE = re.compile(r"\bnamespace\s+([\w:]+)\s*\{")
ENUM = re.compile(r"\benum\s+(?:class\s+)?(\w+)\s*(?::(?!:)[^;{}]*)?\{([^{}]*)\}")
BASES = re.compile(r":(?!:)([^{]*)\{$")
STATED = re.compile(r"\bthese (\d+) functions\b", re.IGNORECASE)
NAME = re.compile(r"\w+(::\w+)*")


def names_declared(statement):
    """The names that one statement of a class's body declares."""
    statement = without_templates(re.sub(r"\b(public|protected|private)\s*:(?!:)|\[\[[^\]]*\]\]", "", statement))
    if re.search(r"\boperator\s*\(\)", statement):
        return {"operator"}
    return set(re.findall(r"(~?\w+)\s*(?=[(={,:]|$)", statement.partition("(")[0] + "("))


class Declared:
    """What each class and each namespace of the product declares."""

    def __init__(self, tree):
        self.of, self.bases, self.namespaces, self.words = {}, {}, {}, set()
        for path, text in tree.cpp():
            if not path.startswith("tests/"):
                self.read(declarations(text))

    def read(self, code):
        self.words |= set(re.findall(r"\w+", code))
        for found in CLASS.finditer(code):
            start = found.end() - 1
            known = self.of.setdefault(found[2], set())
            for statement in members(code[start + 1:end_of_block(code, start) - 1]):
                known |= names_declared(statement)
            if bases := BASES.search(found[0]):
                self.bases.setdefault(found[2], set()).update(re.findall(r"\w+", bases[1]))
        for name, values in ENUM.findall(code):
            self.of.setdefault(name, set()).update(re.findall(r"(\w+)\s*(?:=[^,]*)?(?:,|$)", values.strip()))
        # The compiler has checked each qualified name in code.
        for owner, name in re.findall(r"\b(\w+)(?:<[^<>;{}]*>)?::(~?\w+)", code):
            if owner in self.of or owner[0].isupper():
                self.of.setdefault(owner, set()).add(name)
        declared = set(re.findall(r"\b(\w+)\s*(?=[(<{=])", code)) | set(re.findall(r"\b(?:class |struct |enum class |enum |TORCH_MODULE\()(\w+)", code))
        for qualified in NAMESPACE.findall(code):
            for namespace in qualified.split("::"):
                self.namespaces.setdefault(namespace, set()).update(declared)

    def has(self, owner, name, seen=()):
        if owner in self.namespaces and name in self.namespaces[owner]:
            return True
        return name in self.of.get(owner, ()) or any(self.has(base, name, (*seen, owner)) for base in self.bases.get(owner, ()) if base not in seen)


def concepts(tree):
    return [(path, text) for path, text in sorted(tree.files.items()) if path.startswith(CONCEPTS) and path.endswith(".md")]


def qualified_names(text):
    """(line, name) of each name with :: in a code span of the text."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        fenced ^= line.lstrip().startswith("```")
        if not fenced:
            yield from ((number, name) for span in SPAN.findall(line) for name in QUALIFIED.findall(span))


def check_functions(tree):
    declared = Declared(tree)
    for path, text in readmes(tree) + concepts(tree):
        for number, name in qualified_names(text):
            owner, function = name.split("::")[-2:]
            if not name.startswith(OF_OTHERS) and not declared.has(owner, function):
                yield Problem(path, number, "function", f"{owner} has no {function}")
    for path, line, _, names in listed(tree):
        yield from (Problem(path, line, "function", f"there is no {name}") for name in names if "::" not in name and name not in declared.words)
    yield from check_life_of_a_tensor(tree, declared)


def check_life_of_a_tensor(tree, declared):
    """Names without :: in that section, too."""
    path = "core/README.md"
    section = re.search(r"^#+[^\n]*life of a tensor.*?(?=^#|\Z)", tree.files.get(path, ""), re.I | re.M | re.S)
    for match in re.finditer(r"`([A-Za-z_]\w*)(?:\(\))?`", section[0] if section else ""):
        if match[1] not in declared.words:
            yield Problem(path, line_of(tree.files[path], section.start() + match.start()), "function", f"there is no {match[1]} any more")


def listed(tree):
    """(path, line, the number that the page says, the functions that it names) of each list in docs/concepts: the column of functions of
    the table below a sentence with "these N functions"."""
    for path, text in concepts(tree):
        for line, content in enumerate(text.splitlines(), 1):
            if stated := STATED.search(content):
                yield path, line, int(stated[1]), functions_of_table(text, line)


def functions_of_table(text, line):
    """The names in the column of functions of the first table below a line."""
    table = [(number, cells, header) for number, cells, header in rows(text) if number > line and {"function", "functions"} & set(header)]
    together = [cells[next(i for i, title in enumerate(header) if title.startswith("function"))]
                for offset, (number, cells, header) in enumerate(table) if number == table[0][0] + offset]
    names = [span.strip("`").removesuffix("()") for cell in together for span in SPAN.findall(cell)]
    return [name for name in names if NAME.fullmatch(name)]


def check_counts(tree):
    for path, line, stated, found in listed(tree):
        if len(found) != stated:
            yield Problem(path, line, "number of functions", f"the page says {stated} functions, and names {len(found)}")


def summary(tree):
    return "functions on the way, by name: " + (", ".join(f"{len(found)} in {path}:{line}" for path, line, _, found in listed(tree)) or "none")
