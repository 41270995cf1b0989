# SPDX-License-Identifier: Apache-2.0
"""Files that are not what they should be, as train_bert names them, and options that its errors and others' name. RUEDA_BIN names the folder of
the programs."""

import gzip
import json
import os
import pathlib
import re
import subprocess

import pytest

RUEDA_BIN = pathlib.Path(os.environ.get("RUEDA_BIN", "build/bin"))
ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "examples" / "data"
TIMEOUT = 120
SMALL = ("--steps", 4, "--batch", 2, "--max-length", 64, "--stride", 16, "--eval-first", "no")
os.environ["OMP_NUM_THREADS"] = "1"  # several ranks wait for one another all the time where the cores are taken


def start(program, *flags, ranks=None):
    words = [RUEDA_BIN / program, *flags]
    if ranks is not None:
        if not (RUEDA_BIN / "ruedarun").exists():
            pytest.skip("ruedarun was not built: one rank only")
        words = [RUEDA_BIN / "ruedarun", "-np", ranks, *words]
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, encoding="utf-8", timeout=TIMEOUT)


def run(output, *flags, ranks=None):
    return start("train_bert", "--output", output, *SMALL, *flags, ranks=ranks)


def summary_of(done, output):
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((output / "summary.json").read_text())


def damage(question, kind):
    answer = question["answers"][0]
    if kind == "off by one":
        answer["answer_start"] += 1
    elif kind == "-1":
        answer["answer_start"] = -1
    elif kind == "elsewhere":
        answer["text"] = "nowhere to be found"
    elif kind == "outside":
        answer["answer_start"] = 100000
    elif kind == "missing":
        del question["question"]
    elif kind == "type":
        answer["answer_start"] = "7"
    elif kind == "impossible":
        question["is_impossible"] = True


KINDS = {"off by one": "answer_start is off by one: ", "-1": "answer_start is -1: a question that is unanswerable has no answers",
         "elsewhere": "\"nowhere to be found\" is expected at character ", "outside": " is expected at character 100000, the context has ",
         "missing": ": missing \"question\"", "type": "a non-negative integer is needed, found \"7\"",
         "impossible": "is_impossible is true, and there are answers", "twice": ".id: the id occurs before"}


@pytest.fixture(scope="module")
def squad(tmp_path_factory):
    """A file of which 16 questions are bad, and the same without these."""
    folder = tmp_path_factory.mktemp("squad")
    document = json.loads((DATA / "squad_sample.json").read_text(encoding="utf-8"))
    good = json.loads((DATA / "squad_sample.json").read_text(encoding="utf-8"))
    for article in range(2):
        for index, kind in enumerate(KINDS):
            paragraph, number = divmod(index, 6)
            questions = document["data"][article]["paragraphs"][paragraph]["qas"]
            if kind == "twice":
                questions[number]["id"] = "sample-3-0-0" if article else "sample-0-0-5"
            damage(questions[number], kind)
            good["data"][article]["paragraphs"][paragraph]["qas"][number] = None
    # The later of two with one id is bad.
    first_of_two = good["data"][3]["paragraphs"][0]["qas"]
    good["data"][1]["paragraphs"][1]["qas"][1] = document["data"][1]["paragraphs"][1]["qas"][1]
    first_of_two[0] = None
    for article in good["data"]:
        for paragraph in article["paragraphs"]:
            paragraph["qas"] = [question for question in paragraph["qas"] if question]
    for name, content in (("bad.json", document), ("good.json", good)):
        (folder / name).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    return folder


def test_bad_questions_end_the_run_and_are_told_once(tmp_path, squad):
    for ranks in (None, 3):
        done = run(tmp_path / "run", "--data", squad / "bad.json", ranks=ranks)
        assert done.returncode == 1 and not (tmp_path / "run" / "summary.json").exists()
        assert done.stderr.count(f"error: {squad / 'bad.json'}: 16 bad items; the first 10:\n") == 1, done.stderr
        told = [line for line in done.stderr.splitlines() if "bad.json: question" in line]
        assert len(told) == 10
        for (kind, words), line in zip(KINDS.items(), told):
            assert words in line and "question \"sample-0-" in line and ": data[0].paragraphs[" in line, (kind, line)
        assert done.stderr.count("correct them, or leave them out with --bad-items skip") == 1


def test_bad_questions_are_left_out(tmp_path, squad):
    clean = summary_of(run(tmp_path / "good", "--data", squad / "good.json"), tmp_path / "good")
    for ranks in (2, None):
        done = run(tmp_path / "run", "--data", squad / "bad.json", "--bad-items", "skip", ranks=ranks)
        summary = summary_of(done, tmp_path / "run")
        assert done.stdout.count(f"{squad / 'bad.json'}: 16 bad items left out; the first 10:\n") == 1
        assert done.stdout.count("bad.json: question") == 10
    assert summary["parameters_hash"] == clean["parameters_hash"]


def test_bad_lines_of_natural_questions(tmp_path):
    lines = (DATA / "nq_sample.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    good = tmp_path / "good.jsonl"
    good.write_text("".join(lines), encoding="utf-8")
    wrong = json.loads(lines[0])
    wrong["example_id"] = "wrong"
    wrong["annotations"][0]["long_answer"]["end_token"] = 100000
    bad = tmp_path / "bad.jsonl"
    bad.write_text("".join([*lines[:7], "{\"example_id\"\n", *lines[7:9], lines[2], json.dumps(wrong) + "\n", *lines[9:]]), encoding="utf-8")
    flags = ("--task", "nq", "--cache", tmp_path / "cache")
    for ranks in (None, 2):
        done = run(tmp_path / "run", *flags, "--data", bad, ranks=ranks)
        assert done.returncode == 1 and done.stderr.count(f"error: {bad}: 3 bad items:\n") == 1, done.stderr
        assert f"{bad}:8: malformed JSON: " in done.stderr and f"{bad}:11: example 2: example_id occurs before" in done.stderr
        assert f"{bad}:12: example wrong: annotations[0].long_answer: tokens " in done.stderr
    clean = summary_of(run(tmp_path / "good", *flags, "--data", good), tmp_path / "good")
    for _ in range(2):  # the second time from the cache
        done = run(tmp_path / "run", *flags, "--data", bad, "--bad-items", "skip")
        assert summary_of(done, tmp_path / "run")["parameters_hash"] == clean["parameters_hash"]
        assert done.stdout.count(f"{bad}: 3 bad items left out:\n") == 1


OF_TEXT = {"train_bert": ("--task", "mlm", "--steps", 2, "--batch", 2, "--max-length", 32, "--held-out", 2),
           "distill": ("--teacher-steps", 1, "--steps", 2, "--batch", 2, "--max-length", 32, "--held-out", 2),
           "evaluate_lm": ("--max-length", 32, "--subset", 0.1, "--pseudo", "no")}


@pytest.mark.parametrize("program", OF_TEXT)
def test_bad_lines_of_text(tmp_path, program):
    lines = (DATA / "text_sample.txt").read_bytes().splitlines(keepends=True)
    texts = {"good.txt": lines, "bad.txt": [b"caf\xe9\n", *lines[:9], b"\xff\n", *lines[9:]]}
    for name, content in texts.items():
        (tmp_path / name).write_bytes(b"".join(content))
    bad = tmp_path / "bad.txt"

    def read(data, *flags):
        return start(program, "--output", tmp_path / "run", *OF_TEXT[program], "--cache", tmp_path / "cache", "--data", data, *flags, ranks=2)

    done = read(bad)
    assert done.returncode == 1 and done.stderr.count(f"error: {bad}: 2 bad items:\n") == 1, done.stderr
    assert done.stderr.count(f"{bad}:1: not valid UTF-8 (byte 0xe9)") == 1 and done.stderr.count(f"{bad}:11: not valid UTF-8 (byte 0xff)") == 1
    done = read(tmp_path / "absent")
    assert done.returncode == 1 and len(re.findall(f"error: cannot (open|read) {tmp_path / 'absent'}: No such file or directory", done.stderr)) == 1, done.stderr
    clean = summary_of(read(tmp_path / "good.txt"), tmp_path / "run")
    done = read(bad, "--bad-items", "skip")
    summary = summary_of(done, tmp_path / "run")
    result = "perplexity" if program == "evaluate_lm" else "parameters_hash"
    assert summary[result] == clean[result]
    assert done.stdout.count(f"{bad}: 2 bad items left out:\n") == (2 if program == "distill" else 1), done.stdout  # the teacher's, the student's


@pytest.mark.parametrize("task", ["squad", "nq", "mlm"])
def test_where_nothing_good_is_left_no_remedy_is_offered(tmp_path, task):
    data = tmp_path / "data"
    document = {"data": [{"paragraphs": [{"context": "Ana", "qas": [{"id": str(i)} for i in range(12)]}]}]}
    data.write_bytes({"squad": json.dumps(document).encode(), "nq": b"{\n" * 12, "mlm": b"\xff\n" * 12}[task])
    flags = {"squad": ("--stride", 16), "nq": ("--stride", 16, "--cache", "none"), "mlm": ("--cache", "none")}[task]
    for how in ("skip", "refuse"):
        done = start("train_bert", "--output", tmp_path / "run", "--task", task, "--max-length", 64, *flags, "--data", data, "--bad-items", how)
        assert done.returncode == 1 and done.stderr.startswith(f"error: {data}: all 12 items are bad, and nothing is left; the first 10:\n"), done.stderr
        assert len(done.stderr.splitlines()) == 11 and "--bad-items" not in done.stderr


def test_articles_need_no_title(tmp_path):
    document = json.loads((DATA / "squad_sample.json").read_text(encoding="utf-8"))
    clean = summary_of(run(tmp_path / "named", "--data", DATA / "squad_sample.json"), tmp_path / "named")
    for article in document["data"]:
        del article["title"]
    (tmp_path / "untitled.json").write_text(json.dumps(document))
    summary = summary_of(run(tmp_path / "run", "--data", tmp_path / "untitled.json"), tmp_path / "run")
    assert summary["parameters_hash"] == clean["parameters_hash"]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("task", ["squad", "nq", "mlm"])
def test_text_in_utf_16_is_named(tmp_path, task, encoding):
    text = {"squad": (DATA / "squad_sample.json").read_text(encoding="utf-8"), "nq": "{}\n", "mlm": "Ana made a lamp.\n" * 9}[task]
    (tmp_path / "data").write_bytes(("\ufeff" + text).encode(encoding))
    stride = ("--stride", 16) if task != "mlm" else ()
    done = start("train_bert", "--output", tmp_path / "run", "--task", task, "--max-length", 64, *stride, "--data", tmp_path / "data")
    assert done.returncode == 1 and done.stderr == f"error: {tmp_path / 'data'} is text in UTF-16: convert it with iconv -f UTF-16 -t UTF-8\n"


def test_the_tokenizer_shows_its_usage():
    done = start("bert_tokenize", "--help")
    assert done.returncode == 0 and not done.stderr
    assert done.stdout.startswith("usage: bert_tokenize ") and "  --offsets " in done.stdout and "  --save FOLDER " in done.stdout


def test_a_vocabulary_of_a_text_with_bad_lines(tmp_path):
    text = tmp_path / "text.txt"
    text.write_bytes(b"one two one two\ncaf\xe9\none two\n")
    words = ("build_vocab", "--output", tmp_path / "vocab.txt", text)
    done = start(*words)
    assert done.returncode == 1 and done.stderr.startswith(f"error: {text}:2: not valid UTF-8 (byte 0xe9)"), done.stderr
    done = start(*words, "--bad-items", "skip")
    assert done.returncode == 0 and f"{text}: 1 bad item left out:\n  {text}:2: " in done.stdout, done
    done = start(*words, "--bad-items", "keep")
    assert done.returncode == 2 and done.stderr == "error: --bad-items is 'keep'; it must be refuse or skip\n", done.stderr


def test_a_file_that_one_rank_cannot_read_is_told_of_that_rank(tmp_path):
    if not (RUEDA_BIN / "ruedarun").exists():
        pytest.skip("ruedarun was not built: one rank only")
    script = f'exec "{RUEDA_BIN}/train_bert" --output "{tmp_path}/run" --steps 1 --data "{DATA}/squad_sample.json$RUEDA_SUFFIX"'
    wrapped = f'[ "$RUEDA_RANK" = 1 ] && export RUEDA_SUFFIX=.absent; {script}'
    done = subprocess.run([str(RUEDA_BIN / "ruedarun"), "-np", "3", "sh", "-c", wrapped], capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 1
    assert done.stderr.count(f"error: rank 1: cannot open {DATA}/squad_sample.json.absent: No such file or directory") == 1, done.stderr


POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 30288272\n"


@pytest.mark.parametrize("task", ["squad", "nq", "mlm"])
def test_a_pointer_of_git_lfs_is_named(tmp_path, task):
    (tmp_path / "data").write_text(POINTER)
    stride = ("--stride", 16) if task != "mlm" else ()
    done = start("train_bert", "--output", tmp_path / "run", "--task", task, "--max-length", 64, *stride, "--data", tmp_path / "data")
    assert done.returncode == 1 and done.stderr.startswith(f"error: {tmp_path / 'data'}") and "git lfs pull" in done.stderr, done.stderr


@pytest.mark.parametrize("content, words", [
    (gzip.compress(b"{}"), " is compressed by gzip: unpack it with gunzip"),
    (b"<!DOCTYPE html>\n<html></html>", ":1:1: malformed JSON: this is a page of the web, not JSON"),
    ((DATA / "squad_sample.json").read_bytes()[:100_000], "the file ends inside "),
    (b"", ":1:1: malformed JSON: the file is empty"),
], ids=["gzip", "page", "cut", "empty"])
def test_what_is_no_json_is_named(tmp_path, content, words):
    (tmp_path / "train.json").write_bytes(content)
    done = run(tmp_path / "run", "--data", tmp_path / "train.json")
    assert done.returncode == 1 and words in done.stderr, done.stderr
    assert len(done.stderr.splitlines()) == 1


PROGRAMS = ("train_bert", "distill", "evaluate_lm", "report", "build_vocab", "bert_tokenize", "ruedarun", "rueda-hosts")
# Between the launcher's own processes, for srun, and in remedies of --doctor: of Slurm, docker and ps.
WITHIN = {"--agent", "--nodes", "--ntasks", "--ntasks-per-node", "--nodelist", "--kill-on-bad-exit", "--cpu-bind", "--unbuffered", "--overlap",
          "--mpi", "--no-kill", "--mem", "--memory", "--shm-size", "--cpuset-cpus", "--pids-limit", "--sort"}


def test_options_that_messages_name_exist():
    """An error must not send anybody to an option that there is not."""
    known = set()
    absent = [program for program in PROGRAMS if not (RUEDA_BIN / program).exists()]
    if absent:
        pytest.skip(f"not built: {', '.join(absent)}")
    for program in PROGRAMS:
        done = subprocess.run([RUEDA_BIN / program, "--help"], capture_output=True, text=True, timeout=TIMEOUT)
        known |= set(re.findall(r"--[a-z][a-z0-9-]*", done.stdout + done.stderr))
    unknown = []
    for folder in ("examples", "frameworks/torch", "launcher"):
        for path in sorted((ROOT / folder).rglob("*.cc")):
            for literal in re.findall(r'"((?:[^"\\\n]|\\.)*)"', path.read_text(encoding="utf-8")):
                for option in re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", literal):
                    if option not in known | WITHIN:
                        unknown.append(f"{path.relative_to(ROOT)}: {option}")
    assert not unknown, "\n".join(unknown)
