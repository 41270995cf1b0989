# SPDX-License-Identifier: Apache-2.0
"""SQuAD windows against transformers, SQuAD's metric against a transcription of its script, safetensors files
against the package safetensors, and the sample against the script that makes it.

RUEDA_BIN names the folder of the built programs; the real texts are under RUEDA_DATA.
"""

import collections
import json
import random
import re
import string
import subprocess
import sys

import pytest

from bert_reference import (
    ROOT,
    SAMPLE,
    SAMPLE_VOCABULARY,
    byte_offsets,
    data_folder,
    program,
    real_vocabulary,
    reference_tokenizer,
)

torch = pytest.importorskip("torch")
safetensors_torch = pytest.importorskip("safetensors.torch")


def test_sample_is_what_its_script_makes(tmp_path):
    subprocess.run(
        [sys.executable, str(ROOT / "examples" / "data" / "make_sample.py"), "--output", str(tmp_path)],
        check=True,
        timeout=60,
    )
    for made in (SAMPLE, SAMPLE.with_name("squad2_sample.json"), SAMPLE_VOCABULARY):
        assert (tmp_path / made.name).read_bytes() == made.read_bytes()
        assert made.stat().st_size < 700_000


def normalize_answer(text):
    """SQuAD v1.1: lower case, without punctuation, articles and needless white space."""
    text = "".join(c for c in text.lower() if c not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def reference_score(prediction, truths):
    best_exact = best_f1 = 0.0
    predicted = normalize_answer(prediction).split()
    for truth in truths:
        best_exact = max(best_exact, float(normalize_answer(prediction) == normalize_answer(truth)))
        wanted = normalize_answer(truth).split()
        common = sum((collections.Counter(predicted) & collections.Counter(wanted)).values())
        if common:
            precision, recall = common / len(predicted), common / len(wanted)
            best_f1 = max(best_f1, (2 * precision * recall) / (precision + recall))
    return best_exact, best_f1


def metric_cases():
    generator = random.Random(3)
    words = [
        "the",
        "a",
        "an",
        "The",
        "AN",
        "a.",
        "-the-",
        "thé",
        "a–b",
        "the—end",
        "red",
        "Red,",
        "lamp",
        "1974",
        "x²",
        "½",
        "Σας",
        "İ",
        "a\u0301",
        "“the”",
        "it's",
        "(a)",
        "_an_",
        "\u00a0",
        "\u2003",
        "\x1c",
        "漢字",
        "the漢",
        "theory",
        "U.S.A.",
        "a\u200bthe",
        "😀",
    ]
    cases = [("", ["x"]), ("", [""]), ("the", ["a"]), ("The red lamp.", ["red lamp", "lamp"])]
    for _ in range(5000):
        truths = [
            " ".join(generator.choices(words, k=generator.randint(1, 6)))
            for _ in range(generator.randint(1, 3))
        ]
        base = generator.choice(truths).split(" ")
        generator.shuffle(base)
        taken = base[: generator.randint(0, 6)] + generator.choices(words, k=generator.randint(0, 2))
        prediction = generator.choice([" ", "", "  "]).join(taken)
        cases.append((prediction, truths))
    return cases


def compare_scores(cases):
    text = "".join(
        json.dumps({"prediction": prediction, "truths": truths}) + "\n" for prediction, truths in cases
    )
    result = subprocess.run(
        [program("bert_data_check"), "score"],
        input=text.encode(),
        capture_output=True,
        check=True,
        timeout=120,
    )
    rows = [tuple(float(x) for x in row.split()) for row in result.stdout.decode().splitlines()]
    assert len(rows) == len(cases)
    wanted = [reference_score(*case) for case in cases]
    different = [entry for entry in zip(cases, rows, wanted) if entry[1] != entry[2]]
    assert not different, f"{len(different)} of {len(cases)} differ; the first: {different[0]}"
    return rows


def test_metric_equals_the_script_on_made_up_answers():
    rows = compare_scores(metric_cases())
    assert sum(row[0] for row in rows) > 100 and any(0 < row[1] < 1 for row in rows)


def test_metric_equals_the_script_on_real_answers():
    answers = []
    for article in json.loads((data_folder() / "squad" / "xquad.en.json").read_text(encoding="utf-8"))[
        "data"
    ]:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                text, start = question["answers"][0]["text"], question["answers"][0]["answer_start"]
                answers += [
                    (paragraph["context"][max(0, start - shift) : start + len(text) + 5 - shift], [text])
                    for shift in range(12)
                ]
    compare_scores(answers)


@pytest.mark.parametrize("max_length, stride", [(384, 128), (128, 40), (100, 0)])
def test_windows_equal_transformers(max_length, stride):
    path = data_folder() / "squad" / "xquad.en.json"
    tokenizer = reference_tokenizer(real_vocabulary())
    result = subprocess.run(
        [
            program("bert_data_check"),
            "features",
            str(path),
            str(real_vocabulary()),
            str(max_length),
            str(stride),
        ],
        capture_output=True,
        check=True,
        timeout=120,
    )
    ours = [json.loads(row) for row in result.stdout.decode().splitlines()]
    wanted = []
    pairs = [
        (question, paragraph["context"])
        for article in json.loads(path.read_text(encoding="utf-8"))["data"]
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    ]
    for index, (question, context) in enumerate(pairs):
        encoded = tokenizer(
            question["question"],
            context,
            truncation="only_second",
            max_length=max_length,
            stride=stride,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
        )
        answer = question["answers"][0]
        begin, end = answer["answer_start"], answer["answer_start"] + len(answer["text"])
        for window, ids in enumerate(encoded["input_ids"]):
            offsets, sequence = encoded["offset_mapping"][window], encoded.sequence_ids(window)
            inside = [i for i, part in enumerate(sequence) if part == 1]
            touching = [i for i in inside if offsets[i][1] > begin and offsets[i][0] < end]
            whole = touching and offsets[touching[0]][0] <= begin and offsets[touching[-1]][1] >= end
            span = [touching[0], touching[-1]] if whole else [0, 0]
            wanted.append(
                {
                    "question": index,
                    "input_ids": ids,
                    "token_types": encoded["token_type_ids"][window],
                    "span": span,
                    "offsets": [list(o) for o in byte_offsets(context, [offsets[i] for i in inside])],
                }
            )
    assert len(ours) == len(wanted)
    different = [(a, b) for a, b in zip(ours, wanted) if a != b]
    print(f"{len(wanted)} windows of {len(pairs)} questions, {len(different)} different")
    assert not different, f"{len(different)} of {len(wanted)} windows differ; the first: {different[0]}"


def test_safetensors_round_trip_with_python(tmp_path):
    generator = torch.Generator().manual_seed(5)
    dtypes = [
        torch.float32,
        torch.float16,
        torch.bfloat16,
        torch.float64,
        torch.int64,
        torch.int32,
        torch.int16,
        torch.int8,
        torch.uint8,
        torch.bool,
    ]
    tensors = {
        f"tensor.{i}": (torch.rand(i, 3, generator=generator) * 100).to(dtype)
        for i, dtype in enumerate(dtypes)
    }
    tensors["a scalar ü"] = torch.tensor(2.5)
    source, copy = tmp_path / "source.safetensors", tmp_path / "copy.safetensors"
    safetensors_torch.save_file(tensors, source, metadata={"format": "pt", "note": "é\n"})
    subprocess.run([program("bert_data_check"), "copy", str(source), str(copy)], check=True, timeout=60)
    loaded = safetensors_torch.load_file(copy)
    assert loaded.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert (
            loaded[name].dtype == tensor.dtype
            and loaded[name].shape == tensor.shape
            and torch.equal(loaded[name], tensor)
        )
    safetensors = pytest.importorskip("safetensors")
    with safetensors.safe_open(copy, framework="pt") as file:
        assert file.metadata() == {"format": "pt", "note": "é\n"}
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".tmp")] == []


def test_safetensors_of_a_real_checkpoint_round_trip(tmp_path):
    source = real_vocabulary().parent / "model.safetensors"
    copy = tmp_path / "copy.safetensors"
    subprocess.run([program("bert_data_check"), "copy", str(source), str(copy)], check=True, timeout=120)
    wanted, found = safetensors_torch.load_file(source), safetensors_torch.load_file(copy)
    assert wanted.keys() == found.keys()
    assert all(torch.equal(wanted[name], found[name]) for name in wanted)
