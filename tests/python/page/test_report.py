# SPDX-License-Identifier: Apache-2.0
"""The pages that `ruedarun --report` writes, opened from their files in a browser without a window. RUEDA_BIN names the folder of the programs.

RUEDA_PICTURES names a folder: then the picture of docs/concepts/reports.md is written there.
"""
import contextlib
import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from PIL import Image

from browser import Tab, needs_browser
from page_scripts import CONTRASTS

BIN = Path(os.environ["RUEDA_BIN"])
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in ("PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE")}
HOSTILE = "<script>document.title = 'broken'</script>\"'&amp;"


def summary(ranks, sync="every_step", samples_per_s=10.0, f1=80.0, steps=300, **more):
    """What a trainer writes."""
    noise = random.Random(ranks)
    points = [{"step": step, "loss": 4 * math.exp(-step * samples_per_s / 1500) + 0.2 * noise.random(), "learning_rate": 1e-3, "samples_per_s": samples_per_s}
              for step in range(1, steps + 1, 2)]
    return {"task": "squad", "ranks": ranks, "hosts": 1, "steps": steps, "samples_per_step": 8 * ranks, "sync": sync,
            "loss_first": 4.0, "loss_last": 0.1, "f1": f1, "samples_per_s": samples_per_s, "step_ms": 50.0, "data_ms": 1.0,
            "compute_ms": 40.0, "wait_ms": 4.5 * ranks, "seconds": 15.5, "curve": points,
            "evaluations": [{"step": 0, "f1": 5.0}, {"step": steps, "f1": f1}], **more}


RUNS = {"one": summary(1), "two": summary(2, samples_per_s=18.0), "four": summary(4, samples_per_s=30.0),
        "seldom": summary(2, "accumulate:10", 19.0, 78.0), "rarely": summary(2, "accumulate:50", 19.5, 60.0),
        "bare": summary(2, samples_per_s=18.2, curve=None, evaluations=None, data_ms=None),
        "student": {"loss": 3.2, "perplexity": 24.5, "pseudo_perplexity": 20.1, "tokens": 5000}}


def ruedarun(*words, folder=None):
    return subprocess.run([BIN / "ruedarun", *words], capture_output=True, text=True, timeout=60, cwd=folder, env=ENVIRONMENT)


def report(folder, summaries, *labels):
    for name, content in summaries.items():
        (folder / name).mkdir()
        (folder / name / "summary.json").write_text(json.dumps(content))
    page = folder / "page.html"
    done = ruedarun("--report", page, *(folder / name / "summary.json" for name in summaries), *labels)
    assert (done.returncode, done.stdout) == (0, f"{page}\n"), done.stderr
    return page


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Runs of everything that is drawn, the last one's label hostile."""
    return report(tmp_path_factory.mktemp("report"), RUNS, "--labels", *list(RUNS)[:-1], HOSTILE)


@contextlib.contextmanager
def opened(page, folder, **size):
    """A tab with the page from its file: at the end it may have asked for nothing else, and said nothing."""
    with Tab("file://", folder / "browser") as tab:
        tab.emulate(**{"width": 1240, **size})
        tab.open(page.as_uri())
        yield tab
        assert tab.proxy.hosts == [] and {address for address in tab.requests if not address.startswith("data:")} <= {page.as_uri(), "about:blank"}
        assert [line for line in tab.console if not line.startswith("Canvas2D: ")] == []  # the tests read pixels


def text(selector):
    return f"document.querySelector({json.dumps(selector)}).innerText"


def texts(tab, selector):
    return tab.evaluate(f"[...document.querySelectorAll({json.dumps(selector)})].map((one) => one.innerText)")


def section(title):
    return f'#comparison [data-title="{title}"] '


def draw_all(tab):
    tab.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    tab.wait_for("[...document.querySelectorAll('.compared')].every((one) => one.querySelector('canvas'))")


@needs_browser
def test_each_part_is_there(page, tmp_path):
    with opened(page, tmp_path) as tab:
        draw_all(tab)
        assert tab.evaluate("document.title") == "7 runs of 2 tasks · Rueda"
        assert texts(tab, "#comparison h2") == ["SQuAD: spans of answers", "Evaluation of language models"]
        assert texts(tab, "#comparison h3") == ["Runs", "Results", "Training", "Scaling", "Synchronising less often", "Where a step's time goes", "Results"]
        assert texts(tab, section("Training") + "figcaption") == ["Loss by step", "Loss by time", "Evaluation during training: F1 (%)",
                                                                   "Learning rate by step", "Samples per second by step"]
        assert texts(tab, section("Scaling") + "figcaption") == ["Time for the same work", "Efficiency"]
        assert texts(tab, section("Synchronising less often") + "figcaption") == ["F1 (%) by synchronisation", "Time for the same work"]
        assert texts(tab, section("Training") + ".head + .lines button")[:5] == ["one", "two", "four", "seldom", "rarely"]
        published = texts(tab, section("Scaling") + ".lines button.published")
        assert len(published) == 4 and "BERT on SQuAD (Determined AI)" in published
        assert "No curve in the summary of: bare." in texts(tab, section("Training") + ".hint")
        assert len(texts(tab, section("Where a step's time goes") + ".step-bar")) == 6
        assert texts(tab, section("Runs") + "tbody tr")[2].split("\t")[:4] == ["four", "4", "every_step", "300"]
        assert texts(tab, "#comparison .best")[0] == "80"
        assert "214" in tab.evaluate(text("#comparison details table"))
        assert tab.evaluate("document.getElementById('job').offsetParent === null")


@needs_browser
def test_lines_are_drawn_in_their_colours(page, tmp_path):
    """The own line, the published and the ideal ones of the efficiency, each in pixels of the canvas."""
    with opened(page, tmp_path, prefers_color_scheme="light") as tab:
        draw_all(tab)
        counts = tab.evaluate("""[...document.querySelectorAll('.compared')].map((figure) => { const canvas = figure.querySelector('canvas');
            const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data, colors = new Set();
            for (let at = 0; at < pixels.length; at += 4) if (pixels[at + 3] === 255) colors.add(`${pixels[at]},${pixels[at + 1]},${pixels[at + 2]}`);
            return [figure.querySelector('figcaption').innerText, ['0,114,178', '213,94,0', '0,135,95', '138,109,59'].map((color) => colors.has(color))]; })""")
        found = {title: colors for title, colors in counts}
        assert found["Loss by step"][:3] == [True, True, True]
        assert found["Efficiency"] == [True, True, True, True]
        assert found["F1 (%) by synchronisation"][0] and found["F1 (%) by synchronisation"][3]


@needs_browser
def test_the_policy_forbids_what_is_not_of_the_page(page, tmp_path):
    with Tab("file://", tmp_path / "browser") as tab:
        tab.open(page.as_uri())
        tab.evaluate("document.body.append(Object.assign(document.createElement('script'), { textContent: 'document.title = 1' }))")
        tab.evaluate("document.body.append(Object.assign(document.createElement('img'), { src: 'http://picture.example/x.png' }))")
        tab.evaluate("fetch('http://data.example').catch(() => 0)")
        tab.evaluate("setTimeout(() => gone(), 0)")
        wanted = ("script-src", "http://picture.example/x.png", "http://data.example", "gone is not defined")
        deadline = time.monotonic() + 20
        while not all(any(words in line for line in tab.console) for words in wanted):
            assert time.monotonic() < deadline, tab.console
            time.sleep(0.05)
        assert tab.evaluate("document.title") == "7 runs of 2 tasks · Rueda"
        assert tab.proxy.hosts == []


@needs_browser
def test_a_hostile_label_is_text(page, tmp_path):
    with opened(page, tmp_path) as tab:
        assert HOSTILE in texts(tab, "tbody th")
        assert tab.evaluate("document.scripts.length") == 3  # dygraphs, the data, the page
        assert tab.evaluate("document.querySelectorAll('#comparison script').length") == 0


EFFICIENCY = "[...document.querySelectorAll('.compared')].find((one) => one.innerText.startsWith('Efficiency'))"


@needs_browser
def test_the_pointer_and_the_keys_show_values(page, tmp_path):
    with opened(page, tmp_path) as tab:
        draw_all(tab)
        tab.evaluate(f"{EFFICIENCY}.scrollIntoView()")
        left, top, width = tab.evaluate(f"(() => {{ const box = {EFFICIENCY}.querySelector('.plot').getBoundingClientRect(); return [box.left, box.top, box.width]; }})()")
        tip = f"{EFFICIENCY}.querySelector('.values')"
        assert tab.evaluate(f"{tip}.hidden")
        tab.mouse("mouseMoved", left + 0.4 * width, top + 60)
        tab.wait_for(f"{tip}.innerText.includes('every_step')")
        # (18.0 + 18.2) / 2 samples/s on two ranks against 10 on one.
        assert "every_step 90.5\u00a0% · 2 ranks (mean of 2 runs): 18.1 samples/s" in tab.evaluate(f"{tip}.innerText")
        assert "Determined AI) 93.2\u00a0% · 214 min on 2 K80 GPUs" in tab.evaluate(f"{tip}.innerText")
        tab.mouse("mouseMoved", 2, 2)
        tab.wait_for(f"{tip}.hidden")
        tab.evaluate(f"{EFFICIENCY}.querySelector('.plot').focus()")
        for _ in range(3):
            tab.press("ArrowRight")
        assert "every_step 75.0\u00a0% · 4 ranks: 30 samples/s" in tab.evaluate(f"{tip}.innerText")
        tab.press("+")
        tab.wait_for("!" + EFFICIENCY + ".closest('section').querySelector('.head button').hidden")
        tab.press("Escape")
        tab.wait_for(EFFICIENCY + ".closest('section').querySelector('.head button').hidden")


@needs_browser
def test_names_hide_lines_and_bring_them_out(page, tmp_path):
    with opened(page, tmp_path, prefers_color_scheme="light") as tab:
        draw_all(tab)
        name = f"[...{EFFICIENCY}.closest('section').querySelectorAll('.lines button')].find((one) => one.innerText === 'every_step')"
        blue = f"""(() => {{ const canvas = {EFFICIENCY}.querySelector('canvas'), pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
            let found = 0; for (let at = 0; at < pixels.length; at += 4) found += pixels[at] === 0 && pixels[at + 1] === 114 && pixels[at + 2] === 178; return found; }})()"""
        assert tab.evaluate(blue) > 50
        tab.evaluate(f"{name}.click()")
        assert tab.evaluate(f"{name}.getAttribute('aria-pressed')") == "false"
        tab.wait_for(f"{blue} === 0")
        tab.evaluate(f"{name}.click()")
        tab.wait_for(f"{blue} > 50")
        tab.evaluate(f"{name}.scrollIntoView()")
        place = f"(() => {{ const box = {name}.closest('li').nextElementSibling.getBoundingClientRect(); return [box.left + 9, box.top + 9]; }})()"
        tab.mouse("mouseMoved", *tab.evaluate(place))
        tab.wait_for(f"{blue} === 0")  # faded
        tab.mouse("mouseMoved", 2, 2)
        tab.wait_for(f"{blue} > 50")


@needs_browser
@pytest.mark.parametrize("width", [360, 1240])
def test_nothing_is_wider_than_the_window(page, tmp_path, width):
    with opened(page, tmp_path, width=width, phone=width == 360) as tab:
        draw_all(tab)
        assert tab.evaluate("document.documentElement.scrollWidth") == width
        assert tab.evaluate("""[...document.querySelectorAll('main *')].filter((one) => !one.closest('.scroll, .unseen, canvas, .plot')
            && one.getBoundingClientRect().right > innerWidth + 0.5).map((one) => one.id || one.className || one.tagName)""") == []


@needs_browser
@pytest.mark.parametrize("scheme, paper", [("light", (255, 255, 255)), ("dark", (20, 24, 29))])
def test_light_and_dark_have_contrast(page, tmp_path, scheme, paper):
    with opened(page, tmp_path, prefers_color_scheme=scheme) as tab:
        draw_all(tab)
        found = tab.evaluate(CONTRASTS)
        assert found["texts"] > 60 and found["low"] == []
        picture = tmp_path / "page.png"
        tab.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = false; })")
        tab.picture(picture, whole=True)
    with Image.open(picture) as image:
        colors = {color: count for count, color in image.convert("RGB").getcolors(1 << 24)}
    assert max(colors, key=colors.get) == paper


@needs_browser
def test_paper_is_light_and_has_its_charts_side_by_side(page, tmp_path):
    with opened(page, tmp_path, prefers_color_scheme="dark") as tab:
        draw_all(tab)
        tab.call("Emulation.setEmulatedMedia", media="print", features=[{"name": "prefers-color-scheme", "value": "dark"}])
        tab.call("Emulation.setDeviceMetricsOverride", width=720, height=900, deviceScaleFactor=1, mobile=False)
        tab.wait_for("getComputedStyle(document.body).backgroundColor === 'rgb(255, 255, 255)'")
        tab.wait_for(f"""(() => {{ const canvas = {EFFICIENCY}.querySelector('canvas'), pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
            for (let at = 0; at < pixels.length; at += 4) if (pixels[at] === 0 && pixels[at + 1] === 114 && pixels[at + 2] === 178) return true; }})()""")
        assert tab.evaluate("""(() => { const boxes = [...document.querySelectorAll('.compared canvas')].map((one) => [one.closest('.compared'), one.getBoundingClientRect()]);
            return boxes.flatMap(([figure, box], index) => boxes.slice(index + 1).filter(([other, its]) => other !== figure && box.left < its.right - 1
                && its.left < box.right - 1 && box.top < its.bottom - 1 && its.top < box.bottom - 1)).length; })()""") == 0


@needs_browser
def test_the_picture_of_the_docs(tmp_path):
    page = report(tmp_path, {name: RUNS[name] for name in ("one", "two", "four", "seldom", "rarely")})
    with opened(page, tmp_path, height=900, prefers_color_scheme="light") as tab:
        draw_all(tab)
        tab.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = false; })")
        tab.evaluate(f"document.querySelector({json.dumps(section('Training'))}).scrollIntoView()")
        path = Path(os.environ.get("RUEDA_PICTURES", tmp_path)) / "report.png"
        tab.picture(path)
        assert path.stat().st_size > 40_000


ASSETS = Path(__file__).resolve().parents[3] / "launcher" / "page" / "assets"


@needs_browser
def test_axes_have_round_labels(page, tmp_path):
    source = (ASSETS / "words.js").read_text() + (ASSETS / "axis_scale.js").read_text().replace('import { value } from "./words.js";', "")
    with opened(page, tmp_path) as tab:
        tab.evaluate("globalThis.labels = (() => { " + source.replace("export ", "") + """
            return (name, low, high) => { const axis = new AxisScale(name); return axis.labels(axis.place(low), axis.place(high), 8).map(([, text]) => text); }; })()""")
        labels = lambda *axis: tab.evaluate(f"labels(...{json.dumps(axis)})")
        assert labels("linear", 0.3, 3.9) == ["0.5", "1", "1.5", "2", "2.5", "3", "3.5"]
        assert labels("linear", -900, 2000) == ["-500", "0", "500", "1000", "1500", "2000"]
        assert labels("log2", 1, 8) == ["1", "2", "4", "8"]
        assert labels("log10", 1, 50) == ["1", "2", "5", "10", "20", "50"]
        assert labels("log10", 3, 40000) == ["10", "100", "1000", "10,000"]
        assert labels("log2", 1, 1.9) == ["1", "1.2", "1.4", "1.6", "1.8"]
        for low, high in [(1e-12, 1e12), (1, 1e300), (99, 101), (1, 1048576)]:
            for scale in ("log2", "log10"):
                assert 2 <= len(labels(scale, low, high)) <= 8, (scale, low, high)


@needs_browser
def test_charts_of_one_title_are_all_drawn(tmp_path):
    points = [{"step": step, "foo_bar": step, "foo bar": 2 * step} for step in range(1, 20)]
    page = report(tmp_path, {"alike": {"task": "mlm", "curve": points}})
    with opened(page, tmp_path) as tab:
        draw_all(tab)
        titles = texts(tab, section("Training") + "figcaption")
        assert titles.count("Foo bar by step") == 2, titles
        tab.evaluate("document.querySelectorAll('.compared .plot').forEach((one) => one.focus())")
        tab.press("ArrowRight")


# A job.

@contextlib.contextmanager
def job(folder, *command, ranks=2, flags=()):
    """A running job with a report; its file is job.html."""
    folder.chmod(0o700)
    process = subprocess.Popen([BIN / "ruedarun", "--report", "job.html", *flags, "-np", str(ranks), *map(str, command)], cwd=folder,
                               env={**ENVIRONMENT, "XDG_RUNTIME_DIR": str(folder)}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def data_of(page):
    _, _, rest = page.read_text().partition('<script id="stored" type="application/json">')
    return json.loads(rest.partition("</script>")[0])


@needs_browser
@pytest.mark.parametrize("flags", [(), ("--no-page",)])
def test_a_finished_job_has_its_history(tmp_path, flags):
    with job(tmp_path, BIN / "marked_training", 1500, ranks=3, flags=flags) as process:
        _, said = process.communicate(timeout=90)
    assert process.returncode == 0
    assert "ruedarun: the report of this job is job.html\n" in said
    with opened(tmp_path / "job.html", tmp_path) as tab:
        tab.wait_for("document.querySelectorAll('#curves-list canvas').length > 0")
        assert tab.evaluate("document.getElementById('headline').dataset.state") == "ended"
        assert tab.evaluate(text("#connection")) == "the job has ended; this is its last state"
        assert "marked_training" in tab.evaluate(text("#command"))
        assert tab.evaluate("[...document.querySelectorAll('#membership-grid .cell')].map((cell) => cell.dataset.state)") == ["ended"] * 3
        assert "the job has ended with status 0" in tab.evaluate(text("#events-list"))
        assert tab.evaluate("document.getElementById('stream-canvas').stream.store.rings[2].size") > 20
        assert len(texts(tab, "#late-rows tr")) == 3
        assert "cores" in tab.evaluate(text("#hosts-rows"))
        assert tab.evaluate("document.getElementById('comparison').hidden")
        assert tab.evaluate("[...document.querySelectorAll('#actions, #stacks')].every((one) => one.offsetParent === null)")
        tags = texts(tab, "#curves-list figcaption")
        assert {"loss", "samples/s", "ms a step"} <= set(tags)
    for points in data_of(tmp_path / "job.html")["update"]["measured"].values():
        steps = [step for step, _ in points]
        assert len(steps) >= 3 and steps == sorted(set(steps)) and all(value > 0 for _, value in points), points
    assert "token" not in (tmp_path / "job.html").read_text().split('id="stored"')[1].split("</script>")[0]


@needs_browser
def test_a_job_that_is_interrupted_has_its_report(tmp_path):
    with job(tmp_path, BIN / "marked_training", 1000000) as process:
        time.sleep(4)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130 and "ruedarun: the report of this job is job.html\n" in said
    with opened(tmp_path / "job.html", tmp_path) as tab:
        assert "status 130" in tab.evaluate(text("#events-list"))
        assert tab.evaluate("document.getElementById('stream-canvas').stream.store.rings[1].size") > 20


@needs_browser
def test_a_lost_rank_stands_in_the_report(tmp_path):
    program = "import os, signal, time\nif os.environ['RUEDA_RANK'] == '1':\n    time.sleep(1)\n    os.kill(os.getpid(), signal.SIGKILL)\ntime.sleep(60)\n"
    with job(tmp_path, sys.executable, "-c", program) as process:
        process.communicate(timeout=60)
    assert process.returncode == 128 + 9
    with opened(tmp_path / "job.html", tmp_path) as tab:
        assert "was killed by signal 9" in tab.evaluate(text("#events-list"))
        assert tab.evaluate("document.querySelector('#rank-1').dataset.state") == "lost"
        assert tab.evaluate("document.getElementById('headline').dataset.state") == "lost"


def test_a_watched_job_has_its_report_too(tmp_path):
    with job(tmp_path, BIN / "marked_training", 400) as process:
        for _ in range(3):
            subprocess.run([BIN / "ruedarun", "--status", str(process.pid), "--json"], capture_output=True, timeout=20, check=False,
                           env={**ENVIRONMENT, "XDG_RUNTIME_DIR": str(tmp_path)})
        process.communicate(timeout=90)
    assert process.returncode == 0
    data = data_of(tmp_path / "job.html")
    assert data["kind"] == "job" and len(data["update"]["spans"]) > 100
    assert {rank["state"] for rank in data["job"]["ranks"]} == {"ended"}


def test_a_report_that_cannot_be_written_costs_the_job_nothing(tmp_path):
    folder = tmp_path / "there"
    folder.mkdir()
    done = ruedarun("--report", "there/job.html", "-np", "1", "sh", "-c", "rmdir there; exit 3", folder=tmp_path)
    assert done.returncode == 3
    assert "ruedarun: there is no report: cannot write 'there/job.html': No such file or directory\n" in done.stderr


# The command line.

def fails(*words):
    done = ruedarun(*words)
    assert done.stderr.count("\n") == 1, done.stderr
    return done.returncode, done.stderr.removeprefix("ruedarun: error: ").rstrip("\n")


def test_bad_files_are_named(tmp_path):
    good, page = tmp_path / "good.json", tmp_path / "page.html"
    good.write_text(json.dumps(summary(2)))
    folder = tmp_path / "folder.json"
    folder.mkdir()
    cases = {"missing.json": (None, "cannot open {}: No such file or directory"),
             "empty.json": (b"", "{}:1:1: malformed JSON: "),
             "truncated.json": (good.read_bytes()[:400], "{}:1:401: malformed JSON: "),
             "text.json": (b"\xff\xfe", "{} is text in UTF-16: convert it with iconv"),
             "other.json": (b'{"a": 1}', "{} has no 'task'"),
             "ranks.json": (b'{"task": "squad", "ranks": "two"}', "{}: 'ranks' is \"two\"; it must be a whole number of at least 1"),
             "curve.json": (b'{"task": "squad", "curve": [{"loss": 1}]}', "{}: curve[0] has no 'step'")}
    for name, (content, message) in cases.items():
        bad = tmp_path / name
        if content is not None:
            bad.write_bytes(content)
        code, said = fails("--report", page, good, bad)
        assert code == 2 and said.startswith(message.format(bad)), said
    assert fails("--report", page, good, folder) == (2, f"cannot read {folder}: Is a directory")
    assert not page.exists()


def test_wrong_arguments_are_named(tmp_path):
    good, page = tmp_path / "good.json", tmp_path / "page.html"
    good.write_text(json.dumps(summary(2)))
    assert fails("--report", page)[1].startswith("--report has no summary and no job: ruedarun --report FILE.html SUMMARY.json...")
    assert fails("--report", good, good) == (2, f"--report is '{good}'; it must end in .html")
    assert fails("--report", page, good, "more.txt")[1].startswith("--report: 'more.txt' does not end in .json")
    assert fails("--report", page, "prog")[1].startswith("say how many ranks to start with -np N")
    assert fails("--report", page, good, "--labels", "a", "b")[1].startswith("--labels gives 2 names for 1 summaries")
    assert fails("--report", page, good, "--labels")[1].startswith("--labels gives 0 names for 1 summaries")
    assert fails("--report", page, "--labels", "a", good)[1].startswith("--labels stands behind the summaries")
    assert fails("--report", "", "-np", "1", "true") == (2, "--report is ''; it must end in .html")
    occupied = tmp_path / "occupied.html"
    occupied.mkdir()
    assert fails("--report", occupied, "-np", "1", "true") == (2, f"--report is '{occupied}', a folder; name a file")
    assert fails("--status", "--report", page)[1].startswith("--report needs a job or summaries")
    code, said = fails("--report", tmp_path / "none" / "job.html", "-np", "1", "true")
    assert code == 2 and "nothing can be written into" in said
    strange = tmp_path / "strange.html"
    done = subprocess.run([BIN / "ruedarun", "--report", strange, good, "--labels", b"na\xefve"], capture_output=True, timeout=60)
    assert done.returncode == 0 and "na\ufffdve" in strange.read_text(encoding="utf-8")
    nowhere = tmp_path / "none" / "page.html"
    assert fails("--report", nowhere, good) == (1, f"cannot write '{nowhere}': No such file or directory")
    assert json.loads(good.read_text())["task"] == "squad"
