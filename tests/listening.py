"""A web application that a browser can open: served on a port of its own, in a thread of this process."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from inferbench_tasks.provider.system.local import free_port
from tests.browser import PATIENCE_MS

if TYPE_CHECKING:
    from starlette.types import ASGIApp


@contextmanager
def listened(app: ASGIApp) -> Iterator[str]:
    """Its address, without a path."""
    import uvicorn

    port = free_port()
    server = uvicorn.Server(
        uvicorn.Config(app, host="127.0.0.1", port=port, log_level="warning", timeout_graceful_shutdown=1)
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while not server.started:
        assert thread.is_alive() and time.monotonic() < deadline
        time.sleep(0.05)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()
