# SPDX-License-Identifier: Apache-2.0
"""Timelines and metrics of real processes. RUEDA_BIN names the folder of the programs."""
import json
import os
import subprocess
from pathlib import Path

BIN = Path(os.environ["RUEDA_BIN"])


def run(ranks, *command, **settings):
    return subprocess.run([BIN / "ruedarun", "-np", str(ranks), *command], capture_output=True, text=True, timeout=60,
                          env=dict(os.environ, **settings))


def slices(events, rank, name):
    return [event["ts"] for event in events if event["ph"] == "B" and event["pid"] == rank and event["name"] == name]


def test_all_ranks_are_in_one_file(tmp_path):
    trace = tmp_path / "trace.json"
    done = run(3, BIN / "rank", "late", "0.2", HOROVOD_TIMELINE=str(trace), HOROVOD_TIMELINE_MARK_CYCLES="1",
               RUEDA_METRICS_FILE=str(tmp_path / "metrics.%r.prom"))
    assert done.returncode == 0, done.stderr
    assert [path.name for path in tmp_path.glob("trace*")] == ["trace.json"]
    events = json.loads(trace.read_text())
    submitted = [slices(events, rank, "NEGOTIATE_ALLREDUCE") for rank in range(3)]
    planned = [slices(events, rank, "ALLREDUCE") for rank in range(3)]
    assert [len(times) for times in submitted + planned] == [1] * 6
    assert max(times[0] for times in submitted) == submitted[2][0]  # rank 2 came late
    assert submitted[2][0] < min(times[0] for times in planned)  # by the clock of all
    assert "allreduce.late" in trace.read_text()
    for rank in range(3):
        metrics = (tmp_path / f"metrics.{rank}.prom").read_text()
        assert f'rueda_bytes_total{{rank="{rank}",operation="allreduce"}} 4000\n' in metrics
    assert any(event["name"] == "CYCLE_START" for event in events if event["ph"] == "i")
    starts = {event["args"]["start_time_since_epoch_in_micros"] for event in events if event.get("name") == "rueda_timeline"}
    assert len(starts) == 1
    offsets = [event["args"]["clock_offset_ns"] for event in events if event.get("name") == "rueda_timeline"]
    assert offsets == [0, 0, 0]  # one host, one clock


def test_after_a_kill_every_file_is_valid_and_they_can_be_merged(tmp_path):
    trace = tmp_path / "trace.json"
    done = run(3, BIN / "rank", "killed", RUEDA_TIMELINE=str(trace))
    assert done.returncode != 0
    parts = sorted(tmp_path.glob("trace*"))
    assert len(parts) == 3
    for part in parts:
        assert isinstance(json.loads(part.read_text()), list)
    merged = tmp_path / "merged.json"
    done = subprocess.run([BIN / "ruedarun", "--merge-timeline", merged, *parts], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert {event["pid"] for event in json.loads(merged.read_text()) if event.get("name") == "process_name"} == {0, 1, 2}


def test_merging_says_what_is_wrong(tmp_path):
    other = tmp_path / "other.json"
    other.write_text("{}")
    done = subprocess.run([BIN / "ruedarun", "--merge-timeline", tmp_path / "out.json", other], capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 2
    assert "other.json' is not the timeline of one rank. Give the files that ranks have written." in done.stderr
