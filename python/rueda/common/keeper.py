# SPDX-License-Identifier: Apache-2.0
"""Bytes that outlive a process, for the next one that the same launcher starts on this host.

A keeper is a small process of its own. It holds the bytes in memory that has no name in any file system, hands them to processes of its user, and
ends when it is told to, or with the launcher. This file is also its program, which imports nothing of Rueda.
"""

from __future__ import annotations

import errno
import json
import os
import select
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

_RELEASE = b"release"
_LONGEST_LABEL = 1 << 12
_PATIENCE = 20.0  # seconds, with a keeper that does not answer


def parent_of(process: int) -> int:
    """The process that has started `process`. Raises OSError where that is gone."""
    return int(_stat_of(process)[1])


def _stat_of(process):
    """From /proc: all that comes after the name."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()


def _address_of(launcher):
    """A name among abstract sockets. Numbers of processes are used again, so the time at which it has begun is a part."""
    begun = _stat_of(launcher)[19]
    return f"\0rueda-keeper-{os.geteuid()}-{launcher}-{begun}"


def _is_mine(connection):
    """Whether the other end is a process of this user."""
    size = struct.calcsize("3i")
    _, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return user == os.geteuid()


def keep(launcher: int, label: Any, write: Callable[[BinaryIO], None]) -> bool:
    """Starts a keeper of the bytes that write() writes, for processes that `launcher` starts, and as long as that lives.

    label: goes with it, as JSON. False if there is a keeper already, or another process is about to start one. Raises OSError if the
    launcher is gone, or there is no memory.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        try:
            listener.bind(_address_of(launcher))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            raise
        with os.fdopen(os.memfd_create("rueda-kept"), "w+b") as memory, os.fdopen(os.pidfd_open(launcher), "rb", 0) as end:
            write(memory)
            memory.flush()
            listener.listen()
            inherited = [listener.fileno(), memory.fileno(), end.fileno()]
            command = [sys.executable, "-I", __file__, *map(str, inherited), json.dumps(label)]
            subprocess.Popen(command, pass_fds=inherited, start_new_session=True, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
    return True


class Kept(NamedTuple):
    """The contents of a keeper: its label, and a file of the bytes."""

    connection: socket.socket
    label: Any
    file: BinaryIO

    def release(self) -> None:
        """Ends the keeper: nobody needs the bytes any more."""
        try:
            self.connection.sendall(_RELEASE)
            self.connection.recv(1)  # nothing: until the name is free
        except OSError:
            pass  # it has ended with its launcher
        self.close()

    def close(self) -> None:
        """Leaves the bytes with the keeper."""
        self.file.close()
        self.connection.close()


def find(launcher: int) -> Kept | None:
    """The keeper's contents for processes of `launcher`; None if there is nothing of this user's."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.settimeout(_PATIENCE)
    try:
        connection.connect(_address_of(launcher))
        if _is_mine(connection):
            label, files, _, _ = socket.recv_fds(connection, _LONGEST_LABEL, 1)
            if files:
                os.set_inheritable(files[0], False)
                file = os.fdopen(files[0], "rb")
                file.seek(0)
                return Kept(connection, json.loads(label), file)
    except OSError:
        pass  # nobody listens there
    connection.close()
    return None


def _serve(listener, memory, end, label):
    """Until a guest says that nobody needs the bytes, or the launcher has ended. `end`: its pidfd."""
    while _ready(listener, end):
        guest, _ = listener.accept()
        with guest:
            try:
                if not _is_mine(guest):
                    continue
                socket.send_fds(guest, [label], [memory])
                if not _ready(guest, end) or guest.recv(len(_RELEASE)) == _RELEASE:
                    listener.close()  # before the guest hears of it
                    return
            except OSError:
                pass  # the guest has died; another one may come


def _ready(one, end):
    """Waits. False when the launcher has ended."""
    poll = select.poll()
    poll.register(one, select.POLLIN)
    poll.register(end, select.POLLIN)
    return all(number != end for number, _ in poll.poll())


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4].encode())
