"""The rows of the table of figures that say how right answers are; runs without ``evaluate`` have none of them.

Each is the measure of the same name (``quality/``); ``docs/explanation/answers.md`` says how it is made.
"""

from __future__ import annotations

from inferbench_tasks.figure import Better, Figure, View


def _quality(
    name: str,
    title: str,
    noun: str,
    formula: str,
    held: int | None = None,
    views: tuple[View, ...] = ("report",),
    better: Better = "higher",
    unit: str = "",
) -> Figure:
    share = name.endswith("_ratio") and better == "higher"
    return Figure(
        name, f"quality.{name}.value", "1" if share or not unit else unit, title, better,
        f"{formula}; over the samples of `evaluate`, asked under load", noun=noun, display_unit="%" if share else None,
        display_factor=100.0 if share else 1.0, interval=f"quality.{name}.ci95", held=held, worsens=False,
        rate_free=True, views=views,
    )  # fmt: skip


QUALITY_FIGURES: tuple[Figure, ...] = (
    _quality(
        "top1_ratio", "Top-1 accuracy", "top-1", "samples whose answer names their label / samples", 23,
        ("report", "terminal"),
    ),
    _quality(
        "top5_ratio", "Top-5 accuracy", "top-5", "samples whose label has one of the five largest scores / samples", 24
    ),
    _quality("macro_f1", "Macro F1", "macro F1", "mean over classes of 2 TP / (2 TP + FP + FN)", 25),
    _quality(
        "auc", "AUC, one against the rest", "AUC",
        "mean over classes of P(a sample of the class has a larger score for it than another one)", 26,
    ),
    _quality(
        "agreement_ratio", "Agreement with the source model", "agreement",
        "samples for which answer and source model's name the same class / samples (answers that are classes)", 27,
    ),
    _quality(
        "cosine_to_source", "Cosine similarity to the source model's vectors", "cosine to source",
        "mean over samples of a . b / (|a| |b|), a: answer, b: source model's (answers that are vectors)", 32,
    ),
    _quality(
        "neighbours_spearman", "Order of similarities as the source model's", "Spearman of neighbours",
        "Spearman's rho of the cosines of each sample with the next, as answered and as the source model has them",
        33,
    ),
    _quality(
        "largest_difference_ratio", "Largest difference from the source model", "difference from source",
        "max |answer - source model's| / max |source model's| (answers that are no classes and no vectors)", 34,
        better="lower",
    ),
)  # fmt: skip
