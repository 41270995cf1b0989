# SPDX-License-Identifier: Apache-2.0
"""Python processes that begin with torch and rueda.torch imported. A server process imports them once, and each start is a fork of it.

For tests that start many ranks without a launcher: an import of torch takes most of the time of a short rank. The forked process runs its script as `__main__`,
with arguments and an environment of its own, and ends as Python ends."""

from __future__ import annotations

import builtins
import json
import os
import select
import selectors
import signal
import socket
import subprocess
import sys
import time

MOST = 1 << 17  # bytes of a request


class Server:
    """Owned by the tests' process, and used by one thread."""

    def __init__(self, environment: dict[str, str]):
        self.socket, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its:
            self.process = subprocess.Popen([sys.executable, __file__, str(its.fileno())], env=environment, pass_fds=[its.fileno()])
        self.statuses: dict[int, int] = {}

    def start(self, arguments: list[str], environment: dict[str, str]) -> Process:
        """A process that runs the script `arguments[0]`."""
        (out, its_out), (err, its_err) = os.pipe(), os.pipe()
        request = json.dumps({"arguments": list(map(str, arguments)), "environment": environment}).encode()
        assert len(request) < MOST
        socket.send_fds(self.socket, [request], [its_out, its_err])
        os.close(its_out)
        os.close(its_err)
        while (pid := self.hear(60)) > 0:  # ends of others come between
            pass
        assert pid < 0, "the server of warm processes has ended"
        return Process(self, -pid, out, err)

    def hear(self, seconds: float) -> int:
        """The next word of the server's: the negative id of a process that has begun, the id of one that has ended, 0 for none in time."""
        if not select.select([self.socket], [], [], max(0.0, seconds))[0]:
            return 0
        words = self.socket.recv(100).split()
        if not words:
            return 0
        if words[0] == b"begun":
            return -int(words[1])
        self.statuses[int(words[1])] = int(words[2])
        return int(words[1])

    def close(self) -> None:
        self.socket.close()
        self.process.wait(60)


class Process:
    """As subprocess.Popen's, with two pipes of text."""

    def __init__(self, server: Server, pid: int, out: int, err: int):
        self.server, self.pid = server, pid
        self.stdout, self.stderr = os.fdopen(out), os.fdopen(err)

    @property
    def returncode(self) -> int | None:
        return self.server.statuses.get(self.pid)

    def poll(self) -> int | None:
        while self.returncode is None and self.server.hear(0):
            pass
        return self.returncode

    def wait(self, timeout: float = 60) -> int:
        end = time.monotonic() + timeout
        while self.returncode is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
            self.server.hear(end - time.monotonic())
        return self.returncode

    def communicate(self, timeout: float) -> tuple[str, str]:
        end = time.monotonic() + timeout
        told = {self.stdout: b"", self.stderr: b""}
        with selectors.DefaultSelector() as selector:
            for pipe in told:
                selector.register(pipe, selectors.EVENT_READ)
            while selector.get_map():
                ready = selector.select(max(0.0, end - time.monotonic()))
                if not ready:
                    raise subprocess.TimeoutExpired(f"process {self.pid}", timeout, *told.values())
                for key, _ in ready:
                    chunk = os.read(key.fd, 1 << 16)
                    told[key.fileobj] += chunk
                    if not chunk:
                        selector.unregister(key.fileobj)
        self.wait(max(1.0, end - time.monotonic()))
        out, err = (text.decode() for text in told.values())
        return out, err

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def serve(connection: socket.socket) -> str:
    """Returns in each process that begins: the path of its script. The server itself ends with the tests' process."""
    children: dict[int, int] = {}  # by their descriptors
    with selectors.DefaultSelector() as selector:
        selector.register(connection, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fd in children:
                    pid = children.pop(key.fd)
                    selector.unregister(key.fd)
                    os.close(key.fd)
                    connection.send(f"ended {pid} {os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}".encode())
                    continue
                request, pipes, _, _ = socket.recv_fds(connection, MOST, 2)
                if not request:
                    for pid in children.values():
                        os.kill(pid, signal.SIGKILL)
                    os._exit(0)
                pid = os.fork()
                if pid == 0:
                    for descriptor in [*children, connection.detach()]:
                        os.close(descriptor)
                    return begin(request, *pipes)
                for pipe in pipes:
                    os.close(pipe)
                children[descriptor := os.pidfd_open(pid)] = pid
                selector.register(descriptor, selectors.EVENT_READ)
                connection.send(f"begun {pid}".encode())


def begin(request: bytes, out: int, err: int) -> str:
    wanted = json.loads(request)
    for pipe, descriptor in ((out, 1), (err, 2)):
        os.dup2(pipe, descriptor)
        os.close(pipe)
    os.environ.clear()
    os.environ.update(wanted["environment"])
    sys.argv = wanted["arguments"]
    sys.path[0] = os.path.dirname(sys.argv[0])
    return sys.argv[0]


def run(script: str) -> None:
    """As `python SCRIPT` does."""
    with open(script) as file:
        program = compile(file.read(), script, "exec")
    names, its_names = sys.modules["__main__"].__dict__, {"__name__": "__main__", "__file__": script, "__builtins__": builtins}
    names.clear()
    names.update(its_names)
    exec(program, names)  # noqa: S102


if __name__ == "__main__":
    import torch.distributed  # noqa: F401

    import rueda.torch  # noqa: F401

    run(serve(socket.socket(fileno=int(sys.argv[1]))))
