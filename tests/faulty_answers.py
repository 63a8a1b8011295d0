"""Servers of KServe v2 over HTTP that answer a model's scores, and err in one way each."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.clients.kserve_http import decode_request

#: From a request's samples to their scores. ValueError: the request is refused.
Answer = Callable[[NDArray[np.float32]], NDArray[np.float32]]


class Right:
    """Answers as the model does. ``wrong``: how many samples got another answer than the model's so far."""

    def __init__(self, scores: Answer) -> None:
        self.scores = scores
        self.lock = threading.Condition()
        self.wrong = 0

    def __call__(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        return self.scores(rows)

    def instead(self, given: NDArray[np.float32], own: NDArray[np.float32]) -> NDArray[np.float32]:
        """``given``, counted where it is not ``own``."""
        with self.lock:
            self.wrong += int((given != own).any(axis=1).sum())
        return given


class WrongInBatches(Right):
    """The last sample of a request with several gets the first one's answer: of every one, or one in so many."""

    def __init__(self, scores: Answer, one_in: int = 1) -> None:
        super().__init__(scores)
        self.one_in, self.batches = one_in, 0

    def __call__(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        own = self.scores(rows)
        if len(rows) < 2:
            return own
        with self.lock:
            self.batches += 1
            errs = self.batches % self.one_in == 0
        given = own.copy()
        if errs:
            given[-1] = own[0]
        return self.instead(given, own)


class Swaps(Right):
    """Two requests that are there at once get each other's answer, once."""

    def __init__(self, scores: Answer) -> None:
        super().__init__(scores)
        self.first: NDArray[np.float32] | None = None
        self.second: NDArray[np.float32] | None = None

    def __call__(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        own = self.scores(rows)
        with self.lock:
            if self.first is None:
                self.first = own
                # One by one nobody comes, and the answer is right.
                if self.lock.wait_for(lambda: self.second is not None, timeout=0.3):
                    assert self.second is not None
                    return self.instead(self.second, own)
                self.first = None
            elif self.second is None:
                self.second = own
                self.lock.notify_all()
                return self.instead(self.first, own)
        return own


class Repeats(Right):
    """Every seventh answer, or one in so many, is the one before it once more."""

    def __init__(self, scores: Answer, one_in: int = 7) -> None:
        super().__init__(scores)
        self.one_in, self.count = one_in, 0
        self.last: NDArray[np.float32] | None = None

    def __call__(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        own = self.scores(rows)
        with self.lock:
            self.count += 1
            if self.last is None or self.count % self.one_in or len(self.last) != len(rows):
                self.last = own
            return self.instead(self.last, own)


@contextmanager
def served(answer: Answer) -> Iterator[int]:
    """The port of a server that answers so: the output ``scores`` to the input ``input``."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = (
            True  # head and body are two writes: the second would wait 40 ms for the client
        )

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            head = f"{self.requestline}\r\n{self.headers.as_string()}".replace("\r\n", "\n").replace(
                "\n", "\r\n"
            )
            rows: Any = decode_request(head.encode() + body)[0]["input"]
            try:
                given = answer(rows)
            except ValueError:
                self._send(500, b"{}")
                return
            output = {
                "name": "scores",
                "datatype": "FP32",
                "shape": list(given.shape),
                "data": given.reshape(-1).tolist(),
            }
            self._send(200, json.dumps({"model_name": "m", "outputs": [output]}).encode())

        def _send(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Nothing is to be said."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
