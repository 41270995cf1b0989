# SPDX-License-Identifier: Apache-2.0
"""The page of figures is the one that the results give; runs of rueda-bench become results; anything else is refused in words."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "bench" / "performance_page.py"
ROW = {"op": "allreduce", "memory": "window", "bytes": 65536, "median_us": 10.0, "limit_us": 4.0}
RUN = [
    ROW | {"against": {"name": "mpich", "median_us": 44.0, "ratio": 4.4, "ratio_min": 4.1, "ratio_max": 4.9, "limit_ratio": 11.0}},
    ROW | {"bytes": 1 << 20, "against": {"name": "mpich", "median_us": 40.0, "ratio": 4.0}},
]


def call(*words):
    return subprocess.run([sys.executable, SCRIPT, *words], capture_output=True, text=True, timeout=60)


def in_folder(folder, *words):
    return call("--folder", folder / "results", "--page", folder / "page.md", *words)


def add(folder, run, group="One host"):
    (folder / "run.json").write_text(run if isinstance(run, str) else json.dumps(run))
    return in_folder(folder, "add", folder / "run.json", "--name", "new", "--title", "New", "--group", group, "--command", "rueda-bench allreduce")


def test_the_page_of_the_sources_is_up_to_date():
    done = call("--check")
    assert done.returncode == 0, done.stderr


def test_a_run_becomes_a_result_a_table_and_a_picture(tmp_path):
    pytest.importorskip("matplotlib")
    done = add(tmp_path, RUN)
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "results" / "new.json").read_text())
    assert result["peer"] == "mpich" and result["command"] == "rueda-bench allreduce" and result["machine"]
    assert result["figures"][0] == {"figure": "64 KiB, window", "series": "window", "value": 10.0, "bytes": 65536, "peer": 44.0, "ratio": 4.4,
                                    "least": 4.1, "most": 4.9, "limit_ratio": 11.0}
    assert result["figures"][1]["limit_ratio"] == 10.0
    page = (tmp_path / "page.md").read_text()
    assert "## One host" in page and "## Training" not in page
    assert "| 64 KiB, window | 44 | 10 | 4.4 (4.1–4.9) | 11 |" in page
    picture = (tmp_path / "pictures" / "new.svg").read_text()
    assert "![New: times as fast as the peer](pictures/new.svg)" in page and "64 KiB" in picture and "<svg" in picture
    assert in_folder(tmp_path, "--check").returncode == 0


def test_a_page_that_is_out_of_date_is_told(tmp_path):
    assert add(tmp_path, [ROW]).returncode == 0
    (tmp_path / "page.md").write_text("# Performance\n")
    done = in_folder(tmp_path, "--check")
    assert done.returncode == 1 and "run bench/performance_page.py" in done.stderr
    assert (tmp_path / "page.md").read_text() == "# Performance\n"


def test_figures_of_training_are_a_page_of_their_own(tmp_path):
    assert add(tmp_path, [ROW]).returncode == 0
    folder = tmp_path / "results" / "training"
    folder.mkdir()
    content = {"title": "BERT", "parts": [{"title": "Steps", "blocks": [{"text": "On 2 ranks."}, {"command": "train"}, {"columns": ["", "ms"], "rows": [["a step", "7"]]}]}]}
    (folder / "bert.json").write_text(json.dumps(content))
    assert in_folder(tmp_path).returncode == 0
    page = tmp_path / "training-figures.md"
    assert page.read_text().endswith("## BERT\n\n### Steps\n\nOn 2 ranks.\n\n```\ntrain\n```\n\n|  | ms |\n| --- | --- |\n| a step | 7 |\n")
    page.write_text(page.read_text() + "more\n")
    assert "training-figures.md is not what" in in_folder(tmp_path, "--check").stderr
    (folder / "half.json").write_text("{}")
    done = in_folder(tmp_path)
    assert done.returncode == 1 and "half.json is no result of trainings" in done.stderr and "Traceback" not in done.stderr


def test_tensors_of_one_run(tmp_path):
    assert add(tmp_path, {"mode": "tensors", "count": 160, "bytes_in_all": 655360, "memory": "ordinary", "median_us": 130.0, "mpi_median_us": 260.0, "ratio": 2.0}).returncode == 0
    assert "| 160 tensors, 640 KiB in all, ordinary | 260 | 130 | 2 |" in (tmp_path / "page.md").read_text()


def test_starts_and_ends_of_jobs(tmp_path):
    times = {"first_ms": 20.04, "end_ms": 5.0, "whole_ms": 30.0}
    rows = [{"ranks": 2, "side": "ruedarun"} | times, {"ranks": 2, "side": "mpiexec"} | {key: 3 * ms for key, ms in times.items()},
            {"ranks": 4, "side": "ruedarun"} | times]
    assert add(tmp_path, {"mode": "start", "hosts": 1, "turns": 7, "rows": rows}).returncode == 0
    page = (tmp_path / "page.md").read_text()
    assert "| 2 ranks, to the first allreduce | 60.1 | 20 | 3 |" in page and "| 2 ranks, start to end | 90 | 30 | 3 |" in page
    assert "| 4 ranks, start to end |  | 30 |" in page and "Rueda, ms" in page
    assert "is missing" in add(tmp_path, {"mode": "start", "rows": [{"side": "ruedarun"}]}).stderr


def test_what_is_no_result_is_refused(tmp_path):
    for run, words in [("{", "is no JSON"), ('[{"op": "allreduce"}]', "'bytes' is missing"), ([1], "no result of rueda-bench")]:
        done = add(tmp_path, run)
        assert done.returncode == 1 and words in done.stderr and "Traceback" not in done.stderr, (run, done.stderr)
    assert not (tmp_path / "results" / "new.json").exists()
    assert "invalid choice" in add(tmp_path, [ROW], group="Elsewhere").stderr
    (tmp_path / "results").mkdir(exist_ok=True)
    (tmp_path / "results" / "half.json").write_text('{"title": "Half"}')
    assert "half.json has no group, date" in in_folder(tmp_path).stderr
