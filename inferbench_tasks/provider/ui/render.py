"""From a template and values to a page; every value is escaped."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from fastapi.responses import HTMLResponse

from inferbench_tasks.analysis.report.page import number, script_json
from inferbench_tasks.analysis.steadiness import of_the_rate
from inferbench_tasks.contracts.verdict import DISTURBED, split
from inferbench_tasks.provider.api.output import CSV_ROWS
from inferbench_tasks.provider.navigation import PAGES

if TYPE_CHECKING:
    import jinja2

    from inferbench_tasks.figure import Figure

#: Scripts and styles from here only; shown in nobody else's frame.
POLICY = (
    "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'self'"
)


def page(template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """The page; ``here`` among the values names its entry in the navigation."""
    text = _environment().get_template(template).render(pages=PAGES, **values)
    headers = {
        "Content-Security-Policy": POLICY,
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "private, no-store",
    }
    return HTMLResponse(text, status_code=status, headers=headers)


def fragment(template: str, **values: Any) -> str:
    """A part of a page."""
    return _environment().get_template(template).render(**values)


def compile_templates() -> None:
    """All of them, so that no page waits for its own."""
    for name in _environment().list_templates():
        _environment().get_template(name)


def moment(value: datetime | None) -> str:
    """A time as a person reads it, UTC."""
    return f"{value:%Y-%m-%d %H:%M:%S} UTC" if value else "–"


def cell(value: Any) -> str:
    """Whatever stands in a table's cell."""
    if isinstance(value, datetime):
        return moment(value)
    if isinstance(value, dict | list | tuple):
        return json.dumps(value, default=str)
    return number(value)


def measured(value: Any, figure: Figure, verdict: str) -> str:
    """A figure's value in a table; of a disturbed run it is a bound, with its sign."""
    text = number(value)
    return text if value is None or split(verdict)[0] != DISTURBED else figure.bound_sign + text


def displayed(value: Any, figure: Figure) -> str:
    """A stored value as people see it, in ``figure.shown_unit``."""
    return number(None if value is None else figure.displayed(value))


def chance(probability: Any) -> str:
    """A probability in percent; nothing that was measured is certain."""
    return "over 99%" if probability >= 0.995 else f"{probability:.0%}"


def small_share(ratio: float) -> str:
    """A share in percent with two digits; nothing is free."""
    return "less than 0.01%" if ratio < 1e-4 else f"{100 * ratio:.2g}%"


def asker(user: str | None, login: str | None) -> str:
    """Who asked for it: the user that the submission names, and the login that started it where there was one."""
    return f"{user or '–'} (login {login})" if login else user or "–"


def query(**values: Any) -> str:
    """``?a=1&b=2`` of the values that are there; a list becomes several."""
    filled = {k: v for k, v in values.items() if v not in (None, "", [])}
    return f"?{urlencode(filled, doseq=True)}" if filled else ""


def anchor(kind: str, *of: str) -> str:
    """The name of a part within its page: the same whenever the page is made, whatever else is on it."""
    return f"{kind}-{sha256(chr(0).join(map(str, of)).encode()).hexdigest()[:8]}"


def coded(text: str) -> Any:
    """A message with what stands in `backticks` as code, escaped."""
    from markupsafe import Markup, escape

    parts = [escape(part) for part in text.split("`")]
    if len(parts) % 2 == 0:  # one that opens and is never closed
        return escape(text)
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if at % 2 else part for at, part in enumerate(parts)
    )


@lru_cache(maxsize=1)
def _environment() -> jinja2.Environment:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("inferbench_tasks.provider.ui", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Callable[..., Any]] = {
        "figure": number,
        "moment": moment,
        "cell": cell,
        "coded": coded,
        "chance": chance,
        "small_share": small_share,
        "measured": measured,
        "displayed": displayed,
        "script_json": script_json,
        "verdict_parts": split,
        "asker": asker,
        "quoted": shlex.quote,  # a value in the query language, which may have spaces
    }
    environment.filters |= filters
    environment.globals["query"] = query
    environment.globals["anchor"] = anchor
    environment.globals["csv_rows"] = CSV_ROWS
    environment.tests["of_the_rate"] = of_the_rate
    return environment
