#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rules of the project that no compiler knows: layers, cycles of includes and of folders, rooms in a folder, lengths of functions, first lines, paths,
names of types, public headers, and in pages: names of files and functions, links, tables and words.

lint.py [--root DIR]                                      the rules
lint.py [--root DIR] --headers FOLDER... [--compiler C] [--include DIR]...   every header there compiles alone
"""

import argparse
import itertools
import sys
from pathlib import Path

sys.dont_write_bytecode = True

import classes
import contents
import excerpts
import functions
import glossary
import headers
import layers
import lengths
import listed
import names
import pages
import public
import texts
from sources import Tree

RULES = [layers.check_layers, layers.check_cycles, layers.check_folder_cycles, layers.check_rooms,
         lengths.check_function_lengths,
         texts.check_first_lines, texts.check_guards, texts.check_conditionals, texts.check_paths,
         functions.check_functions, functions.check_counts, names.check_types_are_one, classes.check_classes,
         public.check_public_headers, public.check_reach, public.check_reference,
         pages.check_links, pages.check_reached, pages.check_pictures, pages.check_tables, pages.check_readme_lengths, contents.check_contents, contents.check_every_folder,
         excerpts.check_excerpts,
         glossary.check_glossary, glossary.check_words, glossary.check_names,
         listed.check_every_test_is_run]


def problems_of(tree):
    return list(itertools.chain.from_iterable(rule(tree) for rule in RULES))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", default=Path(__file__).resolve().parents[2], help="default: this project")
    parser.add_argument("--headers", nargs="+", metavar="FOLDER", help="compile every header of these folders alone")
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("--include", action="append", default=[], help="another folder with headers")
    arguments = parser.parse_args()
    tree = Tree(arguments.root)
    if not any(tree.cpp()):
        sys.exit(f"lint: no C++ file below {arguments.root}")
    if arguments.headers:
        missing = [header for header in ("mpi.h", "nccl.h", "cuda_runtime_api.h")
                   if not any((Path(folder) / header).exists() for folder in arguments.include)]
        problems = list(headers.check_headers(tree, arguments.headers, arguments.compiler, arguments.include, missing))
    else:
        problems = problems_of(tree)
        print(f"{len(tree.files)} files, {len(RULES)} rules")
        for part in (layers, classes, public, pages, functions):
            print(part.summary(tree))
    for problem in problems:
        print(problem, file=sys.stderr)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
