"""Free ports, for servers that can't choose one themselves."""

from __future__ import annotations

import socket
from contextlib import ExitStack


def free_ports(count: int, host: str = "127.0.0.1") -> list[int]:
    """Different ports that were free a moment ago; whoever uses them must expect that one is taken since."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server((host, 0))) for _ in range(count)]
        return [s.getsockname()[1] for s in sockets]
