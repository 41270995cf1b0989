# SPDX-License-Identifier: Apache-2.0
"""A name in a namespace is one type: two of one name in one program share their inline functions, whichever it is."""

import re

from sources import Problem

TYPE = re.compile(r"^(?:struct|class|enum class|enum|union) (\w+)\b[^;]*$")
NAMESPACE = re.compile(r"^namespace ([\w:]+) \{")


def check_types_are_one(tree):
    first = {}
    for path, text in tree.cpp():
        if not path.endswith(".h"):
            continue
        namespace = ""
        for number, line in enumerate(text.splitlines(), 1):
            if opened := NAMESPACE.match(line):
                namespace = opened[1]
            elif found := TYPE.match(line):
                name = f"{namespace}::{found[1]}"
                known = first.setdefault(name, path)
                if known != path:
                    yield Problem(path, number, "one type", f"{name} is defined in {known}, too")
