# SPDX-License-Identifier: Apache-2.0
"""The live page of elastic jobs, which lose ranks and get others."""

import json
import os
import signal
import time

from page_jobs import BIN, Job, first_event, own_folder, status  # noqa: F401 - own_folder is a fixture


def test_an_elastic_job_loses_a_rank_and_goes_on():
    with Job(3, BIN / "elastic_training", 400, 1_000_000, 0.01, options=("--page", "0", "--min-np", "2", "--spares", "1")) as job:
        answer = job.get("/events")
        first = first_event(answer, 30, lambda name, data: name == "job" and len(data["ranks"]) == 3 and data["spares"] == 1
                            and all(rank["state"] == "running" for rank in data["ranks"]))
        assert first["elastic"] and first["lost"] == first["joined"] == 0
        os.kill(first["ranks"][1]["process"], signal.SIGKILL)
        began, events, jobs = time.monotonic(), {}, [first]

        def is_whole_again(name, data):
            jobs.extend([data] if name == "job" else [])
            events.update({event["kind"]: (event.get("rank"), time.monotonic() - began) for event in data.get("events", ())})
            return {"lost", "joined", "generation"} <= events.keys() and jobs[-1]["generation"] > first["generation"] and len(jobs[-1]["ranks"]) == 3

        assert first_event(answer, 30, is_whole_again), (events, jobs[-1])
        assert events["lost"][0] == 1 and events["lost"][1] < 1, events
        then, processes = jobs[-1], [{rank["process"] for rank in each["ranks"]} for each in (first, jobs[-1])]
        assert then["lost"] == then["joined"] == 1 and [rank["rank"] for rank in then["ranks"]] == [0, 1, 2]
        assert processes[0] & processes[1] == {first["ranks"][0]["process"], first["ranks"][2]["process"]}
        step = first_event(answer, 10, lambda name, data: "progress" in data)["progress"]["step"]
        assert first_event(answer, 10, lambda name, data: data.get("progress", {}).get("step", 0) > step + 20)["line"]["state"] == "running"
        said = status(job.process.pid)
        assert said.returncode == 0 and "lost" in said.stdout and "generation" in said.stdout, said.stdout


def test_the_late_rank_of_a_later_generation_is_named():
    """Worker 3 takes the place of a killed one, and is rank 2 from then on. Workers have other numbers than ranks, and one waits as a spare."""
    options = ("--page", "0", "--min-np", "2", "--spares", "1")
    with Job(3, BIN / "elastic_training", 400, 1_000_000, 0.01, options=options, LATE_WORKER="3") as job:
        answer = job.get("/events")
        job_facts, steps, late = {}, [], {}

        def hears(is_so):
            def hear(name, data):
                if name == "job":
                    job_facts.update(data)
                if "late" in data:
                    late.update(data["late"])
                steps.extend([data["progress"]["step"]] if "progress" in data else [])
                return is_so(data)
            return hear

        def has_all(_):
            running = job_facts.get("ranks") and all(rank["state"] == "running" for rank in job_facts["ranks"])
            return running and job_facts["spares"] == 1 and len(late.get("ranks", ())) == len(job_facts["ranks"]) == 3 and late["steps"] > 20

        for generation, (killed, lost) in enumerate(((1, 1), (0, 2)), 1):
            assert first_event(answer, 60, hears(has_all)), (job_facts, late)
            first = job_facts["generation"]
            os.kill(job_facts["ranks"][killed]["process"], signal.SIGKILL)
            assert first_event(answer, 30, hears(lambda _: job_facts["lost"] == lost))
            assert first_event(answer, 30, hears(lambda _: job_facts["generation"] > first))
            late.clear()
            assert first_event(answer, 60, hears(has_all)), (generation, job_facts, late)
            slow = 3 - generation  # its rank now
            assert first_event(answer, 60, hears(lambda data, slow=slow: f"waiting for rank {slow} (worker 3)" in data.get("line", {}).get("text", ""))), (
                job_facts, late)
            assert {rank["rank"] for rank in late["ranks"]} == {0, 1, 2}
            worst = max(late["ranks"], key=lambda rank: rank["late_ms"])
            assert worst["rank"] == slow and 15 < worst["late_ms"] < 60 and late["what_if"][0]["rank"] == slow, late
        assert steps == sorted(steps) and steps[-1] > 60, "they go on"
        names = {rank["name"]: rank.get("rank") for rank in json.loads(job.get("/status").read())["ranks"]}
        members = {name: rank for name, rank in names.items() if rank is not None}
        assert set(members.values()) == {0, 1, 2} and members["rank 1 (worker 3)"] == 1, names
        assert sorted(name for name in names if name not in members)[:2] == ["worker 0", "worker 1"], names
        assert sum(name.endswith(", a spare") for name in names) == 1, names
        counted = [rank["step"] for rank in json.loads(job.get("/status").read())["ranks"] if "rank" in rank]
        assert max(counted) - min(counted) <= 1, "all count from the same step"
        metrics = job.get("/metrics").read().decode()
        assert {line.split('"')[1] for line in metrics.splitlines() if line.startswith("rueda_job_rank_")} == {"0", "1", "2"}, metrics
        stacks = job.post("/stacks")
        assert stacks["text"].startswith("3 ranks: the main threads are at "), stacks["text"]
        assert sorted(rank for group in stacks["groups"] for rank in group["ranks"]) == [0, 1, 2]
        assert [group["name"].endswith(", a spare") for group in stacks["groups"] if not group["ranks"]] == [True], stacks["text"]
