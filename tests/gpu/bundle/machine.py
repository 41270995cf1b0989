# SPDX-License-Identifier: Apache-2.0
"""The bundle's programs on this machine: where torch is, how a program is started, and what it lacks."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

BUNDLE = Path(__file__).resolve().parent


class Failed(Exception):
    """A step has shown something wrong; its words say what."""


class LeftOut(Exception):
    """A step cannot run here; its words say why."""


class CutOff(Exception):
    """A command ran into its time limit."""


class Stopped(BaseException):
    """A signal ends the check; its words say which."""


@dataclass
class Done:
    status: int
    output: str


def torch_folder() -> Path | None:
    """The package torch of the Python that runs this, without importing it."""
    found = importlib.util.find_spec("torch")
    paths = list(found.submodule_search_locations or []) if found else []
    return Path(paths[0]) if paths else None


def version_of(torch: Path) -> str:
    """As the package says it, without the part that names a build: "2.11.0"."""
    found = re.search(r"^__version__ = '([^'+]+)", (torch / "version.py").read_text(), re.MULTILINE)
    return found[1] if found else "of an unknown version"


def descendants(root: int) -> list[int]:
    """Processes that a process has started, and those that these have."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended since
            children.setdefault(int(stat.read_text(errors="replace").rpartition(")")[2].split()[1]), []).append(int(stat.parent.name))
    found = list(children.get(root, ()))
    for each in found:
        found += children.get(each, ())
    return found


def kill(processes: list[int]) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def stop_on_signals() -> None:
    """SIGTERM and SIGINT end all processes that the check has started, and throw Stopped."""
    def stop(number: int, _: object) -> None:
        kill(descendants(os.getpid()))
        raise Stopped(f"stopped by {signal.Signals(number).name}")

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)


class Machine:
    def __init__(self) -> None:
        self.torch = torch_folder()
        self.built_for = (BUNDLE / "torch-version").read_text().strip()
        self.one_rank_only = ""  # why NCCL does not take two ranks on a GPU, once that is known
        self.scratch = BUNDLE / "scratch"
        shutil.rmtree(self.scratch, ignore_errors=True)
        self._outputs = self.scratch / "outputs"
        self._outputs.mkdir(parents=True)
        self._commands = itertools.count(1)
        if not (BUNDLE / "lib").exists():
            with tarfile.open(BUNDLE / "lib.tar.gz") as packed:
                packed.extractall(BUNDLE)
        pr_set_child_subreaper = 36
        ctypes.CDLL(None).prctl(pr_set_child_subreaper, 1, 0, 0, 0)  # whose parent has ended is a descendant still

    def no_torch(self) -> str:
        """Why programs that use torch cannot run here; empty where they can."""
        if self.torch is None:
            return "without torch in this machine's python3"
        version = version_of(self.torch)
        return "" if version == self.built_for else f"this machine's torch is {version}, and the programs are built for {self.built_for}"

    def libraries(self) -> list[Path]:
        """Folders of libraries: the bundle's, torch's, and NVIDIA's wheels beside torch."""
        folders = [BUNDLE / "lib"]
        if self.torch:
            folders.append(self.torch / "lib")
            folders += sorted(path for path in self.torch.parent.glob("nvidia/*/lib") if path.is_dir())
        return folders

    def environment(self) -> dict[str, str]:
        return {**os.environ,
                "PATH": f"{BUNDLE / 'bin'}:{os.environ.get('PATH', '/usr/local/bin:/usr/bin:/bin')}",
                "LD_LIBRARY_PATH": ":".join(map(str, self.libraries())),
                "PYTHONPATH": str(BUNDLE / "python"),
                "RUEDA_MPIEXEC": str(self.program("mpiexec.hydra")),
                "OMP_NUM_THREADS": "4",
                "HOME": os.environ.get("HOME", str(self.scratch))}

    def run(self, *command: object, seconds: float, more: dict[str, str] | None = None) -> Done:
        """The status and all output of a command, which scratch/outputs keeps. Throws CutOff, when all that it has started is killed, and Failed
        where it cannot start."""
        kept = self._outputs / f"{next(self._commands):03}-{Path(str(command[0])).name}.txt"
        with kept.open("w+", errors="replace") as output:  # no pipe: a process that outlives a kill may keep that open
            print(*command, file=output, flush=True)
            begin = output.tell()
            try:
                process = subprocess.Popen(list(map(str, command)), cwd=self.scratch, env={**self.environment(), **(more or {})}, stdin=subprocess.DEVNULL,
                                           stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
            except OSError as error:
                raise Failed(f"{command[0]} does not start: {error.strerror}") from None
            cut_off = False
            try:
                process.wait(max(seconds, 1))
            except subprocess.TimeoutExpired:
                cut_off = True
                kill([process.pid, *descendants(process.pid)])
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(5)
            output.seek(begin)
            words = output.read()
        if cut_off:
            raise CutOff(f"{Path(str(command[0])).name} ran for more than {seconds:.0f} s; its last words: {last_words(words)}")
        return Done(process.returncode, words)

    def must(self, *command: object, seconds: float, more: dict[str, str] | None = None) -> str:
        """The output of a command, which has to succeed. Throws Failed, CutOff."""
        done = self.run(*command, seconds=seconds, more=more)
        if done.status != 0:
            raise Failed(f"{' '.join(Path(str(word)).name for word in command)[:200]}: status {done.status}: {last_words(done.output)}")
        return done.output

    def ranks(self, count: int, *command: object) -> tuple[object, ...]:
        """A command on so many ranks."""
        return (self.program("ruedarun"), "--no-prefix", "-np", count, *command)

    def python(self, script: Path, *words: object) -> tuple[object, ...]:
        """A script by the Python that runs this: another one on the PATH may have no torch."""
        return (sys.executable, script, *words)

    def program(self, name: str) -> Path:
        return BUNDLE / "bin" / name


def last_words(output: str, count: int = 6) -> str:
    return " | ".join(line.strip() for line in output.splitlines()[-count:] if line.strip())


def foreign_libraries(machine: Machine, file: Path) -> list[str]:
    """Libraries that a file of the bundle needs and that come from elsewhere than the bundle, torch or the C and C++ compilers' own: each with
    the path where the loader finds it, or "not found"."""
    of_the_system = re.compile(r"^(ld-linux|linux-vdso|lib(c|m|dl|rt|util|pthread|gcc_s|stdc\+\+)\.so)")
    foreign = []
    for line in machine.run("/lib64/ld-linux-x86-64.so.2", "--list", file, seconds=30).output.splitlines():
        name, _, path = (part.strip() for part in line.partition("=>"))
        path = path.split(" (")[0]
        if not path or of_the_system.match(name) or any(Path(path).is_relative_to(folder) for folder in machine.libraries()):
            continue
        foreign.append(f"{name}: {path}")
    return foreign
