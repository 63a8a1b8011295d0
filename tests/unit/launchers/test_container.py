"""Containers: what a signal amid their start meets."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from inferbench_tasks import extras
from inferbench_tasks.errors import CancelledError
from inferbench_tasks.interrupt import interruptible
from inferbench_tasks.launchers import images
from inferbench_tasks.launchers.base import Launch, log_end
from inferbench_tasks.launchers.container import ContainerLauncher, write_log

pytestmark = pytest.mark.skipif(
    extras.missing("containers") != [], reason="the optional part 'containers' is missing"
)
#: Longer than anybody waits for a signal.
PULL_S = 20.0
ENDED = "the pull has ended"


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """An engine's HTTP API that has no image, and whose pull takes ``PULL_S``; what was asked of it.

    As soon as it is asked to pull, this process gets SIGTERM.
    """
    asked: list[str] = []
    ended = threading.Event()

    class Api(BaseHTTPRequestHandler):
        def _answer(self, status: int, body: object) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_GET(self) -> None:
            asked.append(self.path)
            if "version" in self.path:
                self._answer(200, {"ApiVersion": "1.44", "MinAPIVersion": "1.24"})
            else:
                self._answer(404, {"message": "no such image"})

        def do_POST(self) -> None:
            asked.append(self.path)
            os.kill(os.getpid(), signal.SIGTERM)
            ended.wait(PULL_S)
            asked.append(ENDED)
            self._answer(500, {"message": "the pull was not ended"})

        def log_message(self, format: str, *args: object) -> None:
            """Nothing of it on standard error."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Api)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{server.server_port}")
    monkeypatch.setenv(images.PULL, "missing")
    yield asked
    ended.set()
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_signal_ends_a_long_pull_and_leaves_nothing(engine: list[str], tmp_path: Path) -> None:
    """The start is given up while the image comes, and not after it; no record of a server that never was."""
    launch = Launch("r", tmp_path, tmp_path / "config.json", ("serve",), image="x:1")
    with pytest.raises(CancelledError, match="SIGTERM"), interruptible(True):
        ContainerLauncher().start(launch, tmp_path / "servers")
    assert any("/images/create" in path for path in engine) and ENDED not in engine
    assert not any("/containers" in path for path in engine)
    assert not list((tmp_path / "servers").glob("*"))


def test_a_container_s_log_goes_through_no_link(tmp_path: Path) -> None:
    """The folder is the container's, which writes there what it wants: nothing is kept, and a reader is told why."""
    secret, folder = tmp_path / "secret", tmp_path / "server"
    secret.write_text("not yours")
    folder.mkdir()
    write_log(folder / "server.log", b"said\n")
    assert log_end(folder / "server.log") == "  said"
    (folder / "server.log").unlink()
    (folder / "server.log").symlink_to(secret)
    write_log(folder / "server.log", b"said\n")
    assert secret.read_text() == "not yours" and "a link stands there" in log_end(folder / "server.log")
