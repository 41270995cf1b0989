# SPDX-License-Identifier: Apache-2.0
"""The bundle's programs on this machine: where torch is, how a program is started, and what it lacks."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import subprocess
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


@dataclass
class Done:
    status: int
    output: str


def torch_folder() -> Path | None:
    """The package torch of the Python that runs this, without importing it."""
    found = importlib.util.find_spec("torch")
    places = list(found.submodule_search_locations or []) if found else []
    return Path(places[0]) if places else None


class Machine:
    def __init__(self) -> None:
        self.torch = torch_folder()
        self.scratch = BUNDLE / "scratch"
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.scratch.mkdir()
        if not (BUNDLE / "lib").exists():
            with tarfile.open(BUNDLE / "lib.tar.gz") as packed:
                packed.extractall(BUNDLE)

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
        """The status and all output of a command, in a session of its own that ends with it. Throws CutOff."""
        process = subprocess.Popen(list(map(str, command)), cwd=self.scratch, env={**self.environment(), **(more or {})}, start_new_session=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        try:
            output, _ = process.communicate(timeout=max(seconds, 1))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            raise CutOff(f"{Path(str(command[0])).name} ran for more than {seconds:.0f} s; its last words: {last_words(output)}") from None
        return Done(process.returncode, output)

    def must(self, *command: object, seconds: float, more: dict[str, str] | None = None) -> str:
        """The output of a command, which has to succeed. Throws Failed, CutOff."""
        done = self.run(*command, seconds=seconds, more=more)
        if done.status != 0:
            raise Failed(f"{' '.join(Path(str(word)).name for word in command)[:200]}: status {done.status}: {last_words(done.output)}")
        return done.output

    def ranks(self, count: int, *command: object) -> tuple[object, ...]:
        """A command on so many ranks."""
        return (self.program("ruedarun"), "--no-prefix", "-np", count, *command)

    def program(self, name: str) -> Path:
        return BUNDLE / "bin" / name


def last_words(output: str, count: int = 6) -> str:
    return " | ".join(line.strip() for line in output.splitlines()[-count:] if line.strip())


def foreign_libraries(machine: Machine, file: Path) -> list[str]:
    """Libraries that a file of the bundle needs and that come from elsewhere than the bundle, torch or the C and C++ compilers' own: each with
    the place where the loader finds it, or "not found"."""
    of_the_system = re.compile(r"^(ld-linux|linux-vdso|lib(c|m|dl|rt|util|pthread|gcc_s|stdc\+\+)\.so)")
    foreign = []
    for line in machine.run("/lib64/ld-linux-x86-64.so.2", "--list", file, seconds=30).output.splitlines():
        name, _, place = (part.strip() for part in line.partition("=>"))
        place = place.split(" (")[0]
        if not place or of_the_system.match(name) or any(Path(place).is_relative_to(folder) for folder in machine.libraries()):
            continue
        foreign.append(f"{name}: {place}")
    return foreign
