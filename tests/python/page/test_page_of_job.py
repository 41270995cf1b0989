# SPDX-License-Identifier: Apache-2.0
"""The live page of real jobs, which ruedarun serves, in a browser without a window.

RUEDA_PICTURES names a folder: then the pictures of docs/concepts/live-page.md are written there.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from browser import Tab, needs_browser

pytestmark = needs_browser
BIN = Path(os.environ["RUEDA_BIN"])
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in ("PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE")}
# An ordinary script: it knows nothing of the page. Rank SLOW loads its samples slowly from step 40 on.
SCRIPT = """
import sys, time
import torch
import rueda.torch as hvd

class Samples(torch.utils.data.Dataset):
    loaded = 0
    def __len__(self):
        return 1 << 20
    def __getitem__(self, index):
        Samples.loaded += 1
        if hvd.rank() == int(sys.argv[1]) and Samples.loaded > 40 * 8:
            time.sleep(0.002)
        return torch.randn(64), torch.randn(1)

hvd.init()
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512), torch.nn.ReLU(), torch.nn.Linear(512, 1))
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.01), named_parameters=model.named_parameters())
for inputs, targets in torch.utils.data.DataLoader(Samples(), batch_size=8):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(inputs), targets)
    loss.backward()
    optimizer.step()
    hvd.log({"loss": loss})
"""


def text(name):
    return f"document.getElementById('{name}').innerText"


@contextlib.contextmanager
def page_of(folder, *command, ranks=4, options=()):
    """Starts a job; gives ruedarun's process and a tab with the page."""
    job = subprocess.Popen([BIN / "ruedarun", "--page", "0", *map(str, options), "-np", str(ranks), *map(str, command)], cwd=folder,
                           env={**ENVIRONMENT, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "XDG_RUNTIME_DIR": str(folder)},
                           stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    tab = None
    try:
        address = re.search(r"http://\S+", job.stderr.readline()).group()
        tab = Tab(address, folder / "browser")
        tab.emulate(width=1280)
        tab.open(address)
        yield job, tab
        assert tab.proxy.hosts == [] and [line for line in tab.console if "ERR_" not in line and "net::" not in line] == []
    finally:
        if tab:
            tab.close()
        job.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            job.communicate(timeout=20)
        job.kill()
        job.communicate()


def picture(tab, tmp_path, name):
    path = Path(os.environ.get("RUEDA_PICTURES", tmp_path)) / name
    tab.picture(path, whole=True)
    assert path.stat().st_size > 20_000


def test_a_script_without_any_mark_shows_its_slow_rank(tmp_path):
    tmp_path.chmod(0o700)
    (tmp_path / "train.py").write_text(SCRIPT)
    with page_of(tmp_path, "python", "train.py", 1) as (_, tab):
        tab.wait_for(f"{text('line')}.includes('waiting for rank 1 (data)')", 90)
        tab.wait_for(f"/rank 1.*data/.test({text('late-rows')}.replaceAll('\\n', ' '))", 30)
        tab.wait_for("document.querySelector('[data-tag=loss] .last')?.innerText.length > 0", 30)
        assert tab.evaluate(text("membership-grid")).split() == ["0", "1", "2", "3"]
        time.sleep(8)  # the picture shows the last ten seconds
        picture(tab, tmp_path, "live-page.png")


def processes_of(folder):
    """By rank, of the job of marked_training in that folder."""
    children = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True).stdout.splitlines()
    ranks = {}
    for process in [int(line.split()[0]) for line in children if "marked_training 100000" in line and "ruedarun" not in line]:
        with contextlib.suppress(OSError):
            variables = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
            if f"XDG_RUNTIME_DIR={folder}".encode() in variables:
                ranks.update({int(each.split(b"=")[1]): process for each in variables if each.startswith(b"RUEDA_RANK=")})
    return ranks


def seconds_until(folder, signal_of_rank_2, shown, then):
    """From a signal to rank 2 until the page shows it; None where it does not."""
    folder.mkdir(mode=0o700)
    with page_of(folder, BIN / "marked_training", 100000, ranks=3) as (_, tab):
        tab.wait_for(f"{text('line')}.startsWith('running, step ')", 30)
        process = processes_of(folder)[2]
        began = time.monotonic()
        os.kill(process, signal_of_rank_2)
        try:
            tab.wait_for(shown, 5)
            took = time.monotonic() - began
            then(tab)
            return took
        except AssertionError:
            return None
        finally:
            if signal_of_rank_2 == signal.SIGSTOP:
                os.kill(process, signal.SIGCONT)


@pytest.mark.parametrize("cause", ["killed", "stopped"])
def test_a_rank_that_is_gone_is_on_the_page_within_a_second(tmp_path, cause):
    shown = f"{text('events-list')}.includes('was killed by signal 9')"
    then = lambda tab: tab.wait_for("document.title.includes('ended') || document.title.includes('lost')", 20)
    if cause == "stopped":  # a rank that is stopped in its wait is not known at once
        shown = f"document.getElementById('headline').dataset.state === 'waiting' && {text('line')}.includes('the others wait for rank 2 (')"
        then = lambda tab: tab.wait_for(f"{text('still')}.includes('rank 2: ') && document.getElementById('stream-canvas').stream.marks.get(2) === 'stalled'", 5)
    took = []
    while len(took) < 3 and not (took and took[-1] < 1):
        took.append(seconds_until(tmp_path / f"{len(took)}", signal.SIGKILL if cause == "killed" else signal.SIGSTOP, shown, then) or float("inf"))
    assert min(took) < 1, took


def test_an_elastic_job_takes_a_worker_in(tmp_path):
    tmp_path.chmod(0o700)
    with page_of(tmp_path, BIN / "elastic_training", 400, 1_000_000, 0.01, ranks=3, options=("--min-np", 2, "--spares", 1)) as (_, tab):
        tab.wait_for(f"/generation \\d+ · 3 ranks · 0 lost · 0 joined · 1 spare/.test({text('membership-counts')})", 60)
        tab.wait_for("document.querySelectorAll('#late-rows tr').length === 3", 60)
        tab.wait_for(f"/^running, step [\\d,]{{2,}}/.test({text('line')})", 60)
        tab.evaluate("document.getElementById('rank-1').click()")
        words = tab.evaluate(text("membership-words"))
        os.kill(int(re.fullmatch(r"rank 1 on \S+, process (\d+): running", words).group(1)), signal.SIGKILL)
        tab.wait_for(f"{text('events-list')}.includes('was killed by signal 9')", 20)
        tab.wait_for(f"/generation \\d+ · 3 ranks · 1 lost · 1 joined · 1 spare/.test({text('membership-counts')})", 60)
        events = tab.evaluate(text("events-list"))
        assert "worker 3 has joined" in events and re.search(r"generation \d+ has 3 ranks", events), events
        assert tab.evaluate(text("membership-grid")).split() == ["0", "1", "2"]
        tab.evaluate("document.getElementById('rank-2').click()")
        assert re.fullmatch(r"rank 2 \(worker 3\) on \S+, process \d+: running", tab.evaluate(text("membership-words")))
        # A new generation hides the rows of the one before.
        tab.wait_for("document.querySelectorAll('#late-rows tr').length === 3 && document.getElementById('late-rows').offsetParent !== null", 60)
        assert sorted(re.findall(r"^rank \d", tab.evaluate(text("late-rows")), re.MULTILINE)) == ["rank 0", "rank 1", "rank 2"]
        tab.evaluate("document.getElementById('stacks-now').click()")
        tab.wait_for(f"{text('stacks-words')}.includes('the main threads of 3 ranks are at ')", 60)
        assert "a spare" in tab.evaluate(text("stacks-groups"))


@pytest.mark.parametrize("ranks", [2])
def test_a_stuck_rank_is_named(tmp_path, ranks):
    tmp_path.chmod(0o700)
    with page_of(tmp_path, BIN / "marked_training", 100000, 1, 60000, 200, ranks=ranks) as (_, tab):
        tab.wait_for(f"{text('line')}.startsWith('stalled')", 60)
        assert "rank 1" in tab.evaluate(text("line")) and "data" in tab.evaluate(text("line"))


def click(tab, name):
    tab.evaluate(f"document.getElementById('{name}').click()")


def test_a_timeline_is_made_and_the_job_saves_and_stops(tmp_path):
    tmp_path.chmod(0o700)
    (tmp_path / "train.py").write_text(SCRIPT + """    if hvd.allreduce(torch.tensor([float(len(stops))]), op=hvd.Sum, name="stop").item() > 0:
        open(f"saved-{hvd.rank()}", "w").close()
        break
""")
    text_of_script = (tmp_path / "train.py").read_text()
    (tmp_path / "train.py").write_text("import signal\nstops = []\nsignal.signal(signal.SIGTERM, lambda *_: stops.append(1))\n" + text_of_script)
    with page_of(tmp_path, "python", "train.py", -1, ranks=2) as (job, tab):
        tab.wait_for(f"/^running, step [\\d,]{{2,}}/.test({text('line')})", 60)
        click(tab, "timeline-now")
        tab.wait_for(f"/Steps [\\d,]+ to [\\d,]+ go to .*json/.test({text('actions-words')})")
        steps = re.search(r"Steps ([\d,]+) to ([\d,]+) go to (\S+json)", tab.evaluate(text("actions-words")))
        first, last = (int(number.replace(",", "")) for number in steps.groups()[:2])
        tab.wait_for(f"{text('events-list')}.includes('ui.perfetto.dev')", 60)
        events = json.loads(Path(steps.group(3)).read_text())
        rows = {(event["pid"], event["tid"]) for event in events if event.get("name") == "thread_name" and event["args"]["name"] == "allreduce.stop"}
        for rank in (0, 1):
            made = [event for event in events if event["pid"] == rank and (rank, event["tid"]) in rows and event.get("name") == "ALLREDUCE"]
            assert last - first + 1 == 20 and 18 <= len(made) <= 22, (rank, len(made))
        click(tab, "stop-now")
        assert tab.evaluate("document.getElementById('stop-dialog').open") and job.poll() is None
        click(tab, "stop-not")
        assert not tab.evaluate("document.getElementById('stop-dialog').open")
        click(tab, "stop-now")
        click(tab, "stop-really")
        assert job.wait(timeout=60) == 0
        assert (tmp_path / "saved-0").exists() and (tmp_path / "saved-1").exists()


def test_stacks_are_shown_and_saved(tmp_path):
    tmp_path.chmod(0o700)
    (tmp_path / "train.py").write_text(SCRIPT)
    with page_of(tmp_path, "python", "train.py", 1, ranks=2) as (_, tab):
        tab.wait_for(f"{text('line')}.startsWith('running, step ')", 60)
        tab.evaluate("document.getElementById('stacks-now').focus()")
        tab.press(" ")
        tab.wait_for("document.querySelectorAll('#stacks-groups > li').length > 0", 30)
        assert re.search(r"^\d\d:\d\d:\d\d: the main threads of 2 ranks are at [12] places?$", tab.evaluate(text("stacks-words")))
        assert "train.py:" in tab.evaluate(text("stacks-groups"))
        saved = tab.evaluate("""new Promise((tell) => { const made = URL.createObjectURL;
            URL.createObjectURL = (blob) => { blob.text().then(tell); return made(blob); };
            document.getElementById('stacks-save').click(); })""")
        assert saved.startswith("2 ranks: the main threads are at ") and "\nrank 1, process " in saved
