# SPDX-License-Identifier: Apache-2.0
"""How long functions are."""

import ast
import re

from sources import Problem, declarations, line_of

LONGEST_FUNCTION = 60

SCOPE = re.compile(r'\b(namespace|class|struct|union|enum|extern)\b')
# What stands between the parameters and the body: `) const noexcept override -> T`.
FUNCTION = re.compile(r"\)\s*((const|noexcept|override|final|mutable|try|&&?|requires\b.*)\s*)*(->\s*[^;{}=]+)?$",
                      re.DOTALL)
CONSTRUCTOR_LIST = re.compile(r"\)\s*(noexcept\s*)?:(?!:)", re.DOTALL)


def kind_of_brace(head):
    """What a { opens, by the text since the last ; { or } outside it: a function, a scope, or a value."""
    head = head.strip()
    if CONSTRUCTOR_LIST.search(head) and not SCOPE.search(head):
        return "function" if head.endswith((")", "}")) else "value"
    if FUNCTION.search(head) and not head.endswith("="):
        return "function"
    if SCOPE.search(head) and not head.endswith(("=", "(", ",")):
        return "scope"
    return "value"


def functions(text):
    """(first line, last line, head) of each function body that is in no other function. Preprocessor lines are left out."""
    code = declarations(text)
    stack, head_start, start = [], 0, 0
    for match in re.finditer(r"[{};]", code):
        at, character = match.start(), match[0]
        inside_function = "function" in stack
        if character == "{":
            head = code[head_start:at]
            kind = "value" if inside_function else kind_of_brace(head)
            if kind == "function":
                start = head_start + len(head) - len(head.lstrip())
            stack.append(kind)
            if kind != "value":
                head_start = at + 1
        elif character == "}" and stack:
            kind = stack.pop()
            if kind == "function":
                yield line_of(code, start), line_of(code, at), " ".join(code[start:code.index("{", start)].split())
            if kind != "value":
                head_start = at + 1
        elif character == ";" and not inside_function:
            head_start = at + 1


def check_function_lengths(tree):
    for path, text in tree.cpp():
        for first, last, head in functions(text):
            if last - first + 1 > LONGEST_FUNCTION:
                yield too_long(path, first, last, head[:60])
    for path, text in sorted(tree.files.items()):
        if path.endswith(".py"):
            for node in ast.walk(ast.parse(text, path)):
                if isinstance(node, ast.FunctionDef) and node.end_lineno - node.lineno + 1 > LONGEST_FUNCTION:
                    yield too_long(path, node.lineno, node.end_lineno, node.name)


def too_long(path, first, last, name):
    return Problem(path, first, "function length", f"{last - first + 1} lines; at most {LONGEST_FUNCTION}: {name}")
