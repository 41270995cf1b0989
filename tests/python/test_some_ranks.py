# SPDX-License-Identifier: Apache-2.0
"""Jobs of some of the ranks that were started, where they do not come together."""
import os
import re
import subprocess
import sys

import pytest

PROGRAM = """
import os, rueda
from rueda.common.exceptions import HorovodInternalError
lists = {lists}
try:
    rueda.init(comm=lists[int(os.environ["RUEDA_RANK"])])
except HorovodInternalError as error:
    print(error)
else:
    print("a job of", rueda.size())
"""


def run(lists):
    command = [os.environ["RUEDA_BIN"] + "/ruedarun", "-np", str(len(lists)), sys.executable, "-c", PROGRAM.format(lists=lists)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ, "RUEDA_START_TIMEOUT": "2"})
    return done.stdout + done.stderr


@pytest.mark.parametrize("lists", [[[0, 1], [1, 0], None], [[0, 1], [0, 1, 2], [0, 1, 2]], [[1, 0], [0, 1]]])
def test_lists_that_differ_do_not_make_a_job(lists):
    out = run(lists)
    assert "a job of" not in out
    for each in lists:
        if each is None or each == list(range(len(lists))):
            assert re.search(f"rank [01] of {len(lists)} did not come within [25] s", out), out
        else:
            assert f"each of the ranks {each} calls init() with this list" in out, out


def test_all_ranks_by_name_or_without_are_the_same():
    assert run([[0, 1], None]).count("a job of 2") == 2
