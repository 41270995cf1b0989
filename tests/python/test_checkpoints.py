# SPDX-License-Identifier: Apache-2.0
"""Checkpoints as both generations of transformers save them, as they are found, and as transformers reads ours.

RUEDA_BIN names the folder of the built programs.
"""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from bert_reference import SAMPLE_VOCABULARY, program

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
safetensors = pytest.importorskip("safetensors")
safetensors_torch = pytest.importorskip("safetensors.torch")

TIMEOUT = 120
SIZES = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, max_position_embeddings=128)
LINES = ["Who made the red lamp?\tIn 1700, Ana Costa made the red lamp in Porto.", "Où?\tNobody knows — [MASK] why.", "A\tb 漢字 c"]


def run(name, *arguments, text=None):
    return subprocess.run([program(name), *map(str, arguments)], input=text, capture_output=True, text=True, encoding="utf-8", timeout=TIMEOUT)


def train(folder, output, *flags):
    done = run("train_bert", "--model", folder, "--output", output, "--batch", 2, "--held-out", 4, "--max-length", 128, "--stride", 32,
               "--eval-first", "no", *flags)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def error_of(folder):
    done = run("train_bert", "--model", folder, "--steps", 1, "--output", folder / "run", "--max-length", 128)
    assert done.returncode == 1 and len(done.stderr.strip().splitlines()) == 1, done.stdout + done.stderr
    return done.stderr


def save_model(folder, kind="BertForQuestionAnswering", seed=1, **options):
    torch.manual_seed(seed)
    words = len(SAMPLE_VOCABULARY.read_text(encoding="utf-8").splitlines())
    config = transformers.BertConfig(vocab_size=words, **SIZES)
    model = getattr(transformers, kind)(config)
    model.save_pretrained(folder, **options)
    shutil.copy(SAMPLE_VOCABULARY, folder / "vocab.txt")
    return model.eval()


def lay_out(folder, generation, settings=None):
    """The tokenizer's files as this generation of transformers saves them, from vocab.txt."""
    settings = {"tokenizer_class": "BertTokenizer"} | (settings or {})
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    backend = transformers.AutoTokenizer.from_pretrained(folder).backend_tokenizer
    (folder / "tokenizer.json").write_text(backend.to_str())
    names = {"unk_token": "[UNK]", "sep_token": "[SEP]", "pad_token": "[PAD]", "cls_token": "[CLS]", "mask_token": "[MASK]"}
    if generation == 5:
        os.remove(folder / "vocab.txt")
        settings |= names | {"backend": "tokenizers", "model_max_length": 128}
    else:
        added = {str(token["id"]): {key: token[key] for key in token if key != "id"} for token in json.loads(backend.to_str())["added_tokens"]}
        (folder / "special_tokens_map.json").write_text(json.dumps(names))
        settings |= names | {"added_tokens_decoder": added, "model_max_length": 128, "do_basic_tokenize": True, "never_split": None}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def encode(folder, output, head="qa"):
    done = run("bert_encode", folder, output, head, text="\n".join(LINES))
    assert done.returncode == 0, done.stderr
    return safetensors_torch.load_file(output)


def compare_with_transformers(folder, ours):
    """Ids and logits of what a folder holds; returns how far the logits are apart."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model, report = transformers.AutoModelForQuestionAnswering.from_pretrained(folder, output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"]
    worst = 0.0
    for row, line in enumerate(LINES):
        inputs = tokenizer(*line.split("\t"), return_tensors="pt")
        length = inputs["input_ids"].shape[1]
        assert inputs["input_ids"][0].tolist() == ours["input_ids"][row, :length].tolist()
        assert inputs["token_type_ids"][0].tolist() == ours["token_types"][row, :length].tolist()
        with torch.no_grad():
            outputs = model.eval()(**inputs)
        worst = max(worst, (outputs.start_logits[0] - ours["start"][row, :length]).abs().max().item(),
                    (outputs.end_logits[0] - ours["end"][row, :length]).abs().max().item())
    return worst


@pytest.mark.parametrize("generation", [4, 5])
@pytest.mark.parametrize("settings", [{}, {"do_lower_case": False, "strip_accents": True, "tokenize_chinese_chars": False}])
def test_a_saved_model_is_read_trained_and_read_again(tmp_path, generation, settings):
    save_model(tmp_path / "model")
    lay_out(tmp_path / "model", generation, settings)
    assert (tmp_path / "model" / "vocab.txt").exists() == (generation == 4)
    before = encode(tmp_path / "model", tmp_path / "before.safetensors")
    worst = compare_with_transformers(tmp_path / "model", before)
    train(tmp_path / "model", tmp_path / "run", "--steps", 3)
    after = encode(tmp_path / "run", tmp_path / "after.safetensors")
    worst = max(worst, compare_with_transformers(tmp_path / "run", after))
    assert after["input_ids"].tolist() == before["input_ids"].tolist()
    assert (after["start"] - before["start"]).isfinite().any() and after["start"].tolist() != before["start"].tolist()
    print(f"logits differ by {worst:.1e} at most")
    assert worst < 1e-4


def test_what_is_written_is_whole_for_the_auto_classes_and_pipelines(tmp_path):
    save_model(tmp_path / "model")
    lay_out(tmp_path / "model", 5)
    train(tmp_path / "model", tmp_path / "run", "--steps", 1)
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert {"config.json", "model.safetensors", "vocab.txt", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"} <= names
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["architectures"] == ["BertForQuestionAnswering"] and config["model_type"] == "bert"
    with safetensors.safe_open(tmp_path / "run" / "model.safetensors", "pt") as file:
        assert file.metadata() == {"format": "pt"}
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "run")
    assert tokenizer.is_fast and tokenizer.model_max_length == 128 and tokenizer.mask_token == "[MASK]"
    assert type(transformers.AutoModel.from_pretrained(tmp_path / "run")).__name__ == "BertModel"
    features = transformers.pipeline("feature-extraction", model=str(tmp_path / "run"))("the red lamp")
    assert len(features[0][0]) == SIZES["hidden_size"]
    # vocab.txt by itself is the same tokenizer.
    os.remove(tmp_path / "run" / "tokenizer.json")
    assert transformers.AutoTokenizer.from_pretrained(tmp_path / "run")(LINES)["input_ids"] == tokenizer(LINES)["input_ids"]


def test_every_trainer_reads_a_folder_without_vocab_txt(tmp_path):
    model = tmp_path / "model"
    save_model(model, "BertForMaskedLM")
    lay_out(model, 5)
    (tmp_path / "text.txt").write_text("\n\n".join(f"Ana Costa made the red lamp number {i} in Porto." for i in range(40)))
    flags = ("--data", tmp_path / "text.txt", "--max-length", 64)
    for command in (["evaluate_lm", "--model", model, *flags, "--summary", tmp_path / "lm.json"],
                    ["train_bert", "--task", "mlm", "--model", model, *flags, "--steps", 1, "--held-out", 4, "--output", tmp_path / "mlm"],
                    ["distill", "--teacher", model, *flags, "--steps", 1, "--held-out", 4, "--output", tmp_path / "distilled"]):
        done = run(*command)
        assert done.returncode == 0, done.stdout + done.stderr
    for folder in (tmp_path / "mlm", tmp_path / "distilled"):
        kept = transformers.AutoTokenizer.from_pretrained(folder)
        assert kept(LINES)["input_ids"] == transformers.AutoTokenizer.from_pretrained(model)(LINES)["input_ids"]


def test_a_larger_limit_than_the_tokenizers_is_told(tmp_path):
    save_model(tmp_path / "model")
    lay_out(tmp_path / "model", 5)
    path = tmp_path / "model" / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"model_max_length": 100, "colour": "red"}))
    said = train(tmp_path / "model", tmp_path / "run", "--steps", 0)
    assert "--max-length is 128, but the tokenizer's model_max_length is 100" in said
    assert f"{path}: the setting colour is not known and not used" in said
    assert json.loads((tmp_path / "run" / "tokenizer_config.json").read_text())["model_max_length"] == 100


def test_parts_and_wrappers_have_the_parameters_of_one_file(tmp_path):
    model = save_model(tmp_path / "one")
    wanted = encode(tmp_path / "one", tmp_path / "one.safetensors")
    save_model(tmp_path / "parts", max_shard_size="60KB")
    index = json.loads((tmp_path / "parts" / "model.safetensors.index.json").read_text())
    parts = sorted(set(index["weight_map"].values()))
    assert len(parts) > 1 and not (tmp_path / "parts" / "model.safetensors").exists()
    shutil.copytree(tmp_path / "one", tmp_path / "wrapped")
    state = {f"module._orig_mod.{name}": tensor.contiguous().clone() for name, tensor in model.state_dict().items()}
    safetensors_torch.save_file(state, tmp_path / "wrapped" / "model.safetensors", {"format": "pt"})
    for folder in ("parts", "wrapped"):
        found = encode(tmp_path / folder, tmp_path / f"{folder}.safetensors")
        assert torch.equal(found["start"], wanted["start"]) and torch.equal(found["hidden"], wanted["hidden"])
    train(tmp_path / "parts", tmp_path / "run", "--steps", 0)
    os.remove(tmp_path / "parts" / parts[1])
    line = error_of(tmp_path / "parts")
    assert f"{parts[1]} is missing" in line and "model.safetensors.index.json" in line
    escape = {name: "../one/model.safetensors" for name in index["weight_map"]}
    (tmp_path / "parts" / "model.safetensors.index.json").write_text(json.dumps({"weight_map": escape}))
    assert "is not the name of a file in the same folder" in error_of(tmp_path / "parts")


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "vocab.txt", "config.json"])
def test_a_pointer_of_git_lfs_is_named(tmp_path, name):
    save_model(tmp_path / "model")
    if name == "tokenizer.json":
        lay_out(tmp_path / "model", 5)
    (tmp_path / "model" / name).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:53aa51172d142c89\nsize 90868376\n")
    assert f"{name} is a pointer of Git LFS, not the file itself; run `git lfs pull`" in error_of(tmp_path / "model")


def test_parameters_of_torch_are_named_with_the_command_that_converts_them(tmp_path):
    model = save_model(tmp_path / "model")
    wanted = encode(tmp_path / "model", tmp_path / "one.safetensors")
    os.remove(tmp_path / "model" / "model.safetensors")
    torch.save(model.state_dict(), tmp_path / "model" / "pytorch_model.bin")
    line = error_of(tmp_path / "model")
    assert "has pytorch_model.bin and no model.safetensors; write that in the folder: python -c" in line
    command = re.search(r'python -c "(.*)"$', line.strip()).group(1)
    subprocess.run([sys.executable, "-c", command], cwd=tmp_path / "model", check=True, timeout=TIMEOUT)
    assert torch.equal(encode(tmp_path / "model", tmp_path / "two.safetensors")["start"], wanted["start"])


def test_a_file_that_is_cut_says_so_first(tmp_path):
    save_model(tmp_path / "model")
    path = tmp_path / "model" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])
    assert re.search(r'model\.safetensors is cut short: it ends inside tensor "\S+", which needs \d+ bytes', error_of(tmp_path / "model"))


def test_values_that_are_not_finite_are_named_once(tmp_path):
    good, bad = tmp_path / "good", tmp_path / "bad"
    for folder in (good, bad):
        save_model(folder, "BertForMaskedLM", seed=2)
    state = safetensors_torch.load_file(bad / "model.safetensors")
    name = "bert.encoder.layer.1.output.dense.bias"
    state[name][3] = float("nan")
    safetensors_torch.save_file(state, bad / "model.safetensors", {"format": "pt"})
    (tmp_path / "text.txt").write_text("\n\n".join(f"Ana Costa made the red lamp number {i} in Porto." for i in range(40)))
    flags = ("--data", tmp_path / "text.txt", "--max-length", 64, "--output", tmp_path / "run")
    for command in (["train_bert", "--model", bad, "--task", "mlm", "--steps", 1, "--held-out", 4],
                    ["distill", "--teacher", bad, "--steps", 1, "--held-out", 4],
                    ["distill", "--teacher", good, "--student", bad, "--steps", 1, "--held-out", 4],
                    ["evaluate_lm", "--model", bad]):
        done = run("ruedarun", "-np", 2, program(command[0]), *command[1:], *flags)
        told = f"error: {bad / 'model.safetensors'}: the tensor {name} has values that are not finite (NaN or infinity)"
        assert done.returncode == 1 and done.stderr.count(told) == 1 and done.stderr.count("error: ") == 1, done.stderr
    state = {each: tensor.fill_(3e38) if "LayerNorm.weight" in each else tensor for each, tensor in safetensors_torch.load_file(good / "model.safetensors").items()}
    safetensors_torch.save_file(state, bad / "model.safetensors", {"format": "pt"})
    done = run("ruedarun", "-np", 2, program("evaluate_lm"), "--model", bad, *flags)
    assert done.returncode == 1 and done.stderr.count(f"error: the loss of {bad} is not finite, though its parameters are") == 1, done.stderr
    assert done.stderr.count("error: ") == 1, done.stderr


def test_two_biases_of_a_decoder_are_refused(tmp_path):
    save_model(tmp_path / "model", "BertForMaskedLM")
    path = tmp_path / "model" / "model.safetensors"
    state = safetensors_torch.load_file(path)
    state["cls.predictions.decoder.bias"] = state["cls.predictions.bias"] + 1
    safetensors_torch.save_file(state, path, {"format": "pt"})
    done = run("evaluate_lm", "--model", tmp_path / "model", "--summary", tmp_path / "lm.json", "--max-length", 64)
    assert done.returncode == 1 and f"error: {path}: cls.predictions.decoder.bias differs from cls.predictions.bias" in done.stderr, done.stderr


def test_a_decoder_is_refused(tmp_path):
    save_model(tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"is_decoder": True}))
    assert f"error: {path}: is_decoder is true; only false is supported" in error_of(tmp_path / "model")


@pytest.mark.parametrize("change, words", [
    ({"model": {"type": "BPE", "vocab": {}, "merges": []}}, "tokenizer.json: model: the model BPE is not supported"),
    ({"normalizer": {"type": "Precompiled"}}, "tokenizer.json: normalizer: the normalizer Precompiled is not supported"),
    ({"pre_tokenizer": {"type": "ByteLevel"}}, "tokenizer.json: pre_tokenizer: the pre_tokenizer ByteLevel is not supported"),
])
def test_a_tokenizer_of_another_kind_is_named(tmp_path, change, words):
    save_model(tmp_path / "model")
    lay_out(tmp_path / "model", 5)
    path = tmp_path / "model" / "tokenizer.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    line = error_of(tmp_path / "model")
    assert words in line and "choose the checkpoint of a BERT" in line


def test_a_token_beyond_the_model_is_named(tmp_path):
    save_model(tmp_path / "model")
    words = len(SAMPLE_VOCABULARY.read_text(encoding="utf-8").splitlines())
    (tmp_path / "model" / "added_tokens.json").write_text(json.dumps({"new": words}))
    assert f"vocab.txt has {words + 1} tokens, but config.json says vocab_size {words}" in error_of(tmp_path / "model")
