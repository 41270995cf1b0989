#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""try_wheel.py WHEEL [FOLDER]: installs a wheel of Rueda as a user does, and uses all of it.

In a fresh virtual environment beside torch: imports, two ranks by ruedarun and by torchrun, C++ programs against its CMake package. Then, as root, the same
Python programs where there is neither a compiler nor CMake nor MPI nor any library that Debian's -dev packages bring: a root folder that holds Python,
its standard library, and what torch itself needs. torch comes from FOLDER, or from the environment of the Python that runs this.
"""

import itertools
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MOST_BYTES = 15 << 20
NOT_LINKED = ("rueda", "mpi")  # first letters of names; .pth files neither
SCRIPT = r"""
import os, torch, torch.distributed as dist
import rueda, rueda.torch as hvd
if "RUEDA_SIZE" in os.environ:
    hvd.init()
    assert hvd.allreduce(torch.ones(3), op=hvd.Sum).tolist() == [hvd.size()] * 3
    hvd.shutdown()
dist.init_process_group("rueda")
values = torch.ones(3)
dist.all_reduce(values)
assert values.tolist() == [dist.get_world_size()] * 3 == [2] * 3
os.write(1, f"rank {dist.get_rank()} good\n".encode())
dist.destroy_process_group()
"""
# Shared libraries and files beside them that Python and torch need of the system.
OF_THE_SYSTEM = ("libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libutil.so.1", "libgcc_s.so.1", "libstdc++.so.6", "libz.so.1",
                 "libexpat.so.1", "libssl.so.3", "libcrypto.so.3", "libffi.so.8", "libbz2.so.1.0", "liblzma.so.5", "libuuid.so.1", "libnuma.so.1")
LIBRARIES = Path("/usr/lib/x86_64-linux-gnu")


def run(*command, **options):
    done = subprocess.run(["timeout", "-k", "5", "300", *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"try_wheel.py: error: status {done.returncode} of {' '.join(map(str, command))}\n{done.stdout}")
    return done.stdout


def environment():
    """Without anything of this session's."""
    return {"PATH": "/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8", "OMP_NUM_THREADS": "1"}


def installed(wheel, folder, sources):
    """A virtual environment with the wheel, and links to torch and what it needs, from the first of the sources that has it."""
    venv = folder / "venv"
    run("/usr/bin/python3", "-m", "venv", venv)
    packages = next(venv.glob("lib/python*/site-packages"))
    for entry in itertools.chain.from_iterable(source.iterdir() for source in sources):
        if not (entry.name.startswith(NOT_LINKED) or entry.suffix == ".pth" or (packages / entry.name).exists()):
            (packages / entry.name).symlink_to(entry)
    run(venv / "bin/pip", "install", "--disable-pip-version-check", "-q", "--no-deps", "--no-index", wheel, env=environment())
    return venv


def try_python(venv, script, inside=()):
    """Both ranks, by each launcher. inside: the command that goes before."""
    python = venv / "bin/python"
    for launcher in ([venv / "bin/ruedarun", "-np", "2", python], [python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]):
        out = run(*inside, *launcher, script, env=environment())
        if sorted(re.findall(r"rank (\d) good", out)) != ["0", "1"]:
            sys.exit(f"try_wheel.py: error: not the output of two ranks:\n{out}")


def try_cpp(venv, folder):
    """The project of the README, and the examples that need no file."""
    text = (ROOT / "README.md").read_text()
    project = folder / "project"
    project.mkdir()
    for language, name in (("cpp", "main.cc"), ("cmake", "CMakeLists.txt")):
        (project / name).write_text(text.split(f"```{language}\n", 1)[1].split("```", 1)[0])
    package = run(venv / "bin/python", "-m", "rueda", "--cmake-dir", env=environment()).strip()
    run("cmake", "-S", project, "-B", project / "build", f"-DCMAKE_PREFIX_PATH={package}", env=environment())
    run("cmake", "--build", project / "build", env=environment())
    run(venv / "bin/ruedarun", "-np", "2", project / "build/train", env=environment())


def bare_root(folder, sources):
    """A script that changes to a root folder of its own and runs its arguments there. The folder holds Python and what is named above, nothing else."""
    root = folder / "root"
    shown = ["/usr/bin/python3", "/usr/bin/python3.11", "/usr/bin/env", "/usr/bin/timeout", "/bin/sh", "/usr/bin/true", "/usr/lib/python3.11",
             "/usr/lib/python3", "/lib64/ld-linux-x86-64.so.2", "/etc/hosts", "/etc/nsswitch.conf", "/etc/passwd", "/proc", "/dev", "/sys", sys.prefix, str(folder),
             *map(str, sources)]
    shown += [str(LIBRARIES / name) for name in OF_THE_SYSTEM if (LIBRARIES / name).exists()] + [str(each) for each in LIBRARIES.glob("libnss_files*")]
    lines = ["set -e", "mount --make-rprivate /", f"mount -t tmpfs bare {root}"]
    for path in shown:
        inside = f"{root}{path}"
        if Path(path).is_dir():
            lines.append(f"mkdir -p {inside} && mount --rbind {path} {inside}")
        elif Path(path).exists():
            lines.append(f"mkdir -p {Path(inside).parent} && touch {inside} && mount --bind {os.path.realpath(path)} {inside}")
    lines += [f"mkdir -p {root}/tmp && ln -s usr/lib {root}/lib", f'exec /usr/sbin/chroot {root} "$@"']
    root.mkdir()
    script = folder / "bare_root.sh"
    script.write_text("\n".join(lines) + "\n")
    return ["unshare", "-m", "bash", script]


def main():
    wheel = Path(sys.argv[1]).resolve()
    size = wheel.stat().st_size
    print(f"{wheel.name}: {size / (1 << 20):.1f} MiB, at most {MOST_BYTES >> 20}")
    if size > MOST_BYTES:
        sys.exit("try_wheel.py: error: it is too large")
    sources = [Path(each).resolve() for each in [*sys.argv[2:3], sysconfig.get_path("purelib")]]
    folder = Path(tempfile.mkdtemp(prefix="rueda-wheel-", dir=wheel.parent))
    try:
        venv = installed(wheel, folder, sources)
        script = folder / "script.py"
        script.write_text(SCRIPT)
        try_python(venv, script)
        print("in a fresh environment: ruedarun and torchrun start two ranks")
        try_cpp(venv, folder)
        print("a C++ program builds against it, and runs")
        if os.geteuid() != 0:
            print("skipped, as it needs root: a root folder without MPI, compiler and CMake")
            return
        inside = bare_root(folder, sources)
        for name in ("cc", "g++", "cmake", "mpiexec"):
            if subprocess.run([*inside, "/usr/bin/env", name, "--version"], capture_output=True).returncode != 127:
                sys.exit(f"try_wheel.py: error: the bare root has {name}")
        try_python(venv, script, inside)
        print("the same without MPI, compiler and CMake")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
