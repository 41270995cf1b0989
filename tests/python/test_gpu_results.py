# SPDX-License-Identifier: Apache-2.0
"""Results of a check on a device become a file and a page; anything else is refused in words."""

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "bench" / "gpu_results.py"
LINES = [
    {"about": {"torch": "2.11.0"}, "time": "2026-01-02T03:04:05Z"},
    {"about": {"device": "NVIDIA H100 80GB HBM3, 580.1, 81559 MiB"}, "time": "2026-01-02T03:04:06Z"},
    {"step": "pack", "figure": "pack, 160 x 1048576", "value": 12.5, "unit": "us", "beside": {"name": "copy", "value": 12.0}, "goal": ">= 90 %", "met": True},
    {"step": "pack", "outcome": "passed", "seconds": 3.0, "why": ""},
    {"step": "graph", "outcome": "cut off", "seconds": 60.0, "why": "after 60 s"},
]


def keep(folder, text=None):
    command = [sys.executable, SCRIPT, "--folder", folder / "kept", "--page", folder / "page.md"]
    if text is not None:
        (folder / "check.jsonl").write_text(text)
        command.append(folder / "check.jsonl")
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_results_are_kept_and_shown(tmp_path):
    done = keep(tmp_path, "\n".join(json.dumps(line) for line in LINES))
    assert done.returncode == 0, done.stderr
    kept = json.loads((tmp_path / "kept" / "2026-01-02-NVIDIA-H100-80GB-HBM3.json").read_text())
    assert kept["figures"] == [LINES[2]] and kept["steps"] == LINES[3:]
    page = (tmp_path / "page.md").read_text()
    assert "## NVIDIA H100 80GB HBM3, 2026-01-02" in page
    assert "| pack, 160 x 1048576 | 12.5 us | copy 12 | >= 90 %: met |" in page
    assert "pack passed; graph cut off (after 60 s)." in page


def test_the_page_of_no_results_says_so(tmp_path):
    assert keep(tmp_path).returncode == 0
    assert "No GPU has been measured yet." in (tmp_path / "page.md").read_text()


def test_what_is_no_result_is_refused(tmp_path):
    no_device = [{"about": {"no_device": "there is no driver"}, "time": "2026-01-02T03:04:05Z"}]
    for text, words in [(json.dumps(no_device[0]), "no device (there is no driver)"), ("", "cut off"), ("{", "no lines of JSON"), ("[]", "no objects")]:
        done = keep(tmp_path, text)
        assert done.returncode == 1 and words in done.stderr and "Traceback" not in done.stderr, (text, done.stderr)
    assert not (tmp_path / "kept").exists()
