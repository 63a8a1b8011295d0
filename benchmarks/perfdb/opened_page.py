"""How soon a browser has opened the page of a trace of 100,000 spans, with timeline, flame graph and search.

    python -m benchmarks.perfdb.opened_page [--results 20000] [--uri mongodb://...]

The trace of ``opened``, which measures the server alone, among as many results; served by the real web application
(only the login is taken for granted), and opened in Chromium six times, each in a fresh context with an empty cache.
From the beginning of the navigation to the frame after all three stand; the first time, when the server has yet to
unpack the spans, and the median of the others against 2 s. Exit code 1 if one is over it, or if what stands there is
not the trace, 2 where there is no browser that can be driven, with what is missing.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.perfdb.filled import filled
from benchmarks.perfdb.opened import LIMIT_MS, REQUESTS, RUN, SPANS, add_trace
from benchmarks.perfdb.pages import application
from tests.browser import fresh, missing, started
from tests.listening import listened

if TYPE_CHECKING:
    from playwright.sync_api import Browser

TIMES = 6
#: ms since the navigation began, how many spans the timeline has then, and what the flame graph says. A function that
#: is asked for once: the page's policy lets no text be made one there.
_OPEN = """async () => {
  const words = id => document.getElementById(id)?.textContent ?? "";
  const busy = () => document.getElementById("trace")?.getAttribute("aria-busy") !== null;
  while (busy() || !words("flame-told") || !words("found-told")) {
    if (performance.now() > 60000) return [null, 0, words("timeline-told")];
    await new Promise(requestAnimationFrame);
  }
  await new Promise(go => requestAnimationFrame(() => setTimeout(go, 0)));
  return [performance.now(), timeline.lines.reduce((sum, line) => sum + line.length, 0), words("flame-told")];
}"""


class NotOpened(Exception):
    """The page came otherwise than with the whole trace: in words."""


def opened_ms(browser: Browser, url: str) -> float:
    """Of a page that is opened anew, with all of its spans. Raises NotOpened."""
    with fresh(browser) as context:
        page = context.new_page()
        answer = page.goto(url, wait_until="domcontentloaded")
        if answer is None or not answer.ok:
            raise NotOpened(f"{url} answers with {answer.status if answer else 'nothing'}")
        return stood(*page.evaluate(_OPEN))


def stood(took_ms: float | None, drawn: int, words: str) -> float:
    """The time, of a page that has the whole trace. Raises NotOpened."""
    if took_ms is None:
        raise NotOpened(f"the page did not open within 60 s: {words or 'it says nothing'}")
    if drawn != SPANS or f"{SPANS:,} spans of {REQUESTS}" not in words:
        raise NotOpened(f"the timeline has {drawn:,} of {SPANS:,} spans, the flame graph says {words!r}")
    return float(took_ms)


def judged(times_ms: Sequence[float]) -> tuple[int, str]:
    """The exit code and the words; the first of the times is judged by itself."""
    first, *others = times_ms
    slow = max(first, median(others)) > LIMIT_MS
    verdict = "FAILED" if slow else "passed"
    return int(slow), (
        f"a trace of {SPANS:,} spans stands after {first:.0f} ms the first time, {median(others):.0f} ms in the median "
        f"of {len(others)} others, {max(others):.0f} ms at most (limit {LIMIT_MS:.0f}): {verdict}"
    )


def main() -> int:
    """Open, judge; see the module."""
    if why := missing():
        print(f"not judged: {why}")
        return 2
    with filled(__doc__, results=20_000) as (db, folder):
        add_trace(db, folder)
        with listened(application(db, folder).app) as address, started() as browser:
            try:
                times_ms = [opened_ms(browser, f"{address}/inferbench/trace/{RUN}") for _ in range(TIMES)]
            except NotOpened as error:
                print(f"{error}: FAILED")
                return 1
    code, words = judged(times_ms)
    load = os.getloadavg()[0]
    print(f"{words}; load {load:.1f} of others and this on {os.cpu_count()} cores")
    return code


if __name__ == "__main__":
    raise SystemExit(main())
