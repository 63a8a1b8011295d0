"""Who comes to a listener, where the kernel answers otherwise than it was asked."""

from __future__ import annotations

import errno
import selectors
import socket
import time
from typing import Any, cast

from inferbench_tasks.networks.links.strangers import Strangers


class NoFiles:
    """A listener in a process that may open no more files: somebody waits in its queue, and can't be taken."""

    def __init__(self) -> None:
        self.end, self._other = socket.socketpair()
        self._other.sendall(b"x")
        self.asked = 0

    def fileno(self) -> int:
        return self.end.fileno()

    def setblocking(self, flag: bool) -> None:
        self.end.setblocking(flag)

    def accept(self) -> Any:
        self.asked += 1
        raise OSError(errno.EMFILE, "Too many open files")

    def close(self) -> None:
        self.end.close()
        self._other.close()


def test_a_listener_without_a_file_left_does_not_spin() -> None:
    """It looks again a few times a second, and its patience holds."""
    listener, began = NoFiles(), time.monotonic()
    with Strangers(cast(socket.socket, listener), b"secret").until_known(0.25) as known:
        assert known is None
    assert 1 <= listener.asked <= 4 and time.monotonic() - began < 5.0
    listener.close()


def test_one_that_is_seen_without_having_said_anything_keeps_its_place() -> None:
    """The kernel may call a socket ready that is not: its peer is no worse for that."""
    with socket.create_server(("127.0.0.1", 0)) as listener, selectors.DefaultSelector() as selector:
        strangers = Strangers(listener, b"secret")
        with socket.create_connection(listener.getsockname()):
            strangers._greet(selector)
            (stranger,) = strangers._greeted.values()
            assert not strangers._knows(selector, stranger)
            assert list(strangers._greeted.values()) == [stranger]
            strangers._let_go(selector, stranger, "the end")
