# SPDX-License-Identifier: Apache-2.0
"""SQuAD v2.0: scores as its evaluation script counts them, the choice of no answer as BERT's scripts make it, and
train_bert on the sample that has questions without an answer. RUEDA_BIN names the folder of the programs."""

import collections
import json
import math
import os
import pathlib
import random
import re
import string
import subprocess

import pytest

RUEDA_BIN = pathlib.Path(os.environ.get("RUEDA_BIN", "build/bin"))
DATA = pathlib.Path(__file__).resolve().parents[2] / "examples" / "data"
SAMPLE = DATA / "squad2_sample.json"
TIMEOUT = 200
os.environ["OMP_NUM_THREADS"] = "1"  # several ranks wait for one another all the time where the cores are taken


def words_of(text):
    """What the script compares: lower case, without ASCII punctuation and articles."""
    bare = text.lower().translate({ord(mark): None for mark in string.punctuation})
    return re.sub(r"\b(a|an|the)\b", " ", bare).split()


def scores_of(prediction, truths):
    """Exact match and F1 of one question."""
    said = words_of(prediction)
    best = (0, 0)
    for truth in [truth for truth in truths if words_of(truth)] or [""]:
        wanted = words_of(truth)
        shared = sum((collections.Counter(wanted) & collections.Counter(said)).values())
        f1 = 0
        if not wanted or not said:
            f1 = int(wanted == said)
        elif shared:
            precision, recall = shared / len(said), shared / len(wanted)
            f1 = (2 * precision * recall) / (precision + recall)
        best = max(best[0], int(wanted == said)), max(best[1], f1)
    return best


def percent(values):
    """One after the other: Python's sum() rounds otherwise, from version 3.12 on."""
    total = 0
    for value in values:
        total += value
    return 100.0 * total / len(values)


def script_counts(questions):
    """What the script prints for (prediction, truths) of each question."""
    counts = {}
    for prefix, chosen in (("", questions), ("HasAns_", [each for each in questions if each[1]]), ("NoAns_", [each for each in questions if not each[1]])):
        scores = [scores_of(*each) for each in chosen]
        if scores:
            counts |= {prefix + "exact": percent([one for one, _ in scores]), prefix + "f1": percent([two for _, two in scores]),
                       prefix + "total": len(scores)}
    return counts


def made_questions(count):
    generator = random.Random(7)
    words = ["the", "a", "An", "THE", "a.", "-an-", "red", "Red,", "lamp", "1974", "½", "x²", "İ", "Σας", "thé", "a–b", "“the”", "it's", "(a)", "漢字",
             "the漢", "U.S.", "\u00a0", "\u2003", "\x1c", "a\u0301", "😀", "...", "theory"]
    for _ in range(count):
        truths = [" ".join(generator.choices(words, k=generator.randint(1, 6))) for _ in range(generator.choice([0, 0, 1, 1, 2, 3]))]
        taken = generator.choice(truths).split(" ") if truths else generator.choices(words, k=2)
        generator.shuffle(taken)
        kept = taken[: generator.randint(0, 6)] + generator.choices(words, k=generator.randint(0, 2))
        yield generator.choice(["", generator.choice([" ", "", "  "]).join(kept)]) if generator.random() < 0.5 else " ".join(kept), truths


def test_scores_are_those_of_the_script():
    questions = [("", []), ("the", []), ("lamp", []), ("", ["the"]), ("", ["lamp"]), ("a lamp", ["the", "lamp"]), *made_questions(1000)]
    lines = "".join(json.dumps({"prediction": said, "truths": truths}) + "\n" for said, truths in questions)
    done = subprocess.run([RUEDA_BIN / "bert_data_check", "score2"], input=lines.encode(), capture_output=True, check=True, timeout=60)
    rows = [[float(number) for number in line.split()] for line in done.stdout.decode().splitlines()]
    different = [(each, row, scores_of(*each)) for each, row in zip(questions, rows) if tuple(row) != scores_of(*each)]
    assert not different, f"{len(different)} of {len(questions)} differ; the first: {different[0]}"
    wanted = script_counts(questions)
    assert rows[-3:] == [[wanted[prefix + name] for name in ("exact", "f1", "total")] for prefix in ("", "HasAns_", "NoAns_")]
    assert 0 < wanted["NoAns_f1"] < 100 and wanted["HasAns_exact"] < wanted["HasAns_f1"] < 100


def run(output, *flags, ranks=None):
    lengths = () if "--max-length" in flags else ("--max-length", 64, "--stride", 16)
    words = [RUEDA_BIN / "train_bert", "--output", output, *lengths, *flags]
    if ranks is not None:
        if not (RUEDA_BIN / "ruedarun").exists():
            pytest.skip("ruedarun was not built: one rank only")
        words = [RUEDA_BIN / "ruedarun", "-np", ranks, *words]
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=TIMEOUT)


def train(output, *flags, ranks=None):
    done = run(output, *flags, ranks=ranks)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((output / "summary.json").read_text()), done.stdout


def questions_of(file, held_out):
    articles = json.loads(file.read_text(encoding="utf-8"))["data"]
    return [(question, paragraph["context"]) for article in articles[-held_out:] for paragraph in article["paragraphs"] for question in paragraph["qas"]]


def check_against_predictions(summary, predictions, held_out):
    """The summary is what the script makes of the predictions."""
    questions = questions_of(SAMPLE, held_out)
    assert predictions.keys() == {question["id"] for question, _ in questions}
    assert all(predictions[question["id"]] in context for question, context in questions)
    wanted = script_counts([(predictions[question["id"]], [answer["text"] for answer in question["answers"]]) for question, _ in questions])
    assert (summary["f1"], summary["exact_match"]) == (wanted.pop("f1"), wanted.pop("exact"))
    assert {name: summary[name] for name in wanted} == wanted


LEARN = ("--data", SAMPLE, "--held-out", 0, "--dropout", 0)


@pytest.mark.full("examples")
def test_what_has_no_answer_is_learned(tmp_path):
    summary, said = train(tmp_path / "run", *LEARN, "--steps", 250, "--batch", 8, "--predictions", tmp_path / "p.json")
    check_against_predictions(summary, json.loads((tmp_path / "p.json").read_text()), 4)
    assert summary["HasAns_total"] == summary["NoAns_total"] == 24 and summary["total"] == 48
    assert summary["HasAns_f1"] > 60 and summary["NoAns_f1"] > 60
    assert "48 measured questions, 24 of them without answer" in said
    assert ", total 48, HasAns_exact " in said and ", NoAns_total 24, loss " in said
    assert summary["evaluations"][-1]["NoAns_f1"] == summary["NoAns_f1"]
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    assert math.isclose(events.Scalars("held_out/NoAns_f1")[-1].value, summary["NoAns_f1"], rel_tol=1e-6)


def test_two_ranks_equal_one(tmp_path):
    load_file = pytest.importorskip("safetensors.torch").load_file
    flags = ("--data", SAMPLE, "--held-out", 2, "--dropout", 0, "--dtype", "float64", "--steps", 30, "--predictions")
    one, _ = train(tmp_path / "one", *flags, tmp_path / "one.json", "--batch", 8)
    two, _ = train(tmp_path / "two", *flags, tmp_path / "two.json", "--batch", 4, ranks=2)
    left, right = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "two"))
    assert max((left[name] - right[name]).abs().max().item() for name in left) < 1e-9
    # One model, measured by one, two and three ranks: the same to the last bit.
    measured = []
    for ranks in (None, 2, 3):
        name = f"again{ranks}"
        summary, _ = train(tmp_path / name, "--model", tmp_path / "one", "--data", SAMPLE, "--held-out", 2, "--steps", 0, "--predictions",
                           tmp_path / f"{name}.json", ranks=ranks)
        predictions = json.loads((tmp_path / f"{name}.json").read_text())
        check_against_predictions(summary, predictions, 2)
        measured.append((summary["evaluations"], predictions))
    assert measured[0] == measured[1] == measured[2]
    assert one["total"] == two["total"] == 24


def test_no_answer_is_chosen_as_by_berts_scripts(tmp_path):
    """Logits of transformers; the least of [CLS] over the windows against the best span of all."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    train(tmp_path / "run", *LEARN, "--steps", 60, "--batch", 8)
    model = transformers.AutoModelForQuestionAnswering.from_pretrained(tmp_path / "run", dtype=torch.float32).eval()
    tokenizer = transformers.BertTokenizer.from_pretrained(tmp_path / "run")
    length, stride = 32, 8
    chosen = {}
    for question, context in questions_of(SAMPLE, 4):
        encoded = tokenizer(question["question"], context, truncation="only_second", max_length=length, stride=stride,
                            return_overflowing_tokens=True, return_offsets_mapping=True)
        assert len(encoded["input_ids"]) > 1
        null, best = math.inf, (-math.inf, "")
        for window, ids in enumerate(encoded["input_ids"]):
            with torch.no_grad():
                made = model(input_ids=torch.tensor([ids]), token_type_ids=torch.tensor([encoded["token_type_ids"][window]]))
            start, end = made.start_logits[0].tolist(), made.end_logits[0].tolist()
            null = min(null, start[0] + end[0])
            inside = [at for at, part in enumerate(encoded.sequence_ids(window)) if part == 1]
            offsets = encoded["offset_mapping"][window]
            for first in sorted(inside, key=lambda at: -start[at])[:20]:
                for last in sorted(inside, key=lambda at: -end[at])[:20]:
                    if first <= last < first + 30 and start[first] + end[last] > best[0]:
                        best = start[first] + end[last], context[offsets[first][0] : offsets[last][1]]
        chosen[question["id"]] = null - best[0], best[1]
    differences = sorted(difference for difference, _ in chosen.values())
    for threshold in (0.0, (differences[15] + differences[16]) / 2, (differences[35] + differences[36]) / 2):
        train(tmp_path / "again", "--model", tmp_path / "run", "--data", SAMPLE, "--held-out", 0, "--max-length", length, "--stride", stride, "--steps", 0,
              "--null-score-threshold", threshold, "--predictions", tmp_path / "p.json")
        predictions = json.loads((tmp_path / "p.json").read_text())
        # Scores as near as the last bits of logits decide nothing here.
        clear = {name: each for name, each in chosen.items() if abs(each[0] - threshold) > 1e-4}
        assert len(clear) >= 46
        assert {name: predictions[name] for name in clear} == {name: "" if difference > threshold else text for name, (difference, text) in clear.items()}
    assert 12 == sum(text == "" for text in predictions.values()), "the last threshold leaves twelve above it"


def test_a_threshold_is_for_questions_that_may_lack_answers(tmp_path):
    done = run(tmp_path / "run", "--null-score-threshold", "1")
    assert done.returncode == 2 and "--null-score-threshold is for SQuAD v2.0, and in " in done.stderr
    assert "squad_sample.json every question has an answer" in done.stderr


def test_predictions_of_the_first_version(tmp_path):
    summary, _ = train(tmp_path / "run", "--steps", 10, "--predictions", tmp_path / "p.json")
    predictions = json.loads((tmp_path / "p.json").read_text())
    questions = questions_of(DATA / "squad_sample.json", 4)
    wanted = script_counts([(predictions[question["id"]], [answer["text"] for answer in question["answers"]]) for question, _ in questions])
    assert (summary["f1"], summary["exact_match"]) == (wanted["f1"], wanted["exact"])
    assert not any(name in summary for name in ("total", "HasAns_f1", "NoAns_f1"))
