# SPDX-License-Identifier: Apache-2.0
"""evaluate_lm against the same formulas in Python on transformers, over 1, 2 and 3 ranks, and its answers to bad input."""

import json
import math
import os
import pathlib

import pytest
from bert_reference import ROOT, reference_tokenizer
from lm_reference import run_program, write_checkpoint

torch = pytest.importorskip("torch")
load_file = pytest.importorskip("safetensors.torch").load_file

METRICS = ("loss", "perplexity", "pseudo_perplexity", "tokens", "masked_tokens", "windows")
MAX_LENGTH = 48


def summary_of(folder, *flags, ranks=None):
    done = run_program("evaluate_lm", *flags, "--summary", folder / "summary.json", ranks=ranks)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((folder / "summary.json").read_text())


def sentences(count):
    """Real ones where they are, else the sample's."""
    folder = os.environ.get("RUEDA_DATA")
    if folder:
        lines = (pathlib.Path(folder) / "movie-reviews" / "imdb_labelled.txt").read_text(encoding="utf-8").split("\n")
        return [line.split("\t")[0].strip() for line in lines if "\t" in line][:count]
    text = (ROOT / "examples" / "data" / "text_sample.txt").read_text(encoding="utf-8")
    return [line.strip() for line in text.split("\n") if line.strip()][:count]


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """200 sentences as reviews, a checkpoint, and that model in Python."""
    folder = tmp_path_factory.mktemp("job")
    texts = sentences(200)
    assert len(texts) == 200
    (folder / "texts.tsv").write_text("".join(f"{text}\t1\n" for text in texts), encoding="utf-8")
    model = write_checkpoint(folder / "model")
    return folder, texts, model, ("--model", folder / "model", "--data", folder / "texts.tsv", "--max-length", MAX_LENGTH)


def summed_loss(model, rows, labels):
    with torch.no_grad():
        logits = model(input_ids=rows).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum", ignore_index=-100).item()


def test_equal_to_transformers_on_200_sentences(tmp_path, job):
    folder, texts, model, flags = job
    ours = summary_of(tmp_path, *flags, "--dump-batches", tmp_path / "masks.safetensors")
    masks = load_file(tmp_path / "masks.safetensors")
    tokenizer = reference_tokenizer(folder / "model" / "vocab.txt")
    special = set(tokenizer.all_special_ids)
    loss = pseudo = 0.0
    masked = tokens = 0
    for number, text in enumerate(texts):
        ids = torch.tensor(tokenizer(text, truncation=True, max_length=MAX_LENGTH)["input_ids"])
        rows, labels = masks[f"{number}.input_ids"], masks[f"{number}.labels"]
        assert torch.equal(torch.where(labels == -100, rows, labels), ids)
        guessed = [position for position, token in enumerate(ids.tolist()) if token not in special]
        assert (labels != -100).sum() == min(len(guessed), max(1, math.floor(0.15 * len(guessed) + 0.5)))
        loss += summed_loss(model, rows[None], labels[None])
        masked += int((labels != -100).sum())
        in_turn = ids.repeat(len(guessed), 1)
        truth = torch.full_like(in_turn, -100)
        for row, position in enumerate(guessed):
            in_turn[row, position] = tokenizer.mask_token_id
            truth[row, position] = ids[position]
        pseudo += summed_loss(model, in_turn, truth) if guessed else 0
        tokens += len(guessed)
    assert (ours["windows"], ours["masked_tokens"], ours["tokens"]) == (200, masked, tokens)
    assert ours["loss"] == pytest.approx(loss / masked, abs=1e-3)
    assert ours["perplexity"] == pytest.approx(math.exp(loss / masked), rel=1e-3)
    assert ours["pseudo_perplexity"] == pytest.approx(math.exp(pseudo / tokens), rel=1e-3)
    print({name: ours[name] for name in METRICS}, "loss differs by", abs(ours["loss"] - loss / masked))


def test_the_same_bits_over_1_2_and_3_ranks(tmp_path, job):
    flags = (*job[3], "--subset", 0.2, "--seed", 3)
    results = [summary_of(tmp_path, *flags, ranks=ranks) for ranks in (None, 1, 2, 3)]
    assert [result["ranks"] for result in results] == [1, 1, 2, 3]
    assert results[0]["windows"] == 40
    for result in results[1:]:
        assert [result[name] for name in METRICS] == [results[0][name] for name in METRICS]


def test_masks_and_subset_are_drawn_by_the_seed(tmp_path, job):
    def masks(*flags):
        summary_of(tmp_path, *job[3], "--pseudo", "no", "--dump-batches", tmp_path / "masks.safetensors", *flags)
        return load_file(tmp_path / "masks.safetensors")

    whole, part, other = masks(), masks("--subset", 0.1), masks("--subset", 0.1, "--seed", 2)
    assert len(whole) == 400 and len(part) == len(other) == 40
    assert all(torch.equal(whole[name], tensor) for name, tensor in part.items())  # by number, whatever else is chosen
    assert part.keys() != other.keys()


def test_without_pseudo_perplexity(tmp_path, job):
    whole = summary_of(tmp_path, *job[3], "--subset", 0.1)
    plain = summary_of(tmp_path, *job[3], "--subset", 0.1, "--pseudo", "no")
    assert plain["pseudo_perplexity"] is None and plain["loss"] == whole["loss"] and plain["tokens"] == whole["tokens"]


def test_the_sample_by_default(tmp_path):
    done = run_program("evaluate_lm", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "runs" / "evaluate_lm" / "summary.json").read_text())
    assert 300 < found["perplexity"] < 900 and found["tokens"] > 10000  # knows nothing: about as many as there are words
    assert "pseudo-perplexity" in done.stdout


@pytest.mark.parametrize("flags, words", [
    (["--subset", 0], "--subset is 0; it must be greater than 0 and at most 1"),
    (["--subset", 1.5], "--subset is 1.5"),
    (["--batch", 0], "--batch is 0"),
    (["--pseudo", "maybe"], "yes or no"),
    (["--autocast", "bf16", "--dtype", "float64"], "--autocast bf16 is for parameters of float32"),
    (["--learning-rate", 1], "--learning-rate"),
])
def test_usage_errors(flags, words):
    done = run_program("evaluate_lm", *flags)
    assert done.returncode == 2 and words in done.stderr and len(done.stderr.strip().splitlines()) == 1


def test_bad_files(tmp_path, job):
    def error(*flags):
        done = run_program("evaluate_lm", *flags, "--summary", tmp_path / "summary.json")
        assert done.returncode == 1 and len(done.stderr.strip().splitlines()) == 1, done.stderr
        return done.stderr

    assert "absent.txt" in error("--data", tmp_path / "absent.txt")
    assert "config.json" in error("--model", tmp_path / "absent")
    (tmp_path / "empty.txt").write_text("")
    assert "empty.txt" in error("--data", tmp_path / "empty.txt")
    write_checkpoint(tmp_path / "headless", kind=__import__("transformers").BertForQuestionAnswering)
    assert "no masked-LM head" in error("--model", tmp_path / "headless")
    poisoned = write_checkpoint(tmp_path / "poisoned")
    poisoned.get_parameter("bert.embeddings.LayerNorm.weight").data.fill_(float("nan"))
    poisoned.save_pretrained(tmp_path / "poisoned")
    assert "bert.embeddings.LayerNorm.weight has values that are not finite" in error("--model", tmp_path / "poisoned")
    assert not (tmp_path / "summary.json").exists()
    unknown = tmp_path / "unknown.tsv"
    unknown.write_text("\u4e00\t1\n", encoding="utf-8")
    assert "unknown.tsv" in error("--data", unknown)


def test_a_missing_file_ends_the_run_on_every_rank(tmp_path):
    done = run_program("evaluate_lm", "--data", tmp_path / "absent.txt", ranks=2)
    assert done.returncode != 0 and "absent.txt" in done.stdout + done.stderr
