# SPDX-License-Identifier: Apache-2.0
"""What ranks print, while it is printed: prompts, progress bars, last words. Where a rank waits for an answer, a test that
does not see its text cannot go on."""

import os
import signal
import subprocess
import sys
import time

import pytest
from test_ruedarun import RUEDARUN, SECONDS, Job, clean_environment, run

PYTHON = sys.executable


def read_until(stream, wanted):
    """What comes up to the text `wanted`, which need not end a line."""
    seen = b""
    deadline = time.monotonic() + SECONDS
    while wanted.encode() not in seen:
        assert time.monotonic() < deadline, f"only this has come: {seen!r}"
        piece = os.read(stream.fileno(), 65536)
        assert piece, f"it ended after {seen!r}"
        seen += piece
    return seen.decode()


def ended(job, given=""):
    """All that is left on stdout, when it has ended well."""
    out, err = job.process.communicate(given, timeout=SECONDS)
    assert job.process.returncode == 0, err
    return out


def test_a_prompt_is_seen_before_the_answer():
    job = Job("-np", "2", PYTHON, "-c", "import os\nif os.environ['RUEDA_RANK'] == '0': print('hello ' + input('name? '))",
              stdin=subprocess.PIPE)
    assert read_until(job.process.stdout, "name? ") == "[0] name? "
    assert ended(job, "Bob\n") == "hello Bob\n"


@pytest.mark.parametrize("update", ["\\r1/3", "1/3\\r"])
def test_a_progress_bar_is_seen_while_it_stands(update):
    job = Job("-np", "1", "/bin/bash", "-c", f"printf '{update}' >&2; read go; printf '\\r3/3\\n' >&2", stdin=subprocess.PIPE)
    assert read_until(job.process.stderr, "1/3").startswith("[0] 1/3")
    ended(job, "\n")


def test_ranks_do_not_mix_with_an_unfinished_line_of_another(tmp_path):
    """Both streams go to one place, as on a terminal."""
    script = (f'[ $RUEDA_RANK = 1 ] && {{ while [ ! -e {tmp_path}/go ]; do sleep 0.02; done; echo oops >&2; exit; }}; '
              'printf "name? "; read name; echo "hello $name"')
    job = Job("-np", "2", "/bin/sh", "-c", script, stdin=subprocess.PIPE, stderr=subprocess.STDOUT)
    seen = read_until(job.process.stdout, "name? ")
    (tmp_path / "go").touch()
    seen += read_until(job.process.stdout, "oops\n")
    assert seen + ended(job, "Bob\n") == "[0] name? \n[1] oops\n[0] hello Bob\n"


def test_without_prefixes_and_in_files_every_byte_is_as_it_was_written(tmp_path):
    pieces = [b"\r10%", b"\r20%\r\n", b"\xff\0\x1b[A", b"\r\r\n\n", b"tail\r"]
    program = "import os, time\nfor piece in %r:\n    os.write(1, piece); time.sleep(0.3)\n" % pieces
    process = Job("--no-prefix", "--output-filename", str(tmp_path), "-np", "1", PYTHON, "-c", program).process
    out = process.stdout.buffer.read()
    assert process.wait(timeout=SECONDS) == 0
    assert out == b"".join(pieces) == (tmp_path / "rank.0" / "stdout").read_bytes()


def test_last_words_of_python_are_not_lost():
    status, out, _ = run("-np", "2", PYTHON, "-c", "import os; print('last words'); os._exit(0)")
    assert status == 0 and sorted(out) == ["[0] last words", "[1] last words"]


def test_what_python_prints_is_seen_while_it_runs():
    job = Job("-np", "1", PYTHON, "-c", "print('step 1'); input()", stdin=subprocess.PIPE)
    assert read_until(job.process.stdout, "step 1\n") == "[0] step 1\n"
    ended(job, "\n")


def test_the_users_own_choice_for_python_stays():
    script = 'echo "<$PYTHONUNBUFFERED>"'
    assert run("-np", "1", "/bin/sh", "-c", script)[1] == ["[0] <1>"]
    assert run("-np", "1", "/bin/sh", "-c", script, PYTHONUNBUFFERED="")[1] == ["[0] <>"]


@pytest.mark.parametrize("ranks, pause", [(2, 0), (1, 0.1)], ids=["a_quick_reader", "a_slow_reader"])
def test_what_a_rank_has_written_before_its_death_arrives(ranks, pause):
    """With a slow reader much of it is still in pipes when the job is over for all others."""
    program = ("import os, signal\ntext = (b'x' * 1023 + b'\\n') * 1024\n"
               "while text: text = text[os.write(1, text):]\nos.kill(os.getpid(), signal.SIGKILL)")
    job = Job("--no-prefix", "-np", str(ranks), PYTHON, "-c", program)
    count = 0
    while piece := os.read(job.process.stdout.fileno(), 24_000):
        count += len(piece)
        time.sleep(pause)
    assert job.end()[0] == 128 + signal.SIGKILL
    assert count == ranks << 20


def into_a_full_disk(*words):
    with open("/dev/full", "w") as full:
        done = subprocess.run([RUEDARUN, *words], stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE, text=True,
                              env=clean_environment(), timeout=SECONDS)
    return done.returncode, done.stderr.splitlines()


@pytest.mark.parametrize("script", ["echo lost; sleep 60", "printf lost"], ids=["while_the_ranks_run", "at_the_end"])
def test_a_full_disk_ends_the_job_and_is_told(script):
    assert into_a_full_disk("-np", "2", "/bin/sh", "-c", script) == (1, ["ruedarun: cannot write the output: No space left on device"])


def test_a_version_for_a_full_disk():
    status, words = into_a_full_disk("--version")
    assert status == 1 and words == ["ruedarun: error: cannot write the output: No space left on device"]
