# SPDX-License-Identifier: Apache-2.0
"""How wide classes are: a class is one idea, so it has few functions and few data members."""

import re

from sources import Problem, declarations, line_of

MOST_FUNCTIONS = 40
MOST_DATA = 14
# Values that travel together, such as the options of an optimizer, may be many; a class that hides its data may not.
CLASS = re.compile(r"\b(class|struct)\s+(?:\[\[\w+\]\]\s*)?(\w+)(?:\s+final)?\s*(?::(?!:)[^;{}()]*)?\{")
NO_MEMBER = re.compile(r"^(using|typedef|friend|static_assert|enum|class|struct|union|template\s*<[^;{}]*>\s*(class|struct|friend|using))\b")


def end_of_block(code, start):
    """The position behind the brace that closes the one at `start`."""
    depth = 0
    for match in re.finditer(r"[{}]", code[start:]):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return start + match.end()
    return len(code)


def members(body):
    """The statements of a class's body, each without what its own braces hold."""
    statement, position = "", 0
    while position < len(body):
        character = body[position]
        if character == "{":
            end = end_of_block(body, position)
            statement += "{}"
            position = end
            following = body[end:].lstrip()[:1]
            if following not in (";", ",", "(", ")", "="):  # a function's body ends the statement
                yield statement.strip()
                statement = ""
            continue
        if character == ";":
            yield statement.strip()
            statement = ""
        else:
            statement += character
        position += 1


def without_templates(text):
    """The text without the arguments of templates, in which a type such as std::function<void(int)> has parentheses."""
    before = None
    while before != text:
        before, text = text, re.sub(r"(?<=\w)\s*<[^<>;{}]*>", "", text)
    return text


def count(body):
    """(functions, data members) that a class's body declares."""
    functions = data = 0
    for statement in members(body):
        statement = re.sub(r"\b(public|protected|private)\s*:(?!:)", "", statement).strip()
        statement = re.sub(r"\[\[[^\]]*\]\]", "", statement).strip()
        if not statement or statement == "{}" or NO_MEMBER.match(statement):
            continue
        plain = without_templates(statement)
        if re.search(r"\([^()]*\)\s*(const|noexcept|override|final|&&?|=\s*(default|delete|0)|->[^;{}]*|requires[^;{}]*|\s)*(:[^;]*)?(\{\}.*)?$", plain, re.DOTALL) and not re.match(r"(mutable\s+)?[\w:]+\s+\w+_\s*[={]", plain):
            functions += 1
        elif not re.match(r"(static\s+constexpr|constexpr\s+static|static\s+inline\s+constexpr)\b", statement):
            data += 1
    return functions, data


def classes(text):
    """(line, keyword, name, functions, data members) of each class that is defined in a file."""
    code = declarations(text)
    for match in CLASS.finditer(code):
        if re.search(r"\benum\s+$", code[:match.start()][-12:]):
            continue
        start = match.end() - 1
        yield (line_of(code, match.start()), match[1], match[2], *count(code[start + 1:end_of_block(code, start) - 1]))


def product(tree):
    return tree.cpp("core", "ops", "frameworks", "launcher", "python", "include")


def check_classes(tree):
    """Classes of the product."""
    for path, text in product(tree):
        for line, keyword, name, functions, data in classes(text):
            if functions > MOST_FUNCTIONS:
                yield Problem(path, line, "class", f"{name} has {functions} member functions; at most {MOST_FUNCTIONS}: it is several ideas")
            if keyword == "class" and data > MOST_DATA:
                yield Problem(path, line, "class", f"{name} has {data} data members; at most {MOST_DATA}: it is several ideas")


def summary(tree):
    found = [(functions, data, name, path) for path, text in product(tree) for _, keyword, name, functions, data in classes(text) if keyword == "class"]
    functions, data, name, path = max(found, default=(0, 0, "none", "."))
    return f"widest class: {name} in {path}: {functions} functions of at most {MOST_FUNCTIONS}, {data} data members of at most {MOST_DATA}"
