"""Which pages there are, at which widths they are looked at, and what axe-core finds there."""

from __future__ import annotations

import re

from axe_playwright_python.sync_playwright import Axe

#: Every page, and those of their states that look different.
PAGES = (
    "home",
    "new",
    "new?run=asked-1.000",
    "leaderboard?y=throughput_rps",
    "leaderboard?all=1&by=throughput_rps",
    "runs",
    "models",
    "model?name=digits",
    "model?name=nobody",
    "run/fast-run",
    "run/asked-1.000",
    "compare?run=fast-run&run=slow-run&run=middle-run",
    "recommend?by=p99_ms&slo=p99_ms<=50",
    "trainings",
    "trainings/scaling",
    "trainings/clusters",
    "bricks",
    "evaluations",
    "evaluations/compare?run=fast-run&run=slow-run",
    "systems",
    "devices",
    "devices?reference=t4&by=p50_ms",
    "devices?reference=nothing-like-it",
    "traces",
    "trace/traced-quick",
    "trace/traced-failed",
    "trace/x-1.fast",
    "traces/compare?run=traced-quick&run=traced-slow",
    "run/x-1.fast",
    "trainings/compare?run=x-1.fast&run=x-1.slow",
    "cluster",
    "regression?name=nightly-with-a-name-that-is-long",
)
#: A phone, a laptop, a wide screen: px.
WIDTHS = (360, 1366, 2560)
#: axe-core itself, once for each page; and what it finds at a width.
AXE = Axe().axe_script
VIOLATIONS = "axe.run(document, {resultTypes: ['violations']}).then(of => of.violations)"


def file_name(path: str) -> str:
    """Of a page's screenshot."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", path)[:50].strip("-")
