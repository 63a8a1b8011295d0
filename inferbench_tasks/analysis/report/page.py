"""One self-contained HTML page: charts, tables and styles in one file that opens without internet.

plotly.js goes in compressed and is unpacked by the browser (DecompressionStream: Chrome 80, Firefox 113,
Safari 16.4), which keeps a page below 2.5 MB.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import os
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

import orjson

from inferbench_tasks.errors import StorageError

_TEMPLATES = "inferbench_tasks.analysis.report"


def render(template: str, **values: Any) -> str:
    """A template beside this module, filled in; every value is escaped unless it is made markup on purpose."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(_TEMPLATES, "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["figure"] = number
    environment.filters["script_json"] = script_json
    return environment.get_template(template).render(plotly=plotly_js(), **values)


def number(value: Any, digits: int = 3) -> str:
    """A figure with so many significant digits, all digits before the point; a dash where nothing was measured."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        if value and (abs(value) < 1e-3 or abs(value) >= 1e7):
            return f"{value:.{digits - 1}e}"
        return f"{value:,.0f}" if abs(value) >= 10 ** (digits - 1) else f"{value:.{digits}g}"
    if isinstance(value, int):
        return f"{value:,}"
    return str(value)


def as_yaml(submission: dict[str, Any]) -> str:
    """A submission as its author would write it; "" for an empty one."""
    import yaml

    return yaml.safe_dump(submission, sort_keys=False, allow_unicode=True, width=100) if submission else ""


def script_json(value: Any) -> Any:
    """JSON that can stand in a script element: nothing in it can end the element or start markup."""
    from markupsafe import Markup

    text = orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS).decode()
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704 - escaped just above


@lru_cache(maxsize=1)
def plotly_js() -> str:
    """plotly.js as base64 of gzip."""
    script = resources.files("plotly").joinpath("package_data/plotly.min.js").read_bytes()
    return base64.b64encode(gzip.compress(script, 6, mtime=0)).decode()


def write(path: Path, page: str) -> Path:
    """Write the page; it appears under its name when complete."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(page, encoding="utf-8")
        os.replace(partial, path)
    except OSError as error:
        with contextlib.suppress(OSError):  # the first error is the one to tell
            partial.unlink(missing_ok=True)
        raise StorageError(f"{path} can't be written: {error.strerror}") from error
    return path
