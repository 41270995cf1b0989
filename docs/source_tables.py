# SPDX-License-Identifier: Apache-2.0
"""The tables of settings and flags, read from the sources that hold them."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

OPENING, CLOSING = "([{", ")]}"
LITERAL = re.compile(r'R"(\w*)\((.*?)\)\1"|"((?:\\.|[^"\\])*)"', re.DOTALL)
COMMENT_OR_LITERAL = re.compile(r'//[^\n]*|/\*.*?\*/|' + LITERAL.pattern, re.DOTALL)
TRAINER_FOLDER = "examples/lib/training/options"
BENCH_FILES = ["bench/rueda_bench/workload/bench_options.cc", "bench/rueda_bench/workload/bench_options.h"]


class TableError(Exception):
    """A table that does not look as this reader knows it."""


@dataclass
class Setting:
    name: str  # with RUEDA_
    alias: str
    legal: str
    meaning: str
    default: str


@dataclass
class Flag:
    name: str  # without dashes
    value: str  # the name of its value; empty: it takes none
    meaning: str
    section: str = ""


def source(root: Path, path: str) -> str:
    """A file without its comments."""
    text = (root / path).read_text(encoding="utf-8")
    return COMMENT_OR_LITERAL.sub(lambda found: found[0] if found[0][-1] == '"' and found[0][0] in 'R"' else " ", text)


def arguments(text: str, opening: int) -> tuple[list[str], int]:
    """The arguments between the bracket at `opening` and its partner, and the position of the partner."""
    found, start, depth, at = [], opening + 1, 0, opening
    while at < len(text):
        if literal := LITERAL.match(text, at):
            at = literal.end()
            continue
        if text[at] in OPENING:
            depth += 1
        elif text[at] in CLOSING:
            depth -= 1
        if depth == 0 or (depth == 1 and text[at] == ","):
            found.append(text[start:at].strip())
            start = at + 1
            if depth == 0:
                return [one for one in found if one], at
        at += 1
    raise TableError(f"a bracket without a partner: {text[opening:opening + 60]}")


def literal(text: str) -> str | None:
    """The text of literals that stand one after the other; None for anything else."""
    parts = [found[2] if found[2] is not None else found[3] for found in LITERAL.finditer(text)]
    if not parts or LITERAL.sub("", text).strip():
        return None
    return "".join(parts).replace('\\"', '"').replace("\\n", "\n")


def body(text: str, head: str) -> str:
    """From the end of a function's head to the brace that closes it."""
    found = re.search(head, text)
    if found is None:
        raise TableError(f"there is no {head}")
    return text[found.end():arguments(text, found.end() - 1)[1]]


# Settings: core/base/config

def row_makers(text: str) -> dict[str, tuple[list[str], list[str]]]:
    """Functions that make a row, by name: their parameters, and the first four values of the row."""
    makers = {}
    for found in re.finditer(r"\bSetting (\w+)\(", text):
        parameters, end = arguments(text, found.end() - 1)
        row = re.compile(r"\s*\{\s*return (\{)").match(text, end + 1)
        if row is None:
            raise TableError(f"{found[1]} does not begin with the row that it returns")
        makers[found[1]] = [re.split(r"\W+", one)[-1] for one in parameters], arguments(text, row.start(1))[0]
    return makers


def expand(call: str, makers) -> list[str]:
    """The values of a row that is written in braces, or made by one of the makers."""
    if call.startswith("{"):
        return arguments(call, 0)[0]
    name, _, _ = call.partition("(")
    if name not in makers:
        raise TableError(f"no function makes the row {call[:60]}")
    parameters, row = makers[name]
    given = dict(zip(parameters, arguments(call, call.index("("))[0]))
    return [given.get(value, value) for value in row[:4]] + list(given.values()) + row[4:]


def default_of(header: str, field: str) -> str:
    found = re.search(rf"^  [\w:]+ {field}(?: = ([^;]+))?;", header, re.MULTILINE)
    if found is None:
        raise TableError(f"Config has no {field}")
    value = found[1] or ""
    if value in ("true", "false"):
        return "1" if value == "true" else "0"
    value = re.sub(r"std::int64_t\{(\d+)\}", r"\1", value)
    if shift := re.fullmatch(r"(\d+) << (\d+)", value):
        return str(int(shift[1]) << int(shift[2]))
    if re.fullmatch(r"-?\d+\.\d+", value):
        return f"{float(value):g}"
    return value.rpartition("::")[2].strip('"')


def settings(root: Path) -> list[Setting]:
    """All rows of the table, by name."""
    text, header = source(root, "core/base/config.cc"), source(root, "core/base/config.h")
    makers, rows = row_makers(text), []
    for found in re.finditer(r"\btable\.push_back\(", text):
        values = expand(arguments(text, found.end() - 1)[0][0], makers)
        texts = [literal(value) for value in values[:4]]
        field = re.search(r"(?:&Config::|config\.)(\w+)", " ".join(values[4:]))
        if None in texts or field is None:
            raise TableError(f"a row of core/base/config.cc cannot be read: {values[0]}")
        default = default_of(header, field[1])
        if default.startswith("-") and texts[2].startswith("auto"):
            default = "auto"
        rows.append(Setting("RUEDA_" + texts[0], texts[1], texts[2], texts[3], default))
    return sorted(rows, key=lambda row: row.name)


# Flags: a reader for each program

def ruedarun_flags(root: Path) -> list[Flag]:
    text = source(root, "launcher/cli/flags.cc")
    words = {name: literal(value) for name, value in re.findall(r'constexpr std::string_view (\w+) =\s*((?:"(?:\\.|[^"\\])*"\s*)+);', text)}
    sections = {"own": "", "setting": "Flags that set a setting for all ranks",
                "ignored": "Flags of horovodrun without an effect", "refused": "Flags of horovodrun that are refused"}
    known, rows = {row.name for row in settings(root)}, []
    for found in re.finditer(r"\bFlag\{", text):
        values = arguments(text, found.end() - 1)[0]
        kind = values[0].rpartition("::")[2]
        meaning = words.get(values[3]) or literal(values[3])
        if kind == "setting":
            variable = f"RUEDA_{literal(values[4])}"
            meaning = f"`{variable}`" + ("" if variable in known else ", no setting of this version: ignored")
        if meaning is None:
            raise TableError(f"a row of launcher/cli/flags.cc cannot be read: {values[1]}")
        rows.append(Flag(literal(values[1]), literal(values[2]), meaning, sections[kind]))
    return rows


def trainer_flags(root: Path, function: str) -> list[Flag]:
    """The rows that `function` adds, and those of the functions add_... that it calls."""
    text = "\n".join(source(root, path.relative_to(root).as_posix()) for path in sorted((root / TRAINER_FOLDER).glob("*.cc")))
    rows, section = [], ""

    def add(name: str) -> None:
        nonlocal section
        inside = body(text, rf"\b(?:void|Flags) {name}\([^)]*\) (?=\{{)\{{")
        for found in re.finditer(r"\bflags\.(\w+)\(|\b(add_\w+)\(", inside):
            if found[2]:
                add(found[2])
                continue
            values = [literal(value) for value in arguments(inside, found.end() - 1)[0]]
            if found[1] == "section":
                section = values[0]
            else:
                words = [value for value in values if value is not None]
                if len(words) != 3:
                    raise TableError(f"a row of {name} cannot be read: {values}")
                rows.append(Flag(*words, section))

    add(function)
    return rows


def bench_flags(root: Path) -> list[Flag]:
    text = source(root, BENCH_FILES[0])
    everything = text + source(root, BENCH_FILES[1])
    inside, rows = body(text, r"description_of\([^)]*\) \{"), []
    for found in re.finditer(r"\badd\(", inside):
        values = arguments(inside, found.end() - 1)[0]
        name, meaning = literal(values[0]).partition(",")[0], literal(values[-1])
        if name == "help":
            continue
        value = "" if "bool_switch" in values[1] else "VALUE"
        if defaulted := re.fullmatch(r"value\(\w+\.(\w+)\)", values[1]):
            default = re.search(rf"^  [\w:]+ {defaulted[1]} = ([^;]+);", everything, re.MULTILINE)
            meaning += f" [{default[1].strip(chr(34))}]"
        rows.append(Flag(name, value, meaning))
    return rows


def script_flags(root: Path, script: str) -> list[Flag]:
    """The flags that a Python script adds to its parser, without those that its help leaves out."""
    rows = []
    for call in ast.walk(ast.parse((root / script).read_text(encoding="utf-8"))):
        if isinstance(call, ast.Call) and getattr(call.func, "attr", "") == "add_argument":
            meaning = next((keyword.value for keyword in call.keywords if keyword.arg == "help"), None)
            if isinstance(meaning, ast.Constant):
                text, _, default = meaning.value.partition("; default: ")
                rows.append(Flag(call.args[0].value.removeprefix("--"), "VALUE", text + (f" [{default}]" if default else "")))
    if not rows:
        raise TableError(f"{script} adds no flags")
    return rows


PROGRAMS = {
    "ruedarun": ruedarun_flags,
    "train_bert": lambda root: trainer_flags(root, "bert_flags"),
    "distill": lambda root: trainer_flags(root, "distill_flags"),
    "evaluate_lm": lambda root: trainer_flags(root, "evaluate_lm_flags"),
    "rueda-bench": bench_flags,
    "rueda-bench start": lambda root: script_flags(root, "bench/peers/start.py"),
}


# Pages

def cell(text: str) -> str:
    """Text of a cell: nothing in it is markup, but what stands in backticks."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"([\\|*_\[\]])", r"\\\1", part).replace("<", "&lt;").replace(">", "&gt;") for part in parts[::2]]
    return "`".join(parts)


def settings_table(root: Path) -> str:
    lines = ["| variable | values | default | meaning |", "|---|---|---|---|"]
    for row in settings(root):
        also = f". Also `{row.alias}`" if row.alias else ""
        default = f"`{row.default}`" if row.default else "nothing"
        lines.append(f"| `{row.name}` | {cell(row.legal)} | {default} | {cell(row.meaning)}{also} |")
    return "\n".join(lines)


def flags_tables(root: Path, program: str) -> str:
    lines, section = [], None
    for row in PROGRAMS[program](root):
        if row.section != section:
            section = row.section
            heading = [f"### {section[0].upper()}{section[1:]}", ""] if section else []
            lines += ["", *heading, "| flag | meaning |", "|---|---|"]
        # Python-Markdown takes no bar in code for the end of a cell.
        lines.append(f"| `{f'--{row.name} {row.value}'.strip()}` | {cell(row.meaning)} |")
    return "\n".join(lines).strip()


MARK = re.compile(r"^<!-- table: (settings|flags of ([\w -]+)) -->$", re.MULTILINE)


def filled(root: Path, page: str) -> str:
    """A page with its tables instead of their marks."""
    def table(found):
        if found[2] is None:
            return settings_table(root)
        if found[2] not in PROGRAMS:
            raise TableError(f"there is no table of flags of {found[2]}; it must be one of {', '.join(PROGRAMS)}")
        return flags_tables(root, found[2])
    return MARK.sub(table, page)
