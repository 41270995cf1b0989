# SPDX-License-Identifier: Apache-2.0
"""The loop that all trainers share, by train_bert on the sample: checkpoints and what comes after them, ends on request, autocast,
evaluation on the way, batches for loops elsewhere. RUEDA_BIN names the folder of the programs."""

import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import time
import zlib

import pytest

RUEDA_BIN = pathlib.Path(os.environ.get("RUEDA_BIN", "build/bin"))
SQUAD_SAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "data" / "squad_sample.json"
NQ_SAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "data" / "nq_sample.jsonl"
TIMEOUT = 280  # also on a busy machine
SMALL = ("--batch", 4, "--steps", 24, "--dropout", 0.1, "--eval-first", "no", "--max-length", 64, "--stride", 16)


# One thread each: several wait for one another all the time where the cores are taken.
os.environ["OMP_NUM_THREADS"] = "1"


def full(*flags):
    return pytest.param(flags, marks=pytest.mark.full("examples"))


def command(output, *flags, ranks=None, launcher=()):
    words = [RUEDA_BIN / "train_bert", "--output", output, *SMALL]
    for flag, value in zip(flags[::2], flags[1::2], strict=True):  # those given here win
        if flag in words:
            words[words.index(flag) + 1] = value
        else:
            words += [flag] if value is None else [flag, value]
    if "mlm" in words:
        words = [word for at, word in enumerate(words) if "--stride" not in words[max(at - 1, 0) : at + 1]]
    if ranks is not None:
        if not (RUEDA_BIN / "ruedarun").exists():
            pytest.skip("ruedarun was not built: one rank only")
        words = [RUEDA_BIN / "ruedarun", *launcher, "-np", ranks, *words]
    return [str(word) for word in words]


def run(output, *flags, **how):
    return subprocess.run(command(output, *flags, **how), capture_output=True, text=True, timeout=TIMEOUT)


def summary_of(output):
    return json.loads((output / "summary.json").read_text())


def train(output, *flags, **how):
    done = run(output, *flags, **how)
    assert done.returncode == 0, done.stdout + done.stderr
    return summary_of(output)


def curve_of(summary):
    """All that a curve says, but how long it took."""
    return [{name: value for name, value in point.items() if name != "samples_per_s"} for point in summary["curve"]]


def checkpoints(output):
    return sorted(path.name for path in (output / "checkpoints").iterdir())


def cut_back(output, copy, to):
    """The output as it was when a run was killed after the checkpoint of a step."""
    shutil.copytree(output / "checkpoints", copy / "checkpoints")
    for path in (copy / "checkpoints").iterdir():
        if path.name != f"step-{to}":
            shutil.rmtree(path)


@pytest.mark.parametrize("flags", [(), ("--shard", "yes"), ("--sync", "adaptive"), full("--optimizer", "lamb", "--backward-passes-per-step", 2),
                                   full("--sync", "diloco:3"), full("--sync", "one_step_late"), full("--task", "nq")],
                         ids=lambda flags: "-".join(map(str, flags[1::2])) or "plain")
def test_a_resumed_run_has_the_bits_of_one_at_once(tmp_path, flags):
    whole = train(tmp_path / "whole", *flags, "--checkpoint-every", 12, ranks=2)
    newest = min(int(name.removeprefix("step-")) for name in checkpoints(tmp_path / "whole"))
    cut_back(tmp_path / "whole", tmp_path / "cut", newest)
    resumed = train(tmp_path / "cut", *flags, "--checkpoint-every", 12, "--resume", None, ranks=2)
    assert resumed["resumed_from"] == newest and whole["resumed_from"] is None
    assert whole["backward_passes_per_step"] == (2 if "--backward-passes-per-step" in flags else 1)
    assert resumed["parameters_hash"] == whole["parameters_hash"]
    assert curve_of(resumed) == curve_of(whole)


def test_a_killed_run_goes_on(tmp_path):
    whole = train(tmp_path / "whole", "--steps", 60, ranks=2)
    job = subprocess.Popen(command(tmp_path / "killed", "--steps", 60, "--checkpoint-every", 4, ranks=2), stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, start_new_session=True)
    deadline = time.monotonic() + TIMEOUT
    while not (tmp_path / "killed" / "checkpoints" / "step-8").exists():
        assert job.poll() is None and time.monotonic() < deadline
        time.sleep(0.005)
    job.kill()
    job.wait()
    resumed = train(tmp_path / "killed", "--steps", 60, "--checkpoint-every", 20, "--resume", None, ranks=2)
    assert resumed["resumed_from"] >= 8 and resumed["parameters_hash"] == whole["parameters_hash"]
    assert "step-60" in checkpoints(tmp_path / "killed")


@pytest.mark.parametrize("flags, limit", [(("--dtype", "float64"), 1e-9), (("--shard", "yes", "--optimizer", "sgd"), 1e-5),
                                          pytest.param(("--task", "mlm", "--dtype", "float64", "--backward-passes-per-step", 2), 1e-9,
                                                       marks=pytest.mark.full("examples"))],
                         ids=["float64", "shards", "mlm"])
def test_another_number_of_ranks_goes_on_with_the_same_global_batch(tmp_path, flags, limit):
    load_file = pytest.importorskip("safetensors.torch").load_file
    flags = ("--dropout", 0, "--checkpoint-every", 12, *flags)
    two = train(tmp_path / "two", *flags, ranks=2)
    cut_back(tmp_path / "two", tmp_path / "one", 12)
    one = train(tmp_path / "one", *flags, "--batch", 8, "--resume", None)
    left, right = load_file(tmp_path / "two" / "model.safetensors"), load_file(tmp_path / "one" / "model.safetensors")
    worst = max((left[name].double() - right[name].double()).abs().max().item() for name in left)
    print(f"parameters differ by {worst:.1e} at most")
    assert worst < limit
    assert [point["loss"] for point in one["curve"]] == pytest.approx([point["loss"] for point in two["curve"]], abs=1e-5)


@pytest.mark.parametrize("folder", [None, "absent", "empty"])
def test_the_first_start_may_ask_to_resume(tmp_path, folder):
    (tmp_path / "empty").mkdir()
    named = folder and tmp_path / folder
    done = run(tmp_path / "run", "--steps", 2, "--resume", named)
    assert done.returncode == 0, done.stderr
    assert f"--resume: no checkpoint in {named or tmp_path / 'run' / 'checkpoints'}, training begins anew" in done.stdout
    assert summary_of(tmp_path / "run")["resumed_from"] is None


def test_a_folder_of_other_files_is_not_taken_for_a_first_start(tmp_path):
    def refusal(*flags):
        done = run(tmp_path / "run", "--steps", 2, *flags)
        assert done.returncode == 1 and not (tmp_path / "run" / "summary.json").exists(), done.stdout
        return done.stderr

    train(tmp_path / "model", "--steps", 0)
    line = refusal("--resume", tmp_path / "model")
    assert f"--resume: {tmp_path / 'model'} holds no checkpoint of a training, but " in line and "name a checkpoint, or a folder of them" in line
    (tmp_path / "kept" / "checkpoints").mkdir(parents=True)
    (tmp_path / "kept" / "checkpoints" / ".step-8.new").mkdir()  # all that a run has left that was killed early
    done = run(tmp_path / "run", "--steps", 2, "--resume", tmp_path / "kept")
    assert done.returncode == 0 and "training begins anew" in done.stdout, done.stderr
    # The output of the run itself is where its first start will write.
    assert train(tmp_path / "run", "--steps", 2, "--resume", tmp_path / "run")["resumed_from"] is None
    words = [RUEDA_BIN / "distill", "--output", tmp_path / "distilled", "--steps", 1, "--teacher-steps", 1, "--held-out", 4]
    for folder, told in ((tmp_path / "model", "holds no checkpoint of a training"), (tmp_path / "kept" / "checkpoints" / "step-3", "whose teacher")):
        folder.mkdir(exist_ok=True)
        done = subprocess.run(list(map(str, [*words, "--resume", folder])), capture_output=True, text=True, timeout=TIMEOUT)
        assert done.returncode == 1 and told in done.stderr, done.stderr


def test_a_checkpoint_beyond_the_last_step_is_told(tmp_path):
    whole = train(tmp_path / "run", "--steps", 4, "--checkpoint-every", 4)
    for steps in (2, 4):
        done = run(tmp_path / "run", "--steps", steps, "--resume", None)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count(f"the checkpoint is of step 4 and --steps is {steps}: nothing is trained") == 1
        assert summary_of(tmp_path / "run")["parameters_hash"] == whole["parameters_hash"]
    assert "nothing is trained" not in run(tmp_path / "run", "--steps", 5, "--resume", None).stdout


def test_states_of_ranks_are_dealt_out_to_another_number(tmp_path):
    flags = ("--sync", "local_sgd:4", "--checkpoint-every", 12)
    train(tmp_path / "two", *flags, ranks=2)
    cut_back(tmp_path / "two", tmp_path / "three", 12)
    done = run(tmp_path / "three", *flags, "--resume", None, ranks=3)
    assert done.returncode == 0, done.stderr
    assert "2 ranks have written it: rank r of 3 goes on with the optimizer state of rank r modulo 2" in done.stdout


def test_a_damaged_checkpoint_is_passed_over(tmp_path):
    whole = train(tmp_path / "run", "--checkpoint-every", 8)
    assert checkpoints(tmp_path / "run") == ["step-16", "step-24", "step-8"]
    damaged = tmp_path / "run" / "checkpoints" / "step-24" / "optimizer.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    done = run(tmp_path / "run", "--checkpoint-every", 8, "--resume", None)
    assert done.returncode == 0, done.stderr
    assert "passed over:" in done.stdout and "step-24/optimizer.safetensors: has" in done.stdout
    assert summary_of(tmp_path / "run")["parameters_hash"] == whole["parameters_hash"]
    assert checkpoints(tmp_path / "run") == ["aside-step-24", "step-16", "step-24", "step-8"]
    done = run(tmp_path / "other", "--resume", tmp_path / "run" / "checkpoints" / "aside-step-24")
    assert done.returncode == 1 and "has no checkpoint that is whole" in done.stderr


def attack(path, target):
    """Writes an archive of LibTorch that writes `target` while it is loaded."""
    torch = pytest.importorskip("torch")

    source = f"""
def __getstate__(self):
    return (1, self.training)

def __setstate__(self, state: Tuple[int, bool]):
    torch.save(state[0], "{target}")
    self.training = state[1]
"""
    module = torch.jit.script(type("Attack", (torch.nn.Module,), {})())  # torch keeps the methods of a class
    module.define(source)
    torch.jit.save(module, str(path))


def rewritten(folder, archive, format_):
    """The facts of a checkpoint with the size and sum of another optimizer's state: whoever writes a checkpoint writes these too."""
    facts = json.loads((folder / "training.json").read_text())["training"]
    (folder / "optimizer.safetensors").unlink(missing_ok=True)
    del facts["files"]["optimizer.safetensors"]
    facts["files"][archive.name] = {"bytes": archive.stat().st_size, "crc32": zlib.crc32(archive.read_bytes())}
    facts["format"] = format_
    text = json.dumps(facts, separators=(",", ":"), ensure_ascii=False)
    (folder / "training.json").write_text(json.dumps({"crc32": zlib.crc32(text.encode()), "training": facts}))


@pytest.mark.parametrize("format_, name", [(2, "optimizer.pt"), (3, "optimizer.safetensors")])
def test_a_checkpoint_that_would_run_code_is_refused(tmp_path, format_, name):
    train(tmp_path / "run", "--steps", 4, "--checkpoint-every", 4)
    folder = tmp_path / "run" / "checkpoints" / "step-4"
    made = tmp_path / "made"
    attack(made, tmp_path / "target")
    archive = folder / name
    rewritten_name = made.rename(tmp_path / name)
    rewritten(folder, rewritten_name, format_)
    rewritten_name.rename(archive)
    done = run(tmp_path / "run", "--steps", 8, "--resume", None)
    assert done.returncode == 1 and not (tmp_path / "target").exists(), done.stdout + done.stderr
    assert str(folder) in done.stderr and "archive of torch::save" in done.stderr and "which can run code" in done.stderr
    assert "--allow-code yes" in done.stderr if format_ == 2 else "load it with allow_code" in done.stderr
    run(tmp_path / "run", "--steps", 8, "--resume", None, "--allow-code", "yes")
    assert (tmp_path / "target").exists(), "the archive does what it is here for"


def test_sigterm_saves_and_ends_and_the_rest_follows(tmp_path):
    whole = train(tmp_path / "whole", "--steps", 120)
    job = subprocess.Popen(command(tmp_path / "run", "--steps", 120), stdout=subprocess.PIPE, text=True)
    for line in job.stdout:
        if line.startswith("step "):
            job.send_signal(signal.SIGTERM)
            break
    out = job.communicate(timeout=TIMEOUT)[0]
    assert job.returncode == 0 and "go on with --resume" in out
    stopped = summary_of(tmp_path / "run")
    assert stopped["stopped"] == "SIGTERM" and stopped["f1"] is None and 0 < stopped["steps"] < 120
    assert len(stopped["curve"]) == stopped["steps"] and not (tmp_path / "run" / "model.safetensors").exists()
    resumed = train(tmp_path / "run", "--steps", 120, "--resume", None)
    assert resumed["resumed_from"] == stopped["steps"] and resumed["parameters_hash"] == whole["parameters_hash"]


def test_stop_after_stops_all_ranks_at_one_step(tmp_path):
    done = run(tmp_path / "run", "--steps", 100000, "--sync", "accumulate:5", ranks=2, launcher=("--stop-after", "8s"))
    assert done.returncode == 0, done.stderr
    steps = summary_of(tmp_path / "run")["steps"]
    assert f"stopped by SIGTERM after {steps} of 100000 steps" in done.stdout
    assert steps % 5 == 0 and checkpoints(tmp_path / "run") == [f"step-{steps}"]
    assert "all ranks have ended" in done.stderr


def test_a_stop_file_ends_with_results(tmp_path):
    job = subprocess.Popen(command(tmp_path / "run", "--steps", 100000, ranks=2), stdout=subprocess.PIPE, text=True)
    for line in job.stdout:
        if "] step " in line:
            (tmp_path / "run" / "stop").touch()
            break
    job.communicate(timeout=TIMEOUT)
    summary = summary_of(tmp_path / "run")
    assert job.returncode == 0 and summary["stopped"] == "stop file" and 0 < summary["steps"] < 100000
    assert summary["f1"] is not None and (tmp_path / "run" / "model.safetensors").exists()
    assert not (tmp_path / "run" / "stop").exists()


def test_evaluation_on_the_way_changes_nothing(tmp_path):
    plain = train(tmp_path / "plain", "--eval-first", "yes")
    often = train(tmp_path / "often", "--eval-first", "yes", "--evaluate-every", 10)
    assert [point["step"] for point in often["evaluations"]] == [0, 10, 20, 24]
    assert [point["step"] for point in plain["evaluations"]] == [0, 24]
    assert often["parameters_hash"] == plain["parameters_hash"] and often["f1"] == plain["f1"]


@pytest.mark.parametrize("flags", [(), full("--clip", 0), full("--clip", 0, "--sync", "never"), ("--sync", "local_sgd:3")],
                         ids=["clipped", "as-it-is", "never", "apart"])
def test_a_training_that_diverges_ends_and_saves_nothing(tmp_path, flags):
    every = () if "never" in flags else ("--checkpoint-every", 1)
    done = run(tmp_path / "run", "--learning-rate", 1e30, "--warmup", 0, *every, *flags, ranks=2)
    assert done.returncode == 1
    said = [line for line in done.stderr.splitlines() if "training diverged; try a lower --learning-rate" in line]
    # Ranks that do not synchronise know nothing of each other: each tells its own.
    assert len(said) in (range(1, 3) if "never" in flags else (1,)), done.stderr
    assert "error: rank" not in done.stderr and len({line.split("error: ")[1] for line in said}) == 1, done.stderr
    assert not (tmp_path / "run" / "model.safetensors").exists()
    load_file = pytest.importorskip("safetensors.torch").load_file
    for folder in (tmp_path / "run").glob("checkpoints/step-*"):
        assert all(tensor.isfinite().all() for tensor in load_file(folder / "model.safetensors").values())


def test_an_evaluation_that_is_not_finite_is_kept(tmp_path):
    flags = ("--task", "mlm", "--max-length", 32, "--steps", 4, "--warmup", 0, "--learning-rate", 20, "--evaluate-every", 2, "--checkpoint-every", 4)
    first = train(tmp_path / "run", *flags)
    assert any(point["perplexity"] is None for point in first["evaluations"])
    resumed = train(tmp_path / "run", *flags, "--resume", None)
    assert resumed["resumed_from"] == 4 and resumed["evaluations"][:2] == first["evaluations"][:2]


def test_a_last_update_that_diverges_is_not_saved(tmp_path):
    done = run(tmp_path / "run", "--learning-rate", 1e30, "--warmup", 0, "--clip", 0, "--steps", 1, ranks=2)
    assert done.returncode == 1 and done.stderr.count("error: the loss of what was held out is not finite: training diverged") == 1
    assert not (tmp_path / "run" / "model.safetensors").exists()


def test_nothing_to_guess_is_an_error(tmp_path):
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nzzzzq\n")
    done = run(tmp_path / "run", "--task", "mlm", "--vocabulary", tmp_path / "vocab.txt", "--steps", 2)
    assert done.returncode == 1 and "the vocabulary knows no word of the 32 windows that are measured" in done.stderr


def test_an_output_is_of_one_run(tmp_path):
    flags = ("--steps", 100000, "--checkpoint-every", 5)
    job = subprocess.Popen(command(tmp_path / "run", *flags), stdout=subprocess.PIPE, text=True)
    for line in job.stdout:
        if line.startswith("step "):
            break
    done = run(tmp_path / "run", *flags, "--resume", None)
    assert done.returncode == 1 and f"another run writes to {tmp_path / 'run'}: wait for its end" in done.stderr
    job.kill()
    job.communicate(timeout=TIMEOUT)
    resumed = train(tmp_path / "run", "--steps", 2, "--resume", None, "--checkpoint-every", 5)
    assert resumed["resumed_from"] is not None and resumed["resumed_from"] % 5 == 0


def test_a_history_that_does_not_fit_is_passed_over(tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    train(tmp_path / "run", "--checkpoint-every", 8)
    folder = tmp_path / "run" / "checkpoints" / "step-24"
    columns = safetensors.load_file(folder / "history.safetensors")
    safetensors.save_file({**columns, "learning_rate": columns["learning_rate"][:3].clone()}, folder / "history.safetensors")
    facts = json.loads((folder / "training.json").read_text())["training"]
    written = (folder / "history.safetensors").read_bytes()
    facts["files"]["history.safetensors"] = {"bytes": len(written), "crc32": zlib.crc32(written)}
    text = json.dumps(facts, separators=(",", ":"), ensure_ascii=False)
    (folder / "training.json").write_text('{"crc32": %d, "training": %s}' % (zlib.crc32(text.encode()), text))
    done = run(tmp_path / "run", "--checkpoint-every", 8, "--resume", None)
    assert done.returncode == 0, done.stderr
    assert "history.safetensors: has no learning_rate of 24 steps" in done.stdout
    assert summary_of(tmp_path / "run")["resumed_from"] == 16


def test_a_disk_that_is_full_under_the_event_file_ends_nothing(tmp_path):
    def small_files():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))

    done = subprocess.run(command(tmp_path / "run", "--save", "no"), capture_output=True, text=True, timeout=TIMEOUT, preexec_fn=small_files)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("File too large; training goes on without it") == 1
    assert summary_of(tmp_path / "run")["steps"] == 24


def test_autocast_is_near_float32(tmp_path):
    exact = train(tmp_path / "exact", "--steps", 12)
    mixed = train(tmp_path / "mixed", "--steps", 12, "--autocast", "bf16")
    assert mixed["parameters_hash"] != exact["parameters_hash"]
    assert mixed["loss_last"] == pytest.approx(exact["loss_last"], rel=0.02)


def test_batches_for_a_loop_elsewhere(tmp_path):
    load_file = pytest.importorskip("safetensors.torch").load_file
    flags = ("--backward-passes-per-step", 2, "--dump-batches", tmp_path / "batches.safetensors")
    train(tmp_path / "run", *flags, "--workers", 3)
    batches = load_file(tmp_path / "batches.safetensors")
    assert {name.rsplit(".", 1)[0] for name in batches} == {f"{step}.{part}" for step in range(20) for part in range(2)}
    assert {name.split(".")[2] for name in batches} == {"input_ids", "token_types", "valid", "starts", "ends"}
    assert batches["19.1.input_ids"].shape == batches["19.1.valid"].shape and batches["19.1.starts"].shape == (4,)
    first = batches["0.0.input_ids"].tolist()
    train(tmp_path / "again", *flags, "--workers", 0)
    assert load_file(tmp_path / "batches.safetensors")["0.0.input_ids"].tolist() == first


def test_what_cannot_be_is_said(tmp_path):
    def refusal(*flags):
        done = run(tmp_path / "run", *flags)
        lines = done.stderr.strip().splitlines()
        assert len(lines) == 1 and lines[0].startswith("error: "), done.stderr
        return done.returncode, lines[0]

    assert "each rank has a model of its own" in refusal("--sync", "never", "--checkpoint-every", 3)[1]
    assert "--autocast bf16 is for parameters of float32" in refusal("--autocast", "bf16", "--dtype", "bfloat16")[1]
    assert refusal("--keep", 0) == (2, "error: --keep is 0; it must be at least 1 and below 2^31")
    assert "step-9 has no checkpoint that is whole: passed over: " in refusal("--resume", tmp_path / "absent" / "step-9")[1]
    (tmp_path / "file").touch()
    assert "--resume: " in (line := refusal("--resume", tmp_path / "file")[1]) and "file is not a folder" in line
    train(tmp_path / "run", "--steps", 2, "--checkpoint-every", 2)
    assert "step-2 is of an earlier run: go on with --resume, or choose another --output, or remove" in refusal()[1]
    assert "was written with --seed 1, and this run has --seed 7" in refusal("--seed", 7, "--resume", None)[1]
    assert "step-2 was written with --optimizer adamw" in refusal("--optimizer", "sgd", "--resume", None)[1]
    assert "step-2 is of an earlier run" in refusal("--resume", tmp_path / "absent")[1]
    other = tmp_path / "other.json"  # as long, but another text
    other.write_text(SQUAD_SAMPLE.read_text(encoding="utf-8").replace(" a ", " i "), encoding="utf-8")
    line = refusal("--data", other, "--resume", None)[1]
    assert "step-2 was written with windows " in line and "and this run has windows " in line


def test_a_checkpoint_that_cannot_be_written_is_told_and_training_goes_on(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "checkpoints").write_text("in the way")
    done = run(tmp_path / "run", "--steps", 4, "--checkpoint-every", 2, ranks=2)
    assert done.returncode == 0, done.stderr
    assert "warning: no checkpoint after step 2: " in done.stdout and "checkpoints" in done.stdout


@pytest.mark.full("examples")
def test_natural_questions_are_learned(tmp_path):
    lines = NQ_SAMPLE.read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "nq.jsonl").write_text("".join(lines[:40]), encoding="utf-8")  # eight of each answer type
    flags = ("--task", "nq", "--data", tmp_path / "nq.jsonl", "--held-out", 0, "--max-length", 128, "--stride", 64, "--dropout", 0)
    summary = train(tmp_path / "run", *flags, "--steps", 600, "--augment", "no", "--cache", tmp_path / "cache", ranks=2)
    assert summary["answer_types"] > 90 and summary["f1"] > 90 and summary["exact_match"] > 90
    point = summary["curve"][-1]
    assert point["loss"] == pytest.approx(point["loss_start"] + point["loss_end"] + point["loss_type"], abs=1e-5)
    again = train(tmp_path / "again", *flags, "--steps", 0, "--model", tmp_path / "run", "--cache", "none", ranks=3)
    for metric in ("answer_types", "f1", "exact_match", "loss_held_out"):
        assert again[metric] == summary[metric]


@pytest.mark.parametrize("task", ["squad", "nq", "mlm"])
def test_made_up_batches(tmp_path, task):
    flags = ("--task", task, "--dummy", "yes", "--steps", 3, "--max-length", 48)
    summary = train(tmp_path / "run", *flags)
    assert len(summary["curve"]) == 3 and summary["loss_last"] > 0
    assert task == "mlm" or summary["evaluations"] == []  # of mlm made-up windows are measured, too
