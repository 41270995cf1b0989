# SPDX-License-Identifier: Apache-2.0
"""The reference pages tell the settings and flags that the programs tell. RUEDA_BIN names the folder of the programs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

BIN = Path(os.environ["RUEDA_BIN"])
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs"))

import source_tables as tables  # noqa: E402


def output_of(program, *words):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("RUEDA_", "HOROVOD_"))}
    name, *more = program.split()  # "rueda-bench start"
    return subprocess.run([BIN / name, *more, *words], capture_output=True, text=True, timeout=60, env=environment, check=True).stdout


@pytest.mark.parametrize("program", tables.PROGRAMS)
def test_flags_are_those_of_help(program):
    told = set(re.findall(r"^  (?:-\w \[ )?--([\w-]+)", output_of(program, "--help"), re.MULTILINE))
    rows = [row.name for row in tables.PROGRAMS[program](ROOT) if row.section != "Flags of horovodrun that are refused"]
    assert len(rows) == len(set(rows))
    assert set(rows) | {"help"} == told | {"help"}


def test_settings_are_those_of_print_config():
    lines = {line.split()[0]: line.split() for line in output_of("ruedarun", "--print-config").splitlines() if line.startswith("RUEDA_")}
    rows = tables.settings(ROOT)
    assert {row.name for row in rows} == set(lines)
    for row in rows:
        assert lines[row.name] == f"{row.name} {row.default} default {row.meaning} ({row.legal})".split()
