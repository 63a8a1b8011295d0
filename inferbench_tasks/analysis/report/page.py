"""One self-contained HTML page: charts, tables and styles in one file that opens without internet.

plotly.js and the charts go in compressed and are unpacked by the browser (DecompressionStream: Chrome 80, Firefox 113,
Safari 16.4). Lines and bars need plotly's basic bundle alone (``plotly/``, as its publisher packs it), with which a
page of two runs is below 700 kB; what else a chart may be made of needs the whole, which is four times as large.
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
#: The kinds of traces that plotly's basic bundle draws.
BASIC = frozenset({"scatter", "bar", "pie"})


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
    environment.filters["packed"] = packed
    environment.globals["own_file"] = own_file
    kinds = {
        trace.get("type", "scatter") for chart in values.get("charts", {}).values() for trace in chart["data"]
    }
    return environment.get_template(template).render(plotly=plotly_js(whole=not kinds <= BASIC), **values)


@lru_cache(maxsize=4)
def own_file(name: str) -> Any:
    """A style sheet or script of ``static/`` as it stands in the page; pages of the web interface have the same."""
    from markupsafe import Markup

    text = resources.files(_TEMPLATES).joinpath(f"static/{name}").read_text(encoding="utf-8")
    return Markup(text)  # noqa: S704 - our own file


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


def packed(value: Any) -> str:
    """JSON as base64 of gzip."""
    text = orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS)
    return base64.b64encode(gzip.compress(text, 9, mtime=0)).decode()


@lru_cache(maxsize=2)
def plotly_js(*, whole: bool) -> str:
    """plotly.js as base64 of gzip; not ``whole``: with the traces of ``BASIC`` alone."""
    if whole:
        script = resources.files("plotly").joinpath("package_data/plotly.min.js").read_bytes()
        return base64.b64encode(gzip.compress(script, 9, mtime=0)).decode()
    bundle = (
        resources.files("inferbench_tasks.analysis.report").joinpath("plotly/basic.min.js.gz").read_bytes()
    )
    return base64.b64encode(bundle).decode()


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
