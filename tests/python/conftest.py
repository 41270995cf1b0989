# SPDX-License-Identifier: Apache-2.0
"""Tests marked `full("PART")` run in full runs of that part alone.

RUEDA_FULL_TESTS: the parts of a full run, by commas (core, examples, launcher, torch), or `all`. `./dev test` sets it:
`dev` says how it decides. Without it those tests are skipped.
"""

import os

import pytest

PARTS = {"core", "examples", "launcher", "torch"}


def full_parts():
    """The parts of this run whose tests run in full."""
    parts = set(filter(None, os.environ.get("RUEDA_FULL_TESTS", "").split(",")))
    if unknown := parts - PARTS - {"all"}:
        raise pytest.UsageError(f"RUEDA_FULL_TESTS names {sorted(unknown)}; it must be of {sorted(PARTS)}, or all")
    return PARTS if "all" in parts else parts


def pytest_configure(config):
    config.addinivalue_line("markers", "full(part): runs in full runs of this part alone")


def pytest_collection_modifyitems(items):
    parts = full_parts()
    for item in items:
        for marker in item.iter_markers("full"):
            (part,) = marker.args
            if part not in PARTS:
                raise pytest.UsageError(f"{item.nodeid}: full({part!r}) is no part; it must be of {sorted(PARTS)}")
            if part not in parts:
                item.add_marker(pytest.mark.skip(reason=f"a full run of {part} alone has it (RUEDA_FULL_TESTS)"))
