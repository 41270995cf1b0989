# SPDX-License-Identifier: Apache-2.0
"""Keys in rank 0's terminal that are signals: for rank 0, for the job, for a script around ruedarun."""

import os
import signal
import termios
import time

import pytest
from test_ruedarun import lives, remote_shell_of_this_machine
from test_ruedarun_signals import state_of, wait_until
from test_ruedarun_tty import Session, python

__all__ = ["remote_shell_of_this_machine"]  # a fixture

DEBUGGED = "import os, time\nif os.environ['RUEDA_RANK'] == '0': breakpoint()\n{}"


@pytest.mark.parametrize("options", [(), ("-H", "hosta:1,hostb:1")], ids=["here", "elsewhere"])
def test_ctrl_c_at_the_prompt_of_a_debugger_is_for_the_debugger(options, shell_here):
    with Session(*options, "--remote-shell", shell_here, "-np", "2", *python(DEBUGGED.format("time.sleep(2)\nprint('done')"))) as session:
        session.expect(r"\(Pdb\) $")
        session.type("p 'unfin\x03")
        session.expect(r"KeyboardInterrupt.*\(Pdb\) ")
        session.type("p 6 * 7\r")
        session.expect("42\r\n")
        session.type("c\r")
        assert session.end() == 0
    assert session.seen.count(b"done") == 2


def test_ctrl_c_leads_back_to_a_debugger_that_has_continued():
    with Session("-np", "2", *python(DEBUGGED.format("for _ in range(6000): time.sleep(0.01)"))) as session:
        session.expect(r"\(Pdb\) $")
        session.type("c\r")
        time.sleep(0.5)
        session.type("\x03")
        session.expect(r"Program interrupted.*\(Pdb\) ")
        time.sleep(0.7)
        session.type("p 6 * 7\r")
        session.expect("42\r\n")
        session.type("import os; os._exit(7)\r")
        assert session.end() == 7


@pytest.mark.parametrize("options", [(), ("-H", "hosta:1,hostb:1")], ids=["here", "elsewhere"])
def test_ctrl_c_ends_the_job_and_all_ranks_may_save(options, shell_here):
    script = "trap 'echo saved $RUEDA_RANK; exit 0' INT; echo up; while :; do sleep 0.02; done"
    with Session(*options, "--remote-shell", shell_here, "-np", "2", "/bin/bash", "-c", script) as session:
        for _ in range(2):
            session.expect("up\r\n")
        begin = time.monotonic()
        session.type("\x03")
        assert session.end() == 128 + signal.SIGINT
        assert time.monotonic() - begin < 4
    assert session.seen.count(b"saved 0\r\n") == session.seen.count(b"[1] saved 1\r\n") == 1
    assert b"ended by Interrupt" in session.seen and b"failed" not in session.seen


def test_ctrl_c_reaches_a_script_around_ruedarun():
    with Session("-np", "2", "/bin/sh", "-c", "echo up; exec sleep 60", around=("/bin/sh", "-c", 'trap "echo script; exit 9" INT; "$0" "$@"')) as session:
        for _ in range(2):
            session.expect("up\r\n")
        session.type("\x03")
        assert session.end() == 9
    assert b"ended by Interrupt" in session.seen and b"script" in session.seen


def test_ctrl_c_ends_ranks_that_do_not_handle_it():
    with Session("-np", "2", "/bin/sh", "-c", "echo up; exec sleep 60") as session:
        for _ in range(2):
            session.expect("up\r\n")
        session.type("\x03")
        assert session.end() == 128 + signal.SIGINT
    assert b"was killed" not in session.seen


def test_ctrl_c_ends_a_job_whose_rank_0_ignores_it():
    script = "trap '' INT; echo up; while :; do sleep 0.02; done"
    with Session("--grace", "1s", "-np", "2", "/bin/sh", "-c", script) as session:
        for _ in range(2):
            session.expect("up\r\n")
        begin = time.monotonic()
        session.type("\x03")
        assert session.end() == 128 + signal.SIGINT
        assert 1 < time.monotonic() - begin < 4


def test_a_second_ctrl_c_ends_it_at_once():
    with Session("-np", "2", "/bin/sh", "-c", "trap '' INT TERM; echo up; while :; do sleep 0.02; done") as session:
        for _ in range(2):
            session.expect("up\r\n")
        session.type("\x03")
        time.sleep(0.8)
        begin = time.monotonic()
        session.type("\x03")
        assert session.end() == 128 + signal.SIGINT
        assert time.monotonic() - begin < 3


def test_ctrl_c_three_times_ends_a_job_whose_rank_0_takes_every_key_and_reads_none():
    with Session("--grace", "1s", "-np", "2", "/bin/sh", "-c", "[ $RUEDA_RANK = 1 ] || stty raw; echo up; exec sleep 60") as session:
        for _ in range(2):
            session.expect("up")
        session.type("\x03")
        time.sleep(1.2)
        assert lives(session.job)
        session.type("\x03\x03\x03")
        assert session.end() == 128 + signal.SIGINT


def test_keys_of_a_program_that_a_shell_runs_are_its_own():
    """Rank 0 is a shell with job control."""
    with Session("-np", "1", "/bin/bash", "--norc", "--noprofile", "-i", PS1="ready> ") as session:
        session.expect("ready> $")
        session.type("sleep 60\r")
        time.sleep(0.5)
        session.type("\x03")
        session.expect(r"\^C.*ready> ")
        session.type("exit 5\r")
        assert session.end() == 5


def test_ctrl_backslash_reaches_every_rank():
    script = "trap 'echo quit $RUEDA_RANK; exit 0' QUIT; echo up; while :; do sleep 0.02; done"
    with Session("-np", "2", "/bin/bash", "-c", script) as session:
        for _ in range(2):
            session.expect("up\r\n")
        session.type("\x1c")
        assert session.end() == 0
    assert b"\r\nquit 0\r\n" in session.seen and b"[1] quit 1\r\n" in session.seen


SCRIPT = ("/bin/sh", "-c", '"$0" "$@"; exit $?')


@pytest.mark.parametrize("around", [(), SCRIPT], ids=["alone", "in_a_script"])
def test_ctrl_z_stops_the_job_and_the_foreground_continues_it(around):
    program = ("import os, time\nprint('process', os.getpid(), flush=True)\n"
               "if os.environ['RUEDA_RANK'] == '0':\n    input()\n    print('columns', os.get_terminal_size().columns)\nelse: time.sleep(2)")
    with Session("-np", "2", *python(program), around=around) as session:
        ranks = [int(session.expect(r"process (\d+)\r\n")[1]) for _ in range(2)]
        session.type("\x1a")
        assert session.next_news() == "stopped"
        assert session.modes() == session.normal
        wait_until(lambda: all(state_of(one) == "T" for one in (session.job, *ranks)))
        session.resize(20, 44)
        print("foreground", file=session.shell.stdin, flush=True)
        session.wait_until_raw()
        session.type("\r")
        session.expect("columns 44\r\n")
        assert session.end() == 0


def test_a_job_that_continues_in_the_background_leaves_the_terminal_alone():
    with Session("-np", "2", "/bin/sh", "-c", "[ $RUEDA_RANK = 1 ] || read line; sleep 1; echo done $line") as session:
        session.wait_until_raw()
        session.type("\x1a")
        assert session.next_news() == "stopped"
        print("background", file=session.shell.stdin, flush=True)
        session.expect(r"\[1\] done")
        time.sleep(0.5)
        assert session.modes() == session.normal
        os.kill(session.job, signal.SIGTERM)
        assert session.end() == 128 + signal.SIGTERM


@pytest.mark.parametrize("options", [(), ("--tty", "always")])
def test_a_job_of_the_background_is_not_stopped(options):
    with Session(*options, "-np", "2", "/bin/sh", "-c", "sleep 0.5; test -t 1 && echo terminal; echo done", state="background") as session:
        session.expect("done")
        assert session.end() == 0
    assert (b"terminal" in session.seen) == bool(options)


def test_a_terminal_that_stops_and_continues_from_outside_is_raw_again():
    with Session("-np", "1", "/bin/sh", "-c", "read line; echo got $line") as session:
        session.wait_until_raw()
        os.kill(session.job, signal.SIGSTOP)
        assert session.next_news() == "stopped"
        termios.tcsetattr(session.screen, termios.TCSANOW, session.normal)  # as shells do
        print("foreground", file=session.shell.stdin, flush=True)
        session.wait_until_raw()
        session.type("x\r")
        session.expect("got x")
        assert session.end() == 0


def test_ctrl_s_stops_the_output_and_no_rank(tmp_path):
    program = f"print('up')\ninput()\nfor number in range(20000): print(number)\nopen('{tmp_path}/done', 'w')\ninput()"
    with Session("-np", "1", *python(program)) as session:
        session.expect("up\r\n")
        session.type("\x13\r")
        wait_until((tmp_path / "done").exists)
        session.look()
        assert b"19999" not in session.seen
        session.type("\x11")
        session.expect("\n19999\r\n")
        session.type("\r")
        assert session.end() == 0
