# SPDX-License-Identifier: Apache-2.0
"""A terminal of its own for rank 0, with ruedarun under a pseudo terminal as a shell would start it."""

import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

import pytest
from test_ruedarun import RUEDARUN, SECONDS, clean_environment, remote_shell_of_this_machine, run
from test_ruedarun_signals import below, wait_until

__all__ = ["remote_shell_of_this_machine"]  # a fixture

# A shell with job control: it leads the session of the terminal, and says how the job goes on. It never touches the terminal's modes.
SHELL = """
import fcntl, os, signal, sys, termios
terminal, state, command = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
job = os.fork()
if job == 0:
    os.setpgid(0, 0)
    if state == "foreground":
        os.tcsetpgrp(terminal, os.getpgrp())
    for stream in range(3):
        os.dup2(terminal, stream)
    for number in (signal.SIGTTOU, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    os.execvp(command[0], command)
print(job, flush=True)
while True:
    _, status = os.waitpid(job, os.WUNTRACED)
    os.tcsetpgrp(terminal, os.getpgrp())
    if not os.WIFSTOPPED(status):
        break
    print("stopped", flush=True)
    if sys.stdin.readline() == "foreground\\n":
        os.tcsetpgrp(terminal, job)
    os.kill(-job, signal.SIGCONT)
print(os.waitstatus_to_exitcode(status), flush=True)
sys.stdin.readline()
"""


class Session:
    """ruedarun in a terminal, as the job of a shell."""

    def __init__(self, *words, size=(33, 111), state="foreground", around=(), page=False, **settings):
        self.screen, terminal = os.openpty()
        self.resize(*size)
        self.normal = self.modes()
        self.shell = subprocess.Popen([sys.executable, "-c", SHELL, str(terminal), state, *around, RUEDARUN,
                                       *([] if page else ["--no-page"]), *words], text=True, start_new_session=True,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[terminal], env=clean_environment(**settings))
        os.close(terminal)
        self.seen, self.at = b"", 0
        self.job = int(self.next_news())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.shell.poll() is None:
            for process in reversed(below(self.shell.pid)):
                try:
                    os.kill(process, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            self.shell.kill()
        self.shell.wait(timeout=SECONDS)
        self.shell.stdin.close()
        self.shell.stdout.close()
        os.close(self.screen)

    def next_news(self):
        deadline = time.monotonic() + SECONDS
        while not select.select([self.shell.stdout], [], [], 0)[0]:
            self.look(0.02)
            assert time.monotonic() < deadline, f"the job does nothing; it has shown {self.seen!r}"
        return self.shell.stdout.readline().strip()

    def modes(self):
        return termios.tcgetattr(self.screen)

    def is_raw(self):
        return not self.modes()[3] & (termios.ICANON | termios.ECHO | termios.ISIG)

    def resize(self, rows, columns):
        fcntl.ioctl(self.screen, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text):
        os.write(self.screen, text.encode())

    def look(self, seconds=0):
        if select.select([self.screen], [], [], seconds)[0]:
            self.seen += os.read(self.screen, 1 << 16)

    def expect(self, pattern):
        """Waits until it stands behind what was expected before; the match."""
        deadline = time.monotonic() + SECONDS
        while not (found := re.compile(pattern.encode(), re.S).search(self.seen, self.at)):
            assert time.monotonic() < deadline, f"no {pattern!r} in {self.seen[self.at:]!r}"
            self.look(0.05)
        self.at = found.end()
        return found

    def wait_until_raw(self):
        wait_until(self.is_raw)

    def end(self):
        """The exit status. All that was shown is in `seen`, and the terminal is as it was."""
        status = int(self.next_news())
        while select.select([self.screen], [], [], 0.05)[0]:
            self.look()
        assert self.modes() == self.normal
        return status

    def lines(self):
        """Those that have been shown. A line that comes as the terminal changes its mode may have one carriage return more."""
        assert not self.seen or self.seen.endswith(b"\r\n")
        return re.split(rb"\r+\n", self.seen)[:-1]


def python(program):
    return [sys.executable, "-c", program]


TERMINALS = "import os, sys\nprint(os.environ['RUEDA_RANK'], [stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)])"


def test_the_page_is_named_to_a_user_at_a_terminal():
    with Session("-np", "1", "true", page=True) as session:
        assert session.end() == 0
        (line,) = session.lines()
        assert line.startswith(b"ruedarun: the page of this job is http://127.0.0.1:")


@pytest.mark.parametrize("options", [(), ("-H", "hosta:1,hostb:1")], ids=["here", "elsewhere"])
def test_only_rank_0_has_a_terminal(options, shell_here):
    with Session(*options, "--remote-shell", shell_here, "-np", "2", *python(TERMINALS)) as session:
        assert session.end() == 0
    assert sorted(session.lines()) == [b"0 [True, True, True]", b"[1] 1 [False, False, False]"]


@pytest.mark.parametrize("options", [(), ("-H", "hosta:1,hostb:1")], ids=["here", "elsewhere"])
def test_prompts_and_line_editing(options, shell_here):
    program = "import os\nif os.environ['RUEDA_RANK'] == '0': print('hello', input('name? '))"
    with Session(*options, "--remote-shell", shell_here, "-np", "2", *python(program)) as session:
        session.expect(r"name\? $")
        session.type("Bobé\x7fx\x7f\r")
        session.expect("hello Bob\r\n")
        assert session.end() == 0


def test_the_end_of_input_is_a_key():
    with Session("-np", "1", "/bin/sh", "-c", "cat; echo over") as session:
        session.wait_until_raw()
        session.type("one\r\x04")
        session.expect("one\r\none\r\nover\r\n")
        assert session.end() == 0


@pytest.mark.parametrize("options", [(), ("-H", "hosta:1,hostb:1")], ids=["here", "elsewhere"])
def test_the_size_of_the_terminal_and_its_changes(options, shell_here):
    program = ("import os, signal, sys\nif os.environ['RUEDA_RANK'] != '0': sys.exit()\n"
               "signal.signal(signal.SIGWINCH, lambda *_: print('now', tuple(os.get_terminal_size())))\n"
               "print('first', tuple(os.get_terminal_size()))\ninput()")
    with Session(*options, "--remote-shell", shell_here, "-np", "2", *python(program)) as session:
        session.expect(r"first \(111, 33\)")
        session.resize(50, 140)
        session.expect(r"now \(140, 50\)")
        session.type("\r")
        assert session.end() == 0


def test_lines_of_other_ranks_stay_whole_beside_a_progress_bar():
    program = ("import os, sys, time\n"
               "if os.environ['RUEDA_RANK'] == '0':\n"
               "    for step in range(200):\n        sys.stdout.write(f'\\r\\x1b[3{step % 8}m{step:3}/200 \\u2588\\u2588\\x1b[0m')\n        time.sleep(0.005)\n"
               "    print()\n"
               "else:\n    for step in range(100):\n        print('line', step)\n        time.sleep(0.01)\n")
    with Session("-np", "2", *python(program)) as session:
        assert session.end() == 0
    text = session.seen.decode()  # no character is torn
    assert [int(number) for number in re.findall(r"\n\[1\] line (\d+)\r(?=\n)", "\n" + text)] == list(range(100))
    assert len(re.findall(r"\r\x1b\[3\dm *\d+/200 \u2588\u2588\x1b\[0m", text)) == 200, "no sequence is torn"


def test_bytes_of_rank_0_come_as_they_are():
    every = bytes(range(256)) * 40
    program = f"import os, tty\ntty.setraw(1)\ndata = bytes(range(256)) * 40\nwhile data: data = data[os.write(1, data):]"
    with Session("-np", "1", *python(program)) as session:
        assert session.end() == 0
    assert session.seen.startswith(every)


@pytest.mark.parametrize("script, status", [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137), ("stty -echo raw; exit 4", 4)])
def test_the_terminal_is_as_before_after_every_end_of_rank_0(script, status):
    with Session("-np", "2", "/bin/sh", "-c", f"[ $RUEDA_RANK = 1 ] && exec sleep 0.5; {script}") as session:
        assert session.end() == status


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT])
def test_the_terminal_is_as_before_after_a_signal(sent):
    with Session("-np", "2", "/bin/sh", "-c", "ulimit -c 0; echo up; exec sleep 60") as session:
        session.expect("up")
        session.wait_until_raw()
        os.kill(session.job, sent)
        assert session.end() == 128 + sent


@pytest.mark.parametrize("sent", [signal.SIGSEGV, signal.SIGABRT, signal.SIGALRM])
def test_the_terminal_is_as_before_after_a_crash(sent):
    with Session("-np", "2", "/bin/sh", "-c", "ulimit -c 0; echo up; exec sleep 60") as session:
        session.expect("up")
        session.wait_until_raw()
        os.kill(session.job, sent)
        assert session.end() == -sent


def test_the_terminal_is_as_before_after_a_start_that_fails(tmp_path):
    shell = tmp_path / "shell"
    shell.write_text("#!/bin/sh\nsleep 0.7\nexit 5\n")
    shell.chmod(0o755)
    with Session("-H", "localhost:1,hostb:1", "--remote-shell", str(shell), "-np", "2", "sleep", "60") as session:
        session.wait_until_raw()
        assert session.end() == 1
    assert b"did not start" in session.seen


def test_the_end_of_rank_0_gives_the_terminal_back():
    with Session("-np", "2", "/bin/sh", "-c", "[ $RUEDA_RANK = 0 ] || exec sleep 60; echo over") as session:
        session.expect("over")
        wait_until(lambda: session.modes() == session.normal)
        session.type("\x03")
        assert session.end() == 128 + signal.SIGINT


def test_never():
    with Session("--tty", "never", "-np", "2", *python(TERMINALS)) as session:
        assert session.end() == 0
    assert session.seen.count(b"[False, False, False]") == 1 and b"[0] 0 [True, False, False]" in session.seen


@pytest.mark.parametrize("redirection", ["2>err", ">out", "</dev/null"])
def test_auto_leaves_streams_that_go_elsewhere_alone(redirection, tmp_path):
    program = "import os\nopen(f'rank.{os.environ[\"RUEDA_RANK\"]}', 'w').write(str([os.isatty(stream) for stream in (1, 2)]))"
    with Session("-np", "2", *python(program), around=("/bin/sh", "-c", f'cd {tmp_path}; "$0" "$@" {redirection}')) as session:
        assert session.end() == 0
    assert (tmp_path / "rank.0").read_text() == "[False, False]"


def test_always_without_a_terminal():
    status, out, err = run("--tty", "always", "-np", "2", *python(TERMINALS))
    assert (status, sorted(out), err) == (0, ["0 [True, True, True]", "[1] 1 [False, False, False]"], "")


@pytest.mark.parametrize("given", ["one\ntwo\n", "one\ntwo", ""])
def test_always_gives_the_end_of_an_input_that_is_no_terminal(given):
    status, out, err = run("--tty", "always", "-np", "2", *python("import os, sys\nif os.environ['RUEDA_RANK'] == '0': print(sys.stdin.read().split())"),
                           given=given)
    assert (status, err) == (0, "") and f"{given.split()}" in "".join(out)


def test_always_with_another_launcher():
    status, out, err = run("--launcher", "hydra", "--tty", "always", "-np", "2", *python(TERMINALS))
    if status == 2 and "mpiexec" in err:
        pytest.skip(err)
    assert (status, sorted(out)) == (0, ["0 [True, True, True]", "[1] 1 [False, False, False]"]), err


def test_output_of_some_ranks():
    with Session("--output", "1", "-np", "2", *python(TERMINALS)) as session:
        assert session.end() == 0
    assert session.lines() == [b"[1] 1 [False, False, False]"]
    status, _, err = run("--tty", "always", "--output", "1", "-np", "2", "true")
    assert status == 2 and "add 0 to --output" in err


def test_copies_and_labels(tmp_path):
    with Session("--output-filename", str(tmp_path), "--label", "host", "-np", "2", "/bin/sh", "-c", "echo out; echo err >&2") as session:
        assert session.end() == 0
    assert (tmp_path / "rank.0" / "stdout").read_bytes() == b"out\r\nerr\r\n"
    assert (tmp_path / "rank.0" / "stderr").read_bytes() == b""
    assert (tmp_path / "rank.1" / "stderr").read_bytes() == b"err\n"
    assert len(re.findall(rb"^\[\S+:1\] (?:out|err)\r$", session.seen.replace(b"\r\n", b"\r\n"), re.M)) == 2


def test_an_error_with_a_program_that_is_not_there():
    with Session("-np", "1", "/bin/sh", "-c", "exec /no/such/program") as session:
        assert session.end() == 127


def test_a_large_output_is_complete():
    with Session("-np", "1", "seq", "100000") as session:
        assert session.end() == 0
    assert session.seen == "".join(f"{number}\r\n" for number in range(1, 100001)).encode()


def test_a_rank_that_closes_all_its_streams_goes_on():
    with Session("-np", "1", "/bin/sh", "-c", "exec <&- >&- 2>&-; sleep 0.5; exec >/dev/tty; echo back") as session:
        assert session.end() == 0
    assert session.seen == b"back\r\n"


@pytest.fixture(name="without_devpts")
def a_mount_namespace_without_devpts():
    """Words before a command, which can then open no pseudo terminal."""
    words = ("unshare", "-m", "/bin/sh", "-c", 'mount -t tmpfs none /dev/pts && exec "$0" "$@"')
    tried = subprocess.run([*words, "true"], capture_output=True, text=True)
    if tried.returncode != 0:
        pytest.skip(tried.stderr)
    return words


@pytest.mark.parametrize("level", ["warning", "info"])
def test_auto_does_without_a_terminal_that_cannot_be_had(level, without_devpts):
    program = "import os\nif os.environ['RUEDA_RANK'] == '0': print([os.isatty(stream) for stream in range(3)], input('name? '))"
    with Session("-np", "2", *python(program), around=without_devpts, RUEDA_LOG_LEVEL=level) as session:
        session.expect(r"\[0\] name\? $")
        session.type("Ada\r")
        assert session.end() == 0
    assert b"[False, False, False] Ada\r\n" in session.seen
    assert (b"rank 0 starts without a terminal: cannot open a pseudo terminal" in session.seen) == (level == "info")


def test_always_says_why_a_terminal_cannot_be_had(without_devpts):
    done = subprocess.run([*without_devpts, RUEDARUN, "--tty", "always", "-np", "2", "true"], capture_output=True, text=True, timeout=SECONDS, env=clean_environment())
    assert done.returncode == 1 and done.stdout == ""
    assert re.fullmatch(r"ruedarun: cannot open a pseudo terminal; mount devpts on /dev/pts, or add --tty never: [^\n]+, on \S+\n", done.stderr)


@pytest.mark.parametrize("helper", ["nohup", "setsid"])
def test_a_helper_that_no_terminal_ends_lives_as_long_as_the_job(helper, tmp_path):
    """Others get SIGHUP with the end of rank 0, as from any terminal."""
    script = (f'if [ $RUEDA_RANK = 1 ]; then for _ in $(seq 100); do [ -e {tmp_path}/helper ] && exit; sleep 0.1; done; exit 5; fi; '
              f'{helper} /bin/sh -c "sleep 0.8; echo > {tmp_path}/helper" > /dev/null 2>&1 & sleep 0.2')
    with Session("-np", "2", "/bin/sh", "-c", script) as session:
        assert session.end() == 0
