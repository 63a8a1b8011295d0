"""How a server's answers under load differ from its own to single samples, as results of all versions tell it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

#: So many samples are named.
_NAMED = 5


def counted(evaluation: Mapping[str, Any]) -> int | None:
    """Samples that are answered otherwise: further apart than the bound, or another class; of results of before classes
    counted, the former alone. None where nothing was compared."""
    differing = evaluation.get("differing") or {}
    count: int | None = differing.get("otherwise", differing.get("beyond_tolerance"))
    return count


def bound_of(evaluation: Mapping[str, Any]) -> float | None:
    """The bound that they were held to, of the largest value; once it was the conversion's. None where it is not
    stored."""
    differing = evaluation.get("differing") or {}
    bound: float | None = differing.get("bound_ratio", evaluation.get("tolerance_ratio"))
    return bound


def words(evaluation: Mapping[str, Any]) -> str:
    """``2 of 450 (samples 7, 31); largest difference 0.25, bound 0.02``."""
    differing = evaluation["differing"]
    text = f"{counted(evaluation):,} of {differing['compared']:,}"
    if samples := differing["samples"]:
        text += f" (samples {', '.join(str(sample) for sample in samples[:_NAMED])})"
    facts = []
    if "largest_ratio" in differing:
        largest = differing["largest_ratio"]
        facts.append("largest difference " + ("beyond all numbers" if largest is None else f"{largest:.2g}"))
    if (bound := bound_of(evaluation)) is not None:
        facts.append(f"bound {bound:.2g}")
    return "; ".join([text, ", ".join(facts)]) if facts else text


def note(evaluations: Sequence[Mapping[str, Any]]) -> str:
    """What *otherwise* means in all of these."""
    text = (
        "Answered otherwise is a sample whose answer names another class, or is further from the one to the sample "
        "alone than the bound, of the largest value of all samples: on what another order of sums may do at the "
        "precision that is served, or what the submission allows (evaluate.tolerance_ratio; at fp32 "
        "convert.tolerance_ratio, where that is more)."
    )
    if any("bound_ratio" not in evaluation["differing"] for evaluation in evaluations):
        text += " Of results of earlier versions it is the bound on a conversion's difference, and no class counts."
    return text
