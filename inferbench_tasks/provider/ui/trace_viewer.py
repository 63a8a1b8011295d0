"""One trace in Perfetto's own page without the system: a server of this machine alone, for as long as it is looked at.

Its address has a secret in it, as other users of the machine reach its port too; it knows nothing but this trace.
"""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable
from html import escape

from fastapi import APIRouter, FastAPI, Response

from inferbench_tasks.provider.ui import files, perfetto

_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title} in Perfetto</title>
<style>html, body {{ height: 100%; margin: 0; display: flex; flex-direction: column; }}
p {{ margin: 4px 8px; font: 14px system-ui, sans-serif; }} iframe {{ flex: 1; border: 0; }}</style>
<script src="static/perfetto.js" defer></script></head>
<body><p id="perfetto-told" role="status">Perfetto is being started …</p>
<iframe id="perfetto" title="Perfetto" src="perfetto/index.html#!/viewer?hideSidebar=true" data-trace="trace.json"
 data-title="{title}" data-spans="{spans}"></iframe></body></html>"""
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; connect-src 'self'; frame-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def viewer(title: str, content: bytes, spans: int, secret: str) -> FastAPI:
    """The application; ``content``: the trace in Chrome's form, ``spans``: how many it has."""
    own = APIRouter()
    page = _PAGE.format(title=escape(title, quote=True), spans=f"{spans:,}")
    headers = {
        "Cache-Control": "no-store",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }

    @own.get("/")
    def index() -> Response:
        return Response(page, media_type="text/html", headers={**headers, "Content-Security-Policy": _POLICY})

    @own.get("/trace.json")
    def trace() -> Response:
        return Response(content, media_type="application/json", headers=headers)

    own.add_api_route("/static/perfetto.js", lambda: files.static("perfetto.js"))
    own.include_router(perfetto.router)
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    app.include_router(own, prefix=f"/{secret}")
    return app


def serve(title: str, content: bytes, spans: int, opened: Callable[[str], None]) -> None:
    """Serve one trace until Ctrl-C; ``opened`` is told the address as soon as somebody can ask for it."""
    import uvicorn

    secret = secrets.token_urlsafe(24)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(
            viewer(title, content, spans, secret), log_level="warning", access_log=False,
            timeout_graceful_shutdown=1,
        )  # fmt: skip
        opened(f"http://127.0.0.1:{listening.getsockname()[1]}/{secret}/")
        uvicorn.Server(config).run(sockets=[listening])
