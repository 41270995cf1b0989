# SPDX-License-Identifier: Apache-2.0
"""The tuner's log of real processes. RUEDA_BIN names the folder of the programs."""
import csv
import math
import os
import statistics
import subprocess
from pathlib import Path

import pytest

BIN = Path(os.environ["RUEDA_BIN"])
COLUMNS = ["pattern", "search", "state", "sample", "fusion_threshold", "linger_ms", "chunk_bytes", "route_bytes",
           "measured_ms", "words"]
PARAMETERS = COLUMNS[4:8]


def run(*flags, steps=250, **settings):
    return subprocess.run([BIN / "ruedarun", "-np", "2", *flags, BIN / "rueda-bench", "tensors", "--count", "20",
                           "--bytes", "8000", "--steps", str(steps)], capture_output=True, text=True, timeout=120,
                          env=dict(os.environ, **settings))


def parameters_of(row):
    return tuple(float(row[name]) for name in PARAMETERS)


def check_comparison(rows, verdict):
    base = [row for row in rows if row["state"] == "base"]
    candidate = [row for row in rows if row["state"] == "candidate"]
    assert [row["state"] for row in rows] == ["base", "candidate"] * len(base)
    assert len(base) == len(candidate) == int(verdict["sample"]) >= 5
    assert len({parameters_of(row) for row in base}) == 1
    assert {parameters_of(row) for row in candidate} == {parameters_of(verdict)} != {parameters_of(row) for row in base}
    gain = 1 - statistics.median(float(theirs["measured_ms"]) / float(ours["measured_ms"])
                                 for ours, theirs in zip(base, candidate))
    taken = verdict["words"].endswith(": taken")
    assert not taken or gain > 0.03 - 1e-3
    assert statistics.median(float(row["measured_ms"]) for row in candidate) == pytest.approx(
        float(verdict["measured_ms"]), abs=1e-3)
    return parameters_of(verdict) if taken else parameters_of(base[0])


def test_the_log_tells_what_was_tried_and_measured(tmp_path):
    log = tmp_path / "tuning.csv"
    done = run("--autotune", "--autotune-log-file", log, "--autotune-warmup-samples", "2", "--autotune-steps-per-sample",
               "3", "--autotune-bayes-opt-max-samples", "2", "--log-level", "info",
               RUEDA_METRICS_FILE=str(tmp_path / "metrics.%r.prom"))
    assert done.returncode == 0, done.stderr
    with log.open(newline="") as file:
        reader = csv.DictReader(file)
        assert reader.fieldnames == COLUMNS
        rows = list(reader)
    assert rows[-1]["state"] == "verdict" and rows[-1]["words"], rows[-1]
    assert rows[-1]["words"] in done.stderr
    for row in rows:
        assert all(float(row[name]) >= 0 for name in PARAMETERS)
        assert row["measured_ms"] == "" or math.isfinite(float(row["measured_ms"]))
    first = [row for row in rows if row["search"] == "1"]
    states = [row["state"] for row in first]
    assert states[:2] == ["warmup"] * 2 and states.count("compared") >= 1
    # One comparison after another: its samples in alternation, then what came of it.
    best = parameters_of(first[0])
    samples = []
    for row in first:
        if row["state"] in ("base", "candidate"):
            samples.append(row)
        elif row["state"] == "compared":
            assert parameters_of(samples[0]) == best
            best = check_comparison(samples, row)
            samples = []
    assert parameters_of(rows[-1]) == best or rows[-1]["search"] != "1"
    metrics = (tmp_path / "metrics.0.prom").read_text()
    assert f'rueda_autotune_chunk_bytes{{rank="0"}} {rows[-1]["chunk_bytes"]}\n' in metrics
    assert "rueda_autotune_linger_seconds" in metrics and "rueda_autotune_route_bytes" in metrics
    assert "rueda_autotune" not in (tmp_path / "metrics.1.prom").read_text()


def test_a_log_that_cannot_be_written_is_told_and_the_job_goes_on():
    done = run("--autotune", "--autotune-log-file", "/no/such/folder/tuning.csv", steps=5)
    assert done.returncode == 0
    assert done.stderr.count("RUEDA_AUTOTUNE_LOG: cannot write '/no/such/folder/tuning.csv'") == 1
    assert "name a file in a folder that exists" in done.stderr


def test_a_log_without_a_tuner_is_told(tmp_path):
    done = run("--autotune-log-file", tmp_path / "tuning.csv", steps=5)
    assert done.returncode == 0
    assert "is ignored: nothing is tuned without RUEDA_AUTOTUNE=1" in done.stderr
    assert not (tmp_path / "tuning.csv").exists()


@pytest.mark.parametrize("setting", ["RUEDA_AUTOTUNE_STEPS_PER_SAMPLE=0", "HOROVOD_AUTOTUNE=yes",
                                     "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES=-1"])
def test_values_that_are_not_legal(setting):
    name, value = setting.split("=")
    done = run(steps=5, **{name: value})
    assert done.returncode != 0
    assert setting in done.stderr and "not a legal value" in done.stderr
