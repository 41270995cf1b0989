# SPDX-License-Identifier: Apache-2.0
"""The tables of the reference pages have every setting and every flag of the sources, and a row that cannot be read is an error."""

import re
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs"))

import source_tables as tables


def text_of(*paths):
    return "\n".join((ROOT / path).read_text(encoding="utf-8") for path in paths)


class TablesTest(unittest.TestCase):
    def settings_of(self, rows, fields="  bool shm = true;\n"):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        base = Path(folder.name) / "core/base"
        base.mkdir(parents=True)
        (base / "config.cc").write_text(rows)
        (base / "config.h").write_text(f"struct Config {{\n{fields}}};\n")
        return tables.settings(Path(folder.name))

    def test_every_field_is_a_setting(self):
        config = re.search(r"^struct Config \{\n(.*?)^\};", text_of("core/base/config.h"), re.M | re.S)[1]
        fields = re.findall(r"^  [\w:]+ (\w+)(?: = [^;]+)?;", config, re.M)
        self.assertGreater(len(fields), 30)
        rows = tables.settings(ROOT)
        self.assertEqual(len(rows), len(fields))
        self.assertEqual(len({row.name for row in rows}), len(rows))
        for row in rows:
            self.assertTrue(row.name.startswith("RUEDA_") and row.legal and row.meaning, row)

    def test_every_alias_is_told(self):
        aliases = set(re.findall(r'"(HOROVOD_\w+)"', text_of("core/base/config.cc")))
        self.assertEqual({row.alias for row in tables.settings(ROOT)} - {""}, aliases)

    def test_rows(self):
        rows = {row.name: row for row in tables.settings(ROOT)}
        self.assertEqual(rows["RUEDA_FUSION_THRESHOLD"],
                         tables.Setting("RUEDA_FUSION_THRESHOLD", "HOROVOD_FUSION_THRESHOLD", "bytes, 0 to 68719476736",
                                        "tensors are fused into buffers of at most so many bytes; 0: never", "67108864"))
        self.assertEqual([rows[f"RUEDA_{name}"].default for name in ("SHM", "CYCLE_TIME", "REDUCTION_ORDER", "SHORT_BYTES", "WINDOW_LIMIT", "RAILS")],
                         ["1", "1", "any", "auto", "1099511627776", ""])

    def test_rows_that_cannot_be_read(self):
        good = 'table.push_back({"SHM", "", "0 or 1", "use, or // not", [](Config& config) { config.shm = true; }});'
        self.assertEqual(self.settings_of(good), [tables.Setting("RUEDA_SHM", "", "0 or 1", "use, or // not", "1")])
        self.assertEqual(self.settings_of("// " + good), [])
        for bad in (good.replace('"SHM"', "kName"), good.replace("config.shm", "shm"), good.replace(".shm", ".gone"), good.replace("{", "row(", 1), good[:-8]):
            with self.assertRaises(tables.TableError, msg=bad):
                self.settings_of(bad)

    def test_every_flag_of_ruedarun(self):
        names = re.findall(r'\bFlag\{\s*Kind::\w+,\s*"([\w-]+)"', text_of("launcher/cli/flags.cc"))
        self.assertGreater(len(names), 60)
        self.assertEqual([row.name for row in tables.PROGRAMS["ruedarun"](ROOT)], names)

    def test_every_flag_of_the_trainers(self):
        folder = "examples/lib/training/options"
        sources = text_of(*(path.relative_to(ROOT) for path in (ROOT / folder).glob("*_options.cc")), f"{folder}/options.cc", f"{folder}/compute_device.cc")
        names = set(re.findall(r'\bflags\.(?!given|apply|section)\w+\(\s*"([\w-]+)"', sources))
        found = [{row.name for row in tables.PROGRAMS[program](ROOT)} for program in ("train_bert", "distill", "evaluate_lm")]
        self.assertEqual(set.union(*found), names)
        self.assertEqual(set.intersection(*found) >= {"data", "dtype", "device", "cache"}, True)

    def test_every_flag_of_the_benchmark(self):
        names = re.findall(r'^  add\("([\w-]+)', text_of("bench/rueda_bench/workload/bench_options.cc"), re.M)
        rows = tables.PROGRAMS["rueda-bench"](ROOT)
        self.assertEqual([row.name for row in rows], [name for name in names if name != "help"])
        self.assertTrue(next(row for row in rows if row.name == "steps").meaning.endswith("[1000]"))

    def test_every_flag_of_a_script(self):
        names = re.findall(r'add_argument\("--([\w-]+)"', text_of("bench/peers/start.py"))
        rows = tables.PROGRAMS["rueda-bench start"](ROOT)
        self.assertEqual([row.name for row in rows], [name for name in names if name != "rueda-bench"])
        self.assertEqual(rows[1].meaning, "numbers of ranks, by commas [2,16,64]")
        with self.assertRaises(tables.TableError):
            tables.script_flags(ROOT, "docs/site.py")

    def test_pages(self):
        for page, marks in (("docs/settings.md", 1), ("docs/flags.md", len(tables.PROGRAMS))):
            text = text_of(page)
            self.assertEqual(len(tables.MARK.findall(text)), marks)
            self.assertNotIn("<!--", tables.filled(ROOT, text))
        self.assertIn("| `--sync WHEN` |", tables.filled(ROOT, "<!-- table: flags of train_bert -->\n"))
        self.assertIn("`--shard yes|no` |", tables.filled(ROOT, "<!-- table: flags of train_bert -->\n"))
        with self.assertRaises(tables.TableError):
            tables.filled(ROOT, "<!-- table: flags of nothing -->\n")
        self.assertEqual(tables.cell("a|b <c> `d_e` f_g"), "a\\|b &lt;c&gt; `d_e` f\\_g")


if __name__ == "__main__":
    unittest.main()
