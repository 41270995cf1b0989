# SPDX-License-Identifier: Apache-2.0
"""Every rule fires where it should, and only there, on small trees made for the purpose."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).parent))

import classes
import functions
import headers
import layers
import lengths
import lint
import pages
import public
from sources import Tree

SPDX = "// SPDX-License-Identifier: Apache-2.0\n"
PY = "# SPDX-License-Identifier: Apache-2.0\n\"\"\"A test.\"\"\"\n"
HEADER = SPDX + "#pragma once\n"


class LintTest(unittest.TestCase):
    def tree(self, **files):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for name, text in files.items():
            path = Path(folder.name) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return Tree(folder.name)

    def rules_broken(self, files):
        return [problem.rule for problem in lint.problems_of(self.tree(**files))]

    def assert_includes(self, path, target, rule):
        start = HEADER if path.endswith(".h") else SPDX
        broken = self.rules_broken({path: start + f"#include {target}\n"})
        self.assertEqual(broken, [rule] if rule else [], f"{path} includes {target}")

    def test_layers(self):
        for path, target, fine in [
                ("core/base/a.h", '"core/base/b.h"', True), ("core/base/a.h", '"core/control/b.h"', False),
                ("core/control/a.cc", '"core/base/b.h"', True), ("core/control/a.cc", '"core/engine/b.h"', False),
                ("core/engine/a.h", '"core/observe/b.h"', True), ("core/observe/a.h", '"core/engine/b.h"', False),
                ("core/engine/a.h", '"core/default_runtime.h"', False), ("core/default_runtime.h", '"core/engine/b.h"', True),
                ("core/base/a.h", '"rueda/b.h"', True), ("core/base/a.h", '"rueda/torch/b.h"', False),
                ("frameworks/torch/a.h", '"rueda/torch/b.h"', True), ("examples/1/a.cc", '"rueda/torch.h"', True),
                ("core/rueda.cc", '"ops/setup/defaults.h"', False), ("ops/schedules/ring.h", '"core/engine/b.h"', True),
                ("ops/schedules/ring.h", '"frameworks/torch/b.h"', False), ("ops/kernels/a.cc", '"ops/schedules/ring.h"', False),
                ("frameworks/torch/a.cc", '"ops/setup/defaults.h"', True), ("frameworks/torch/a.cc", '"examples/b.h"', False),
                ("examples/1/a.cc", '"frameworks/torch/b.h"', True), ("launcher/a.cc", '"core/base/b.h"', True),
                ("launcher/a.cc", '"core/engine/b.h"', False), ("tests/unit/a.cc", '"core/engine/b.h"', True)]:
            self.assert_includes(path, target, None if fine else "layer")

    def test_public_headers_include_only_public_ones(self):
        header = {"include/rueda/a.h": HEADER + '#include <string>\n#include "rueda/b.h"\n', "include/rueda/b.h": HEADER, "core/c.h": HEADER}
        self.assertEqual(self.rules_broken(header), [])
        for line, rules in [('"core/c.h"', ["layer", "public"]), ("<core/c.h>", ["public"]), ('"b.h"', ["public"]), ('"rueda/gone.h"', ["public"])]:
            self.assertEqual(self.rules_broken(header | {"include/rueda/a.h": HEADER + f"#include {line}\n"}), rules, line)

    def test_the_front_door_reaches_few_headers(self):
        names = ["rueda"] + [f"a{number}" for number in range(20)]
        chain = {f"include/rueda/{name}.h": HEADER + f'#include "rueda/{target}.h"\n' for name, target in zip(names, names[1:])}
        last = {f"include/rueda/{names[-1]}.h": HEADER}
        self.assertEqual([rule for rule in self.rules_broken(chain | last) if rule != "rooms"], ["reach"])
        shorter = {f"include/rueda/{names[-2]}.h": HEADER}
        self.assertEqual([rule for rule in self.rules_broken(chain | last | shorter) if rule != "rooms"], [])
        self.assertIn("reaches 20 headers", public.summary(self.tree(**(chain | last | shorter))))

    def test_the_reference_reads_the_public_folder(self):
        for inputs, broken in [("docs/reference.md include/rueda", []), ("include/rueda core/a.h", ["reference"]), ("docs/reference.md", ["reference"])]:
            self.assertEqual(self.rules_broken({"docs/Doxyfile": f"INPUT = {inputs}\nRECURSIVE = YES\n"}), broken)
        self.assertEqual(self.rules_broken({"docs/Doxyfile": "INPUT = include/rueda\n"}), ["reference"])

    def test_a_door_belongs_to_its_folder(self):
        files = {"include/rueda/x.h": HEADER + '#include "rueda/x/y.h"\n', "include/rueda/x/y.h": HEADER + '#include "rueda/z.h"\n',
                 "include/rueda/z.h": HEADER}
        self.assertEqual(self.rules_broken(files), [])
        self.assertEqual(self.rules_broken(files | {"include/rueda/z.h": HEADER + '#include "rueda/x/w.h"\n', "include/rueda/x/w.h": HEADER}), ["folder cycle"])

    def test_readme_lengths(self):
        for path, lines, broken in [("README.md", 150, []), ("README.md", 151, ["README length"]), ("core/README.md", 120, []),
                                    ("core/README.md", 121, ["README length"]), ("docs/page.md", 500, [])]:
            self.assertEqual(self.rules_broken({path: "word\n" * lines}), broken, f"{path}, {lines} lines")
        self.assertEqual(self.rules_broken({"core/README.md": "word " * 16801}), ["README length"])

    def test_numbers_of_a_readme(self):
        for page, broken in [("7 words\n" * 30, []), ("7 words\n" * 31, ["README numbers"]), ("`7` words\n" * 31, []), ("rank 7\n" * 31, []),
                             ("    code 7\n" * 31, [])]:
            self.assertEqual(self.rules_broken({"core/README.md": page}), broken, page[:12])

    def test_words_of_readmes_are_printed(self):
        tree = self.tree(**{"README.md": "two words\n", "core/README.md": "three more words", "docs/page.md": "no README"})
        self.assertEqual(pages.summary(tree), "2 READMEs: 5 words, at most 16000; 0 numbers outside of code, 0 in one, at most 30")
        tree = self.tree(**{"README.md": "2 of 1,000 take 3.5 s, x4, `5` [a](6) 7 µs\n```\n8\n```\n"})
        self.assertIn(" 4 numbers", pages.summary(tree))

    def test_what_is_printed(self):
        files = {"ops/a/x.h": HEADER + '#include "ops/b/y.h"\nclass Wide {\n  void f();\n  void g();\n  int data_;\n};\n', "ops/b/y.h": HEADER,
                 "ops/b/z.h": HEADER + '#include "ops/a/w.h"\n', "ops/a/w.h": HEADER, "ops/a/v.cc": SPDX, "ops/b.h": HEADER}
        words = layers.summary(self.tree(**files))
        for part in ("2 folders: 1 cycles", "of its name counts to that folder: ops/b.h", "most rooms (a header with its source): 3 in ops/a"):
            self.assertIn(part, words)
        self.assertIn("Wide in ops/a/x.h: 2 functions of at most 40, 1 data members", classes.summary(self.tree(**files)))
        self.assertIn("0 cycles", layers.summary(self.tree(**{"ops/a.h": HEADER})))

    GLOSSARY = "# Glossary\n## A\n| word | meaning | known from |\n|---|---|---|\n| rank | a process | MPI |\n{}\n" \
        "## B\n| word | meaning | known from |\n|---|---|---|\n| readiness | who has it | – |\n\n| not | but |\n|---|---|\n{}"

    def test_glossary(self):
        for more, replaced, broken in [
                ("", "", 0), ("| host | a machine | Horovod |", "| tally | readiness |", 0), ("| Readiness | again | – |", "", 1),
                ("", "| rank | readiness |", 1), ("", "| tally | nothing |", 1)]:
            self.assertEqual(self.rules_broken({"docs/glossary.md": self.GLOSSARY.format(more, replaced)}), ["glossary"] * broken, (more, replaced))

    def test_replaced_words(self):
        glossary = {"docs/glossary.md": self.GLOSSARY.format("", "| tally | readiness |\n| roll call | readiness |\n| wish | readiness |\n")}
        for text, broken in [("the rank", 0), ("The Tally of it", 1), ("two tallies", 1), ("its wishes, its roll calls", 2), ("`tally`", 0),
                             ("```\ntally\n```", 0), ("totally wishful", 0)]:
            for path in ("README.md", "core/README.md", "docs/concepts/a.md", "docs/tutorials/a.md"):
                self.assertEqual(self.rules_broken(glossary | {path: text + "\n"}), ["glossary"] * broken, (path, text))
            self.assertEqual(self.rules_broken(glossary | {"docs/decisions/001-names.md": text + "\n"}), [])

    def test_replaced_names(self):
        glossary = {"docs/glossary.md": self.GLOSSARY.format("", "| tally | readiness |\n\n| name | instead |\n|---|---|\n| wire | channel |\n| place | index |\n")}
        for code, broken in [("int channel;", 0), ("int wire;", 1), ("int wires_;", 1), ("struct Wire {};", 1), ("constexpr int kWireBytes = 1;", 1),
                             ("own_wire();", 1), ("int rewired;", 0), ("int a;  // a wire", 0), ('auto a = "wire";', 0), ("int place;", 1), ("place();", 0),
                             ("bool in_place;", 0),
                             ("constexpr int kPlaces = 1;", 1), ("int places_;", 1)]:
            self.assertEqual(self.rules_broken(glossary | {"ops/a.h": HEADER + code + "\n"}), ["glossary"] * broken, code)
            self.assertEqual(self.rules_broken(glossary | {"bench/a.h": HEADER + code + "\n"}), [], code)

    def test_every_test_is_run(self):
        files = {"tests/unit/a/x_test.cc": SPDX, "tests/python/test_y.py": PY, "tests/unit/CMakeLists.txt": "# SPDX-License-Identifier: Apache-2.0\nadd(\n  a/x_test.cc\n)\n",
                 "tests/python/CMakeLists.txt": "# SPDX-License-Identifier: Apache-2.0\nrueda_pytest(y 60)\n"}
        self.assertEqual(self.rules_broken(files), [])
        for path, text in (("tests/unit/a/z_test.cc", SPDX), ("tests/unit/b/x_test.cc", SPDX), ("tests/python/test_z.py", PY), ("tests/python/page/test_z.py", PY)):
            self.assertEqual(self.rules_broken(files | {path: text}), ["listed"], path)
        self.assertEqual(self.rules_broken(files | {"tests/python/torch/test_z.py": PY, "tests/lint/z_test.py": PY}), [])

    def test_folder_cycles(self):
        files = {"ops/a/x.h": HEADER + '#include "ops/b/y.h"\n', "ops/b/y.h": HEADER,
                 "ops/b/z.h": HEADER + '#include "ops/a/w.h"\n', "ops/a/w.h": HEADER}
        self.assertEqual(self.rules_broken(files), ["folder cycle"])
        self.assertEqual(self.rules_broken(files | {"ops/b/z.h": HEADER}), [])
        self.assertEqual(self.rules_broken({f"tests{path[3:]}": text for path, text in files.items()}), [])

    def test_rooms(self):
        files = {f"ops/a/{number}.{end}": HEADER for number in range(16) for end in ("h", "cc")}
        self.assertEqual(self.rules_broken(files), [])
        self.assertEqual(self.rules_broken(files | {"ops/a/16.h": HEADER}), ["rooms"])
        self.assertEqual(self.rules_broken(files | {"ops/a/b/16.h": HEADER}), [])

    def test_links(self):
        page = {"docs/a.md": "[b](b.md#part) [c](../c) `[x](nothing)` [web](https://a.b/c)\n```\n[y](nothing)\n```\n", "docs/b.md": "", "c/d.md": ""}
        self.assertEqual(self.rules_broken(page), [])
        self.assertEqual(self.rules_broken(page | {"docs/b.md": "[e](e.md)"}), ["link"])
        self.assertEqual(self.rules_broken(page | {"docs/b.md": "[e](../../e.md)"}), ["link"])

    def test_every_page_is_reached(self):
        files = {"README.md": "[pages](docs/README.md)\n", "docs/README.md": "[a](a.md)\n", "docs/a.md": "[b](b/c.md#x) [a](a.md)\n", "docs/b/c.md": "\n"}
        self.assertEqual(self.rules_broken(files), [])
        self.assertEqual(self.rules_broken(files | {"docs/a.md": "`[b](b/c.md)`\n"}), ["unreached"])
        self.assertEqual(self.rules_broken(files | {"docs/README.md": "no link\n"}), ["unreached"])
        self.assertEqual(self.rules_broken({"docs/a.md": "text\n"}), [])

    def test_pictures(self):
        page = "a; b\n```mermaid\nsequenceDiagram\n  A->>B: one, two\n```\nc; d\n```\ne; f\n```\n"
        self.assertEqual(self.rules_broken({"docs/a.md": page}), [])
        problems = lint.problems_of(self.tree(**{"docs/a.md": page.replace("one,", "one;")}))
        self.assertEqual([(problem.rule, problem.line) for problem in problems], [("picture", 4)])
        self.assertEqual(self.rules_broken({"docs/a.txt": page.replace("one,", "one;")}), [])

    def test_excerpts(self):
        files = {"examples/a.cc": SPDX + "int main() {\n  first();\n\n  second();\n}\n", "examples/b.py": "# SPDX-License-Identifier: Apache-2.0\nstart()\n"}
        cpp, python = "<!-- from examples/a.cc -->\n```cpp\n{}\n```\n", "<!-- from examples/b.py -->\n```python\nstart()\n```\n"
        for page, broken in [(cpp.format("first();\n\nsecond();"), 0), (cpp.format("second();"), 0), (python, 0), (cpp.format("second();\nfirst();"), 1),
                             (cpp.format("third();"), 1), (cpp.format("first();\nsecond();"), 1), (python.replace("b.py", "c.py"), 1),
                             (python.replace("b.py", "a.cc"), 1), ("\n```sh\nls\n```\n", 0)]:
            for path in ("docs/tutorials/a.md", "README.md"):
                self.assertEqual(self.rules_broken(files | {path: page}), ["excerpt"] * broken, page)
        alone = "text\n\n```cpp\nfirst();\n```\n"
        self.assertEqual(self.rules_broken(files | {"docs/tutorials/a.md": alone}), ["excerpt"])
        self.assertEqual(self.rules_broken(files | {"docs/concepts/a.md": alone}), [])

    def test_tables(self):
        table = "| a | b |\n|---|---|\n| 1 | `x|y` |\n| 2 | \\| |\n"
        self.assertEqual(self.rules_broken({"a.md": table}), [])
        self.assertEqual(self.rules_broken({"a.md": table + "| 3 |\n"}), ["table"])
        self.assertEqual(self.rules_broken({"a.md": table + "| 3 | 4 | 5 |\n"}), ["table"])
        self.assertEqual(self.rules_broken({"a.md": "| a |\n|---|---|\n"}), ["table"])

    def test_tables_of_contents(self):
        files = {"bench/a/ring.h": HEADER, "bench/a/b/tree.cc": SPDX, "include/rueda/x.h": HEADER}
        for first, second, broken in [
                ("`a/`", "`ring`, `tree.cc`, `b/`, `ring.h`", 0), ("`a/ring`, `b`", "`rueda/x.h`, `init()`, `a-b`", 0), ("`c/`", "", 1),
                ("`a/`", "`star`", 1), ("`a/`", "`b/ring`", 1), ("`include/rueda`", "`x`", 0), ("`a/ring`, `tree`", "", 1)]:
            table = f"| folder | contents |\n|---|---|\n| {first} | {second} |\n"
            self.assertEqual(self.rules_broken(files | {"bench/README.md": table}), ["contents"] * broken, (first, second))
            self.assertEqual(self.rules_broken(files | {"bench/README.md": table.replace("folder", "flag")}), [])

    def test_every_folder_has_a_row(self):
        files = {"ops/a/x.h": HEADER, "ops/b/c/y.h": HEADER, "ops/z.h": HEADER}
        table = "| folder | contents |\n|---|---|\n{}"
        for table_rows, broken in [("| `a/` | |\n| `b/` | |\n", 0), ("| `a/`, `b/c/` | |\n", 0), ("| `a/` | `b/` |\n", 1), ("| `z` | |\n", 2), ("", 0)]:
            self.assertEqual(self.rules_broken(files | {"ops/README.md": table.format(table_rows)}), ["contents"] * broken, table_rows)
        self.assertEqual(self.rules_broken({"bench/a/x.h": HEADER, "bench/README.md": table.format("")}), [])

    def test_backends(self):
        for path, target, fine in [
                ("ops/mpi/a.cc", '"ops/mpi/b.h"', True), ("ops/mpi/a.cc", '"ops/local/b.h"', False),
                ("ops/mpi/a.cc", '"ops/algorithms/b.h"', True), ("ops/nccl/a.cc", '"ops/cuda/b.h"', True),
                ("ops/cuda/a.cc", '"ops/nccl/b.h"', False), ("ops/hierarchy/a.cc", '"ops/shm/b.h"', True),
                ("ops/algorithms/a.cc", '"ops/mpi/b.h"', False), ("ops/link/link.h", '"ops/mpi/b.h"', False),
                ("ops/setup/defaults.cc", '"ops/mpi/b.h"', True)]:
            self.assert_includes(path, target, None if fine else "backend")

    def test_vendors(self):
        for path, target, fine in [
                ("ops/mpi/a.h", "<mpi.h>", True), ("ops/schedules/ring.cc", "<mpi.h>", False), ("core/base/a.cc", "<mpi.h>", False),
                ("ops/nccl/a.cc", "<nccl.h>", True), ("ops/mpi/a.cc", "<nccl.h>", False),
                ("ops/cuda/a.cc", "<cuda_runtime.h>", True), ("ops/shm/a.cc", "<cuda_runtime.h>", False),
                ("frameworks/torch/a.cc", "<ATen/core/Tensor.h>", True), ("ops/a.cc", "<c10/core/Device.h>", False),
                ("launcher/a.cc", "<torch/torch.h>", False), ("tests/unit/a.cc", "<torch/torch.h>", True)]:
            self.assert_includes(path, target, None if fine else "vendor")

    def test_types_are_one(self):
        one = {"core/a.h": HEADER + "namespace rueda {\nstruct Hello {\n};\n}\n"}
        again = HEADER + "namespace rueda::other {\nstruct Hello {\n};\n}\nnamespace rueda {\nclass Hello;\n}\n"
        self.assertEqual(self.rules_broken(one | {"ops/a.h": again}), [])
        self.assertEqual(self.rules_broken(one | {"ops/a.h": one["core/a.h"]}), ["one type"])

    def test_cycles(self):
        def include(target):
            return HEADER + f'#include "{target}"\n'
        two = {"core/base/a.h": include("core/base/b.h"), "core/base/b.h": include("core/base/a.h")}
        self.assertEqual(self.rules_broken(two), ["cycle"])
        self.assertEqual(self.rules_broken({"core/base/a.h": include("core/base/a.h")}), ["cycle"])
        chain = {"core/base/a.h": include("core/base/b.h"), "core/base/b.h": include("core/base/c.h"),
                 "core/base/c.h": HEADER, "core/base/a.cc": SPDX + '#include "core/base/a.h"\n#include "core/base/c.h"\n'}
        self.assertEqual(self.rules_broken(chain), [])

    def test_function_length(self):
        one_line = ["void f(int a) {", "int A::f() const noexcept override {", "auto f() -> std::vector<int> {",
                    "A::A(int a) : a_(a), b_{1}, c_(2) {", "A::A() : a_{0} {", "template <class T> T f(T t) {",
                    "TEST(A, b) {", "bool operator()(int a) const {", "Type f(std::vector<int> a = {1, 2}) {"]
        for before, head, after in [("", head, "") for head in one_line] + [
                ("", "template <class T>\n  requires std::integral<T>\nT g(T t) {", ""), ("", "void f()\n{", ""),
                ("namespace a::b {\nclass C : public D<int> {\n void f() { if (x) {} }\n", "~C() {", "};\n}\n")]:
            around = head.count("\n") + 2
            for body, broken in ((60 - around, []), (61 - around, ["function length"])):
                text = SPDX + before + head + "\n" + "  x = {1, 2};\n" * body + "}\n" + after
                self.assertEqual(self.rules_broken({"ops/a.cc": text}), broken, (head, body))

    def test_what_is_no_function(self):
        text = SPDX + "namespace a {\n" + "enum class E : int {\n" + "  a,\n" * 80 + "};\n" + "int t[] = {\n" + "  1,\n" * 80 + "};\n" + \
            "struct S {\n" + "  int x = 1;  // {\n" * 80 + "};\n" + 'const char* s = "){";\n' + "}\n"
        self.assertEqual(self.rules_broken({"ops/a.cc": text}), [])
        self.assertEqual(list(lengths.functions(text)), [])

    def test_python_function_length(self):
        text = "# SPDX-License-Identifier: Apache-2.0\ndef f():\n" + "    pass\n" * 60
        self.assertEqual(self.rules_broken({"tests/a.py": text}), ["function length"])

    def test_first_lines(self):
        self.assertEqual(self.rules_broken({"core/a.cc": "int x;\n"}), ["licence"])
        self.assertEqual(self.rules_broken({"core/CMakeLists.txt": "project(x)\n"}), ["licence"])
        self.assertEqual(self.rules_broken({"tool": "#!/bin/sh\necho\n"}), ["licence"])
        self.assertEqual(self.rules_broken({"tool": "#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\n"}), [])
        self.assertEqual(self.rules_broken({"README.md": "# words\n"}), [])

    def test_guards_and_conditionals(self):
        self.assertEqual(self.rules_broken({"core/a.h": SPDX}), ["guard"])
        for line in ("#if X", "#ifdef X", "#  ifndef X"):
            self.assertEqual(self.rules_broken({"core/a.cc": SPDX + line + "\n"}), ["conditional"])
            self.assertEqual(self.rules_broken({"frameworks/torch/a.cc": SPDX + line + "\n"}), ["conditional"])
            self.assertEqual(self.rules_broken({"ops/cuda/a.cc": SPDX + line + "\n"}), [])
        self.assertEqual(self.rules_broken({"core/a.cc": SPDX + "// no #if here\n"}), [])

    def test_paths(self):
        shared, work = "../" + "shared/data", "/" + "work/main"
        for name in (shared, work):
            self.assertEqual(self.rules_broken({"README.md": f"see {name}\n"}), ["path"])
        self.assertEqual(self.rules_broken({".ci/run": f"#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\n{shared}\n"}), [])
        self.assertEqual(self.rules_broken({"README.md": "core/engine/" + "work/x and a/" + "work/b\n"}), [])

    def test_life_of_a_tensor(self):
        code = {"core/engine/a.h": HEADER + "class Coordinator {\n  void turn();\n};\n"}
        words = "# core\n`gone_before`\n## The life of a tensor\n1. `Coordinator::turn` of `Coordinator`{}\n## Else\n`gone_after`\n"
        self.assertEqual(self.rules_broken({**code, "core/README.md": words.format("")}), [])
        for gone in ("`Coordinator::fly`", "`Pilot::turn`", "`Pilot`"):
            self.assertEqual(self.rules_broken({**code, "core/README.md": words.format(", " + gone)}), ["function"])

    def test_functions_on_pages(self):
        code = {"ops/a.h": HEADER + "namespace rueda::ring {\nclass Base {\n public:\n  void from_base();\n};\n"
                "class Pilot : public Base {\n  Pilot() : data_(1) { called(); }\n  bool operator()(int argument) const;\n"
                "  static std::vector<int> turn(int times = 1);\n  int data_ = 0;\n};\nenum class State { one, two = 3 };\nvoid start();\n}\n",
                "ops/a.cc": SPDX + "void Pilot::outside() { other(); }\n"}
        names = [("Pilot::turn", True), ("Pilot::turn()", True), ("ring::Pilot::data_", True), ("Pilot::from_base", True), ("State::two", True),
                 ("ring::start", True), ("Pilot::outside", True), ("Pilot::operator()", True), ("x = rueda::ring::Pilot::turn(8)", True),
                 ("torch::gone", True), ("Pilot::called", False), ("Pilot::argument", False), ("Pilot::other", False), ("Base::turn", False),
                 ("Gone::turn", False), ("ring::gone", False), ("State::three", False)]
        for name, exists in names:
            for path in ("docs/concepts/a.md", "ops/README.md"):
                page = f"`{name}`\n```\nGone::too `Gone::too`\n```\n"
                self.assertEqual(self.rules_broken(code | {path: page}), [] if exists else ["function"], name)
            self.assertEqual(self.rules_broken(code | {"docs/decisions/1.md": f"`{name}`"}), [])

    def test_numbers_of_functions(self):
        code = {"ops/a.h": HEADER + "class A {\n  void f();\n  void g();\n};\nvoid h();\n"}
        page = "These {} functions run.\n\n| where | functions |\n|---|---|\n| here | `A::f`, `h` |\n| `A::f` | `A::g()` does |\n\n| state | functions |\n|---|---|\n| one | `A::f` |\n"
        self.assertEqual(self.rules_broken(code | {"docs/concepts/a.md": page.format(3)}), [])
        self.assertEqual(self.rules_broken(code | {"docs/concepts/a.md": page.format(4)}), ["number of functions"])
        self.assertEqual(self.rules_broken(code | {"docs/concepts/a.md": page.format(3).replace("`h`", "`gone`")}), ["function"])
        self.assertEqual(functions.summary(self.tree(**{"docs/concepts/a.md": page.format(3)})), "functions on the way, by name: 3 in docs/concepts/a.md:1")

    def test_headers_alone(self):
        tree = self.tree(**{"core/good.h": HEADER + "#include <string>\ninline std::string f() { return {}; }\n",
                            "core/bad.h": HEADER + "inline std::string f() { return {}; }\n",
                            "ops/mpi/vendor.h": HEADER + "#include <mpi.h>\n"})
        broken = [problem.path for problem in headers.check_headers(tree, ["core", "ops"], "g++", [], ["mpi.h"])]
        self.assertEqual(broken, ["core/bad.h"])


if __name__ == "__main__":
    unittest.main()
