# SPDX-License-Identifier: Apache-2.0
"""Plans and GPUs on the live page, in a browser without a window, on the feed of a simulated job."""

from browser import needs_browser
from simulated_job import SimulatedJob
from test_page_browser import opened, rows, text  # noqa: F401 - opened is a fixture

pytestmark = needs_browser


def test_gpus_are_shown_where_there_are_some(opened):
    job, _, tab = opened()
    tab.wait_for(f"{text('hosts-rows')}.includes('of 16 cores')")
    assert tab.evaluate("getComputedStyle(document.querySelector('#hosts .gpus')).display") == "none"
    job.gpus = 2
    tab.wait_for("document.querySelectorAll('#hosts td.gpus .card').length === 2")
    shown = tab.evaluate("[...document.querySelectorAll('#hosts td.gpus .card')].map((one) => one.innerText.replaceAll('\\n', ' '))")
    assert all(words.split()[0] == str(number) and "of 80.0 GB" in words for number, words in enumerate(shown)), shown
    assert shown[0].endswith("54 °C") and "not known" in shown[1], shown
    tab.wait_for("document.querySelector('#hosts td.gpus .meter').innerText !== '50 %'")


def test_plans_are_shown_with_their_route_and_cost(opened):
    job, _, tab = opened(SimulatedJob(ranks=4, step_seconds=0.1))
    tab.wait_for("document.getElementById('plan-rows').children.length === 8")
    first = [cell.strip() for cell in rows(tab, "plan-rows")[0].split("\t")]
    assert first[0].split() == ["allreduce", "float32"] and first[1:3] == ["≤ 16 MiB", "shared memory, in place and TCP, ring, as fp16"]
    assert first[4:] == ["38.0", "4.51 ms", "3.28 ms", "90 %"] and first[3].endswith(", 10 a second"), first
    assert tab.evaluate(text("plan-settings")).startswith("Tensors are fused up to 64 MiB, and wait for others 1.00 ms at most. Messages have up to 256 KiB. The tuner has")
    tab.evaluate("document.getElementById('plan-all').click()")
    tab.wait_for("document.getElementById('plan-rows').children.length === 12")
    assert tab.evaluate(text("plan-all")) == "Show the 8 with the most time"
    assert tab.evaluate("document.getElementById('plan-device').hidden")
    job.predicts = False
    tab.wait_for("getComputedStyle(document.querySelector('#plan .model')).display === 'none'")
