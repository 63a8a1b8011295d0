"""How soon a browser paints the pages, and whether the leaderboard's picture of 10,000 points follows the pointer.

    python -m benchmarks.perfdb.painted [--results 20000] [--uri mongodb://...]

Fills a database with as many results, every two of one configuration, serves it by the real web application (only the
login is taken for granted), and opens each page in Chromium, five times in a fresh context and with an empty cache:
the time from the end of the server's answer to the first contentful paint (W3C Paint Timing) against 300 ms. Then the
line of the objective is dragged over the picture, and from each step to the next frame that the browser draws it takes
so long, against 100 ms. Medians are judged. Exit code 1 if one is over its limit, or is no page.
"""

from __future__ import annotations

import sys
import time
from statistics import median
from typing import Any

from benchmarks.perfdb.answered import NotAnswered, failed, require_opened
from benchmarks.perfdb.filled import filled
from benchmarks.perfdb.pages import PAGES, application
from tests.browser import chromium
from tests.listening import listened

PAINT_MS, STEP_MS = 300.0, 100.0
TIMES, STEPS = 5, 40
#: From the end of the answer to the first paint with content; null before there was one.
_PAINTED = """() => {
  const paint = performance.getEntriesByName("first-contentful-paint")[0];
  return paint ? paint.startTime - performance.getEntriesByType("navigation")[0].responseEnd : null;
}"""
#: From now on, ms from each move of the pointer over the picture to the frame after it.
_WATCHED = """() => {
  window.took = [];
  document.getElementById("board").addEventListener("pointermove", () => {
    const begun = performance.now();
    requestAnimationFrame(() => setTimeout(() => window.took.push(performance.now() - begun), 0));
  }, true);
}"""


def until(page: Any, script: str) -> None:
    """Asked again and again from here: the pages' policy lets no text be made a function there."""
    deadline = time.monotonic() + 10
    while not page.evaluate(script):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{page.url}: {script} did not come true within 10 s")
        time.sleep(0.02)


def painted_ms(browser: Any, url: str) -> float:
    """The median of a page that is opened anew; the server has been asked for it before."""
    found = []
    for time_ in range(TIMES + 1):
        context = browser.new_context()
        page = context.new_page()
        answer = page.goto(url, wait_until="load")
        require_opened(url, answer)
        until(page, f"({_PAINTED})() !== null")
        if time_:  # the first one warms the server
            found.append(float(page.evaluate(_PAINTED)))
        context.close()
    return median(found)


def dragged_ms(page: Any) -> list[float]:
    """Of each step of the line, from the picture's right edge to its left."""
    page.wait_for_selector("#board[data-ready=yes]")
    box = page.locator("#board").bounding_box()
    x = box["x"] + page.evaluate("see.sx.to(see.bound)")
    y = box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.evaluate(_WATCHED)
    for step in range(1, STEPS + 1):
        page.mouse.move(box["x"] + box["width"] * (0.9 - 0.7 * step / STEPS), y)
    page.mouse.up()
    until(page, f"window.took.length >= {STEPS}")
    return [float(one) for one in page.evaluate("window.took")]


def main() -> int:
    """Open, drag, judge; see the module."""
    try:
        slow = judged()
    except NotAnswered as error:
        print(f"\n{failed(error)}")
        return 1
    print(f"\n{'FAIL: ' + ', '.join(slow) if slow else 'PASS'}")
    return int(bool(slow))


def judged() -> list[str]:
    """What is over its limit. Raises NotAnswered."""
    slow: list[str] = []
    filling = filled(__doc__, results=20_000, configurations=10_000)
    with filling as (db, folder), listened(application(db, folder).app) as address:
        url = f"{address}/inferbench"
        with chromium() as context:
            browser = context.browser
            for name, path in PAGES.items():
                if name.startswith("API"):
                    continue
                took_ms = painted_ms(browser, f"{url}{path}")
                slow += [name] if took_ms > PAINT_MS else []
                print(f"{name:<44}{took_ms:>10.0f} ms   {'TOO SLOW' if name in slow else 'ok'}", flush=True)
            page = context.new_page()
            page.goto(f"{url}/leaderboard?bound=60", wait_until="networkidle")
            steps = dragged_ms(page)
            print(
                f"{'a step of the line among 10,000 points':<44}{median(steps):>10.0f} ms, longest {max(steps):.0f} ms"
            )
            slow += ["the dragged line"] if median(steps) > STEP_MS else []
    return slow


if __name__ == "__main__":
    sys.exit(main())
