"""Who asked the samples of an evaluation, where that was MLPerf LoadGen, and what its own log has of them."""

from __future__ import annotations

from typing import Any


def words(label: str, evaluation: dict[str, Any]) -> str | None:
    """A sentence or two; None where our own sender asked. ``evaluation``: as a result has it."""
    if (said := evaluation.get("mlperf")) is None:
        return None
    apart = [
        f"{said[name]['count']:,} {name}"
        for name in ("missing", "repeated", "differing")
        if said[name]["count"]
    ]
    log = f"its accuracy log has other answers or samples than are judged ({', '.join(apart)})"
    if not apart:
        log = f"its accuracy log has each of {said['logged']:,} samples once, with the answer that is judged"
        if unanswered := (evaluation.get("under_load") or {}).get("unanswered"):
            log += f", or with none ({unanswered:,}, whose requests failed)"
    if errors := said.get("errors"):
        log += f"; LoadGen itself found errors ({errors[0]})"
    return (
        f"{label} was asked by MLPerf LoadGen {said['version'].split()[0]} in its {said['mode']} mode "
        f"({said['scenario']}), a test of its own beside the one that is timed; {log}. No MLPerf result."
    )
