"""What each change of the pre-processing did (``evaluate.vary``), as rows: of reports, pages, REST and the CLI."""

from __future__ import annotations

from typing import Any

#: What the pre-processing that nothing is changed of is called.
PLAIN = "plain"


def rows(evaluation: dict[str, Any]) -> list[dict[str, Any]]:
    """The plain pre-processing, then each variant; [] of an evaluation that varied nothing.

    ``measure``: what ``value`` and its ``ci95`` are of. ``difference``: the variant's less the plain one's, with
    ``difference_ci95``; ``p_value``: McNemar's, corrected for the number of variants (Benjamini and Hochberg).
    ``answers_changed``, ``inputs_changed``: samples. ``preprocess_ms``: median CPU time of a sample. None where there
    is none of something; ``withheld`` says why.
    """
    varied = evaluation.get("varied")
    if not varied:
        return []
    every = [{"variant": PLAIN, **varied["plain"]}, *varied["variants"]]
    return [_row(each, varied["measure"]) for each in every]


def _row(each: dict[str, Any], measure: str) -> dict[str, Any]:
    quality = each.get("measures", {}).get(measure) or {}
    pair = each.get("against_plain") or {}
    return {
        "variant": each["variant"],
        "measure": measure,
        "value": quality.get("value"),
        "ci95": quality.get("ci95"),
        "difference": pair.get("difference"),
        "difference_ci95": pair.get("ci95"),
        "p_value": pair.get("p_corrected"),
        "only_plain": pair.get("only_plain"),
        "only_variant": pair.get("only_variant"),
        "answers_changed": each.get("answers_changed"),
        "inputs_changed": each.get("inputs_changed"),
        "preprocess_ms": each["preprocess_ms"]["median"],
        "withheld": each.get("withheld"),
    }
