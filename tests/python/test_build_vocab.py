# SPDX-License-Identifier: Apache-2.0
"""build_vocab against the WordPieceTrainer of Hugging Face's tokenizers, on real text; and its errors.

RUEDA_BIN names the folder of the built programs; the real texts are under RUEDA_DATA.
"""

import json
import os
import subprocess

import pytest

from bert_reference import SAMPLE, data_folder, program, reference_tokenizer, squad_texts

tokenizers = pytest.importorskip("tokenizers")

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def build(*arguments, good=True):
    result = subprocess.run(
        [program("build_vocab"), *map(str, arguments)], capture_output=True, text=True, timeout=120
    )
    assert (result.returncode == 0) == good, result.stderr
    return result


def vocabulary(path):
    tokens = path.read_text(encoding="utf-8").split("\n")
    assert tokens.pop() == ""
    return tokens


def reference(lines, size):
    """What WordPieceTrainer makes; of pairs that are equally frequent it takes the one that its hash gives first."""
    made = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token="[UNK]"))
    made.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    trainer = tokenizers.trainers.WordPieceTrainer(
        vocab_size=size, min_frequency=2, limit_alphabet=1000, special_tokens=SPECIAL, show_progress=False
    )
    made.train_from_iterator(lines, trainer)
    return set(made.get_vocab())


def pieces(path, lines):
    return sum(len(ids) for ids in reference_tokenizer(path)(lines, add_special_tokens=False)["input_ids"])


def test_chooses_as_hugging_face_does(tmp_path):
    path = data_folder() / "movie-reviews" / "imdb_labelled.txt"
    lines = [line.rsplit("\t", 1)[0] for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]
    ours = tmp_path / "vocab.txt"
    build("--size", 2000, "--output", ours, path)
    tokens = vocabulary(ours)
    assert tokens[:5] == SPECIAL
    assert len(tokens) == len(set(tokens)) == 2000
    theirs = reference(lines, 2000)
    common = len(theirs & set(tokens))
    print(f"{common} of 2000 tokens are the same")
    assert common > 0.95 * 2000
    other = tmp_path / "theirs.txt"
    other.write_text("\n".join(SPECIAL + sorted(theirs - set(SPECIAL))) + "\n", encoding="utf-8")
    mine, reference_pieces = pieces(ours, lines), pieces(other, lines)
    print(f"the text has {mine} pieces, with the reference's vocabulary {reference_pieces}")
    assert abs(mine / reference_pieces - 1) < 0.01


def test_same_text_gives_the_same_vocabulary_and_no_unknown_word(tmp_path):
    text = tmp_path / "text.txt"
    lines = list(squad_texts(SAMPLE))
    text.write_text("\n\n".join(lines), encoding="utf-8")
    first, second = tmp_path / "first.txt", tmp_path / "second.txt"
    assert build("--size", 600, "--output", first, text).stdout.startswith("600 tokens from ")
    build("--size", 600, "--output", second, text)
    assert first.read_bytes() == second.read_bytes()
    unknown = reference_tokenizer(first)(lines, add_special_tokens=False)["input_ids"]
    assert all(SPECIAL.index("[UNK]") not in ids for ids in unknown)


@pytest.mark.parametrize("trainer, more", [("train_bert", ["--task", "mlm"]), ("train_bert", ["--task", "squad"]),
                                           ("distill", ["--teacher-steps", 2])], ids=["mlm", "squad", "distill"])
def test_models_that_start_at_random_take_it(tmp_path, trainer, more):
    made = tmp_path / "made.txt"
    build("--size", 700, "--output", made, SAMPLE.with_name("text_sample.txt"))

    def train(*flags):
        flags = ("--output", tmp_path / "run", "--steps", 2, "--eval-first", "no", "--checkpoint-every", 1, *more, *flags)
        return subprocess.run([program(trainer), *map(str, flags)], capture_output=True, text=True, timeout=120)

    done = train("--vocabulary", made)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "vocab.txt").read_bytes() == made.read_bytes()
    assert json.loads((tmp_path / "run" / "config.json").read_text())["vocab_size"] == 700
    lines = made.read_text(encoding="utf-8").splitlines()
    made.write_text("\n".join(lines[:5] + lines[:4:-1]) + "\n", encoding="utf-8")  # as many tokens, in another order
    done = train("--vocabulary", made, "--resume")
    words = "was written with a vocabulary of 700 tokens, " if trainer == "train_bert" else "need the same vocabulary"
    assert done.returncode == 1 and words in done.stderr
    made.write_text("no\nvocabulary\n")
    done = train("--vocabulary", made)
    assert done.returncode == 1 and "made.txt" in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "arguments, code, words",
    [
        ([], 2, "no FILE is named"),
        (["--size", "0", "{text}"], 2, "--size is 0; it must be at least 1"),
        (["--sizes", "7", "{text}"], 2, "unrecognised option '--sizes'"),
        (["--size", "7", "{text}"], 1, "a vocabulary of 7 has no room"),
        (["{none}"], 1, "cannot open {none}: No such file"),
        (["--output", "/nonexistent/vocab.txt", "{text}"], 1, "cannot write '/nonexistent/vocab.txt'"),
    ],
)
def test_bad_input_is_one_line(tmp_path, arguments, code, words):
    names = {"text": str(tmp_path / "text.txt"), "none": str(tmp_path / "none")}
    (tmp_path / "text.txt").write_text("some words\n")
    result = build(*(argument.format(**names) for argument in arguments), good=False)
    assert result.returncode == code
    assert result.stderr.startswith("error: ") and result.stderr.count("\n") == 1
    assert words.format(**names) in result.stderr


def test_a_pipe_is_refused(tmp_path):
    """It could be looked at once only, and the first lines would be lost."""
    os.mkfifo(tmp_path / "pipe")
    refused = build("--output", tmp_path / "vocab.txt", tmp_path / "pipe", good=False)
    assert "pipe is not a file that can be read twice" in refused.stderr
