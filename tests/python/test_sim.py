# SPDX-License-Identifier: Apache-2.0
"""build/bin/rueda-sim as a user runs it. RUEDA_BIN names the folder of the programs."""
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

BIN = Path(os.environ["RUEDA_BIN"])


def simulate(*arguments):
    return subprocess.run([BIN / "rueda-sim", *map(str, arguments)], capture_output=True, text=True, timeout=60)


def summary_of(tmp_path, *arguments):
    done = simulate(*arguments, "--json", tmp_path / "summary.json")
    assert done.returncode == 0, done.stderr
    return json.loads((tmp_path / "summary.json").read_text()), done.stdout


def test_latencies_are_simulated_and_do_not_depend_on_the_machine(tmp_path):
    summary, out = summary_of(tmp_path, "--ranks", 8, "--tensors", 5, "--steps", 2)
    assert set(summary) == {"ranks", "tensors", "cached_p50_us", "cached_p99_us", "first_p50_us", "first_p99_us",
                            "root_bytes", "messages", "wall_s", "rss_mb"}
    # Seven members report to their leader in 3.5 us, who takes them one after another and answers likewise.
    assert 2 * 3.5 + 2 * 7 * 0.5 - 0.5 <= summary["cached_p99_us"] <= 2 * 3.5 + 2 * 7 * 0.5 + 1
    assert summary["messages"] == 2 * 7
    again, _ = summary_of(tmp_path, "--ranks", 8, "--tensors", 5, "--steps", 2)
    for measured in ["wall_s", "rss_mb"]:
        del summary[measured], again[measured]
    assert summary == again


def test_skew_and_stragglers_count_from_the_last_rank_ready(tmp_path):
    even, _ = summary_of(tmp_path, "--ranks", 64, "--tensors", 20)
    uneven, out = summary_of(tmp_path, "--ranks", 64, "--tensors", 20, "--skew-us", 500, "--stragglers", 2,
                             "--straggler-us", 3000)
    assert uneven["cached_p99_us"] < 2 * even["cached_p99_us"] < 500
    assert "skew 500 us, 2 stragglers by 3000 us" in out


def test_survivors_of_a_loss_know_it_in_the_same_words(tmp_path):
    summary, out = summary_of(tmp_path, "--ranks", 40, "--tensors", 3, "--lost", 1, "--notice-us", 2000)
    [lost] = summary["lost_ranks"]
    assert summary["lost_reasons"] == [f"rank {lost} (on host{lost // 8}) is lost: its process ended without shutdown(). "
                                       "The job cannot go on; start it again."]
    assert f"in the same words everywhere: {summary['lost_reasons'][0]}" in out
    assert 0 < summary["lost_known_p50_us"] <= summary["lost_known_max_us"] < 2000 + 100


@pytest.mark.parametrize("seed", range(5))
def test_all_survivors_of_many_losses_know_one(tmp_path, seed):
    summary, out = summary_of(tmp_path, "--ranks", 200, "--tensors", 3, "--lost", 20, "--seed", seed, "--radix", 3,
                              "--skew-us", 200)
    assert len(set(summary["lost_ranks"])) == 20
    named = [int(re.match(r"rank (\d+) ", reason)[1]) for reason in summary["lost_reasons"]]
    assert named and set(named) <= set(summary["lost_ranks"])
    assert "and 12 more" in out


def test_a_trace_is_a_timeline_by_the_clock_of_the_simulation(tmp_path):
    trace = tmp_path / "trace.json"
    done = simulate("--ranks", 32, "--tensors", 4, "--steps", 3, "--skew-us", 300, "--trace", trace, "--trace-ranks", 5)
    assert done.returncode == 0, done.stderr
    assert f"timeline of ranks 0-4 of 32: {trace}" in done.stdout
    events = json.loads(trace.read_text())
    assert {event["pid"] for event in events} == set(range(5))
    assert [event["args"]["size"] for event in events if event.get("name") == "rueda_timeline"] == [32] * 5
    begins = {name: [event for event in events if event["ph"] == "B" and event["name"] == name]
              for name in ["NEGOTIATE_ALLREDUCE", "ALLREDUCE"]}
    assert [len(found) for found in begins.values()] == [5 * 4 * 4] * 2
    assert sum(event["ph"] == "B" for event in events) == sum(event["ph"] == "E" for event in events)
    submitted = [event["ts"] for event in begins["NEGOTIATE_ALLREDUCE"] if event["pid"] == 0]
    told = [event["ts"] for event in begins["ALLREDUCE"] if event["pid"] == 0]
    assert all(begin < end < begin + 1000 for begin, end in zip(sorted(submitted), sorted(told)))
    assert "allreduce.gradient.0.encoder.layer.3.weight" in trace.read_text()


def test_a_trace_shows_what_a_loss_leaves_open(tmp_path):
    trace = tmp_path / "trace.json"
    some_failed = False
    for seed in range(6):  # a rank may also be lost when all is done
        summary, _ = summary_of(tmp_path, "--ranks", 4, "--tensors", 2, "--lost", 1, "--skew-us", 3000, "--notice-us", 10,
                                "--seed", seed, "--trace", trace)
        failed = {event["pid"] for event in json.loads(trace.read_text()) if event.get("args", {}).get("failed")}
        assert failed <= set(range(4)) - set(summary["lost_ranks"])
        some_failed |= bool(failed)
    assert some_failed


def test_the_bytes_of_a_start_grow_with_the_ranks_not_with_their_square(tmp_path):
    few, out = summary_of(tmp_path, "--start", "--ranks", 1000)
    assert "rank 0 has heard all ranks after" in out and "every rank has the list of ranks after" in out
    many, _ = summary_of(tmp_path, "--start", "--ranks", 4000)
    assert few["root_connections"] == 999 and many["root_connections"] == 3999
    for figure in ["root_received", "list_bytes", "root_sent"]:
        assert 3.5 * few[figure] < many[figure] < 4.5 * few[figure]
    assert many["direct"] == 3999 * many["list_bytes"] > 50 * many["root_sent"]
    # Rank 0 has 7 others on its host, and 32 leaders below; so has each other rank at most.
    assert 39 * many["list_bytes"] < many["root_sent"] < 39 * many["list_bytes"] + 4000 * 100
    assert many["most_relayed"] == 39 * many["list_bytes"]
    assert few["all_heard_ms"] < few["all_told_ms"] < few["all_heard_ms"] + 100


def test_a_start_on_one_host_needs_no_relay(tmp_path):
    summary, _ = summary_of(tmp_path, "--start", "--ranks", 64, "--ranks-per-host", 64)
    assert summary["root_sent"] == summary["direct"] and summary["most_relayed"] == 0


def test_an_elastic_job_goes_on_without_its_lost_ranks(tmp_path):
    summary, out = summary_of(tmp_path, "--elastic", "--ranks", 64, "--lost", 2, "--lose-root", "--within-us", 100)
    assert summary["ranks_left"] == 62 and summary["generations"] in (1, 2)
    assert 0 < summary["all_broken_ms"] <= summary["all_in_ms"] and summary["decided_ms"] <= summary["all_in_ms"]
    assert "all      62 ranks are in it" in out and "2 lost, rank 0 among the lost, all within 100 us" in out
    again, _ = summary_of(tmp_path, "--elastic", "--ranks", 64, "--lost", 2, "--lose-root", "--within-us", 100)
    for measured in ["wall_s", "rss_mb", "membership_s"]:
        del summary[measured], again[measured]
    assert summary == again


def test_a_host_and_workers_that_come_change_an_elastic_job(tmp_path):
    summary, out = summary_of(tmp_path, "--elastic", "--ranks", 64, "--lost-hosts", 1, "--joins", 3, "--commit-us", 2000)
    assert summary["ranks_left"] == 64 - 8 + 3 and "1 hosts lost, 3 more come" in out


@pytest.mark.parametrize("arguments, words", [
    (["--ranks", "0"], "--ranks is 0; it must be 1 to 10000000"),
    (["--hop-us", "nan"], "--hop-us is nan; it must be 0 to 1000000000"),
    (["--skew-us", "-1"], "--skew-us is -1; it must be 0 to"),
    (["--ranks", "4", "--lost", "4"], "--lost is 4; it must be 0 to 3"),
    (["--stragglers", "9"], "--stragglers is 9; it must be 0 to 8"),
    (["--gbit", "0"], "--gbit is 0; it must be 0.001 to"),
    (["--elastic"], "--elastic without --lost, --lost-hosts or --joins: nothing would happen"),
    (["--elastic", "--ranks", "16", "--lost", "8", "--lost-hosts", "1"], "--lost with the ranks of --lost-hosts is 16; it must be 0 to 15"),
    (["--ranks", "many"], "the argument ('many') for option '--ranks' is invalid"),
    (["--rnaks", "4"], "unrecognised option '--rnaks'"),
    (["ranks"], "too many positional options"),
])
def test_a_bad_flag_is_named_with_what_is_legal(arguments, words):
    done = simulate(*arguments)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith(f"error: {words}") and done.stderr.endswith(". See rueda-sim --help.\n")


@pytest.mark.parametrize("flag", ["--json", "--trace"])
def test_a_file_that_cannot_be_written_is_named_before_anything_is_simulated(tmp_path, flag):
    done = simulate(flag, tmp_path / "no" / "such.json", "--ranks", 8)
    assert done.returncode == 1 and done.stdout == ""
    assert f"cannot write '{tmp_path}/no/such.json'" in done.stderr
