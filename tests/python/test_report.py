# SPDX-License-Identifier: Apache-2.0
"""The page that `report` makes, opened in a browser without a window. RUEDA_BIN names the folder of the programs."""
import json
import math
import os
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
from PIL import Image

from browser import BROWSER, FLAGS, Proxy, needs_browser

BIN = Path(os.environ["RUEDA_BIN"])
HOSTILE = "<script>document.title = 'broken'</script>\"'&amp;"


def summary(ranks, sync="every_step", samples_per_s=10.0, f1=80.0, steps=300, **more):
    """What a trainer writes."""
    points = [{"step": step, "loss": 4 * math.exp(-step / 80) + 0.1 * math.sin(step), "learning_rate": 1e-3,
               "samples_per_s": samples_per_s} for step in range(1, steps + 1, 2)]
    return {"task": "squad", "ranks": ranks, "hosts": 1, "steps": steps, "samples_per_step": 8 * ranks, "sync": sync,
            "loss_first": 4.0, "loss_last": 0.1, "f1": f1, "samples_per_s": samples_per_s, "step_ms": 50.0, "data_ms": 1.0,
            "compute_ms": 40.0, "wait_ms": 9.0, "seconds": 15.5, "curve": points,
            "evaluations": [{"step": 0, "f1": 5.0}, {"step": steps, "f1": f1}], **more}


def report(folder, summaries, *arguments):
    for name, content in summaries.items():
        (folder / name).mkdir()
        (folder / name / "summary.json").write_text(json.dumps(content))
    page = folder / "page.html"
    done = subprocess.run([BIN / "report", *(folder / name / "summary.json" for name in summaries), *arguments, "-o", page],
                          capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    return page


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Runs of everything that is drawn, the last one's label hostile."""
    runs = {"one": summary(1), "two": summary(2, samples_per_s=18.0), "four": summary(4, samples_per_s=30.0),
            "seldom": summary(2, "accumulate:10", 19.0, 78.0), "rarely": summary(2, "accumulate:50", 19.5, 60.0),
            "bare": summary(2, samples_per_s=18.2, curve=None, evaluations=None, data_ms=None),
            "student": {"loss": 3.2, "perplexity": 24.5, "pseudo_perplexity": 20.1, "tokens": 5000}}
    return report(tmp_path_factory.mktemp("report"), runs, "--labels", *list(runs)[:-1], HOSTILE)


class Opened:
    """A page after its script has run: the DOM, what the console says, the hosts that were asked for something."""

    def __init__(self, page, folder, *arguments):
        profile = folder / "profile"
        with Proxy() as proxy:
            done = subprocess.run(
                [BROWSER, *FLAGS, f"--user-data-dir={profile}",
                 f"--proxy-server=http://127.0.0.1:{proxy.server_port}", "--proxy-bypass-list=<-loopback>",
                 "--enable-logging=stderr", "--virtual-time-budget=2000", *arguments, page.as_uri()],
                capture_output=True, text=True, timeout=60)
            proxy.shutdown()
        shutil.rmtree(profile, ignore_errors=True)
        assert done.returncode == 0, done.stderr
        self.dom, self.hosts = done.stdout, proxy.hosts
        self.console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def with_script(page, folder, script):
    """A copy of the page that runs one more script, which leaves what it finds in data-found."""
    copy = folder / "copy.html"
    copy.write_text(page.read_text().replace(
        "</body>", "<script>document.documentElement.dataset.found = JSON.stringify((() => {" + script + "})())</script></body>"))
    return copy


def found(opened):
    class Found(HTMLParser):
        def handle_starttag(self, tag, attributes):
            if tag == "html":
                self.value = json.loads(dict(attributes)["data-found"])

    parser = Found()
    parser.feed(opened.dom)
    return parser.value


@needs_browser
def test_shows_all_curves_without_errors_or_network(page, tmp_path):
    opened = Opened(page, tmp_path, "--dump-dom")
    assert opened.console == []
    assert opened.hosts == []
    charts = re.findall(r"<figure.*?</figure>", opened.dom, re.S)
    titles = [re.search(r"<figcaption>(.*?)</figcaption>", chart)[1] for chart in charts]
    curves = dict(zip(titles, [chart.count("data-curve") for chart in charts]))
    assert f'data-charts="{len(charts)}"' in opened.dom  # the script came to its end
    assert curves["Loss by step"] == curves["Loss by time"] == 5
    assert curves["Efficiency"] == 1 + 2 + 4 + 1  # every_step, two of accumulate, four published, the ideal
    assert curves["F1 (%) by synchronisation"] == 1 + 2
    assert "No curve in the summary of: bare." in opened.dom
    for chart in charts:
        for path in re.findall(r'<path class="line" d="(.*?)"', chart):
            assert re.fullmatch(r"M\d+ [\d]+(L\d+ \d+)*|M1 5H25", path)
    # Nothing could be fetched by whoever opens it: no address stands there.
    assert not re.search(r"https?://|\ssrc=|\shref=|url\(|@import", page.read_text())


@needs_browser
def test_the_checks_above_notice_errors_and_requests(tmp_path):
    bad = tmp_path / "bad.html"
    bad.write_text("<img src='http://picture.example/x.png'><script>fetch('https://data.example').catch(() => 0); gone()</script>")
    opened = Opened(bad, tmp_path, "--dump-dom")
    assert {"picture.example", "data.example"} <= set(opened.hosts)
    assert any("gone is not defined" in line for line in opened.console)


@needs_browser
def test_a_hostile_label_is_text(page, tmp_path):
    opened = Opened(with_script(page, tmp_path, """
        return { title: document.title, scripts: document.scripts.length,
                 names: [...document.querySelectorAll("tbody th")].map((cell) => cell.textContent) }"""), tmp_path, "--dump-dom")
    assert found(opened)["title"] == "Rueda: report"
    assert found(opened)["scripts"] == 2  # the page's and this one
    assert HOSTILE in found(opened)["names"]


@needs_browser
def test_the_pointer_and_the_keys_show_values(page, tmp_path):
    opened = Opened(with_script(page, tmp_path, """
        const area = [...document.querySelectorAll("figure")].find((figure) => figure.innerText.startsWith("Efficiency"))
            .querySelector(".area");
        const tip = area.querySelector(".tip"), box = area.getBoundingClientRect(), states = [tip.hidden];
        area.dispatchEvent(new PointerEvent("pointermove", { clientX: box.left + box.width * 0.32, clientY: box.top + 9 }));
        states.push(tip.innerText);
        area.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight" }));
        states.push(tip.innerText);
        area.dispatchEvent(new PointerEvent("pointerleave"));
        return [...states, tip.hidden]"""), tmp_path, "--dump-dom")
    hidden, at_two, at_four, gone = found(opened)
    assert hidden and gone
    # (18.0 + 18.2) / 2 samples/s on two ranks against 10 on one.
    assert "every_step 90.5\u00a0% · 2 ranks (mean of 2 runs): 18.1 samples/s" in at_two
    assert "Determined AI) 93.2\u00a0% · 214 min on 2 K80 GPUs" in at_two
    assert "every_step 75.0\u00a0% · 4 ranks: 30 samples/s" in at_four


@needs_browser
@pytest.mark.parametrize("width", [400, 1200])
def test_nothing_overlaps(page, tmp_path, width):
    # A window is never that narrow, but a frame is.
    inner = with_script(page, tmp_path, """
        document.querySelectorAll("details").forEach((details) => details.open = true);
        const box = (node) => node.getBoundingClientRect(), apart = (a, b) =>
            a.right <= b.left + 0.5 || b.right <= a.left + 0.5 || a.bottom <= b.top + 0.5 || b.bottom <= a.top + 0.5;
        const wrong = [];
        for (const figure of document.querySelectorAll("figure")) {
          const parts = [...figure.querySelectorAll("figcaption, .legend li, .y-title, .y-ticks span, .x-ticks span, .x-title, .note")];
          parts.forEach((part, index) => parts.slice(index + 1).forEach((other) => {
            if (!apart(box(part), box(other))) wrong.push([figure.innerText.slice(0, 30), part.innerText, other.innerText]);
          }));
        }
        parent.postMessage({ width: innerWidth, wide: document.documentElement.scrollWidth, wrong }, "*");""")
    outer = tmp_path / "outer.html"
    outer.write_text(f"""<!DOCTYPE html><html><script>
        addEventListener("message", (event) => document.documentElement.dataset.found = JSON.stringify(event.data));</script>
        <iframe src="{inner.as_uri()}" style="width:{width}px;height:3000px;border:0"></iframe></html>""")
    layout = found(Opened(outer, tmp_path, "--dump-dom", "--window-size=1400,3000"))
    assert layout == {"width": width, "wide": width, "wrong": []}


@needs_browser
@pytest.mark.parametrize("scheme, paper, line", [(1, (255, 255, 255), (0, 114, 178)), (0, (20, 24, 29), (88, 176, 234))])
def test_is_painted_in_light_and_dark(page, tmp_path, scheme, paper, line):
    picture = tmp_path / "page.png"
    Opened(page, tmp_path, f"--screenshot={picture}", "--window-size=1200,2600", f"--blink-settings=preferredColorScheme={scheme}")
    with Image.open(picture) as image:
        colors = {color: count for count, color in image.convert("RGB").getcolors(1 << 24)}
    assert max(colors, key=colors.get) == paper
    assert colors.get(line, 0) > 500


def fails(*arguments):
    done = subprocess.run([BIN / "report", *arguments], capture_output=True, text=True, timeout=30)
    assert done.stderr.count("\n") == 1, done.stderr
    return done.returncode, done.stderr.removeprefix("error: ").rstrip("\n")


def test_bad_files_are_named(tmp_path):
    good, page = tmp_path / "good.json", tmp_path / "page.html"
    good.write_text(json.dumps(summary(2)))
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
        code, said = fails(good, bad, "-o", page)
        assert code == 2 and said.startswith(message.format(bad)), said
    assert fails(good, tmp_path, "-o", page) == (2, f"cannot read {tmp_path}: Is a directory")
    assert not page.exists()


def test_wrong_arguments_are_named(tmp_path):
    good = tmp_path / "good.json"
    good.write_text(json.dumps(summary(2)))
    assert fails("-o", tmp_path / "page.html") == (2, "no summary is given; see report --help")
    assert fails(good) == (2, "-o FILE.html is missing: where the page goes")
    assert fails(good, "-o", good) == (2, f"-o is '{good}'; it must end in .html")
    assert fails(good, "--nonsense", "-o", "page.html")[0] == 2
    code, said = fails(good, "-o", tmp_path / "page.html", "--labels", "a", "b")
    assert code == 2 and said.startswith("--labels gives 2 names for 1 summaries")
    nowhere = tmp_path / "none" / "page.html"
    strange = tmp_path / "strange.html"
    done = subprocess.run([BIN / "report", good, "-o", strange, "--labels", b"na\xefve"], capture_output=True, timeout=60)
    assert done.returncode == 0 and "na\ufffdve" in strange.read_text(encoding="utf-8", errors="replace")
    assert fails(good, "-o", nowhere) == (1, f"cannot write '{nowhere}': No such file or directory")
    assert json.loads(good.read_text())["task"] == "squad"
