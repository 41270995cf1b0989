# SPDX-License-Identifier: Apache-2.0
"""distill against a plain loop in Python on transformers, on the sample, and its answers to bad input."""

import json
import subprocess

import pytest
from bert_reference import program
from lm_reference import run_program, write_checkpoint

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
load_file = pytest.importorskip("safetensors.torch").load_file
functional = torch.nn.functional

PARTS = ("mlm", "ce", "cos")


def run(output, *flags, ranks=None):
    done = run_program("distill", "--output", output, *flags, ranks=ranks)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((output / "summary.json").read_text())


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    folder = tmp_path_factory.mktemp("teacher") / "checkpoint"
    write_checkpoint(folder, layers=4)
    return folder


def every_second_layer(teacher):
    """Of four layers, the first and the third."""
    student = transformers.BertForMaskedLM(transformers.BertConfig(**{**teacher.config.to_dict(), "num_hidden_layers": 2}))
    source = teacher.state_dict()
    student.load_state_dict({name: source[name.replace("layer.1.", "layer.2.")] for name in student.state_dict()})
    return student


def losses_in_python(student, teacher, batch, temperature, compared):
    """As in the code published with DistilBERT: means over the tokens of the batch."""
    inputs = {"input_ids": batch["input_ids"], "attention_mask": batch["valid"].long(), "output_hidden_states": True}
    theirs = student(**inputs)
    with torch.no_grad():
        known = teacher(**inputs)
    labels, valid = batch["labels"], batch["valid"].bool()
    chosen = valid if compared == "all" else labels != -100
    mlm = functional.cross_entropy(theirs.logits.flatten(0, 1), labels.flatten(), ignore_index=-100)
    ce = functional.kl_div(functional.log_softmax(theirs.logits[chosen] / temperature, -1),
                           functional.softmax(known.logits[chosen] / temperature, -1), reduction="batchmean") * temperature**2
    left, right = theirs.hidden_states[-1][valid], known.hidden_states[-1][valid]
    cosine = functional.cosine_embedding_loss(left, right, torch.ones(len(left)))
    return mlm, ce, cosine


@pytest.mark.parametrize("compared", ["all", "masked"])
def test_the_first_20_steps_equal_a_plain_loop(tmp_path, teacher, compared):
    steps, rate, warmup, alphas, temperature = 20, 1e-3, 5, (1.5, 4.0, 0.5), 3.0
    summary = run(tmp_path / "run", "--teacher", teacher, "--steps", steps, "--batch", 4, "--max-length", 64, "--held-out", 8,
                  "--learning-rate", rate, "--warmup", warmup, "--dropout", 0, "--temperature", temperature, "--compare", compared,
                  "--alpha-mlm", alphas[0], "--alpha-ce", alphas[1], "--alpha-cos", alphas[2],
                  "--dump-batches", tmp_path / "batches.safetensors", "--log-losses", tmp_path / "losses.jsonl", "--eval-first", "no")
    ours = [json.loads(line)["loss"] for line in (tmp_path / "losses.jsonl").read_text().splitlines()]
    dumped = load_file(tmp_path / "batches.safetensors")

    reference = transformers.BertForMaskedLM.from_pretrained(teacher).eval()
    student = every_second_layer(reference).eval()  # eval: no dropout
    named = list(student.named_parameters())
    plain = [p for name, p in named if name.endswith(".bias") or "LayerNorm" in name]
    decayed = [p for name, p in named if not (name.endswith(".bias") or "LayerNorm" in name)]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}], lr=rate)
    worst = 0.0
    for step in range(steps):
        batch = {name: dumped[f"{step}.0.{name}"] for name in ("input_ids", "valid", "labels")}
        parts = losses_in_python(student, reference, batch, temperature, compared)
        total = sum(alpha * part for alpha, part in zip(alphas, parts))
        assert ours[step] == pytest.approx(total.item(), abs=1e-3)
        point = summary["curve"][step]
        for name, part in zip(PARTS, parts):
            assert point[name] == pytest.approx(part.item(), abs=1e-3)
            worst = max(worst, abs(point[name] - part.item()))
        for group in optimizer.param_groups:
            group["lr"] = rate * ((step + 1) / warmup if step < warmup else (steps - step) / (steps - warmup))
        optimizer.zero_grad()
        total.backward()
        torch.nn.utils.clip_grad_norm_(student.parameters(), 1.0)
        optimizer.step()
    print(f"losses of {steps} steps differ by {worst:.1e} at most")
    assert ours[-1] < ours[0]


def test_the_student_is_read_by_transformers_and_the_teacher_is_left_alone(tmp_path, teacher):
    before = (teacher / "model.safetensors").read_bytes()
    run(tmp_path / "run", "--teacher", teacher, "--steps", 0, "--max-length", 64, "--held-out", 8)
    assert (teacher / "model.safetensors").read_bytes() == before
    student = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "run")
    wanted = every_second_layer(transformers.BertForMaskedLM.from_pretrained(teacher)).state_dict()
    for name, tensor in student.state_dict().items():
        assert torch.equal(tensor, wanted[name]), name


@pytest.mark.parametrize("compared", ["all", "masked"])
def test_two_ranks_learn_what_one_does_of_the_same_windows(tmp_path, teacher, compared):
    """Their batches have different numbers of tokens: a mean of means would be another loss."""
    flags = ("--teacher", teacher, "--steps", 8, "--max-length", 64, "--held-out", 8, "--dropout", 0, "--dtype", "float64", "--eval-first", "no",
             "--compare", compared)
    one = run(tmp_path / "one", *flags, "--batch", 4)
    two = run(tmp_path / "two", *flags, "--batch", 2, ranks=2)
    for name in ("loss", *PARTS):
        assert [point[name] for point in two["curve"]] == pytest.approx([point[name] for point in one["curve"]], abs=1e-9), name
    left, right = load_file(tmp_path / "one" / "model.safetensors"), load_file(tmp_path / "two" / "model.safetensors")
    assert max((left[name] - right[name]).abs().max().item() for name in left) < 1e-9


def test_the_sample_with_two_ranks(tmp_path):
    """A teacher that learns, and then a student; the run itself checks that ranks agree. There is nothing to resume yet."""
    summary = run(tmp_path / "run", "--teacher-steps", 60, "--steps", 60, "--resume", ranks=2)
    assert (summary["task"], summary["ranks"], summary["steps"]) == ("distill", 2, 60)
    assert summary["perplexity"] < summary["perplexity_first"]
    first, last = summary["curve"][0], summary["curve"][-1]
    assert last["loss"] < first["loss"]
    assert all(0 <= last[name] for name in PARTS)
    assert (tmp_path / "run" / "teacher" / "model.safetensors").is_file()
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    assert {f"train/{name}" for name in PARTS} <= {tag.removesuffix("_of_rank_0") for tag in events.Tags()["scalars"]}


def test_bf16_autocast_stays_near(tmp_path, teacher):
    flags = ("--teacher", teacher, "--steps", 10, "--batch", 4, "--max-length", 64, "--held-out", 8, "--dropout", 0, "--eval-first", "no")
    exact = run(tmp_path / "exact", *flags)
    rough = run(tmp_path / "rough", *flags, "--autocast", "bf16")
    assert rough["loss_first"] != exact["loss_first"]
    assert rough["loss_first"] == pytest.approx(exact["loss_first"], rel=0.02)


def test_resume_has_the_same_bits(tmp_path, teacher):
    flags = ("--teacher", teacher, "--steps", 8, "--batch", 4, "--max-length", 64, "--held-out", 8, "--eval-first", "no")
    whole = run(tmp_path / "whole", *flags, "--checkpoint-every", 5)
    resumed = run(tmp_path / "resumed", *flags, "--resume", tmp_path / "whole" / "checkpoints")
    assert resumed["resumed_from"] == 5
    assert resumed["parameters_hash"] == whole["parameters_hash"]
    for after, before in zip(resumed["curve"], whole["curve"], strict=True):
        assert all(after[name] == before[name] for name in ("step", "loss", "learning_rate", *PARTS))


def test_a_teacher_is_trained_once(tmp_path):
    flags = ("--teacher-steps", 4, "--steps", 4, "--batch", 4, "--max-length", 32, "--held-out", 8, "--checkpoint-every", 2)
    first = run(tmp_path / "run", *flags)
    written = (tmp_path / "run" / "teacher" / "model.safetensors").read_bytes()
    done = run_program("distill", "--output", tmp_path / "run", *flags, "--seed", 5)
    assert done.returncode == 1 and "is of an earlier run: go on with --resume" in done.stderr
    assert (tmp_path / "run" / "teacher" / "model.safetensors").read_bytes() == written
    again = run(tmp_path / "run", *flags, "--resume", ranks=2)
    assert again["resumed_from"] == 4 and again["parameters_hash"] == first["parameters_hash"]


def test_a_teacher_that_learned_otherwise_is_refused(tmp_path):
    flags = ("--steps", 2, "--batch", 4, "--max-length", 32, "--held-out", 8, "--checkpoint-every", 2)
    run(tmp_path / "run", *flags, "--teacher-steps", 3)
    done = run_program("distill", "--output", tmp_path / "run", *flags, "--teacher-steps", 5, "--resume", ranks=2)
    assert done.returncode == 1 and "the teacher learned for 3 steps, and --teacher-steps is 5" in done.stderr


def test_a_stop_file_ends_the_teachers_training_too(tmp_path):
    """Another one before the program began was for a run before."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "stop").touch()
    words = [program("distill"), "--cache", "none", "--output", tmp_path / "run", "--teacher-steps", "100000", "--steps", "2", "--batch", "4",
             "--max-length", "32", "--held-out", "8", "--eval-first", "no"]
    with subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, text=True) as job:
        for line in job.stdout:
            if line.startswith("step "):
                (tmp_path / "run" / "stop").touch()
                break
        out = job.communicate(timeout=120)[0]
    assert job.returncode == 0, out
    teacher = json.loads((tmp_path / "run" / "teacher" / "summary.json").read_text())
    assert teacher["stopped"] == "stop file" and 0 < teacher["steps"] < 100000
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["steps"] == 2


@pytest.mark.parametrize("flags, words", [
    (["--alpha-mlm", 0, "--alpha-ce", 0, "--alpha-cos", 0], "nothing to learn"),
    (["--temperature", 0], "--temperature is 0"),
    (["--compare", "some"], "all or masked"),
    (["--teacher", "DIR", "--teacher-steps", 4], "--teacher names another"),
    (["--stride", 4], "--stride"),
])
def test_usage_errors(flags, words):
    done = run_program("distill", *flags)
    assert done.returncode == 2 and words in done.stderr and len(done.stderr.strip().splitlines()) == 1


def test_bad_checkpoints_and_texts(tmp_path, teacher):
    def error(*flags):
        done = run_program("distill", "--output", tmp_path / "run", "--max-length", 64, "--held-out", 8, *flags)
        assert done.returncode == 1 and len(done.stderr.strip().splitlines()) == 1, done.stderr
        return done.stderr

    write_checkpoint(tmp_path / "headless", kind=transformers.BertForQuestionAnswering)
    line = error("--teacher", tmp_path / "headless")
    assert "no masked-LM head" in line and "train_bert --task mlm" in line
    write_checkpoint(tmp_path / "narrow", hidden_size=48, num_attention_heads=2)
    assert "hidden_size is 32, the student's 48" in error("--teacher", teacher, "--student", tmp_path / "narrow")
    write_checkpoint(tmp_path / "other")
    tokens = (tmp_path / "other" / "vocab.txt").read_text(encoding="utf-8").splitlines()
    (tmp_path / "other" / "vocab.txt").write_text("\n".join(tokens[:-2] + tokens[:-3:-1]) + "\n", encoding="utf-8")
    assert "same vocabulary" in error("--teacher", teacher, "--student", tmp_path / "other")
    (tmp_path / "short.txt").write_text("One red lamp.\n")
    assert "short.txt has 1 windows" in error("--teacher", teacher, "--data", tmp_path / "short.txt")
