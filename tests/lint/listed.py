# SPDX-License-Identifier: Apache-2.0
"""A test that no CMakeLists.txt names is never run."""

import re
from pathlib import PurePosixPath

from sources import Problem

PYTEST = re.compile(r"\brueda_pytest\((\w+)\s")
COMMENT = re.compile(r"#.*")
PROGRAM_TEST = re.compile(r"^tests/(?!lint/).*_test\.(?:cc|cu)$")
PYTHON_TEST = re.compile(r"^tests/python/(?:page/)?test_(\w+)\.py$")


def check_every_test_is_run(tree):
    """`tests/python/torch` and the like are run as folders."""
    lists = {PurePosixPath(path).parent: COMMENT.sub("", text) for path, text in tree.files.items() if path.endswith("CMakeLists.txt")}
    files = {str(folder / word) for folder, text in lists.items() for word in re.findall(r"[\w./]+", text)}
    cases = {name for text in lists.values() for name in PYTEST.findall(text)}
    for path in sorted(tree.files):
        if PROGRAM_TEST.match(path) and path not in files:
            yield Problem(path, 1, "listed", "no CMakeLists.txt has this test, so it is never run")
        if (found := PYTHON_TEST.match(path)) and found[1] not in cases:
            yield Problem(path, 1, "listed", f"tests/python/CMakeLists.txt has no rueda_pytest({found[1]} SECONDS), so this test is never run")
